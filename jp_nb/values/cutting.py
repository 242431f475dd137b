"""Cut texts to a length, without their secrets, and remove addresses in memory.

Source: `docs/values.md`.
"""

from __future__ import annotations

import re
from typing import Final

from jp_nb.values.privacy import without_hidden

MAX_CLEANED: Final = 1_000_000
"""Characters of a text in which addresses are looked for; of a longer one both ends are kept."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+| id='?\d{5,}'?(?=[>), ])")
_HEX_AT_START = re.compile(r"[0-9a-fA-Fx]*")


def cut_middle(text: str, limit: int, expression: str = "") -> str:
    """Return `text` in at most `limit` characters: its beginning and its end, and what is cut.

    `expression` is one for the text, if it is a value: what is cut is a slice of it.
    """
    if len(text) <= limit or len(text := without_hidden(text)) <= limit:
        return text
    longest = len(_left_out(len(text), len(text), len(text), expression))
    room = limit - longest
    if room < 20:
        return cut_end(text, limit) if not expression else cut_middle(text, limit)
    head = room * 2 // 3
    tail = len(text) - (room - head)
    return f"{text[:head]}{_left_out(tail - head, head, tail, expression)}{text[tail:]}"


def _left_out(number: int, start: int, end: int, expression: str) -> str:
    where = f"; {expression}[{start}:{end}] has them" if expression else ""
    return f"\n… ({number:,} characters omitted{where}) …\n"


def cut_end(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters; a mark stands for what is cut at its end."""
    if len(text) <= limit or len(text := without_hidden(text)) <= limit:
        return text
    note = f"… (+{len(text) - limit:,})"
    room = limit - len(note) - 4
    if room < 8:
        return f"{text[: limit - 1]}…" if limit > 0 else ""
    return f"{text[:room]}… (+{len(text) - room:,})"


def in_one_line(text: str, limit: int) -> str:
    """Return `text` with its white space as single spaces, in at most `limit` characters."""
    if len(text) > limit:
        text = without_hidden(text)
    return cut_end(" ".join(text[: limit * 4 + 100].split()), limit)


def without_addresses(text: str) -> str:
    """Return what an object says of itself without where in memory it lies.

    Linear, and of a very long text only the ends: the rest is not shown anyway.
    """
    if len(text) > MAX_CLEANED:
        text = without_hidden(text)
        half = MAX_CLEANED // 2
        end = _HEX_AT_START.sub("", text[-half:], count=1)
        text = f"{text[:half]}\n… ({len(text) - MAX_CLEANED:,} characters omitted) …\n{end}"
    return _ADDRESS.sub("", text)


def count(number: int, word: str, many: str = "") -> str:
    """Return a number of things in words, such as `1,000 rows`."""
    return f"{number:,} {word if number == 1 else many or f'{word}s'}"
