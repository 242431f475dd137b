"""JSON schemas of Python types, made by pydantic, without defaults that JSON cannot express.

A tool's parameters and a structured answer are described to the model by such a schema. Other
values that JSON cannot express are removed afterwards (`finite_schemas.py`).

Equal types have equal schemas in each kernel, so that requests repeat byte for byte.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python

from jp_nb.json_writing import sorted_json
from jp_nb.storable_json import is_finite


class TypeSchema(GenerateJsonSchema):
    """Generator of the schema of a Python type, without warnings.

    A default that JSON cannot express is omitted, and a set is sorted. Use it as the argument
    `schema_generator` of pydantic.
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
