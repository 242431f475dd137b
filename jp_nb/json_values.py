"""JSON of strangers, read as what a record can hold.

Source: `docs/record.md`: a notebook's JSON has no infinities and no depth
that its readers cannot follow.
"""

from __future__ import annotations

import json
import math

from pydantic import JsonValue

from jp_nb.config.paths import deeper

MAX_LEVELS = 100
"""Of objects and lists within one another."""
MAX_INDENTED_LEVELS = 16


def read_json(text: str) -> JsonValue:
    """What the JSON `text` says.

    Raises:
        ValueError: If it is no JSON, or has numbers or nesting that a stored record cannot have.
    """
    try:
        value: JsonValue = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if deeper(value, MAX_LEVELS):
        raise ValueError(f"nested too deeply: more than {MAX_LEVELS} levels")
    return value


def indented_json(value: JsonValue) -> str:
    """`value` as JSON, a line for each item; in one line if it is nested deeply.

    A line begins with two spaces for each level: a value of a megabyte could fill gigabytes.
    """
    levels = None if deeper(value, MAX_INDENTED_LEVELS) else 2
    return json.dumps(value, ensure_ascii=False, indent=levels)


def _no_number(text: str) -> JsonValue:
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number
