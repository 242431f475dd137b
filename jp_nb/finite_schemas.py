"""Remove infinite numbers from JSON schemas: JSON cannot express them.

They come from Python types, and from the JSON of servers, which Python reads more freely.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.json_schema import LIST_KEYWORDS, NAMED_KEYWORDS, SINGLE_KEYWORDS, Schema
from jp_nb.json_values import JsonObject
from jp_nb.storable_json import is_finite


def without_infinite_numbers(schema: Schema) -> JsonObject:
    """Return `schema` without keywords and choices that JSON cannot express.

    An example is an infinite value of an `Enum`, or the default `1e999` in the schema of an
    MCP server.
    """
    result: JsonObject = {}

    for keyword, value in schema.items():
        if keyword in NAMED_KEYWORDS and isinstance(value, dict):
            parts = {name: _without_infinite_numbers(item) for name, item in value.items()}
            result[keyword] = parts
        elif keyword in LIST_KEYWORDS and isinstance(value, list):
            result[keyword] = [_without_infinite_numbers(item) for item in value]
        elif keyword in SINGLE_KEYWORDS and isinstance(value, dict):
            result[keyword] = without_infinite_numbers(value)
        elif keyword in ("enum", "examples") and isinstance(value, list):
            result[keyword] = [item for item in value if is_finite(item)]
        elif is_finite(value):
            result[keyword] = value

    return result


def _without_infinite_numbers(value: JsonValue) -> JsonValue:
    return without_infinite_numbers(value) if isinstance(value, dict) else value
