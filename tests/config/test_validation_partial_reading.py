"""Reading a layer: its normalized form, and all problems in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.config.config_spellings import (
    ANNOTATED,
    CASES,
    IGNORED,
    INCOMPLETE,
    lookup,
    partials,
    plain_partials,
    set_path,
)
from tests.kit.settings import Settings
from tests.support.record_strategies import json_values

TOOL = "conversation.tools.t"


def problems(content: Any) -> list[Any]:
    """Return the problems of a file with this `content`."""
    try:
        Settings.read(content)
    except jp.ConfigError as exc:
        return [*exc.problems]
    return []


def single_problem(content: Any) -> Any:
    (problem,) = problems(content)
    return problem


# --- valid layers ----------------------------------------------------------------------------


def test_every_accepted_spelling_has_no_problem(subtests: pytest.Subtests) -> None:
    for path, value in [*[c[:2] for c in CASES], *ANNOTATED, *INCOMPLETE, *IGNORED]:
        with subtests.test(path=path):
            assert problems(set_path({}, path, value)) == []


@given(partials)
def test_valid_layer_has_no_problems(partial: dict[str, Any]) -> None:
    assert problems(partial) == []


def without_conflicts(content: Any) -> Any:
    """Return the effective configuration, or the problems of a file that other files complete."""
    try:
        return Settings(content).whole()
    except jp.ConfigError as exc:
        return [str(problem) for problem in exc.problems]


@given(plain_partials)
def test_normalized_form_means_the_same_and_is_stable(whole: dict[str, Any]) -> None:
    kept = Settings.read(whole)
    assert Settings.read(kept) == kept
    assert without_conflicts(kept) == without_conflicts(whole)


@pytest.mark.parametrize(
    ("path", "written", "kept"),
    [
        ("assistant.model.id", "openai/x", {"provider": "openai", "name": "x"}),
        ("assistant.model.id", {"name": "x"}, {"name": "x"}),
        ("conversation.attachments",
         {"value": [{"kind": "file", "path": "x"}], "strategy": "replace"},
         {"value": ["file://x"], "strategy": "replace"}),
        ("conversation.labels", {"value": "x", "strategy": None}, {"value": {"value": "x"}}),
        ("conversation.labels", {"value": {"a": "x"}, "strategy": "keep"},
         {"value": {"a": {"value": "x"}}, "strategy": "keep"}),
        (f"{TOOL}.enable", "on", {"state": True, "allow_toggle": "any"}),
        ("assistant.system_prompt", {"value": "x", "separator": "line"},
         {"value": "x", "separator": "line"}),
        ("assistant.instructions", [{"title": "t"}], [{"title": "t"}]),
    ],
)  # fmt: skip
def test_normalized_form_sets_no_more_than_the_layer(path: str, written: Any, kept: Any) -> None:
    assert lookup(Settings.read(set_path({}, path, written)), path) == kept


def test_null_is_not_kept() -> None:
    assert Settings.read({"user": {"name": None}, "assistant": {"instructions": None}}) == {
        "user": {},
        "assistant": {},
    }


def test_every_field_accepts_null() -> None:
    for path in Settings.list_paths():
        assert problems(set_path({}, path.replace("*", "k"), None)) == [], path


def test_recursive_table_is_read_at_any_depth() -> None:
    inner: Any = {"items": {"items": {"properties": {"a": {"required": None}}}}}
    kept = lookup(
        Settings.read(set_path({}, f"{TOOL}.parameters.p", inner)), f"{TOOL}.parameters.p"
    )
    assert kept == {"items": {"items": {"properties": {"a": {}}}}}


# --- problems --------------------------------------------------------------------------------

UNKNOWN_KEYS: list[tuple[str, Any, str, str]] = [
    ("asistant", {}, "", "did you mean 'assistant'? expected one of"),
    ("assistant.~x", 1, "", "expected one of"),
    ("assistant.nme", 1, '',
     "did you mean 'assistant.name'? expected one of: instructions, model, name,"),
    (f"{TOOL}.stile", {}, "", f"'{TOOL}.style'"),
    (f"{TOOL}.parameters.p.items.typ", 1, "", "expected one of: default, description, enum"),
    (f"{TOOL}.access.fs", [{"path": ".", "pth": "."}], ".0.pth",
     "expected one of: create, delete, execute, external, path"),
    ("conversation.labels.a.value", {"cmmd": "x"}, ".cmmd", "expected one of: cmd"),
    ("assistant.model.id", {"nam": "x"}, ".nam", "expected one of: name, provider"),
]  # fmt: skip
WRONG_TYPES: list[tuple[str, Any, str, str]] = [
    ("style.tool_call.show", "yes please", "", "expected true or false, found 'yes please'"),
    ("style.tool_call.show", 1, "", "found 1"),
    ("assistant.request.max_retries", "many", "", "expected a whole number, found 'many'"),
    ("assistant.request.max_retries", True, "", "expected a whole number, found true"),
    ("user.name", ["x"], "", "expected a text, found a list"),
    ("user", "x", "", "expected a table, found 'x'"),
    ("conversation.tools", "x", "", "expected a table"),
    ("assistant.model.parameters.stop_words", "x", "", "expected a list, found 'x'"),
    ("assistant.model.parameters", {"x": {1, 2}}, ".x",
     "expected text, numbers, true, false, lists, or tables"),
    ("assistant.instructions", {"value": [{"title": 3}]}, ".0.title", "expected a text, found 3"),
]  # fmt: skip
WRONG_VALUES: list[tuple[str, Any, str, str]] = [
    ("assistant.model.parameters.temperature", float("nan"), "",
     "expected a finite number, found nan"),
    ("conversation.tools", {'a.b': {"run": "x"}}, '["a.b"].run',
     "expected one of ask, unattended, edit, skip, found 'x'"),
    ("assistant.request.max_retries", -1, "", "expected a number of at least 0, found -1"),
    ("assistant.request.stream_idle_timeout_secs", 5, "",
     "expected 0 (off) or at least 10 seconds, found 5"),
    ("assistant.model.id", "acme/x", "", "unknown provider 'acme', expected one of anthropic,"),
    ("assistant.model.id", "openai/a b", "",
     "may contain only letters, digits, and _ . : / ~ -"),
    ("assistant.model.id", "", "", "found nothing"),
    ("assistant.model.id", 5, "", "expected a model id `provider/name`, an alias, or a table"),
    ("assistant.model.id.provider", "acme", "", "unknown provider 'acme'"),
    ("assistant.model.parameters.reasoning", "hi", "", "expected off, auto, one of none, xlow"),
    ("assistant.model.parameters.reasoning", {"effort": "hi"}, ".effort",
     "a number of tokens, found 'hi'"),
    ("assistant.instructions", [{"examples": ["e", 3]}], ".0.examples.1",
     "expected a text, or a table of good"),
    ("assistant.instructions", [{"examples": [{"good": "g"}]}], ".0.examples.0.bad",
     "is required here"),
    (f"{TOOL}.enable", "maybe", "",
     'invalid enable value: \'maybe\', expected a boolean, one of "on", "off", '
     '"explicit", "always", or a { state, allow_toggle } table'),
    (f"{TOOL}.enable", {"allow_toggle": "always"}, ".allow_toggle",
     "expected one of any, never, if_named, if_named_or_group"),
    (f"{TOOL}.source", "mcp", "", "must name a server"),
    (f"{TOOL}.source", "mcp..x", "", "must name a server"),
    (f"{TOOL}.source", "local.", "", "a name after each dot"),
    (f"{TOOL}.source", "cloud", "", "Unknown tool source: cloud"),
    (f"{TOOL}.command", "a 'b", "", "invalid shell quoting in command string: a 'b"),
    (f"{TOOL}.command", " ", "", "found nothing"),
    (f"{TOOL}.command.program", "", "", "expected a program"),
    (f"{TOOL}.parameters.p.type", "strin", "", "expected one of string, integer"),
    (f"{TOOL}.questions.q.target", "acme", "", "expected user, assistant, or a table"),
    (f"{TOOL}.style.inline_results", "x", "",
     "expected off, full, true, false, or a number of lines"),
    ("conversation.labels", {"1a": "x"}, ".1a", "'1a' is not a label name"),
    ("conversation.labels", {"a": 5}, ".a",
     "expected a text, or a table of value, apply_on, and run, found 5"),
    ("conversation.attachments", ["x"], ".0", "expected a URL such as file://notes.md, found 'x'"),
    ("conversation.attachments", [{"type": "x"}], ".0", "expected a text for 'path'"),
    ("conversation.attachments", [{"type": "x", "path": "y", "args": 1}], ".0",
     "unknown key 'args', expected type, path"),
    ("providers.llm.aliases", {"a/b": "x"}, ".a/b", "expected a word without `/`"),
    ("config_load_paths", ["/etc"], ".0", "expected a path relative to the workspace"),
    ("interrupt.tool_call.action", "abort", "",
     "expected one of prompt, continue, restart, respond, stop, found 'abort'"),
    ("assistant.system_prompt", {"value": "x", "separator": "lin"}, "",
     "expected for 'separator' one of none, space, line, paragraph, found 'lin'"),
    ("assistant.instructions", {"value": [], "strategy": "merge"}, "",
     "one of append, prepend, replace, found 'merge'"),
    ("assistant.instructions", {"value": [], "dedup": "yes"}, "", "one of true, false, inherit"),
    ("assistant.instructions", {"title": "x"}, "",
     "expected a list, or a table of value and strategy"),
    ("assistant.instructions", {"value": None}, "", "expected a value for 'value'"),
    ("assistant.name", {"value": "x", "dedup": True}, "", "unknown key 'dedup' next to `value`"),
    ("conversation.labels", {"value": {}, "strategy": "append"}, "",
     "deep_merge, merge, keep, replace, found 'append'"),
    ("conversation.labels", {"value": {"9": "x"}, "strategy": "keep"}, ".9",
     "is not a label name"),
]  # fmt: skip
"""Path and written value; the rest of the path at which the problem is; a part of its message."""


def test_problem_names_its_path_and_the_accepted_values(subtests: pytest.Subtests) -> None:
    kinds = {"unknown_key": UNKNOWN_KEYS, "type": WRONG_TYPES, "value": WRONG_VALUES}
    for kind, rows in kinds.items():
        for path, value, below, message in rows:
            with subtests.test(path=path, value=value):
                problem = single_problem(set_path({}, path, value))
                assert (problem.path, problem.kind) == (path + below, kind)
                assert message in problem.message


def test_all_problems_are_reported_at_once_and_each_once() -> None:
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


def test_problem_repeats_no_possible_secret(subtests: pytest.Subtests) -> None:
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
            found = problems(set_path({}, path, value))
            assert found
            assert "s3cret" not in "".join(map(str, found)).replace(str(path), "")


SECTIONS = sorted({path.split(".")[0] for path in Settings.list_paths()})


@given(st.dictionaries(st.sampled_from(SECTIONS), json_values))
def test_any_json_has_readable_problems_or_none(partial: dict[str, Any]) -> None:
    found = problems(partial)
    assert len({problem.path for problem in found}) == len(found)
    for problem in found:
        assert problem.message
        assert "~table" not in problem.path
        assert "~plain" not in problem.path
        assert "Input should" not in problem.message


@given(partials)
def test_valid_layer_is_a_valid_configuration_unless_a_field_is_missing(
    partial: dict[str, Any],
) -> None:
    of_several_layers = (
        "is required here",
        "is only supported on local tools",
        "holds defaults and has no",
        "turns off permanently",
    )
    found: list[str] = []
    try:
        Settings(Settings.read(partial)).whole()
    except jp.ConfigError as exc:
        found = [problem.message for problem in exc.problems]

    for message in found:
        assert any(words in message for words in of_several_layers)
