"""Merging partials, validating them, errors that help."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.config.app_config import AppConfig
from jp_nb.config.partial import Partial, at, build, leaves, merge, settled, unset, validate
from jp_nb.errors import ConfigError
from tests.record.strategies import QUICK

PROMPT = "assistant.system_prompt"
WORDS = "assistant.model.parameters.stop_words"


@pytest.mark.parametrize(
    ("path", "parts", "result"),
    [
        (WORDS, [["a"], ["b", "a"]], ["a", "b"]),
        (WORDS, [["a"], {"value": ["b"], "strategy": "append"}], ["a", "b"]),
        (WORDS, [["a"], {"value": ["b"]}], ["a", "b"]),
        (WORDS, [["a"], {"value": ["b"], "strategy": "prepend"}], ["b", "a"]),
        (WORDS, [["a"], {"value": ["b"], "strategy": "replace"}], ["b"]),
        (WORDS, [["a"], {"value": [], "strategy": "replace"}, ["c"]], ["c"]),
        (PROMPT, ["P", "Q"], "Q"),
        (PROMPT, ["P", {"value": "Q", "strategy": "append", "separator": "line"}], "P\nQ"),
        (PROMPT, ["P", {"value": "Q", "strategy": "prepend", "separator": "space"}], "Q P"),
        (PROMPT, ["P", {"value": "Q"}], "PQ"),
        (PROMPT, ["P", {"value": "Q", "strategy": "replace"}], "Q"),
        ("user.name", ["A", None], "A"),
        ("conversation.tools.t.options", [{"value": 1}, {"a": [1]}, {"a": [2]}],
         {"value": 1, "a": [2]}),
        ("conversation.tools.t.enable", [False, {"state": True}],
         {"state": True, "allow_toggle": "any"}),
        ("assistant.model.id", ["a/b", {"name": "c"}], {"provider": "a", "name": "c"}),
        ("assistant.model.id", [{"provider": "a", "name": "b"}, "fast"], "fast"),
    ],
)  # fmt: skip
def test_later_parts_meet_earlier_ones_as_they_say(path: str, parts: Any, result: Any) -> None:
    one_by_one: Partial = {}
    for part in parts:
        one_by_one = merge(one_by_one, build(path, part))
    assert at(settled(one_by_one), path) == result
    # What was folded first may come to lie over something later: strategies are still in force.
    rest: Partial = {}
    for part in parts[1:]:
        rest = merge(rest, build(path, part))
    assert at(settled(merge(build(path, parts[0]), rest)), path) == result


values = st.one_of(
    st.lists(st.sampled_from("abc"), max_size=2, unique=True),
    st.builds(
        lambda value, strategy: {"value": value, "strategy": strategy},
        st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        st.sampled_from(["append", "replace"]),
    ),
)


@given(st.lists(values, min_size=1, max_size=4))
@QUICK
def test_merging_changes_neither_side(parts: list[Any]) -> None:
    partials = [build(WORDS, part) for part in parts]
    before = repr(partials)
    folded: Partial = {}
    for partial in partials:
        folded = merge(folded, partial)
    validate(folded)
    assert repr(partials) == before


def test_unset_removes_a_path_and_what_lies_below() -> None:
    partial: Partial = {"assistant": {"name": "x", "model": {"id": "a"}}, "user": {"name": "y"}}
    assert unset(partial, "assistant.model") == {"assistant": {"name": "x"}, "user": {"name": "y"}}
    assert unset(partial, "assistant.none.x") == partial
    assert unset(partial, "user.name.x") == partial


def test_leaves_are_values_with_their_paths_and_without_strategies() -> None:
    partial: Partial = {
        "assistant": {"instructions": {"value": [], "strategy": "replace"}},
        "conversation": {"tools": {"t": {"options": {"a": {"b": 1}}}}},
        "user": {"name": None},
    }
    assert dict(leaves(partial)) == {
        "assistant.instructions": [],
        "conversation.tools.t.options.a.b": 1,
    }


@pytest.mark.parametrize(
    ("partial", "path", "says"),
    [
        ({"asistant": {}}, "asistant", "did you mean 'assistant'?"),
        ({"assistant": {"nme": "x"}}, "assistant.nme", "did you mean 'name'?"),
        ({"assistant": {"request": {"max_retries": -1}}}, "assistant.request.max_retries", "-1"),
        (
            {"assistant": {"request": {"stream_idle_timeout_secs": 5}}},
            "assistant.request.stream_idle_timeout_secs",
            "expected 0 (off) or at least 10 seconds",
        ),
        (
            {"assistant": {"model": {"id": "nobody/x"}}},
            "assistant.model.id",
            "unknown provider 'nobody', expected one of anthropic,",
        ),
        (
            {"conversation": {"tools": {"t": {"enable": "maybe"}}}},
            "conversation.tools.t.enable",
            'invalid enable value: \'maybe\', expected a boolean, one of "on", "off", '
            '"explicit", "always", or a { state, allow_toggle } table',
        ),
        (
            {"conversation": {"tools": {"t": {"source": "mcp"}}}},
            "conversation.tools.t.source",
            "MCP tool source must name a server",
        ),
        (
            {"conversation": {"tools": {"t": {"source": "cloud"}}}},
            "conversation.tools.t.source",
            "Unknown tool source: cloud",
        ),
    ],
)
def test_a_wrong_value_names_its_path_and_what_is_accepted(
    partial: Partial, path: str, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(partial, layer="config.toml")
    assert caught.value.path == path
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert says in text
    assert text.endswith("(from config.toml)")


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        (True, {"state": True, "allow_toggle": "any"}),
        ("on", {"state": True, "allow_toggle": "any"}),
        ("true", {"state": True, "allow_toggle": "any"}),
        (False, {"state": False, "allow_toggle": "any"}),
        ("off", {"state": False, "allow_toggle": "any"}),
        ("always", {"state": True, "allow_toggle": "never"}),
        ("explicit", {"state": False, "allow_toggle": "if_named"}),
        ({"state": False}, {"state": False}),
        ({"allow_toggle": "never"}, {"allow_toggle": "never"}),
    ],
)
def test_every_way_to_write_enable_is_stored_as_a_table(written: Any, stored: Any) -> None:
    config = validate(merge({}, {"conversation": {"tools": {"t": {"enable": written}}}}))
    enable = config.conversation.tools["t"].enable
    assert enable is not None
    assert enable.model_dump() == stored


def test_instructions_and_sections_make_the_system_texts_in_order() -> None:
    config: AppConfig = validate(
        {
            "assistant": {
                "system_prompt": "P",
                "system_prompt_sections": [
                    {"content": "last", "position": 9},
                    {"content": "a < b", "tag": "x", "title": 'T"'},
                    {"content": "plain", "title": "Heading"},
                ],
                "instructions": [
                    {
                        "title": "I",
                        "items": ["do"],
                        "examples": [{"good": "g", "bad": "b", "reason": "r"}],
                    }
                ],
            }
        }
    )
    assert config.assistant.system() == (
        "P",
        "<x title='T\"'>\n<![CDATA[a < b]]>\n</x>",
        "# Heading\n\nplain",
        '<instruction title="I">\n- do\n\n**Examples**\n\n'
        "Good: g\nBad: b\nReason: r\n</instruction>",
        "last",
    )
