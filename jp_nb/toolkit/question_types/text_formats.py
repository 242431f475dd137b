"""Formats of a text answer, such as `email` or `date`, and their checks.

The names are those of JSON Schema. The checks run in linear time.

Source: https://json-schema.org/understanding-json-schema/reference/type#built-in-formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime, time
from typing import Final, Literal
from urllib.parse import urlsplit

TextFormat = Literal["email", "uri", "date", "time", "date-time"]
# No part of this pattern matches the text of another part, so it does not backtrack.
_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@.]+(?:\.[^\s@.]+)*")
_DATE: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = r"\d\d:\d\d(:\d\d([.,]\d{1,6})?)?(Z|[+-]\d\d:\d\d)?"


def has_format(text: str, name: TextFormat) -> bool:
    """Return True if `text` has the format `name`."""
    if len(text) > 4000:  # longer texts have none of the formats
        return False
    match name:
        case "email":
            return text.isprintable() and _EMAIL.fullmatch(text) is not None
        case "uri":
            return _is_uri(text)

    pattern, parse = _DATE_FORMATS[name]
    if pattern.fullmatch(text) is not None:
        with suppress(ValueError):
            parse(text)
            return True
    return False


def _is_uri(text: str) -> bool:
    if not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path))


_DATE_FORMATS: Final[Mapping[str, tuple[re.Pattern[str], Callable[[str], object]]]] = {
    "date": (re.compile(_DATE, re.ASCII), date.fromisoformat),
    "time": (re.compile(_TIME, re.ASCII), time.fromisoformat),
    "date-time": (re.compile(f"{_DATE}[Tt ]{_TIME}", re.ASCII), datetime.fromisoformat),
}
