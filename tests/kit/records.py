"""Stored conversations from plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.kit import _words


def new_event(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return an event of a record: `new_event("chat_request", content="Hi.")`. The kinds and fields
    are the stored ones.
    """
    return _words.find(_words.RECORD_EVENTS, kind)(*values, **fields)


def parse_event(stored: Mapping[str, Any]) -> Any:
    """Return the event of a record whose stored form is the JSON object `stored`."""
    return _words.find(_words.RECORD_EVENTS, stored["type"]).model_validate(stored)
