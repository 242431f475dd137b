"""The `jp` object of a notebook as a session has it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue

from jp_nb.record.document import Document


def open_document(
    stored: JsonValue = None, *, clock: Callable[[], datetime] | None = None, **options: Any
) -> Any:
    """Return the document of the `jp` object `stored`, or a new one with these `options`."""
    if clock is None:
        clock = _now
    if stored is None:
        return Document.new(clock=clock, **{"made": "live", **options})
    return Document.load(stored, clock=clock, **options)


def _now() -> datetime:
    return datetime.now(UTC)
