"""Repetitions at the start of a continued answer."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.models import model_event
from tests.kit.turn_bench import TurnBench


def text_events(*pieces: str) -> list[Any]:
    return [model_event("text", 0, "message", piece) for piece in pieces]


async def continue_answer(before: str, *pieces: str) -> str:
    """Return the text that an answer gets after `before`, where its token limit cut it."""
    first = [*text_events(before), model_event("flush", 0), model_event("finished", "max_tokens")]
    second = [*text_events(*pieces), model_event("flush", 0), model_event("finished")]
    bench = TurnBench([first, second], continues_answers=True)
    await bench.run()
    whole = "".join(entry.message or "" for entry in bench.of("chat_response"))
    assert whole.startswith(before)
    return whole.removeprefix(before)


WORDS = st.text("ab \n", min_size=1, max_size=30).filter(str.strip)


@given(WORDS, WORDS, st.integers(1, 5))
async def test_seam_removes_repeated_text_and_nothing_else(
    before: str, after: str, size: int
) -> None:
    pieces = [after[start : start + size] for start in range(0, len(after), size)]
    new = await continue_answer(before, *pieces)
    assert after.endswith(new)

    taken = after[: len(after) - len(new)]
    assert before.endswith(taken)
    assert not taken or (len(taken) >= 5 and taken.strip())


SEAMS = [
    ("and then he said", "he said no", " no"),
    ("and then he said", "then he said no", " no"),
    ("the end", "the end", ""),
    ("aaa", "aaa", "aaa"),
    ("x" * 1000 + "hello", "hello world", " world"),
    ("if a:\n        ", "        b()", "        b()"),
]


async def test_seam_removes_a_repeated_text_of_five_characters_and_more() -> None:
    for before, after, new in SEAMS:
        assert await continue_answer(before, after) == new
