"""A layer is read in its stored form, or everything that is wrong in it is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from jp_nb.config.partial import Partial, strip_strategies
from jp_nb.config.partial_reading import problems_in, read_layer
from jp_nb.config.schema import field_paths
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.validation import validate, without_left_out
from jp_nb.errors import ConfigError, ConfigProblem
from tests.support.config_spellings import (
    ANNOTATED,
    CASES,
    HALVES,
    LEFT,
    lookup,
    partials,
    under,
    wholes,
)
from tests.support.record_strategies import QUICK, json_values

TOOL = "conversation.tools.t"


def problems(partial: Any) -> list[ConfigProblem]:
    """What is wrong in a layer as a file may write it."""
    known = without_left_out(partial) if isinstance(partial, dict) else partial
    return [problem for _, problem in read_layer(known)[1]]


def normal(partial: Any) -> Partial:
    """The stored form of a layer in which nothing is wrong."""
    kept, found = read_layer(partial)
    assert found == []
    return kept


def one(partial: Any) -> ConfigProblem:
    (problem,) = problems(partial)
    return problem


# --- what is legal ---------------------------------------------------------------------------


def test_what_one_layer_may_say_is_no_problem(subtests: pytest.Subtests) -> None:
    for path, value in [*[c[:2] for c in CASES], *ANNOTATED, *HALVES, *LEFT]:
        with subtests.test(path=path):
            assert problems(under({}, path, value)) == []


@given(partials)
@QUICK
def test_a_legal_layer_has_no_problems(partial: dict[str, Any]) -> None:
    assert problems(partial) == []


@given(wholes)
@QUICK
def test_the_normal_form_means_the_same_and_stays(whole: dict[str, Any]) -> None:
    kept = normal(whole)
    assert AppConfig.model_validate(kept) == AppConfig.model_validate(whole)
    assert normal(kept) == kept


@pytest.mark.parametrize(
    ("path", "written", "kept"),
    [
        ("assistant.model.id", "openai/x", {"provider": "openai", "name": "x"}),
        ("assistant.model.id", {"name": "x"}, {"name": "x"}),
        ("conversation.attachments",
         {"value": [{"kind": "file", "path": "x"}], "strategy": "replace"},
         {"value": ["file://x"], "strategy": "replace"}),
        ("conversation.labels", {"value": {"a": "x"}, "strategy": "keep"},
         {"value": {"a": {"value": "x"}}, "strategy": "keep"}),
        (f"{TOOL}.enable", "on", {"state": True, "allow_toggle": "any"}),
        ("assistant.system_prompt", {"value": "x", "separator": "line"},
         {"value": "x", "separator": "line"}),
        ("assistant.instructions", [{"title": "t"}], [{"title": "t"}]),
    ],
)  # fmt: skip
def test_the_normal_form_says_no_more_than_the_layer(path: str, written: Any, kept: Any) -> None:
    assert lookup(normal(under({}, path, written)), path) == kept


def test_nothing_is_kept_of_what_is_null_or_absent() -> None:
    assert normal({"user": {"name": None}, "assistant": {"instructions": None}}) == {
        "user": {},
        "assistant": {},
    }


def test_no_field_is_needed_and_null_says_nothing(subtests: pytest.Subtests) -> None:
    for path in field_paths():
        with subtests.test(path=path):
            assert problems(under({}, path.replace("*", "k"), None)) == []


def test_a_table_that_holds_itself_is_read_at_any_depth() -> None:
    inner: Any = {"items": {"items": {"properties": {"a": {"required": None}}}}}
    kept = lookup(normal(under({}, f"{TOOL}.parameters.p", inner)), f"{TOOL}.parameters.p")
    assert kept == {"items": {"items": {"properties": {"a": {}}}}}


# --- what is wrong ---------------------------------------------------------------------------


def test_a_wrong_value_names_its_place_and_what_is_accepted(subtests: pytest.Subtests) -> None:
    for partial, path, kind, says in [
        ({"asistant": {}}, "asistant", "unknown_key", "did you mean 'assistant'? expected one of"),
        ({"assistant": {"~x": 1}}, "assistant.~x", "unknown_key", "expected one of"),
        ({"assistant": {"nme": 1}}, "assistant.nme", "unknown_key",
         "did you mean 'assistant.name'? expected one of: instructions, model, name,"),
        (under({}, f"{TOOL}.stile", {}), f"{TOOL}.stile", "unknown_key", f"'{TOOL}.style'"),
        (under({}, f"{TOOL}.parameters.p.items.typ", 1), f"{TOOL}.parameters.p.items.typ",
         "unknown_key", "expected one of: default, description, enum"),
        (under({}, f"{TOOL}.access.fs", [{"path": ".", "pth": "."}]), f"{TOOL}.access.fs.0.pth",
         "unknown_key", "expected one of: create, delete, execute, external, path"),
        (under({}, "conversation.labels.a.value", {"cmmd": "x"}),
         "conversation.labels.a.value.cmmd", "unknown_key", "expected one of: cmd"),
        (under({}, "assistant.model.id", {"nam": "x"}), "assistant.model.id.nam", "unknown_key",
         "expected one of: name, provider"),
        ({"conversation": {"tools": {"a.b": {"run": "x"}}}}, 'conversation.tools["a.b"].run',
         "value", "expected one of ask, unattended, edit, skip, found 'x'"),
        (under({}, "style.tool_call.show", "yes please"), "style.tool_call.show", "type",
         "expected true or false, found 'yes please'"),
        (under({}, "style.tool_call.show", 1), "style.tool_call.show", "type", "found 1"),
        (under({}, "assistant.request.max_retries", "many"), "assistant.request.max_retries",
         "type", "expected a whole number, found 'many'"),
        (under({}, "assistant.request.max_retries", True), "assistant.request.max_retries", "type",
         "expected a whole number, found true"),
        (under({}, "assistant.request.max_retries", -1), "assistant.request.max_retries", "value",
         "expected a number of at least 0, found -1"),
        (under({}, "assistant.request.stream_idle_timeout_secs", 5),
         "assistant.request.stream_idle_timeout_secs", "value",
         "expected 0 (off) or at least 10 seconds, found 5"),
        (under({}, "assistant.model.parameters.temperature", float("nan")),
         "assistant.model.parameters.temperature", "type", "expected a number"),
        (under({}, "user.name", ["x"]), "user.name", "type", "expected a text, found a list"),
        (under({}, "user", "x"), "user", "type", "expected a table, found 'x'"),
        (under({}, "conversation.tools", "x"), "conversation.tools", "type", "expected a table"),
        (under({}, "assistant.model.parameters.stop_words", "x"),
         "assistant.model.parameters.stop_words", "type", "expected a list, found 'x'"),
        (under({}, "assistant.model.id", "nobody/x"), "assistant.model.id", "value",
         "unknown provider 'nobody', expected one of anthropic,"),
        (under({}, "assistant.model.id", "openai/a b"), "assistant.model.id", "value",
         "may hold only letters, digits and any of _ . : / ~ -"),
        (under({}, "assistant.model.id", ""), "assistant.model.id", "value", "found nothing"),
        (under({}, "assistant.model.id", 5), "assistant.model.id", "value",
         "expected a model id `provider/name`, an alias, or a table"),
        (under({}, "assistant.model.id.provider", "nobody"), "assistant.model.id.provider", "value",
         "unknown provider 'nobody'"),
        (under({}, "assistant.model.parameters.reasoning", "hi"),
         "assistant.model.parameters.reasoning", "value", "expected off, auto, one of none, xlow"),
        (under({}, "assistant.model.parameters.reasoning", {"effort": "hi"}),
         "assistant.model.parameters.reasoning.effort", "value", "a number of tokens, found 'hi'"),
        (under({}, "assistant.instructions", [{"examples": ["e", 3]}]),
         "assistant.instructions.0.examples.1", "value", "expected a text, or a table of good"),
        (under({}, "assistant.instructions", [{"examples": [{"good": "g"}]}]),
         "assistant.instructions.0.examples.0.bad", "value", "is needed here"),
        (under({}, f"{TOOL}.enable", "maybe"), f"{TOOL}.enable", "value",
         'invalid enable value: \'maybe\', expected a boolean, one of "on", "off", '
         '"explicit", "always", or a { state, allow_toggle } table'),
        (under({}, f"{TOOL}.enable", {"allow_toggle": "always"}), f"{TOOL}.enable.allow_toggle",
         "value", "expected one of any, never, if_named, if_named_or_group"),
        (under({}, f"{TOOL}.source", "mcp"), f"{TOOL}.source", "value", "must name a server"),
        (under({}, f"{TOOL}.source", "mcp..x"), f"{TOOL}.source", "value", "must name a server"),
        (under({}, f"{TOOL}.source", "local."), f"{TOOL}.source", "value", "a name after each dot"),
        (under({}, f"{TOOL}.source", "cloud"), f"{TOOL}.source", "value",
         "Unknown tool source: cloud"),
        (under({}, f"{TOOL}.command", "a 'b"), f"{TOOL}.command", "value",
         "invalid shell quoting in command string: a 'b"),
        (under({}, f"{TOOL}.command", " "), f"{TOOL}.command", "value", "found nothing"),
        (under({}, f"{TOOL}.command.program", ""), f"{TOOL}.command.program", "value",
         "expected a program"),
        (under({}, f"{TOOL}.parameters.p.type", "strin"), f"{TOOL}.parameters.p.type", "value",
         "expected one of string, integer"),
        (under({}, f"{TOOL}.questions.q.target", "nobody"), f"{TOOL}.questions.q.target", "value",
         "expected user, assistant, or a table"),
        (under({}, f"{TOOL}.style.inline_results", "x"), f"{TOOL}.style.inline_results", "value",
         "expected off, full, true, false, or a number of lines"),
        (under({}, "conversation.labels", {"1a": "x"}), "conversation.labels.1a", "value",
         "'1a' is not a name of a label"),
        (under({}, "conversation.labels", {"a": 5}), "conversation.labels.a", "value",
         "expected a text, or a table of value, apply_on and run, found 5"),
        (under({}, "conversation.attachments", ["x"]), "conversation.attachments.0", "value",
         "expected a URL such as file://notes.md, found 'x'"),
        (under({}, "conversation.attachments", [{"type": "x"}]), "conversation.attachments.0",
         "value", "expected a text for 'path'"),
        (under({}, "conversation.attachments", [{"type": "x", "path": "y", "args": 1}]),
         "conversation.attachments.0", "value", "unknown key 'args', expected type, path"),
        (under({}, "providers.llm.aliases", {"a/b": "x"}), "providers.llm.aliases.a/b", "value",
         "expected a word without `/`"),
        (under({}, "config_load_paths", ["/etc"]), "config_load_paths.0", "value",
         "expected a path relative to the workspace"),
        (under({}, "interrupt.tool_call.action", "abort"), "interrupt.tool_call.action", "value",
         "expected one of prompt, continue, restart, respond, stop, found 'abort'"),
        (under({}, "assistant.model.parameters", {"x": {1, 2}}), "assistant.model.parameters.x",
         "type", "expected text, numbers, true, false, lists or tables"),
        # how a value meets what lies below it
        (under({}, "assistant.system_prompt", {"value": "x", "separator": "lin"}),
         "assistant.system_prompt", "value",
         "expected for 'separator' one of none, space, line, paragraph, found 'lin'"),
        (under({}, "assistant.instructions", {"value": [], "strategy": "merge"}),
         "assistant.instructions", "value", "one of append, prepend, replace, found 'merge'"),
        (under({}, "assistant.instructions", {"value": [], "dedup": "yes"}),
         "assistant.instructions", "value", "one of true, false, inherit"),
        (under({}, "assistant.instructions", {"title": "x"}), "assistant.instructions", "value",
         "expected a list, or a table of value and strategy"),
        (under({}, "assistant.instructions", {"value": None}), "assistant.instructions", "value",
         "expected something for 'value'"),
        (under({}, "assistant.name", {"value": "x", "dedup": True}), "assistant.name", "value",
         "unknown key 'dedup' beside `value`"),
        (under({}, "assistant.instructions", {"value": [{"title": 3}]}),
         "assistant.instructions.0.title", "type", "expected a text, found 3"),
        (under({}, "conversation.labels", {"value": {}, "strategy": "append"}),
         "conversation.labels", "value", "deep_merge, merge, keep, replace, found 'append'"),
        (under({}, "conversation.labels", {"value": {"9": "x"}, "strategy": "keep"}),
         "conversation.labels.9", "value", "is not a name of a label"),
    ]:  # fmt: skip
        with subtests.test(partial=partial):
            problem = one(partial)
            assert (problem.path, problem.kind) == (path, kind)
            assert says in problem.message


def test_a_layer_that_is_no_table_says_so() -> None:
    assert one([1]) == ConfigProblem("", "type", "expected a table, found a list")


def test_everything_wrong_is_told_at_once_and_each_place_once() -> None:
    partial: Any = {
        "asistant": {},
        "style": {"code": {"color": 5}, "reasoning": {"display": []}},
        "assistant": {"model": {"id": "x/y", "parameters": {"top_p": "x", "top_k": -1}}},
        "conversation": {"tools": {"t": {"run": 5, "enable": 5}}, "default_id": 5},
        "editor": {"cmd": 5},
    }
    paths = [problem.path for problem in problems(partial)]
    assert sorted(paths) == [
        "asistant",
        "assistant.model.id",
        "assistant.model.parameters.top_k",
        "assistant.model.parameters.top_p",
        "conversation.tools.t.enable",
        "conversation.tools.t.run",
        "style.reasoning.display",
    ]


def test_what_may_be_a_secret_is_not_repeated(subtests: pytest.Subtests) -> None:
    for path, value in [
        ("providers.llm.openai.api_key_env", "s3cret-key"),
        ("providers.llm.openai.api_key_env", ["s3cret"]),
        ("providers.llm.openai.api_key", "s3cret"),
        ("providers.llm.openai.base_url", "https://me:s3cret@host"),
        ("providers.llm.openai.base_url", {"x": "s3cret"}),
        ("providers.llm.openai.base_url", "https://[s3cret"),
        ("providers.llm.openai", "https://me:s3cret@host"),
        ("providers.llm", ["s3cret"]),
        ("conversation.attachments", ["ftp:x", "https//me:s3cret@host", "://me:s3cret@host"]),
        ("assistant.request.max_retries", "sk-s3cret-s3cret-s3cret"),
    ]:
        with subtests.test(path=path):
            found = problems(under({}, path, value))
            assert found
            assert "s3cret" not in "".join(map(str, found)).replace(str(path), "")


@given(st.dictionaries(st.sampled_from(sorted(AppConfig.model_fields)), json_values))
@QUICK
def test_whatever_stands_there_is_fine_or_told_in_words(partial: dict[str, Any]) -> None:
    found = problems(partial)
    assert len({problem.path for problem in found}) == len(found)
    for problem in found:
        assert problem.message
        assert "~table" not in problem.path
        assert "~plain" not in problem.path
        assert "Input should" not in problem.message


@given(partials)
@QUICK
def test_a_legal_layer_alone_makes_a_configuration_unless_something_is_missing(
    partial: dict[str, Any],
) -> None:
    whole = strip_strategies(normal(without_left_out(partial)))
    found: list[ConfigProblem] = []
    try:
        AppConfig.model_validate(whole)
    except ValidationError as exc:
        found = problems_in(exc)
    assert [problem for problem in found if "is needed here" not in problem.message] == []


def test_fields_that_do_not_fit_together_are_each_told() -> None:
    tools = {"a": {"source": "mcp.s", "access": {}}, "b": {"source": "builtin", "access": {}}}
    partial: Any = {"conversation": {"tools": tools}}
    assert problems(partial) == []
    with pytest.raises(ConfigError) as caught:
        validate(partial)
    assert [problem.path for problem in caught.value.problems] == [
        "conversation.tools.a.access",
        "conversation.tools.b.access",
    ]


def test_the_default_configuration_is_valid() -> None:
    assert validate({}) == AppConfig()
