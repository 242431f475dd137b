"""Paths of settings, parsed and formatted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.config.setting_paths import format_path, parse_path
from tests.kit.settings import setting, value_at
from tests.support.record_strategies import json_values


def test_path_is_parsed_and_formatted_in_one_form(subtests: pytest.Subtests) -> None:
    for text, keys, written in [
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
    ]:
        with subtests.test(text=text):
            assert parse_path(text) == keys
            assert format_path(parse_path(text)) == written
            assert parse_path(written) == keys


def test_malformed_path_is_refused(subtests: pytest.Subtests) -> None:
    for text in ["", ".", "a.", ".a", "a..b", "a[", "a[]", 'a["x"', "a[x]b", "]"]:
        with subtests.test(text=text), pytest.raises(jp.ConfigError):
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
def test_path_that_is_too_long_or_too_deep_is_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(jp.ConfigError) as caught:
        parse_path(text)
    assert caught.value.kind == "malformed"
    assert len(str(caught.value)) < 250


def test_index_is_written_in_ascii_digits() -> None:
    path = "conversation.tools.t.command.args"
    assert value_at(setting(path, ["a", "b", "c"]), f"{path}.2") == "c"
    assert value_at(setting(path, ["a", "b", "c"]), f"{path}.\u00b2") is None


@given(
    st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4),
    st.none() | json_values,
)
def test_any_keys_have_a_path_that_parses_to_them(keys: list[str], item: Any) -> None:
    path = format_path(keys)
    assert parse_path(path) == tuple(keys)
    if item is None:
        return

    # An item of a list is written as its JSON.
    above = format_path(parse_path(path))
    last: Any
    *found, last = parse_path(f"{above}[{json.dumps(item)}]")
    assert found == keys
    assert last.json == item
    assert parse_path(format_path([*found, last])) == (*keys, last)
