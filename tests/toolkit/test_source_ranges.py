"""The ranges of a source that an edit replaces, so that other edits are merged beside them."""

from __future__ import annotations

import random

import pytest

from tests.kit.kinds import make


def replace_ranges(before: str, after: str) -> str:
    """Return `before` with its changed ranges replaced, as a page counts positions."""
    units = before.encode("utf-16-le")
    for start, end, text in reversed(make("source_change", before, after).list_ranges()):
        units = units[: start * 2] + text.encode("utf-16-le") + units[end * 2 :]
    return units.decode("utf-16-le")


@pytest.mark.req("CELL-17")
@pytest.mark.parametrize(
    ("before", "after", "ranges"),
    [
        ("a = 1\nsame\nb = 2\n", "a = 10\nsame\nb = 3\n", [(5, 5, "0"), (15, 16, "3")]),
        ("x😀 = 1\ny = 1", "x😀 = 2\ny = 1", [(6, 7, "2")]),
        ("😀", "😁", [(0, 2, "😁")]),
        ("one\ntwo\nthree", "one\nthree", [(4, 8, "")]),
        ("", "new", [(0, 0, "new")]),
        ("old", "", [(0, 3, "")]),
        ("same", "same", []),
    ],
)
def test_only_the_parts_that_differ_are_replaced(
    before: str, after: str, ranges: list[tuple[int, int, str]]
) -> None:
    assert [tuple(each) for each in make("source_change", before, after).list_ranges()] == ranges


@pytest.mark.req("CELL-17", "CELL-8")
def test_ranges_give_exactly_the_new_source() -> None:
    chance = random.Random(7)
    lines = ["", "a = 1", "b = 2", "a = 1 # 😀", "\r", "é = 3", "    return a"]
    for _ in range(500):
        before = "\n".join(chance.choices(lines, k=chance.randrange(9)))
        after = "\n".join(chance.choices(lines, k=chance.randrange(9)))
        assert replace_ranges(before, after) == after
