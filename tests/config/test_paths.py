"""Paths of settings, parsed and formatted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.config.schema import Element, format_path, look_up, parse_path
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
    assert look_up(["a"], ["\u00b2"]) is None


@given(
    st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4),
    st.none() | json_values,
)
def test_any_keys_have_a_path_that_parses_to_them(keys: list[str], item: Any) -> None:
    wanted: tuple[str, ...] = tuple(keys)
    if item is not None:
        wanted = (*wanted, Element(item))
    read = parse_path(format_path(wanted))
    assert read == wanted
    if item is not None:
        assert isinstance(read[-1], Element)
        assert read[-1].json == item
