"""The order of keys and the spelling of numbers in values that providers get back.

Jupyter saves a notebook with sorted keys, and a page writes `1.0` as `1`. Providers cache requests,
and bind reasoning to them, byte for byte. So the metadata of a model's output has the *shape* of
values that Jupyter would spell in another way. It is their JSON text, but each text is empty:

    {"arguments":{"path":"","at":[1.0,2]},"metadata":{"google_step":{"type":"","id":""}}}

A record may be from someone else, so a shape only replaces equal values. Any other is ignored.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from pydantic import JsonValue

from jp_nb.json_limits import MAX_INTEGER, MAX_STORED_LEVELS, is_deeper
from jp_nb.json_reading import read_json
from jp_nb.json_values import JsonObject, as_object
from jp_nb.json_writing import compact_json

SHAPE: Final = "shape"
"""Metadata key of the text."""
MAX_SHAPE_CHARS: Final = 100_000
"""A longer shape is neither stored nor read. The keys are then sent in sorted order."""
_FIELDS: Final[tuple[str, ...]] = ("arguments", "data")
"""Fields of entries that have JSON from a model."""


def add_shape(metadata: Mapping[str, JsonValue], **fields: JsonValue) -> JsonObject:
    """Return the `metadata` of a model's output with the shape of it and of `fields`, if needed.

    `fields` are `arguments` or `data` of the entry.
    """
    shapes = _find_shapes(fields)
    metadata_shapes = _find_shapes(metadata)
    if metadata_shapes:
        shapes["metadata"] = metadata_shapes

    text = compact_json(shapes)
    if not shapes or len(text) > MAX_SHAPE_CHARS:
        return dict(metadata)
    return {**metadata, SHAPE: text}


def restore_shape(raw: JsonObject) -> JsonObject:
    """Return a stored entry with its values in their original shape."""
    metadata = raw.get("metadata")
    text = metadata.get(SHAPE) if isinstance(metadata, dict) else None
    if not isinstance(text, str) or len(text) > MAX_SHAPE_CHARS:
        return raw

    try:
        shapes = as_object(read_json(text))
    except ValueError:
        return raw

    fields = {name: shapes[name] for name in _FIELDS if name in shapes}
    below = _apply_shapes(as_object(metadata), as_object(shapes.get("metadata")))
    return {**_apply_shapes(raw, fields), "metadata": below}


def _find_shapes(values: Mapping[str, JsonValue]) -> JsonObject:
    """Return the shapes of the `values` that Jupyter could save in another spelling."""
    # The text of the shapes has two levels around a value, and is read with a limit of levels.
    max_levels = MAX_STORED_LEVELS - 2
    return {
        name: _remove_texts(value)
        for name, value in values.items()
        if not is_deeper(value, max_levels) and not _is_preserved(value)
    }


def _is_preserved(value: JsonValue) -> bool:
    """Return True if Jupyter saves and loads `value` in the same spelling."""
    match value:
        case bool():
            return True
        case int():
            return abs(value) <= MAX_INTEGER
        case float():
            return not value.is_integer()
        case list():
            return all(map(_is_preserved, value))
        case dict():
            keys = list(value)
            # A page moves keys that are numbers.
            is_sorted = keys == sorted(keys) and not any(key.isdecimal() for key in keys)
            return (is_sorted or len(keys) == 1) and all(map(_is_preserved, value.values()))
    return True


def _remove_texts(value: JsonValue) -> JsonValue:
    """Return the shape of `value`: the value with empty texts."""
    match value:
        case str():
            return ""
        case list():
            return [_remove_texts(item) for item in value]
        case dict():
            return {key: _remove_texts(item) for key, item in value.items()}
    return value


def _apply_shapes(values: JsonObject, shapes: JsonObject) -> JsonObject:
    changed = dict(values)
    for name, shape in shapes.items():
        with suppress(KeyError, ValueError, OverflowError):
            changed[name] = _apply_shape(shape, values[name])
    return changed


def _apply_shape(shape: JsonValue, value: JsonValue) -> JsonValue:
    """Return `value` in the spelling of `shape`.

    Raises:
        ValueError: The shape is that of another value.
    """
    match shape, value:
        case dict(), dict() if shape.keys() == value.keys():
            return {key: _apply_shape(part, value[key]) for key, part in shape.items()}
        case list(), list() if len(shape) == len(value):
            return [_apply_shape(part, item) for part, item in zip(shape, value, strict=True)]
        case "", str():
            return value
        # In Python, True is equal to 1.
        case (bool() | None, _) | (_, bool()):
            if shape is value:
                return value
        case (int() | float(), int() | float()) if float(shape) == float(value):
            return shape
    raise ValueError("the shape is that of another value")
