"""Read JSON text that comes from outside, such as from a model or a file.

`read_json` returns a value that a record can store: `json_limits.py` has the limits. The other
functions only examine the text of a model: if an object is complete, and where each one ends.

Source: `docs/record.md`: notebook JSON has no infinities and a limited depth.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Final

from pydantic import JsonValue

from jp_nb.json_limits import MAX_STORED_LEVELS, is_deeper

_LONG_NUMBER: Final = re.compile(r"[0-9]{309}")  # may be too large for a float
_CONTENT: Final = re.compile(r"\S")
_DECODER: Final = json.JSONDecoder()


def read_json(text: str, *, max_levels: int = MAX_STORED_LEVELS) -> JsonValue:
    """Return the value of the JSON `text`.

    Raises:
        ValueError: If it is not JSON, or a record cannot store it: a number that is infinite as a
            float, or too many levels.
    """
    parse_int: Callable[[str], int] | None = None
    if _LONG_NUMBER.search(text):  # a function for each integer would be slow
        parse_int = _parse_integer

    too_deep = f"nested too deeply: more than {max_levels} levels"
    try:
        value: JsonValue = json.loads(
            text, parse_constant=_parse_float, parse_float=_parse_float, parse_int=parse_int
        )
    except RecursionError:
        raise ValueError(too_deep) from None

    if is_deeper(value, max_levels):
        raise ValueError(too_deep)
    return value


def _parse_float(text: str) -> float:
    """Return the number `text`, or raise ValueError if it is infinite or `NaN`."""
    number = float(text)
    if not text[-1].isdigit():  # `NaN` or `Infinity`
        raise ValueError(f"{text} is not a JSON number")
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _parse_integer(text: str) -> int:
    _parse_float(text)  # raises an error if the number is too large
    return int(text)


def split_json_objects(text: str) -> list[str]:
    """Return the texts of the JSON objects that `text` consists of; none if it has other text.

    Some models put the arguments of several calls into one: `{"a": 1}{"a": 2}`.
    """
    objects: list[str] = []
    position = _find_content(text, 0)

    while position < len(text):
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []

        objects.append(text[position:end])
        position = _find_content(text, end)
    return objects


def is_json_object(text: str) -> bool:
    """Return True if `text` is a complete JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _find_content(text: str, begin: int) -> int:
    """Return the position of the first character from `begin` on that is no white space."""
    match = _CONTENT.search(text, begin)
    return len(text) if match is None else match.start()
