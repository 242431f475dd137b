"""Cuts what is too long for a model in the middle: beginnings and ends say most."""

from __future__ import annotations

from typing import Final

MAX_RESULT_CHARS: Final = 50_000
"""What a model reads of one result, unless configured otherwise."""


TO_READ_ON: Final = (
    "If you need them, and a second call does no harm, call the tool again for a "
    "smaller part: a narrower query, a range, a page, or a limit, as its arguments "
    "allow."
)
"""Said to the model, of any tool."""


def cut_middle(text: str, limit: int, setting: str) -> str:
    """Return `limit` characters of `text` (0: all), and say how many are missing.

    Args:
        text: The result.
        limit: How many characters of it are kept.
        setting: The path that says so.
    """
    if not limit or len(text) <= limit:
        return text
    head, tail = limit - limit // 2, limit // 2
    said = f"{len(text) - limit} of {len(text)} characters are omitted here. {TO_READ_ON}"
    told = f"[… {said} (The user can change the limit: {setting} is {limit}.) …]"
    return f"{text[:head]}\n\n{told}\n\n{text[len(text) - tail :]}"


def last_chars(text: str, limit: int) -> str:
    """Return the end of `text`: at most `limit` characters, and whole lines if there are any."""
    if len(text) <= limit:
        return text
    end = text[len(text) - limit :]
    return end.partition("\n")[2] or end
