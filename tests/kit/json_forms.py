"""JSON values in the forms in which the program writes, compares, and copies them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jp_nb import json_values

JSON_FORMS: Mapping[str, Callable[..., Any]] = {
    "read": json_values.read_json,
    "canonical": json_values.canonical_json,
    "sorted": json_values.sorted_json,
    "indented": json_values.indented_json,
    "storable": json_values.make_storable,
    "is_storable": json_values.is_storable,
    "is_deeper": json_values.is_deeper,
    "copy": json_values.copy_json,
    "nested_copy": json_values.copy_nested_json,
    "utf8": json_values.encode_utf8,
    "without_surrogates": json_values.replace_surrogates,
}


def json_form(form: str, value: Any, *values: Any, **options: Any) -> Any:
    """Return a JSON value in this form: `json_form("canonical", {"a": 1.0})`.

    `read` takes a JSON text; `is_storable` and `is_deeper` are true or false.
    """
    return JSON_FORMS[form](value, *values, **options)
