"""Read the fields of a model in a server's list.

A field that is missing, invalid, or of another type is omitted, which means that the list does not
tell it: it is None, or empty. A long text is cut. The rest of the model is kept.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from jp_nb.storable_json import replace_surrogates

MAX_ID_CHARS: Final = 200
_MAX_WORD_CHARS: Final = 40
_MILLION: Final = 1_000_000


def read_model_text(value: JsonValue) -> str:
    """Return a text, without the characters beyond `MAX_ID_CHARS`; "" for another value."""
    return replace_surrogates(value[:MAX_ID_CHARS]) if isinstance(value, str) else ""


def read_model_word(value: JsonValue) -> str:
    """Return a text of one word, such as `Q4_K_M`, cut to its limit; "" for another value."""
    return read_model_text(value)[:_MAX_WORD_CHARS]


def read_model_words(value: JsonValue) -> set[str] | None:
    """Return the texts in a list; None for another value."""
    if not isinstance(value, list):
        return None
    return {word for word in value if isinstance(word, str)}


def read_model_flag(value: JsonValue) -> bool | None:
    """Return true or false; None for another value."""
    return value if isinstance(value, bool) else None


def read_model_number(value: JsonValue) -> float | None:
    """Return a finite number that JSON keeps exactly; None for another value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 2**53 and math.isfinite(value) else None


def read_model_count(*values: JsonValue) -> int | None:
    """Return the first positive number of the `values`; None if there is none."""
    numbers = (number for number in map(read_model_number, values) if number is not None)
    return next((int(number) for number in numbers if number >= 1), None)


def read_model_price(value: JsonValue) -> float | None:
    """Return the price of a million tokens, for a text with the price of one.

    A price that varies is negative there: it counts as unknown.
    """
    if not isinstance(value, str) or len(value) > _MAX_WORD_CHARS:
        return None
    try:
        price = round(float(value) * _MILLION, 6)
    except (OverflowError, ValueError):
        return None
    return price if math.isfinite(price) and price >= 0 else None


def _read_moment(value: JsonValue) -> datetime | None:
    """Return a date, a date with a time, or a Unix time; None for another value."""
    try:
        if (seconds := read_model_number(value)) is not None:
            return datetime.fromtimestamp(seconds, UTC)
        if isinstance(value, str) and len(value) <= _MAX_WORD_CHARS:
            moment = datetime.fromisoformat(value)
            return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (OverflowError, ValueError, OSError):  # such as the year 1, in some time zones
        pass
    return None


def read_model_timestamp(value: JsonValue) -> float | None:
    """Return a date or a time as Unix time; None for another value."""
    moment = _read_moment(value)
    return None if moment is None else moment.timestamp()


def read_model_day(value: JsonValue) -> str:
    """Return the day of a date or a time, such as `2026-11-23`; "" for another value."""
    moment = _read_moment(value)
    return "" if moment is None else moment.date().isoformat()
