"""Know the keywords of JSON Schema: which values they constrain, and which ones APIs enforce.

The module also reads single keywords of a schema, such as the names under `required`. A value of
another form than the keyword has, such as a text under `required`, counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_values import JsonObject

ANNOTATION_KEYWORDS: Final = frozenset(
    {"default", "title", "examples", "$schema", "$id", "$comment"}
)
"""Keywords that constrain nothing, and that no API needs."""
CONSTRAINING: Final = frozenset(
    {"type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "properties", "items"}
)
"""Keywords that constrain a value for an API that enforces schemas. It requires one of them."""


@dataclass(frozen=True, slots=True)
class _Keywords:
    """The keywords for values of one type, by their treatment in an API that enforces schemas.

    Attributes:
        enforced: The API enforces them.
        ignored: The API does not. The model reads them in the description instead.
        unsupported: The API cannot enforce a schema that has one of them.
    """

    enforced: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()


_ANY_TYPE: Final = _Keywords(unsupported=("not", "if", "then", "else"))
_BY_TYPE: Final[Mapping[str, _Keywords]] = {
    "object": _Keywords(
        enforced=("properties", "required", "additionalProperties"),
        ignored=("minProperties", "maxProperties"),
        unsupported=(
            "patternProperties",
            "propertyNames",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "unevaluatedProperties",
        ),
    ),
    "array": _Keywords(
        enforced=("items", "minContains", "maxContains"),
        ignored=("minItems", "maxItems", "uniqueItems"),
        unsupported=("prefixItems", "additionalItems", "contains", "unevaluatedItems"),
    ),
    "string": _Keywords(
        enforced=("format",),
        ignored=("minLength", "maxLength", "pattern"),
    ),
    # Integers have the keywords of numbers.
    "number": _Keywords(
        ignored=("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    ),
}


def _list_ignored() -> frozenset[str]:
    ignored: set[str] = set()
    for keywords in _BY_TYPE.values():
        ignored.update(keywords.ignored)
    return frozenset(ignored)


def _list_unsupported() -> tuple[str, ...]:
    unsupported = [*_ANY_TYPE.unsupported]
    for keywords in _BY_TYPE.values():
        unsupported += keywords.unsupported
    return tuple(unsupported)


def _map_to_types() -> dict[str, str]:
    types: dict[str, str] = {}
    for type_name, keywords in _BY_TYPE.items():
        for keyword in (*keywords.enforced, *keywords.ignored, *keywords.unsupported):
            types[keyword] = type_name
    return types


IGNORED: Final = _list_ignored()
"""Keywords that APIs do not enforce. They move into the description, for the model to read."""
UNSUPPORTED: Final = _list_unsupported()
"""Keywords with which APIs cannot enforce a schema."""
TYPE_OF_KEYWORD: Final[Mapping[str, str]] = _map_to_types()
"""The type of the values that a keyword constrains. Keywords for all types are absent."""


def get_type_names(schema: Schema) -> set[JsonValue]:
    """Return the names under `type`, which is a name or a list of names."""
    types = schema.get("type", [])
    return set(types) if isinstance(types, list) else {types}


def has_mixed_types(schema: Schema) -> bool:
    """Return True if `type` is a list with object or array."""
    is_list = isinstance(schema.get("type"), list)
    return is_list and not get_type_names(schema).isdisjoint({"object", "array"})


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
    """Return the schemas in a list that are objects. `true` and `false` are schemas, too."""
    if not isinstance(listed, list):
        return []
    return [schema for schema in listed if isinstance(schema, dict)]
