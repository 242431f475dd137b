"""Times and ids in the form that JP writes. Pure: the clock is the caller's.

Source: `docs/record.md`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]
"""Returns the current time, aware of its zone."""

_STORED = re.compile(
    r"(\d{4}-\d\d-\d\d)[ Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))?", re.ASCII
)


def utc_now() -> datetime:
    """Return the system's clock: what the edges hand to the core."""
    return datetime.now(UTC)


def format_timestamp(moment: datetime) -> str:
    """Return `2026-03-18 13:19:06.841464`: UTC, trailing zeros trimmed, at least `.0`."""
    whole = moment.astimezone(UTC).isoformat(" ", "microseconds")
    text = whole[: len("2026-03-18 13:19:06.841464")].rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def parse_timestamp(text: str) -> datetime | None:
    """Return the moment that a stored `text` names, in UTC; None if it names none.

    Reads JP's form, which has no zone and means UTC, and RFC 3339. Digits below a microsecond are
    cut off, so what is stored again is the text and never this value.
    """
    match = _STORED.fullmatch(text)
    if match is None:
        return None
    day, time, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day} {time}").replace(tzinfo=UTC)
        moment += timedelta(microseconds=int((fraction or "0")[:6].ljust(6, "0")))
        if sign is None:
            return moment
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return moment - offset if sign == "+" else moment + offset
    except (ValueError, OverflowError):
        return None


def conversation_id(moment: datetime) -> str:
    """Return `jp-c` and the tenths of a second since 1970, as JP names a conversation."""
    return f"jp-c{int(moment.timestamp() * 10)}"


def new_conversation_id(moment: datetime, not_ids: Iterable[str]) -> str:
    """Return the first such id from `moment` on that is not taken."""
    taken = set(not_ids)
    found = conversation_id(moment)
    while found in taken:
        found = f"jp-c{int(found.removeprefix('jp-c')) + 1}"
    return found
