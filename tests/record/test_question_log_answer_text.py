"""Answers as text: by label, for every shape that a record may hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.kit.record_view import RecordView
from tests.support.record_strategies import json_values

SIZES = {
    "type": "select",
    "options": [{"value": 1, "label": "small"}, {"value": True, "label": "any"}, {"value": "xl"}],
}
TRIP = {
    "type": "form",
    "fields": [
        {"id": "to", "text": "Where to", "answer_type": {"type": "text"}},
        {"id": "size", "text": "Size?", "answer_type": SIZES},
    ],
}


@pytest.mark.req("RCP-37")
def test_answer_text_uses_the_label_of_an_option(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, Any, str]] = [
        ({"type": "boolean"}, True, "Yes"),
        ({"type": "boolean"}, False, "No"),
        ({"type": "text"}, "two\n lines ", "two\n lines "),
        ({"type": "text"}, " ", "(empty)"),
        ({"type": "number"}, 2.5, "2.5"),
        ({"type": "integer"}, 0, "0"),
        (SIZES, 1, "small"),
        (SIZES, True, "any"),
        (SIZES, "xl", "xl"),
        (SIZES, ["xl", 1], "xl, small"),
        (SIZES, [], "none of these"),
        (SIZES, {"selected": [1, "xl"], "custom": "wide"}, 'small, xl, "wide"'),
        (SIZES, {"selected": None, "custom": "wide"}, '"wide"'),
        (SIZES, {"selected": [], "custom": ""}, '""'),
        (SIZES, {"selected": []}, "none of these"),
        (TRIP, {"size": 1, "to": "Delft"}, "Size?: small; Where to: Delft"),
        (TRIP, {"selected": "x"}, "selected: x"),
        (None, "as it is", "as it is"),
        ("nonsense", {"a": [1]}, "a: 1"),
        ({"type": "select", "options": ["A", {"value": "B", "label": " "}]}, ["A", "B"], "A, B"),
        ({"type": "select", "options": 7}, None, "(empty)"),
    ]
    for kind, answer, words in rows:
        with subtests.test(kind=kind, answer=answer):
            assert RecordView.answer_text(kind, answer) == words


@given(json_values, json_values)
def test_any_json_has_a_text(kind: Any, answer: Any) -> None:
    assert RecordView.answer_text(kind, answer)


def test_nested_answers_and_forms_are_bounded() -> None:
    deep: Any = 1
    form: Any = {"type": "form"}
    for _ in range(90):
        deep = {"a": deep}
        form = {"type": "form", "fields": [{"id": "a", "answer_type": form}]}
    assert '{"a":' in RecordView.answer_text(form, deep)
