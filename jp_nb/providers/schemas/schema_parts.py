"""Read the value of a keyword of a JSON schema, such as the names under `required`.

A schema may be of a user or a tool server. A value of another form than the keyword has, such as a
text under `required`, counts as absent.
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_values import JsonObject


def get_type_names(schema: Schema) -> set[JsonValue]:
    """Return the names under `type`, which is a name or a list of names."""
    types = schema.get("type", [])
    return set(types) if isinstance(types, list) else {types}


def get_property_schemas(schema: Schema) -> JsonObject:
    """Return a copy of the schemas under `properties`, by name."""
    properties = schema.get("properties")
    return dict(properties) if isinstance(properties, dict) else {}


def get_required(schema: Schema) -> list[JsonValue]:
    """Return the names under `required`."""
    required = schema.get("required")
    return required if isinstance(required, list) else []


def find_undeclared(schema: Schema) -> list[JsonValue]:
    """Return the names under `required` that are missing under `properties`."""
    properties = get_property_schemas(schema)
    return [name for name in get_required(schema) if name not in properties]


def get_alternatives(schema: Schema) -> list[JsonObject]:
    """Return the schemas under `anyOf`, or under `oneOf` if there is no `anyOf`."""
    return _select_objects(schema.get("anyOf") or schema.get("oneOf"))


def get_all_of(schema: Schema) -> list[JsonObject]:
    """Return the schemas under `allOf`."""
    return _select_objects(schema.get("allOf"))


def _select_objects(listed: JsonValue) -> list[JsonObject]:
    """Return the schemas in a list that are objects. `true` and `false` are also schemas."""
    if not isinstance(listed, list):
        return []
    return [schema for schema in listed if isinstance(schema, dict)]
