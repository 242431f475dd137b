"""Assignments such as `path=value`: four operators, every type of setting."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.kit.settings import Settings, value_at

WORDS = "assistant.model.parameters.stop_words"
TOOL = "conversation.tools.t"
SECTIONS = "assistant.system_prompt_sections"
NOW: dict[str, Any] = {
    "user": {"name": "Old"},
    "assistant": {
        "system_prompt": "Old.",
        "system_prompt_sections": [{"content": "a"}, {"content": "b", "tag": "t"}],
        "instructions": [
            {"title": "I", "items": ["x"], "examples": ["e", {"good": "g", "bad": "b"}]}
        ],
        "model": {
            "id": {"provider": "openai", "name": "m"},
            "parameters": {"stop_words": ["old"], "reasoning": "auto", "keep": {"a": 1}},
        },
    },
    "conversation": {
        "attachments": ["file:x"],
        "labels": {"a": "1", "b": "2"},
        "tools": {
            "t": {
                "source": "local",
                "options": {"n": 1, "list": [1], "text": "a"},
                "parameters": {"p": {"type": "string", "enum": ["-a"]}},
            }
        },
    },
}  # fmt: skip


def test_assignment_is_read_by_the_type_of_its_setting(subtests: pytest.Subtests) -> None:
    for text, path, value in [
        # texts
        ("user.name=Ada = me", "user.name", "Ada = me"),
        ("user.name=5", "user.name", "5"),
        ("user.name=", "user.name", ""),
        ('user.name:="Ada"', "user.name", "Ada"),
        ("user.name+=!", "user.name", "Old!"),
        ("assistant.system_prompt+= More.", "assistant.system_prompt", "Old. More."),
        ('assistant.system_prompt:+=" More."', "assistant.system_prompt", "Old. More."),
        ('assistant.system_prompt:={"value": "+", "strategy": "append"}', "assistant.system_prompt",
         "Old.+"),
        # scalars
        ("style.tool_call.show=false", "style.tool_call.show", False),
        ("style.tool_call.show:=false", "style.tool_call.show", False),
        ("assistant.request.max_retries=0", "assistant.request.max_retries", 0),
        ("assistant.model.parameters.temperature=0.5", "assistant.model.parameters.temperature",
         0.5),
        ("assistant.model.parameters.temperature:=1", "assistant.model.parameters.temperature", 1),
        ("prompt.notify=off", "prompt.notify", "off"),
        # unions
        ("assistant.model.parameters.reasoning=high", "assistant.model.parameters.reasoning",
         {"effort": "high"}),
        ("assistant.model.parameters.reasoning=4096", "assistant.model.parameters.reasoning",
         {"effort": 4096}),
        ("assistant.model.parameters.reasoning.effort=low", "assistant.model.parameters.reasoning",
         {"effort": "low"}),
        ("assistant.model.parameters.reasoning=off", "assistant.model.parameters.reasoning", "off"),
        ("assistant.model.id=openai/gpt-x", "assistant.model.id",
         {"provider": "openai", "name": "gpt-x"}),
        ("assistant.model.id=fast", "assistant.model.id", "fast"),
        ("assistant.model.id.name=n", "assistant.model.id", {"provider": "openai", "name": "n"}),
        (f"{TOOL}.enable=off", f"{TOOL}.enable", {"state": False, "allow_toggle": "any"}),
        (f"{TOOL}.enable:=true", f"{TOOL}.enable.state", True),
        (f"{TOOL}.enable.state=false", f"{TOOL}.enable", {"state": False}),
        (f"{TOOL}.command=ls -l 'a b'", f"{TOOL}.command.args", ["-l", "a b"]),
        ("conversation.labels.a=3", "conversation.labels.a.value", "3"),
        # tables: field by field
        ('assistant.request:={"max_retries": 1}', "assistant.request", {"max_retries": 1}),
        ('assistant.model.id:={"name": "n"}', "assistant.model.id",
         {"provider": "openai", "name": "n"}),
        ('assistant:+={"name": "N"}', "assistant.name", "N"),
        # maps
        ("conversation.tools.*.run=ask", "conversation.tools.*.run", "ask"),
        ("conversation.tools.value.run=ask", "conversation.tools.value.run", "ask"),
        ('conversation.tools["d.t"].run=ask', 'conversation.tools["d.t"]', {"run": "ask"}),
        ('conversation.labels:={"c": "3"}', "conversation.labels", {"c": {"value": "3"}}),
        ('conversation.labels:+={"c": "3"}', "conversation.labels",
         {"a": "1", "b": "2", "c": {"value": "3"}}),
        (f"{TOOL}.parameters.q.type=integer", f"{TOOL}.parameters.q", {"type": "integer"}),
        (f'{TOOL}.questions:={{"q": {{"answer": 1}}}}', f"{TOOL}.questions.q.answer", 1),
        (f"{TOOL}.parameters.p.enum=-b, -c", f"{TOOL}.parameters.p.enum", ["-b", "-c"]),
        (f"{TOOL}.parameters.p.enum+=-b", f"{TOOL}.parameters.p.enum", ["-a", "-b"]),
        # any JSON
        (f"{TOOL}.questions.q.answer:=true", f"{TOOL}.questions.q.answer", True),
        (f"{TOOL}.questions.q.answer=true", f"{TOOL}.questions.q.answer", "true"),
        (f"{TOOL}.options.n:=2", f"{TOOL}.options.n", 2),
        (f"{TOOL}.options.deep.er:=[1]", f"{TOOL}.options.deep", {"er": [1]}),
        (f"{TOOL}.options.list:+=2", f"{TOOL}.options.list", [1, 2]),
        (f"{TOOL}.options.list:+=[2, 3]", f"{TOOL}.options.list", [1, 2, 3]),
        (f"{TOOL}.options.text+=b", f"{TOOL}.options.text", "ab"),
        ("assistant.model.parameters.keep_alive=5m", "assistant.model.parameters.keep_alive", "5m"),
        ("assistant.model.parameters.keep.b:=2", "assistant.model.parameters.keep.b", 2),
        ("template.values.v:=[1]", "template.values.v", [1]),
        # lists
        (f"{WORDS}=a, b,", WORDS, ["a", "b"]),
        (f"{WORDS}=", WORDS, []),
        (f'{WORDS}:=["a,b"]', WORDS, ["a,b"]),
        (f'{WORDS}:="a"', WORDS, ["a"]),
        (f"{WORDS}:=[]", WORDS, []),
        (f"{WORDS}+=z", WORDS, ["old", "z"]),
        (f'{WORDS}:+=["y", "z"]', WORDS, ["old", "y", "z"]),
        (f'{WORDS}+:="y"', WORDS, ["old", "y"]),
        ("conversation.attachments+=file:y", "conversation.attachments", ["file:x", "file:y"]),
        ('conversation.attachments:+={"type": "cmd", "path": "rg"}', "conversation.attachments.1",
         "cmd://rg"),
        (f"{SECTIONS}+=c", f"{SECTIONS}.2", {"content": "c"}),
        # items of lists
        ("conversation.attachments.0=file:z", "conversation.attachments", ["file:z"]),
        (f"{SECTIONS}.1.tag=u", f"{SECTIONS}.1", {"content": "b", "tag": "u"}),
        (f'{SECTIONS}.0:={{"content": "z"}}', f"{SECTIONS}.0", {"content": "z"}),
        ("assistant.instructions.0.position=3", "assistant.instructions.0.position", 3),
        ("assistant.instructions.0.items+=y", "assistant.instructions.0.items", ["x", "y"]),
        ("assistant.instructions.0.items.0=z", "assistant.instructions.0.items", ["z"]),
        ("assistant.instructions.0.examples.1.good=G", "assistant.instructions.0.examples.1",
         {"good": "G", "bad": "b"}),
        # keys and items that hold what separates paths
        ('providers.llm.aliases["gpt-4.1"]=openai/gpt-4.1', 'providers.llm.aliases["gpt-4.1"]',
         {"provider": "openai", "name": "gpt-4.1"}),
        ('template.values["a=b"]=c=d', 'template.values["a=b"]', "c=d"),
        ("template.values[a=b] := 1", 'template.values["a=b"]', 1),
        ("template.values.v=[a=b", "template.values.v", "[a=b"),
        # the root
        ('{"user": {"name": "Ada"}}', "user.name", "Ada"),
        # nothing
        ("user.name:=null", "user.name", None),
        ("style.tool_call.show:=null", "style.tool_call.show", None),
        (f"{WORDS}:=null", WORDS, None),
    ]:  # fmt: skip
        with subtests.test(text=text):
            before = repr(NOW)
            assert value_at(Settings(NOW).change(Settings.assign(text, NOW)), path) == value
            assert repr(NOW) == before


def test_error_of_an_assignment_names_path_and_reason(subtests: pytest.Subtests) -> None:
    for text, path, kind, expected in [
        ("nonsense", "", "malformed", "expected path=value, path:=json, path+=value, path:+=json"),
        ("=x", "", "malformed", "is not an assignment"),
        ("a::=1", "", "malformed", "is not an assignment"),
        ("[1]", "", "malformed", "is not an assignment"),
        ("a..b=1", "", "malformed", "is not a path"),
        ("template.values.v:=1e999", "template.values.v", "malformed", "1e999 is too large"),
        ("template.values.v:=[-Infinity]", "template.values.v", "malformed", "not a JSON number"),
        ("template.values.v:=" + "[" * 99999, "template.values.v", "malformed", "more than 32"),
        ("template.values.v:=" + "[" * 40 + "]" * 40, "template.values.v", "malformed",
         "more than 32"),
        ("extends=a.toml", "extends", "value", "only a configuration file can set this"),
        ("inherit=false", "inherit", "value", "only a configuration file can set this"),
        ("inherit:=null", "inherit", "value", "only a configuration file can set this"),
        ("id=x", "id", "value", "only a configuration file can set this"),
        ("loader.reset=none", "loader", "unknown_key", "notebooks do not use this setting"),
        ('{"extends": ["a.toml"]}', "extends", "value", "only a configuration file can set this"),
        ('a["x=1', "", "malformed", "a bracket is empty or not closed"),
        ("{bad", "", "malformed", "not JSON"),
        ('{"user": {"nme": 1}}', "user.nme", "unknown_key", "did you mean 'user.name'"),
        ('{"editor": {"cmd": "vi"}}', "editor", "unknown_key", "notebooks do not use this setting"),
        ("asistant.name=x", "asistant", "unknown_key", "did you mean 'assistant'"),
        ("conversation.foo=x", "conversation.foo", "unknown_key",
         "expected one of: attachments, compaction, inquiry"),
        ("user.name.x=y", "user.name.x", "unknown_key", "this setting has no keys"),
        ("user.name:=oops", "user.name", "malformed", "not JSON"),
        ("assistant.model.parameters.temperature:=NaN", "assistant.model.parameters.temperature",
         "malformed", "NaN"),
        ("assistant.request.max_retries=many", "assistant.request.max_retries", "type", "many"),
        ("assistant.request.max_retries:=1.5", "assistant.request.max_retries", "type", "1.5"),
        ("style.tool_call.show=yes", "style.tool_call.show", "type", "expected true or false"),
        ("style.tool_call.show+=true", "style.tool_call.show", "type", "works only on a list"),
        ("assistant.request.max_retries+=1", "assistant.request.max_retries", "type", "only on a"),
        ("user.name:+=null", "user.name", "type", "`:=null` unsets"),
        ("conversation.labels=x", "conversation.labels", "type", "expected JSON"),
        ("conversation.attachments.1=file:z", "conversation.attachments.1", "unknown_index",
         "from 0, and the list has 1"),
        ("assistant.instructions.0.items.7=z", "assistant.instructions.0.items.7", "unknown_index",
         "from 0, and the list has 1"),
        ("conversation.attachments.x=file:z", "conversation.attachments.x", "unknown_key",
         "expected the number of an item"),
        (f"{TOOL}.enable=maybe", f"{TOOL}.enable", "value", "invalid enable value: 'maybe'"),
        ("assistant.model.id=acme/x", "assistant.model.id", "value", "unknown provider 'acme'"),
        ("prompt.channel=form", "prompt.channel", "value",
         "expected one of auto, widget, stdin, never"),
    ]:  # fmt: skip
        with subtests.test(text=text):
            with pytest.raises(jp.ConfigError) as caught:
                Settings.assign(text, NOW)
            assert (caught.value.path, caught.value.kind) == (path, kind)
            assert expected in str(caught.value)


def test_field_of_a_model_named_by_an_alias_needs_a_table() -> None:
    now = Settings(NOW, {"assistant": {"model": {"id": "fast"}}}).merged()
    with pytest.raises(jp.ConfigError, match=r'`assistant.model.id` is "fast"'):
        Settings.assign("assistant.model.id.name=x", now)
    now = Settings(NOW, {"providers": {"llm": {"aliases": {"gpt-4.1": "fast"}}}}).merged()
    with pytest.raises(jp.ConfigError, match=r'aliases\["gpt-4.1"\]` is "fast"'):
        Settings.assign('providers.llm.aliases["gpt-4.1"].name=x', now)


def test_addition_to_a_prompt_is_stored_as_an_append() -> None:
    for current in ({}, NOW):
        delta, _ = Settings.assign("assistant.system_prompt+= More.", current)
        assert delta["assistant"] == {"system_prompt": {"value": " More.", "strategy": "append"}}


def test_contradictions_can_be_resolved_one_assignment_at_a_time() -> None:
    tool: dict[str, Any] = {"source": "builtin", "access": {"fs": [{"path": "."}]}}
    now: dict[str, Any] = {"conversation": {"tools": {"t": tool}}}
    with pytest.raises(jp.ConfigError, match="only supported on local tools"):
        Settings(now).whole()
    for text in ("user.name=A", f"{TOOL}.source=local"):
        now = Settings(now).change(Settings.assign(text, now))
    assert value_at(Settings(now).whole(), f"{TOOL}.source") == "local"


def test_all_problems_of_an_object_are_reported_at_once() -> None:
    text = '{"user": {"nme": 1}, "style": {"tool_call": {"show": 7}}, "asistant": {}}'
    with pytest.raises(jp.ConfigError) as caught:
        Settings.assign(text, NOW)
    paths = {problem.path for problem in caught.value.problems}
    assert paths == {"user.nme", "style.tool_call.show", "asistant"}
    assert all(path in str(caught.value) for path in paths)
