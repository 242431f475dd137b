"""Conversations with a turn at each full hour, and their compactions."""

from __future__ import annotations

from typing import Any

from tests.kit.records import new_event
from tests.support.entries import ASKED, SAID, START, new_stream


def at(entry: dict[str, Any], hour: int) -> dict[str, Any]:
    return {**entry, "timestamp": f"2026-06-01 {hour:02}:00:00.0"}


def turns(count: int) -> Any:
    """Return a conversation with a turn at each full hour, from 10 on."""
    entries = [at(each, 10 + turn) for turn in range(count) for each in (START, ASKED, SAID)]
    return new_stream(*entries)


def summarized(first: int, last: int, text: str = "S") -> Any:
    return new_event("compaction", from_turn=first, to_turn=last, summary={"summary": text})


def reverted(first: int, last: int) -> Any:
    """Return the entry that reverts the newest compaction of these turns."""
    metadata = {"takes_back": True}
    return new_event("compaction", from_turn=first, to_turn=last, metadata=metadata)
