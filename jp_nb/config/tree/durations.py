"""Durations as people write them: `90s`, `5m`, `1h 30m`, `2 days`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final[dict[str, int]] = {
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}
"""Milliseconds of the units that are written, the longest first."""

_SPELLINGS: Final[dict[str, str]] = {
    **{unit: unit for unit in _UNITS},
    **dict.fromkeys(("week", "weeks"), "w"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "millis"), "ms"),
}
_PART = re.compile(r"\s*([0-9]{1,12})\s*([a-z]+)\s*")


def milliseconds(text: str) -> int | None:
    """How long `text` is; None if it is no duration."""
    place, total = 0, 0
    while part := _PART.match(text, place):
        unit = _SPELLINGS.get(part[2])
        if unit is None:
            return None
        total += int(part[1]) * _UNITS[unit]
        place = part.end()
    return total if text and place == len(text) else None


def seconds(text: str) -> float | None:
    """How long `text` is; None if it is no duration."""
    found = milliseconds(text)
    return None if found is None else found / 1000


def canonical(text: str) -> str | None:
    """`text` in its one written form, such as `1h30m`; None if it is no duration."""
    rest = milliseconds(text)
    if rest is None:
        return None
    parts = []
    for unit, size in _UNITS.items():
        if rest >= size:
            parts.append(f"{rest // size}{unit}")
            rest %= size
    return "".join(parts) or "0s"
