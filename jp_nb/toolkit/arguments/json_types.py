"""JSON types: the types that a schema declares, and the type of a value."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pydantic import JsonValue

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def list_declared_types(schema: Mapping[str, JsonValue]) -> set[str]:
    """Return the JSON types that `schema` declares; an empty set if they are not known."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {name for name in declared if isinstance(name, str)}

    members = schema.get("anyOf")
    if isinstance(members, list):
        alternatives = [member for member in members if isinstance(member, dict)]
        types = [list_declared_types(alternative) for alternative in alternatives]
        # If the types of one alternative are not known, those of the whole are not known either.
        return set().union(*types) if all(types) else set()
    return set()


def has_type(value: JsonValue, wanted: Collection[str]) -> bool:
    """Return True if `value` has one of the JSON types `wanted`. 1.0 is a number, no integer."""
    if isinstance(value, bool):  # bool is a subclass of int
        return "boolean" in wanted
    return any(isinstance(value, _PYTHON_TYPES.get(name, ())) for name in wanted)
