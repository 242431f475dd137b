"""The formats that a typed text may have to have.

Source: https://json-schema.org/understanding-json-schema/reference/type#built-in-formats
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Final, Literal
from urllib.parse import urlsplit

TextFormat = Literal["email", "uri", "date", "time", "date-time"]

_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@.]+(?:\.[^\s@.]+)*")  # no part can match another's text
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(r"\d\d:\d\d(:\d\d([.,]\d{1,6})?)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_LONGEST: Final = 4000
"""Characters of a text that is looked at: none of these is longer."""


def _is_email(text: str) -> bool:
    return text.isprintable() and _EMAIL.fullmatch(text) is not None


def _is_uri(text: str) -> bool:
    if not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path))


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _parses(date.fromisoformat, text)


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and _parses(time.fromisoformat, text)


def _is_date_time(text: str) -> bool:
    day, between, hour = text[:10], text[10:11], text[11:]
    fits = between in ("T", "t", " ") and _is_date(day) and _TIME.fullmatch(hour) is not None
    return fits and _parses(datetime.fromisoformat, text)


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _bounded(check: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: len(text) <= _LONGEST and check(text)


FORMATS: Final[Mapping[TextFormat, Callable[[str], bool]]] = {
    "email": _bounded(_is_email),
    "uri": _bounded(_is_uri),
    "date": _bounded(_is_date),
    "time": _bounded(_is_time),
    "date-time": _bounded(_is_date_time),
}
"""Says of each format whether a text has it."""
