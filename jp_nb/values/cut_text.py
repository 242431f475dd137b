"""Shorten texts of descriptions, and remove memory addresses from them.

Secrets are hidden before a text is cut, because only a complete secret is recognized.
`without_hidden` returns a text without the secrets in it (`privacy.py`). The notes about omitted
parts have a number and a noun (`format_quantity`).

Source: `docs/values.md`.
"""

from __future__ import annotations

import re
from typing import Final

from jp_nb.values.privacy import without_hidden

MAX_CLEANED: Final = 1_000_000
"""Limit for a text from which addresses are removed. The middle of a longer text is omitted."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+| id='?\d{5,}'?(?=[>), ])")
_HEX_AT_START = re.compile(r"[0-9a-fA-Fx]*")
"""The rest of an address at the beginning of a text, whose first part was cut off."""


def cut_middle(text: str, limit: int, expression: str = "") -> str:
    """Return `text` with a note in place of its middle, in at most `limit` characters.

    With `expression`, which evaluates to `text`, the note shows the slice for the omitted part.
    """
    if len(text) <= limit:
        return text
    text = without_hidden(text)  # may be shorter
    if len(text) <= limit:
        return text

    # The numbers of the real note are not larger.
    longest = len(_format_omission(len(text), len(text), len(text), expression))
    room = limit - longest

    # Too little for a beginning and an end: without the expression, then without the end.
    if room < 20:
        return cut_middle(text, limit) if expression else cut_end(text, limit)

    head = room * 2 // 3
    tail = len(text) - (room - head)
    return f"{text[:head]}{_format_omission(tail - head, head, tail, expression)}{text[tail:]}"


def _format_omission(number: int, start: int, end: int, expression: str) -> str:
    where = f"; {expression}[{start}:{end}] has them" if expression else ""
    return f"\n… ({number:,} characters omitted{where}) …\n"


def cut_end(text: str, limit: int) -> str:
    """Return `text` with a note in place of its end, in at most `limit` characters."""
    if len(text) <= limit:
        return text
    text = without_hidden(text)  # may be shorter
    if len(text) <= limit:
        return text

    # Shorter text means a larger number in the note, perhaps with one more digit: 4 characters are
    # kept for that.
    note = f"… (+{len(text) - limit:,})"
    room = limit - len(note) - 4
    if room < 8:
        return f"{text[: limit - 1]}…" if limit > 0 else ""
    return f"{text[:room]}… (+{len(text) - room:,})"


def to_one_line(text: str, limit: int) -> str:
    """Return `text` with single spaces in place of white space, in at most `limit` characters."""
    if len(text) > limit:
        text = without_hidden(text)
    # Of a long text, only a beginning is divided into words. It is too short for the line only if
    # most of it is white space.
    return cut_end(" ".join(text[: limit * 4 + 100].split()), limit)


def without_addresses(text: str) -> str:
    """Return the `repr` of an object without memory addresses. A very long text is truncated."""
    if len(text) > MAX_CLEANED:
        text = without_hidden(text)
        half = MAX_CLEANED // 2
        end = _HEX_AT_START.sub("", text[-half:], count=1)
        text = f"{text[:half]}\n… ({len(text) - MAX_CLEANED:,} characters omitted) …\n{end}"
    return _ADDRESS.sub("", text)


def format_quantity(number: int, word: str, many: str = "") -> str:
    """Return number and noun, such as `1,000 rows`."""
    if number != 1:
        word = many or f"{word}s"
    return f"{number:,} {word}"
