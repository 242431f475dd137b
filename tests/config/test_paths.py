"""Paths, and what the schema says about a place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.config import paths
from jp_nb.config.paths import Element, format_path, parse_path
from jp_nb.errors import ConfigError
from tests.support.record_strategies import QUICK, json_values


@pytest.mark.parametrize(
    ("text", "keys", "written"),
    [
        ("a", ("a",), "a"),
        ("a.b-c.0", ("a", "b-c", "0"), "a.b-c.0"),
        ("a.*.b", ("a", "*", "b"), "a.*.b"),
        ('a["x.y"]', ("a", "x.y"), 'a["x.y"]'),
        ('a["x.y"].c', ("a", "x.y", "c"), 'a["x.y"].c'),
        ("a[foo.rs]", ("a", "foo.rs"), 'a["foo.rs"]'),
        ("a[https://x/?q=1&r[]", ("a", "https://x/?q=1&r["), 'a["https://x/?q=1&r["]'),
        ('a["]"]', ("a", "]"), 'a["]"]'),
        ('a[{"b": 1, "a": [2]}]', ("a", '{"a":[2],"b":1}'), 'a[{"a":[2],"b":1}]'),
        ("a[1]", ("a", "1"), "a[1]"),
    ],
)
def test_a_path_is_read_and_written_in_one_form(
    text: str, keys: tuple[str, ...], written: str
) -> None:
    assert parse_path(text) == keys
    assert format_path(parse_path(text)) == written
    assert parse_path(written) == keys


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "a[", "a[]", 'a["x"', "a[x]b", "]"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_path(text)


@pytest.mark.parametrize(
    "text",
    [
        "template.values" + "[" * 3000,
        "template.values" + "[" * 3000 + "]" * 3000,
        'template.values[{"a":' + '{"a":' * 3000,
        ".".join("a" * 100),
        "a" * 200_000,
        "a[" + "b" * 200_000,
    ],
)
def test_a_path_that_is_too_long_or_too_deep_is_refused_in_short(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_path(text)
    assert caught.value.kind == "malformed"
    assert len(str(caught.value)) < 250


def test_a_number_in_other_digits_is_no_number_of_an_item() -> None:
    assert paths.node_of("assistant.instructions.\u00b2") is None
    assert paths.node_of("assistant.instructions." + "9" * 5000) is None
    assert paths.lookup(["a"], ["\u00b2"]) is None


@given(
    st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4),
    st.none() | json_values,
)
@QUICK
def test_any_keys_have_a_path(keys: list[str], item: Any) -> None:
    wanted: tuple[str, ...] = tuple(keys)
    if item is not None:
        wanted = (*wanted, Element(item))
    read = parse_path(format_path(wanted))
    assert read == wanted
    if item is not None:
        assert isinstance(read[-1], Element)
        assert read[-1].json == item


@pytest.mark.parametrize(
    "path",
    [
        "conversation.tools", "conversation.tools.x.parameters",
        "conversation.tools.x.parameters.p.properties", "conversation.tools.x.questions",
        "conversation.tools.x.options", "conversation.labels", "providers.llm.aliases",
        "providers.mcp", "template.values", "assistant.model.parameters",
    ],
)  # fmt: skip
def test_maps_have_free_keys(path: str) -> None:
    assert paths.is_map(path)


@pytest.mark.parametrize("path", ["", "assistant", "conversation.attachments", "user.name", "no"])
def test_other_places_have_none(path: str) -> None:
    assert not paths.is_map(path)


@pytest.mark.parametrize(
    "path",
    [
        "inherit", "assistant.name", "user.name", "assistant.model.parameters.max_tokens",
        "assistant.model.parameters.reasoning", "assistant.model.parameters.temperature",
        "assistant.model.parameters.top_p", "assistant.model.parameters.top_k",
        "conversation.tools.t.summary", "conversation.tools.t.run", "conversation.tools.t.result",
        "conversation.tools.t.cancellation_response", "conversation.tools.t.enable.state",
        "conversation.tools.t.enable.allow_toggle", "conversation.tools.*.enable",
        "conversation.tools.t.questions.q.answer", "conversation.title.generate.model",
        "providers.llm.openrouter.app_referrer",
    ],
)  # fmt: skip
def test_optional_places_may_be_unset(path: str) -> None:
    assert paths.is_optional_scalar(path)


@pytest.mark.parametrize(
    "path",
    [
        "config_load_paths", "extends", "assistant.system_prompt_sections",
        "assistant.instructions", "assistant.model.parameters.stop_words",
        "conversation.compaction.rules", "conversation.attachments",
        "conversation.tools.t.access.fs", "providers.llm.anthropic.beta_headers",
        "providers.mcp.m.arguments", "providers.mcp.m.variables",
    ],
)  # fmt: skip
def test_lists_hold_items(path: str) -> None:
    assert paths.is_list(path)
    assert not paths.is_optional_scalar(path)


@pytest.mark.parametrize(
    ("path", "items"),
    [
        ("config_load_paths", "set"),
        ("assistant.model.parameters.stop_words", "set"),
        ("providers.llm.anthropic.beta_headers", "set"),
        ("conversation.attachments", "set"),
        ("assistant.instructions", "keyed"),
        ("assistant.system_prompt_sections", "keyed"),
        ("conversation.tools.t.access.fs", "keyed"),
        ("conversation.compaction.rules", "sequence"),
        ("providers.mcp.m.arguments", "sequence"),
    ],
)
def test_a_list_says_what_names_its_items(path: str, items: str) -> None:
    node = paths.node_of(path)
    assert node is not None
    assert node.merge.items == items


def test_every_field_has_a_path_that_leads_to_it_and_a_variable() -> None:
    found = paths.fields()
    assert len(found) == len(set(found)) > 150
    for path in found:
        assert paths.node_of(path.replace("*", "x")) is not None, path
    assert paths.variable("assistant.model.id") == "JP_CFG_ASSISTANT__MODEL__ID"


def test_a_closed_set_of_words_is_known() -> None:
    node = paths.node_of("prompt.channel")
    assert node is not None
    assert node.words == ["auto", "widget", "stdin", "never"]
