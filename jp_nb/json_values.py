"""JSON values as Python objects: their type, copies, and changes of their texts.

`json_reading.py` reads values from text, `json_writing.py` writes them, and `storable_json.py`
makes them storable in a record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]


def as_object(value: JsonValue) -> JsonObject:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def copy_json(value: Any) -> Any:
    """Return a deep copy of a JSON value: fast, for values with limited depth.

    Use `copy_nested_json` for values of any depth.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {key: copy_json(item) for key, item in value.items()}
    if kind is list:
        return [copy_json(item) for item in value]
    return copy_nested_json(value)


def copy_nested_json(value: Any) -> Any:
    """Return a deep copy of a JSON value, at any depth that the `json` module supports."""
    return json.loads(json.dumps(value))


def map_texts(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """Return `value` with `change` applied to all texts except keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_texts(item, change) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [map_texts(item, change) for item in value]
    return value
