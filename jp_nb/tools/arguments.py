"""Arguments as models send them, brought to the types that a tool declares.

Source: `spec/tools-and-turn-loop.md` section 1.7.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def schema_of(parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The JSON schema of configured `parameters`: an object that takes nothing else."""
    required: list[JsonValue] = [
        name
        for name, node in parameters.items()
        if isinstance(node, dict) and node.get("required") is True
    ]
    return {
        "type": "object",
        "properties": {name: _node(node) for name, node in parameters.items()},
        "additionalProperties": False,
        "required": required,
    }


def _node(node: JsonValue) -> JsonValue:
    if not isinstance(node, dict):
        return node
    schema: dict[str, JsonValue] = {}
    if "type" in node:
        schema["type"] = node["type"]
    description = node.get("summary") or node.get("description")
    if description:
        schema["description"] = description
    if "default" in node:
        schema["default"] = node["default"]
    if node.get("enum"):
        schema["enum"] = node["enum"]
    if "items" in node:
        schema["items"] = _node(node["items"])
    properties = node.get("properties")
    if isinstance(properties, dict) and properties:
        below = schema_of(properties)
        schema["properties"], schema["required"] = below["properties"], below["required"]
    return schema


def coerce_arguments(
    arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """`arguments` with JSON texts read where `schema` declares another type, at any depth."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return {name: coerce(value, known.get(name)) for name, value in arguments.items()}


def coerce(value: JsonValue, schema: JsonValue) -> JsonValue:
    """One argument; see `coerce_arguments`."""
    if not isinstance(schema, dict):
        return value
    wanted = _types(schema)
    if isinstance(value, str) and wanted and "string" not in wanted:
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return parsed if _fits(parsed, wanted) else value
    properties = schema.get("properties")
    if isinstance(value, dict) and isinstance(properties, dict):
        return {key: coerce(item, properties.get(key)) for key, item in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [coerce(item, schema["items"]) for item in value]
    return value


def _types(schema: Mapping[str, JsonValue]) -> set[str]:
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {name for name in declared if isinstance(name, str)}
    members = schema.get("anyOf")
    if isinstance(members, list):
        found = [_types(member) for member in members if isinstance(member, dict)]
        return set().union(*found) if found and all(found) else set()
    return set()


def _fits(value: JsonValue, wanted: set[str]) -> bool:
    for name in wanted:
        if isinstance(value, bool) and name != "boolean":
            continue
        if isinstance(value, _PYTHON.get(name, ())):
            return True
    return False
