"""JSON: bounds for reading, canonical and other forms, storable values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb import json_reading, json_values, storable_json
from tests.kit.texts import write_text
from tests.support import record_strategies

MAX_INDENTED_LEVELS = 16
MAX_STORED_LEVELS = 100


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


# --- reading ---------------------------------------------------------------------------------


@given(record_strategies.json_values)
def test_written_json_is_read(value: Any) -> None:
    assert json_reading.read_json(json.dumps(value)) == value


def test_json_that_a_record_cannot_store_is_not_read(subtests: pytest.Subtests) -> None:
    for text, message in [
        ("NaN", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity is not a JSON number"),
        ("1e999", "the number 1e999 is too large"),
        ("[" * 101 + "]" * 101, "nested too deeply: more than 100 levels"),
        ("[" * 100_000, "nested too deeply: more than 100 levels"),
        ("{", "Expecting"),
    ]:
        with subtests.test(text=text[:20]), pytest.raises(ValueError, match=message):
            json_reading.read_json(text)


def test_levels_are_counted_from_the_outermost() -> None:
    assert json_reading.read_json("1", max_levels=0) == 1
    for levels in (1, 2, 500):
        text = json.dumps(nested(levels))
        assert json_reading.read_json(text, max_levels=levels) == nested(levels)
        with pytest.raises(ValueError, match=f"more than {levels - 1} levels"):
            json_reading.read_json(text, max_levels=levels - 1)
    assert json_reading.read_json("[" * 5 + "]" * 5, max_levels=5) == [[[[[]]]]]
    with pytest.raises(ValueError, match="more than 4 levels"):
        json_reading.read_json("[" * 5 + "]" * 5, max_levels=4)


def test_infinite_numbers_and_deep_values_are_not_storable() -> None:
    rows: list[Any] = [float("nan"), [float("inf")], nested(MAX_STORED_LEVELS + 1)]
    assert not any(storable_json.is_storable(row) for row in rows)
    assert storable_json.is_storable(nested(MAX_STORED_LEVELS))


@given(record_strategies.json_values)
def test_any_other_json_is_storable(value: Any) -> None:
    assert storable_json.is_storable(value)


# --- writing ---------------------------------------------------------------------------------


def test_canonical_form_of_equal_values_is_the_same(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, Any]] = [
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
    ]
    for ours, theirs in rows:
        with subtests.test(ours=ours):
            assert write_text("canonical_json", ours) == write_text("canonical_json", theirs)


def test_canonical_forms_of_different_values_differ(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, Any]] = [
        (1, True),
        (0, False),
        (0, None),
        (1, "1"),
        ("a", "A"),
        ("é", "e\u0301"),  # no Unicode normalization
        ("\n", "\\n"),
        ({}, []),
        ({"a": None}, {}),
        ([1, 2], [2, 1]),
        ([[1], 2], [[1, 2]]),
        (2**53, 2**53 + 2),
        (0.1 + 0.2, 0.3),
    ]
    for one, other in rows:
        with subtests.test(one=one):
            assert write_text("canonical_json", one) != write_text("canonical_json", other)


@given(record_strategies.json_values)
def test_canonical_form_is_one_line_of_ascii(value: Any) -> None:
    text = write_text("canonical_json", value)
    assert text.isascii()
    assert "\n" not in text
    assert write_text("canonical_json", json.loads(text)) == text


def test_sorted_json_distinguishes_numbers_and_ignores_key_order() -> None:
    assert write_text("sorted_json", {"b": "ä", "a": [1]}) == '{"a":[1],"b":"ä"}'
    assert write_text("sorted_json", 1) != write_text("sorted_json", 1.0)


def test_deep_json_is_not_indented() -> None:
    assert write_text("indented_json", {"a": [1]}) == json.dumps({"a": [1]}, indent=2)
    assert "\n" in write_text("indented_json", nested(MAX_INDENTED_LEVELS))
    assert "\n" not in write_text("indented_json", nested(MAX_INDENTED_LEVELS + 1))


# --- storing and sending ---------------------------------------------------------------------


def test_storable_replaces_only_the_parts_that_a_file_cannot_hold() -> None:
    rows: list[tuple[Any, Any]] = [
        ({"a": float("inf")}, {"a": None}),
        ([float("nan"), 1.5], [None, 1.5]),
        ("\ud83d\ude00", "😀"),
        ("a\ud83d", "a\ufffd"),
        ({"\udc00": 1}, {"\ufffd": 1}),
    ]
    for given_value, expected in rows:
        assert storable_json.make_storable(given_value) == expected
    value: Any = {"a": [1, "ä😀", None, 1e300]}
    assert storable_json.make_storable(value) is value


@given(st.text(st.characters()))
def test_any_text_can_be_encoded(text: str) -> None:
    whole = write_text("storable", text)
    whole.encode()
    assert write_text("storable", whole) == whole
    assert len(storable_json.encode_utf8(text).decode()) == len(text)
    assert storable_json.encode_utf8("a\ud83d") == b"a?"


@given(record_strategies.json_values)
def test_copy_shares_nothing_and_equals_a_json_copy(value: Any) -> None:
    assert json.dumps(json_values.copy_json(value)) == json.dumps(
        json_values.copy_nested_json(value)
    )
    value = {"items": [value, {"key": []}], "pair": (1, [2])}
    made = json_values.copy_json(value)
    made["items"][1]["key"].append("more")
    made["pair"].append("more")  # a list by now
    assert value["items"][1] == {"key": []}
    assert value["pair"] == (1, [2])
