"""The events that a turn shows to the user."""

from __future__ import annotations

from typing import Any

from tests.kit import _words


def display_event(kind: str, /, *values: Any, **fields: Any) -> Any:
    """Return an event of the display: `display_event("notice", "Nothing was sent.")`."""
    return _words.find(_words.DISPLAY_EVENTS, kind)(*values, **fields)
