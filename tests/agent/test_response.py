"""Repetitions at the start of a continued answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jp_nb.agent.response import OverlapTrimmer


@given(st.text("ab \n", max_size=30), st.text("ab \n", max_size=30), st.integers(1, 5))
def test_seam_removes_repeated_text_and_nothing_else(before: str, after: str, size: int) -> None:
    seam = OverlapTrimmer(before)
    pieces = [after[start : start + size] for start in range(0, len(after), size)]
    new = "".join([*(seam.feed(piece) for piece in pieces), seam.rest()])
    assert after.endswith(new)
    taken = after[: len(after) - len(new)]
    assert before.endswith(taken)
    assert not taken or (len(taken) >= OverlapTrimmer.MIN_OVERLAP_CHARS and taken.strip())


SEAMS = [
    ("and then he said", "he said no", " no"),
    ("and then he said", "then he said no", " no"),
    ("the end", "the end", ""),
    ("aaa", "aaa", "aaa"),
    ("x" * 1000 + "hello", "hello world", " world"),
    ("if a:\n        ", "        b()", "        b()"),
]


def test_seam_removes_a_repeated_text_of_five_characters_and_more() -> None:
    for before, after, new in SEAMS:
        seam = OverlapTrimmer(before)
        assert seam.feed(after) + seam.rest() == new
