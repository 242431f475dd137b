"""JSON schemas read: references and `allOf` written out, types, required names.

Source: `docs/providers.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.json_schema import (
    DEFINITIONS,
    resolve_reference,
)

Schema = dict[str, JsonValue]
DROPPED: Final = frozenset({"default", "title", "examples", "$schema", "$id", "$comment"})
MAX_WRITTEN_OUT: Final = 64
"""References within one another."""
_NESTED: Final = frozenset({"object", "array"})
_SPEAKS_OF: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(
        ("properties", "required", "additionalProperties", "minProperties", "maxProperties",
         "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas",
         "dependencies", "unevaluatedProperties"),
        frozenset({"object"}),
    ),
    **dict.fromkeys(
        ("items", "minItems", "maxItems", "uniqueItems", "prefixItems", "additionalItems",
         "contains", "minContains", "maxContains", "unevaluatedItems"),
        frozenset({"array"}),
    ),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), frozenset({"string"})),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        frozenset({"number", "integer"}),
    ),
}  # fmt: skip
"""The types of which a keyword says something, where it does not of all."""


def is_composed(schema: Mapping[str, JsonValue]) -> bool:
    """Return True if `schema` says what it says in several places."""
    beside = schema.keys() - DROPPED - set(DEFINITIONS) - {"$ref"}
    return "allOf" in schema or ("$ref" in schema and bool(beside))


def expanded(
    schema: Mapping[str, JsonValue],
    root: Mapping[str, JsonValue],
    within: tuple[str, ...] = (),
    known: dict[str, Mapping[str, JsonValue] | None] | None = None,
) -> Mapping[str, JsonValue] | None:
    """`schema` with what its `$ref` and `allOf` say written out; None if that is not simple.

    It is simple where one says what others say nothing of, and recursion does not come in.

    Args:
        schema: What to write out.
        root: Where references lead.
        within: The references that led here.
        known: What references are when written out; added to.
    """
    known = {} if known is None else known
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    members: list[Mapping[str, JsonValue]] = [own]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in within or len(within) >= MAX_WRITTEN_OUT:
            return None
        if reference not in known:
            # What leads back to `within` leads back to itself: it is None wherever it stands.
            try:
                found = resolve_reference(root, reference)[1]
            except LookupError:
                return None
            known[reference] = (
                expanded(found, root, (*within, reference), known)
                if isinstance(found, dict)
                else None
            )
        if (written := known[reference]) is None:
            return None
        members.append(written)
    for member in all_of(schema):
        written = expanded(member, root, within, known)
        if written is None:
            return None
        members.append(written)
    return _combined(members) if len(members) > 1 else own


def resolved(
    schema: Mapping[str, JsonValue], root: Mapping[str, JsonValue]
) -> Mapping[str, JsonValue]:
    """`schema` written out, within `root`; as it stands where that is not simple."""
    return expanded(schema, root) or schema


def all_of(schema: Mapping[str, JsonValue]) -> list[Schema]:
    """Return the schemas of its `allOf`."""
    members = schema.get("allOf")
    return [each for each in members if isinstance(each, dict)] if isinstance(members, list) else []


def _combined(members: Iterable[Mapping[str, JsonValue]]) -> Schema | None:
    """Return what all `members` demand as one schema; None if two of them speak of the same."""
    result: Schema = {}
    for member in members:
        for key, value in member.items():
            before = result.get(key)
            if key not in result or before == value:
                result[key] = value
            elif key in DROPPED or key == "description" or key in DEFINITIONS:
                continue  # the first one's, which is nearest
            elif key == "required" and isinstance(before, list) and isinstance(value, list):
                result[key] = [*before, *(name for name in value if name not in before)]
            elif (
                key == "properties"
                and isinstance(before, dict)
                and isinstance(value, dict)
                and before.keys().isdisjoint(value)
            ):
                result[key] = {**before, **value}
            else:
                return None
    return result


def type_names(schema: Mapping[str, JsonValue]) -> set[JsonValue]:
    """The types that `schema` names."""
    given = schema.get("type", [])
    return set(given) if isinstance(given, list) else {given}


def one_type(schema: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """`schema` with `anyOf` in place of a list of types with objects or arrays among them.

    Unchanged where it has no such list, or says what is not one type's already in another way.
    """
    kinds = schema.get("type")
    if not isinstance(kinds, list) or not is_mixed(schema):
        return schema
    if len(kinds) == 1:
        return {**schema, "type": kinds[0]}
    if schema.keys() & {"anyOf", "oneOf", "allOf", "$ref", "enum", "const"}:
        return schema
    around = {key: value for key, value in schema.items() if key not in ("type", *_SPEAKS_OF)}
    members: list[JsonValue] = [
        {"type": kind}
        | {key: value for key, value in schema.items() if kind in _SPEAKS_OF.get(key, ())}
        for kind in kinds
    ]
    return {**around, "anyOf": members}


def undeclared(schema: Mapping[str, JsonValue]) -> list[JsonValue]:
    """The names under `required` that are not among the properties."""
    properties = schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    return [name for name in required_names(schema) if name not in declared]


def is_mixed(schema: Mapping[str, JsonValue]) -> bool:
    """Return True if `schema` has a list of types with objects or arrays among them."""
    return isinstance(schema.get("type"), list) and bool(_NESTED & type_names(schema))


def required_names(schema: Mapping[str, JsonValue]) -> list[JsonValue]:
    """Return the names under its `required`."""
    given = schema.get("required")
    return given if isinstance(given, list) else []


def alternatives(schema: Mapping[str, JsonValue]) -> list[Schema]:
    """Return the schemas of its `anyOf` or `oneOf`."""
    listed = schema.get("anyOf") or schema.get("oneOf")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
