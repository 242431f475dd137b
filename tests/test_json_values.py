"""JSON that is read with bounds, written in one form, and kept as a file can hold it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.json_values import (
    MAX_INDENTED_LEVELS,
    MAX_LEVELS,
    canonical_json,
    copied,
    indented_json,
    is_deeper,
    is_storable,
    json_copy,
    read_json,
    sorted_json,
    storable,
    to_utf8,
    whole_text,
)
from tests.support.record_strategies import json_values


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


# --- reading ---------------------------------------------------------------------------------


@given(json_values)
def test_what_is_read_is_what_was_written(value: Any) -> None:
    assert read_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("NaN", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("1e999", "1e999 is too large a number"),
        ("[" * 101 + "]" * 101, "nested too deeply: more than 100 levels"),
        ("[" * 100_000, "nested too deeply: more than 100 levels"),
        ("{", "Expecting"),
    ],
)
def test_what_a_record_cannot_have_is_not_read(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_json(text)


def test_levels_are_counted_from_the_outermost() -> None:
    assert not is_deeper(1, 0)
    for levels in (1, 2, 100_000):
        assert is_deeper(nested(levels), levels - 1)
        assert not is_deeper(nested(levels), levels)
    assert read_json("[" * 5 + "]" * 5, max_levels=5) == [[[[[]]]]]
    with pytest.raises(ValueError, match="more than 4 levels"):
        read_json("[" * 5 + "]" * 5, max_levels=4)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], nested(MAX_LEVELS + 1)])
def test_a_record_cannot_keep_this(value: Any) -> None:
    assert not is_storable(value)


@given(json_values)
def test_a_record_can_keep_any_other_json(value: Any) -> None:
    assert is_storable(value)
    assert is_storable(nested(MAX_LEVELS))


# --- writing ---------------------------------------------------------------------------------


def test_two_ways_to_write_one_thing(subtests: pytest.Subtests) -> None:
    for ours, theirs in [
        (1.0, 1),
        (2**53 + 1, 2**53),
        (-0.0, 0),
        (10**21, 1e21),
        (123456789012345678901, 123456789012345680000),
        (1e-7, 0.0000001),
        (float("nan"), None),
        (float("-inf"), None),
        (10**400, None),
        ("a\ud800", "a\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("\ufeffa\udc00", "\ufeffa\ufffd"),
        ({"b": 1, "a": 2}, {"a": 2.0, "b": 1.0}),
        ({"\udc00": 1}, {"\ufffd": 1}),
        (("a",), ["a"]),
    ]:
        with subtests.test(ours=ours):
            assert canonical_json(ours) == canonical_json(theirs)


def test_different_things_stay_different(subtests: pytest.Subtests) -> None:
    for one, other in [
        (1, True),
        (0, False),
        (0, None),
        (1, "1"),
        ("a", "A"),
        ("é", "e\u0301"),  # forms of a character are told apart: nothing rewrites them
        ("\n", "\\n"),
        ({}, []),
        ({"a": None}, {}),
        ([1, 2], [2, 1]),
        ([[1], 2], [[1, 2]]),
        (2**53, 2**53 + 2),
        (0.1 + 0.2, 0.3),
    ]:
        with subtests.test(one=one):
            assert canonical_json(one) != canonical_json(other)


@given(json_values)
def test_the_canonical_form_is_one_line_of_ascii_json(value: Any) -> None:
    text = canonical_json(value)
    assert text.isascii()
    assert "\n" not in text
    assert canonical_json(json.loads(text)) == text


def test_the_text_that_names_a_value_tells_numbers_apart_and_no_orders() -> None:
    assert sorted_json({"b": "ä", "a": [1]}) == '{"a":[1],"b":"ä"}'
    assert sorted_json(1) != sorted_json(1.0)


def test_deep_json_is_not_indented() -> None:
    assert indented_json({"a": [1]}) == json.dumps({"a": [1]}, indent=2)
    assert "\n" in indented_json(nested(MAX_INDENTED_LEVELS))
    assert "\n" not in indented_json(nested(MAX_INDENTED_LEVELS + 1))


# --- storing and sending ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": float("inf")}, {"a": None}),
        ([float("nan"), 1.5], [None, 1.5]),
        ("\ud83d\ude00", "😀"),
        ("a\ud83d", "a\ufffd"),
        ({"\udc00": 1}, {"\ufffd": 1}),
    ],
)
def test_what_a_file_cannot_hold_is_replaced(value: Any, expected: Any) -> None:
    assert storable(value) == expected


def test_everything_else_is_the_same_object() -> None:
    value: Any = {"a": [1, "ä😀", None, 1e300]}
    assert storable(value) is value


@given(st.text(st.characters()))
def test_text_is_made_whole_once_and_sent_whatever_it_is(text: str) -> None:
    whole = whole_text(text)
    whole.encode()
    assert whole_text(whole) == whole
    assert len(to_utf8(text).decode()) == len(text)
    assert to_utf8("a\ud83d") == b"a?"


@given(json_values)
def test_a_copy_shares_nothing_and_is_what_json_would_make_of_it(value: Any) -> None:
    assert json.dumps(copied(value)) == json.dumps(json_copy(value))
    value = {"items": [value, {"key": []}], "pair": (1, [2])}
    made = copied(value)
    made["items"][1]["key"].append("more")
    made["pair"].append("more")  # a list by now
    assert value["items"][1] == {"key": []}
    assert value["pair"] == (1, [2])
