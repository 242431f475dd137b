"""Write a list of types in a JSON schema as `anyOf`, which more APIs enforce.

For example, `{"type": ["array", "null"], "items": {}}` becomes
`{"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}`.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_values import JsonObject
from jp_nb.providers.schemas.schema_keywords import TYPE_OF_KEYWORD
from jp_nb.providers.schemas.schema_parts import get_type_names


def has_mixed_types(schema: Schema) -> bool:
    """Return True if `type` is a list with object or array, which APIs do not enforce."""
    is_list = isinstance(schema.get("type"), list)
    return is_list and not get_type_names(schema).isdisjoint({"object", "array"})


def split_types(schema: Schema) -> Schema:
    """Return `schema` with an `anyOf` instead of a list of types that contains object or array.

    Returns `schema` unchanged if it has no such list, or other alternatives.
    """
    types = schema.get("type")
    if not isinstance(types, list) or not has_mixed_types(schema):
        return schema

    if len(types) == 1:
        return {**schema, "type": types[0]}

    if schema.keys() & {"anyOf", "oneOf", "allOf", "$ref", "enum", "const"}:
        return schema

    shared = {key: value for key, value in schema.items() if key not in ("type", *TYPE_OF_KEYWORD)}
    alternatives: list[JsonValue] = [_select_type(schema, type_name) for type_name in types]

    return {**shared, "anyOf": alternatives}


def _select_type(schema: Schema, type_name: JsonValue) -> JsonObject:
    """Return the part of `schema` that constrains values of one type."""
    type_of_keywords = "number" if type_name == "integer" else type_name
    own = {
        key: value for key, value in schema.items() if TYPE_OF_KEYWORD.get(key) == type_of_keywords
    }
    return {"type": type_name, **own}
