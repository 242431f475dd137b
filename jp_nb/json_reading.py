"""Read JSON text with limits, and measure values that come from outside.

JSON of a notebook, a model, a server, or a file may be nested so deeply, or be so large, that code
which reads it later fails. Functions raise `ValueError` for it, or measure it.

Source: `docs/record.md`: notebook JSON has no infinities and a limited depth.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

from pydantic import JsonValue

_LONG_NUMBER: Final = re.compile(r"[0-9]{309}")  # may be too large for a float
_CONTENT: Final = re.compile(r"\S")
_DECODER: Final = json.JSONDecoder()

MAX_INTEGER: Final = 2**53 - 1
"""Largest integer that every JSON reader represents exactly. A larger count or id is damage."""

MAX_STORED_LEVELS: Final = 100
"""Maximum depth of a stored value, so that any JSON reader can read the whole notebook."""
MAX_SCHEMA_LEVELS: Final = 64
"""Maximum depth of a JSON schema. A validator calls several functions for each level."""
MAX_CONFIG_LEVELS: Final = 32
"""Maximum depth of a configuration, and number of keys of a path. Checks and merges recurse."""
MAX_SHOWN_LEVELS: Final = 20
"""Maximum depth of a value that is shown key by key. A deeper one would be hard to read."""
MAX_INDENTED_LEVELS: Final = 16
"""Maximum depth of indented JSON. The indentation of a deep value of 1 MB could fill gigabytes."""


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
    number = float(text)
    if not text[-1].isdigit():  # `NaN` or `Infinity`
        raise ValueError(f"{text} is not a JSON number")
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _parse_integer(text: str) -> int:
    _parse_float(text)
    return int(text)


def split_json_objects(text: str) -> list[str]:
    """Return the texts of the JSON objects that `text` consists of; none if it has other text."""
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


def is_deeper(value: object, levels: int) -> bool:
    """Return True if objects and lists are nested more than `levels` deep in `value`."""
    parts = [value]  # all parts of the current level
    while containers := [part for part in parts if isinstance(part, (dict, list))]:
        if levels == 0:
            return True
        levels -= 1
        parts = []
        for container in containers:
            parts += container.values() if isinstance(container, dict) else container
    return False


_END: Final = object()
"""Marks the end of the parts of a container."""


def _iterate_parts(value: Any) -> Iterator[object]:
    return chain(value.keys(), value.values()) if isinstance(value, dict) else iter(value)


def is_larger(value: object, *, items: int, chars: int, levels: int) -> bool:
    """Return True if `value` has more items, characters of text, or nested levels.

    A part that occurs twice counts twice, as in JSON. The work is bounded by `items`, and the
    memory by `levels`, also for a value that contains itself.
    """
    items_left = items
    chars_left = chars
    # The parts that are left of each container around the current part, the innermost last.
    open_parts: list[Iterator[object]] = [iter((value,))]

    while open_parts:
        part = next(open_parts[-1], _END)
        if part is _END:
            open_parts.pop()
        elif isinstance(part, str):
            chars_left -= len(part)
        elif isinstance(part, (dict, list, tuple)):
            items_left -= len(part)
            open_parts.append(_iterate_parts(part))

        if items_left < 0 or chars_left < 0 or len(open_parts) > levels + 1:
            return True

    return False
