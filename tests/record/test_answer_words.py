"""Answers in words: by label, for every shape a record may hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.record.answer_words import answer_in_words

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
def test_an_answer_is_said_by_the_label_that_was_seen(subtests: pytest.Subtests) -> None:
    for kind, answer, words in [
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
    ]:
        with subtests.test(kind=kind):
            assert answer_in_words(kind, answer) == words


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON, JSON)
def test_there_are_words_for_any_json(kind: Any, answer: Any) -> None:
    assert answer_in_words(kind, answer)


def test_deep_answers_and_forms_come_to_an_end() -> None:
    deep: Any = 1
    form: Any = {"type": "form"}
    for _ in range(90):
        deep = {"a": deep}
        form = {"type": "form", "fields": [{"id": "a", "answer_type": form}]}
    assert '{"a":' in answer_in_words(form, deep)
