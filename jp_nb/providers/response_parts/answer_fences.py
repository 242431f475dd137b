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
_OPENING: Final = re.compile(r"(?:`{3,}|~{3,})[ \t]*(?:[A-Za-z][\w+.-]*)?\s*")
_CLOSING: Final = re.compile(r"\s*(?:`{3,}[ \t]*|~{3,}[ \t]*|\Z)")
_DECODER: Final = json.JSONDecoder()


class FencedAnswer(NamedTuple):
    """The JSON in a code fence, and the text around the fence."""

    before: str
    json: str
    after: str


def find_fence(text: str) -> int:
    """Return the position from which `text` may contain a code fence; its length if none.

    The rest of a mark may follow at the end of `text`.
    """
    found = [place for place in map(text.find, FENCE_MARKS) if place >= 0]
    if found:
        return min(found)
    rest = len(text)
    while rest and len(text) - rest < 2 and text[rest - 1] in "`~":
        rest -= 1
    return rest


def find_fenced_answer(text: str, first_chars: str) -> FencedAnswer | None:
    """Return the only JSON value in a code fence of `text` that begins with one of `first_chars`.

    None if there is none. Several are ambiguous, unless they are equal: then the last one counts.
    """
    found = list(_find_values(text, first_chars))
    texts = {each.json for each in found}
    return found[-1] if len(texts) == 1 else None


def _find_values(text: str, first_chars: str) -> Iterator[FencedAnswer]:
    place = 0
    for _ in range(MAX_FENCES):
        opening = _OPENING.search(text, place)
        if opening is None:
            return

        start = opening.end()
        place = start
        end = _find_end_of_value(text, start, first_chars)
        closing = None if end is None else _CLOSING.match(text, end)
        if end is not None and closing is not None:
            place = closing.end()
            yield FencedAnswer(text[: opening.start()], text[start:end], text[place:])


def _find_end_of_value(text: str, start: int, first_chars: str) -> int | None:
    if not text.startswith(tuple(first_chars), start):
        return None
    try:
        return _DECODER.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None
