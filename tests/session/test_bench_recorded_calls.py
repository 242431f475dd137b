"""Find a tool call by its id, or by the beginning of its id."""

from __future__ import annotations

import pytest

import jp_nb as jp
from jp_nb.record.turn_view import ToolCall
from jp_nb.session.bench import find_call

CALLS = [ToolCall(*each, {}) for each in [("a1", "x"), ("a12", "y"), ("b", "z"), ("b", "w")]]


def test_exact_id_precedes_a_prefix_and_the_last_call_wins(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[str, str]] = [("a1", "x"), ("a12", "y"), ("b", "w")]
    for wanted, name in rows:
        with subtests.test(wanted=wanted):
            assert find_call(CALLS, wanted).name == name


def test_unique_prefix_of_an_id_is_enough() -> None:
    assert find_call(CALLS[1:], "a").id == "a12"


def test_ambiguous_and_unknown_ids_are_errors() -> None:
    with pytest.raises(
        jp.UsageError, match=r"^several calls of x have an id that begins with a: a1,"
    ):
        find_call(CALLS, "a", about=" of x")
    with pytest.raises(
        jp.UsageError, match="no call in this conversation has an id that begins with"
    ):
        find_call(CALLS, "c")
    many = [ToolCall(f"id{n}", "x", {}) for n in range(15)]
    with pytest.raises(jp.UsageError, match=r"id9 and 5 more$"):
        find_call(many, "id")
