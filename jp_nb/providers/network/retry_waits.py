"""Read the time that a server asks a client to wait before the next request.

Servers tell it in the header `retry-after`, in headers about rate limits, or in the text of an
error, such as `try again in 1m30s`. Any text can be in these places, so a wait that is not valid,
or longer than 30 days, counts as none.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

MAX_RETRY_WAIT_S: Final = 30 * 86400.0
"""Maximum wait that a server may ask for. Longer waits are ignored."""

_UNITS: Final[Mapping[str, float]] = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
"""Seconds in a unit."""
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[dhms])?", re.IGNORECASE)
_NUMBER: Final = r"\d+(?:\.\d+)?"
_HINT: Final = re.compile(
    rf"""(?:retry[-_ ]?after|retry\ in|try\ again\ in|wait(?:\ for)?|"retryDelay")
        [\s:"=]*(?:about\s+)?
        ( (?:{_NUMBER}\s*(?:ms|[dhms])(?![a-z]))+ | {_NUMBER} )
        \s*(seconds?|minutes?|hours?|milliseconds?)?""",
    re.IGNORECASE | re.VERBOSE,
)
"""A wait in the text of an error: its amount, such as `1m30s` or `12`, and a word for the unit."""
_UNIT_PREFIXES: Final[Mapping[str, str]] = {"mil": "ms", "sec": "s", "min": "m", "hou": "h"}
"""The unit for the first three letters of a word, such as `minutes`."""


def parse_retry_after(
    headers: Mapping[str, str], body: str = "", *, now: float | None = None
) -> float | None:
    """Return the seconds that the server asks to wait; None if it does not ask.

    Sources in order of precedence: `retry-after`, rate limit headers, the text of the body. `now`
    is the Unix time for headers with a date; None for the current time.
    """
    current_time = time.time() if now is None else now
    candidates = (
        parse_explicit_wait(headers, current_time),
        _parse_standard_limit(headers),
        _parse_openai_resets(headers),
        _parse_reset_time(headers, current_time),
    )
    for seconds in candidates:
        if seconds is not None and 0 < seconds <= MAX_RETRY_WAIT_S:
            return seconds

    return find_wait(body)


def _parse_standard_limit(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in a header such as `ratelimit: limit=10, remaining=0, reset=30`."""
    reset = re.search(rf"\b(?:t|reset)\s*=\s*({_NUMBER})", headers.get("ratelimit", ""))
    return float(reset[1]) if reset else None


def _parse_openai_resets(headers: Mapping[str, str]) -> float | None:
    """Return the longer time of `x-ratelimit-reset-requests` and `x-ratelimit-reset-tokens`."""
    resets = [
        parse_duration(headers.get(f"x-ratelimit-reset-{unit}", ""))
        for unit in ("requests", "tokens")
    ]
    return max((seconds for seconds in resets if seconds), default=None)


def _parse_reset_time(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until the Unix time in `x-ratelimit-reset`."""
    reset_time = _parse_number(headers.get("x-ratelimit-reset", ""))
    if reset_time is None:
        return None

    if reset_time > 1e11:
        reset_time /= 1000  # OpenRouter sends milliseconds
    return reset_time - now


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration, such as `6m0s`, `200ms` or `12.5`, or None."""
    compact = text.strip().lower()
    if not compact or _DURATION.sub("", compact).strip():
        return None
    return sum(float(number) * _UNITS[unit or "s"] for number, unit in _DURATION.findall(compact))


def parse_explicit_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds in `retry-after-ms` or `retry-after`, or None.

    `now` is the Unix time, for a `retry-after` with a date.
    """
    milliseconds = _parse_positive(headers.get("retry-after-ms", ""))
    if milliseconds is not None and milliseconds <= MAX_RETRY_WAIT_S * 1000:
        return milliseconds / 1000

    text = headers.get("retry-after", "").strip()
    seconds = _parse_positive(text)
    if seconds is not None:
        return seconds if seconds <= MAX_RETRY_WAIT_S else None

    try:
        wait = parsedate_to_datetime(text).timestamp() - now
    except (ValueError, TypeError, LookupError, ArithmeticError, OSError):  # any text of a server
        return None

    return wait if 0 < wait <= MAX_RETRY_WAIT_S else None


def find_wait(text: str) -> float | None:
    """Return the seconds that the `text` of an error asks to wait, rounded up, or None."""
    match = _HINT.search(text)
    if match is None:
        return None

    amount = match[1]  # such as `1m30s`, or a number, which a word such as `minutes` may follow
    unit_word = match[2]
    unit = _UNIT_PREFIXES[unit_word[:3].lower()] if unit_word else ""
    seconds = parse_duration(amount + unit)
    return float(math.ceil(seconds)) if seconds and seconds <= MAX_RETRY_WAIT_S else None


def _parse_positive(text: str) -> float | None:
    """Return a number greater than 0, or None."""
    value = _parse_number(text)
    return value if value is not None and value > 0 else None


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
