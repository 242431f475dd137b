"""Find the JSON of a structured answer in a code fence.

A server that does not enforce the schema may return the answer as Markdown: in a code fence, with
text before or after it.

Source: `docs/providers.md`, https://spec.commonmark.org/0.31.2/#fenced-code-blocks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MAX_FENCES: Final = 50
"""Maximum number of code fences of an answer that are read."""
FENCE_MARKS: Final = ("```", "~~~")
_MARK_CHARS: Final = 3
_OPENING: Final = re.compile(r"(?:`{3,}|~{3,})[ \t]*(?:[A-Za-z][\w+.-]*)?\s*")
_CLOSING: Final = re.compile(r"\s*(?:`{3,}[ \t]*|~{3,}[ \t]*|\Z)")
_DECODER: Final = json.JSONDecoder()


class FencedAnswer(NamedTuple):
    """The JSON in a code fence, and the text around the fence."""

    before: str
    json: str
    after: str


def measure_before_fence(text: str) -> int:
    """Return how many characters of the streamed `text` are surely before a code fence.

    One or two characters at its end, such as ` `` `, may be the beginning of a mark, so they do not
    count.
    """
    starts = [start for start in map(text.find, FENCE_MARKS) if start >= 0]
    if starts:
        return min(starts)

    max_partial = _MARK_CHARS - 1
    end = len(text)
    while end and len(text) - end < max_partial and text[end - 1] in "`~":
        end -= 1
    return end


def find_fenced_answer(text: str, first_chars: str) -> FencedAnswer | None:
    """Return the only JSON value in a code fence of `text` that begins with one of `first_chars`.

    None if there is none. Several are ambiguous, unless they are equal: then the last one counts.
    """
    answers = list(_iter_fenced_values(text, first_chars))
    texts = {answer.json for answer in answers}
    return answers[-1] if len(texts) == 1 else None


def _iter_fenced_values(text: str, first_chars: str) -> Iterator[FencedAnswer]:
    """Yield the JSON values that fill a code fence. The end of `text` closes the last fence."""
    position = 0
    for _ in range(MAX_FENCES):
        opening = _OPENING.search(text, position)
        if opening is None:
            return

        # A fence without such a value does not end the search. Its closing mark then counts as an
        # opening one. Text usually follows it, not a value.
        start = opening.end()
        position = start
        end = _find_end_of_value(text, start, first_chars)
        closing = None if end is None else _CLOSING.match(text, end)
        if end is not None and closing is not None:
            position = closing.end()
            yield FencedAnswer(text[: opening.start()], text[start:end], text[position:])


def _find_end_of_value(text: str, start: int, first_chars: str) -> int | None:
    """Return the end of the JSON value at `start`; None if there is no such value."""
    if not text.startswith(tuple(first_chars), start):
        return None
    try:
        return _DECODER.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None
