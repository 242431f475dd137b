"""Stored conversations from plain data."""

from __future__ import annotations

from typing import Any

from jp_nb.record.entries.event_decoding import decode_event
from tests.kit import _words


def new_event(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return an event of a record: `new_event("chat_request", content="Hi.")`. The kinds and fields
    are the stored ones.
    """
    return _words.find(_words.RECORD_EVENTS, kind)(*values, **fields)


def parse_event(stored: Any, index: int = 0) -> Any:
    """Return the event of a record whose stored form is the JSON value `stored`.

    A malformed event is a `jp.StorageError` with its place: `events[index]`, and the path in it.
    """
    return decode_event(stored, index)
