"""Times and ids in the form that JP writes. Pure: the clock is the caller's.

Source: `spec/conversation-stream.md` sections 1 and 3.3.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the current time, aware of its zone."""


def utc_now() -> datetime:
    """The system's clock: what the edges hand to the core."""
    return datetime.now(UTC)


def format_timestamp(moment: datetime) -> str:
    """`2026-03-18 13:19:06.841464`: UTC, trailing zeros trimmed, at least `.0`."""
    utc = moment.astimezone(UTC)
    fraction = f"{utc.microsecond:06d}".rstrip("0") or "0"
    return f"{utc:%Y-%m-%d %H:%M:%S}.{fraction}"


def conversation_id(moment: datetime) -> str:
    """`jp-c` and the tenths of a second since 1970, as JP names a conversation."""
    return f"jp-c{int(moment.timestamp() * 10)}"
