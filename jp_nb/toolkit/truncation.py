"""Truncate results of tools, with a note for the model in place of the omitted part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_RESULT_CHARS: Final = 50_000
"""Default limit for the characters of one result that the model reads."""
READ_REST_HINT: Final = (
    "If you need them, and a second call does no harm, call the tool again for a "
    "smaller part. Use the arguments that it has: a narrower query, a range, a page, or a limit."
)
"""Advice to the model in the note about omitted characters."""


def truncate_middle(text: str, limit: int, setting: str) -> str:
    """Return the beginning and the end of `text`, with a note to the model in place of its middle.

    Both parts together have `limit` characters. The note comes on top of them. A shorter text is
    returned as it is, and so is any text if `limit` is 0.

    Args:
        text: The result of a tool.
        limit: Maximum number of characters; 0 for no limit.
        setting: Path of the setting with the limit, which the note names.
    """
    if not limit or len(text) <= limit:
        return text

    head = limit - limit // 2
    tail = limit // 2
    omitted = f"{len(text) - limit} of {len(text)} characters are omitted here. {READ_REST_HINT}"
    note = f"[… {omitted} (The user can change the limit: {setting} is {limit}.) …]"
    return f"{text[:head]}\n\n{note}\n\n{text[len(text) - tail :]}"


def join_lines(lines: Iterable[str], max_chars: int) -> str:
    """Return `lines` in one text, with a note in place of the lines beyond `max_chars`."""
    kept: list[str] = []
    omitted = 0
    for line in lines:
        max_chars -= len(line) + 1
        if max_chars >= 0:
            kept.append(line)
        else:
            omitted += 1

    if omitted:
        kept.append(f"[… {omitted:,} more lines are omitted here …]")
    return "\n".join(kept)


def keep_end(text: str, limit: int) -> str:
    """Return the last `limit` characters of `text`, without a partial first line if possible."""
    if len(text) <= limit:
        return text
    end = text[len(text) - limit :]
    return end.partition("\n")[2] or end
