"""JSON schemas of Python types, made by pydantic, without values that JSON cannot express.

A tool's parameters and a structured answer are described to the model by such a schema.

Equal types have equal schemas in each kernel, so that requests repeat byte for byte.
"""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python

from jp_nb.json_schema import LIST_KEYWORDS, NAMED_KEYWORDS, SINGLE_KEYWORDS, Schema
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import sorted_json
from jp_nb.storable_json import is_finite


class TypeSchema(GenerateJsonSchema):
    """Generator of the schema of a Python type: one text for equal defaults, without warnings.

    A default that JSON cannot express is omitted.
    """

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def encode_default(self, dft: Any) -> Any:
        """Return `dft` as JSON.

        Raises:
            PydanticSerializationError: JSON cannot express it. The caller omits it.
        """
        # Pydantic would write such a number as null.
        if _has_infinite_number(dft):
            raise PydanticSerializationError("an infinite number")

        encoded = super().encode_default(dft)
        if isinstance(dft, set | frozenset):
            # The order of a set differs from kernel to kernel, and a request must repeat.
            return sorted(encoded, key=sorted_json)
        return encoded


def _has_infinite_number(default: Any) -> bool:
    """Return True if a number in `default` is infinite or NaN, as far as pydantic can read it."""
    try:
        plain = to_jsonable_python(default, inf_nan_mode="constants")  # keeps such numbers
    except PydanticSerializationError:
        return False
    return not is_finite(plain)


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
