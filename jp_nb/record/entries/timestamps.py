"""Timestamps as text: written in JP's form or in that of RFC 3339, and read from any record.

Source: `docs/record.md`, https://www.rfc-editor.org/rfc/rfc3339.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import JsonValue

_STORED = re.compile(
    r"(\d{4}-\d\d-\d\d)[ Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))?", re.ASCII
)
_WITH_OFFSET: Final = re.compile(
    r"\d{4}-\d\d-\d\d[ Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def format_timestamp(moment: datetime) -> str:
    """Return a time in UTC, such as `2026-03-18 13:19:06.841464`.

    Trailing zeros are omitted, except for one after the point.
    """
    whole = moment.astimezone(UTC).isoformat(" ", "microseconds")
    text = whole[: len("2026-03-18 13:19:06.841464")].rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def parse_timestamp(text: str) -> datetime | None:
    """Return the time of a stored timestamp in UTC, or None if it is invalid.

    JP's timestamps have no zone and are in UTC. RFC 3339 is accepted too. The value has no digits
    below a microsecond, so to store the time again, store the original text.
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


def format_rfc3339(moment: datetime) -> str:
    """Return a time such as `2026-03-18T13:19:06.841464Z`."""
    return f"{format_timestamp(moment).replace(' ', 'T')}Z"


def parse_rfc3339(text: JsonValue) -> datetime | None:
    """Return the time of `text`, or None if it is invalid or has no offset from UTC."""
    if not isinstance(text, str) or not _WITH_OFFSET.fullmatch(text):
        return None
    return parse_timestamp(text)
