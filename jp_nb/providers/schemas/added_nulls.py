"""Remove the nulls that a strict answer of OpenAI has instead of absent properties.

OpenAI's strict mode requires each property, so an optional one is sent as nullable. Its null is
removed from the answer, unless the user's schema itself allows null there and requires the
property. If the schema has alternatives in place of properties, the first one that the answer fits
decides.

`expand_or_keep` returns a schema with its `$ref` and `allOf` written out, if that is possible.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_values import JsonObject
from jp_nb.providers.schemas.schema_expansion import expand_or_keep
from jp_nb.providers.schemas.schema_parts import get_alternatives, get_required, get_type_names


def remove_added_nulls(value: JsonValue, schema: Schema, root: Schema) -> JsonValue:
    """Return `value` without the nulls of optional properties. `root` has the definitions."""
    schema = expand_or_keep(schema, root)
    items = schema.get("items")
    properties = schema.get("properties")

    if isinstance(value, list) and isinstance(items, dict):
        return [remove_added_nulls(item, items, root) for item in value]

    if isinstance(value, dict) and isinstance(properties, dict):
        required = get_required(schema)
        kept: JsonObject = {}
        for name, item in value.items():
            was_absent = item is None and name not in required
            if was_absent:
                continue

            child = properties.get(name)
            if isinstance(child, dict):
                item = remove_added_nulls(item, child, root)
            kept[name] = item
        return kept

    for alternative in get_alternatives(schema):
        if _fits(value, alternative, root):
            return remove_added_nulls(value, alternative, root)
    return value


def _fits(value: JsonValue, schema: Schema, root: Schema) -> bool:
    """Return True if `value` fits `schema`, also with a null for each optional property."""
    schema = expand_or_keep(schema, root)

    if "const" in schema and value != schema["const"]:
        return False
    choices = schema.get("enum")
    types = schema.get("type")
    if isinstance(choices, list) and value not in choices:
        return False
    if types is not None and not get_type_names(schema) & _list_json_types(value):
        return False

    alternatives = get_alternatives(schema)
    if alternatives and not any(_fits(value, part, root) for part in alternatives):
        return False

    items = schema.get("items")
    properties = schema.get("properties")
    if isinstance(value, list) and isinstance(items, dict):
        return all(_fits(item, items, root) for item in value)

    if isinstance(value, dict) and isinstance(properties, dict):
        return _fits_properties(value, properties, schema, root)
    return True


def _list_json_types(value: JsonValue) -> set[JsonValue]:
    """Return the names of all types of JSON Schema that `value` has."""
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case str():
            return {"string"}
        case list():
            return {"array"}
        case dict():
            return {"object"}

    is_whole = isinstance(value, int) or value.is_integer()
    return {"number", "integer"} if is_whole else {"number"}


def _fits_properties(
    value: JsonObject, properties: JsonObject, schema: Schema, root: Schema
) -> bool:
    """Return True if an object fits the `properties` of `schema`, and has no others."""
    required = get_required(schema)
    if not all(name in value for name in required):
        return False

    for name, item in value.items():
        child = properties.get(name)
        if not isinstance(child, dict):
            return False
        may_be_null = item is None and name not in required
        if not may_be_null and not _fits(item, child, root):
            return False
    return True
