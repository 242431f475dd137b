"""Cuts what is too long for a model in the middle: beginnings and ends say most."""

from __future__ import annotations

from typing import Final

MAX_RESULT_CHARS: Final = 50_000
"""What a model reads of one result, unless configured otherwise."""


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
    said = f"{len(text) - limit} of {len(text)} characters are left out here: {setting} is {limit}"
    return f"{text[:head]}\n\n[… {said} …]\n\n{text[len(text) - tail :]}"


def last_chars(text: str, limit: int) -> str:
    """Return the end of `text`: at most `limit` characters, and whole lines if there are any."""
    if len(text) <= limit:
        return text
    end = text[len(text) - limit :]
    return end.partition("\n")[2] or end
