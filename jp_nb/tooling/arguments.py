"""Arguments as models send them, brought to the types that a tool declares.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from jp_nb.json_values import read_json

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
    """Return the JSON schema of configured `parameters`: an object that takes nothing else."""
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
    """Return `arguments`, with JSON texts read wherever `schema` declares another type."""
    known = _properties(schema)
    return {name: coerce(value, known.get(name)) for name, value in arguments.items()}


def coerce(value: JsonValue, schema: JsonValue) -> JsonValue:
    """Return one argument as `coerce_arguments` does."""
    if not isinstance(schema, dict):
        return value
    wanted = declared_types(schema)
    if isinstance(value, str) and wanted and "string" not in wanted:
        try:
            parsed = read_json(value)
        except ValueError:
            return value
        if not _fits(parsed, wanted):
            return value
        return parsed if isinstance(parsed, str) else coerce(parsed, schema)
    properties = schema.get("properties")
    if isinstance(value, dict) and isinstance(properties, dict):
        return {key: coerce(item, properties.get(key)) for key, item in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [coerce(item, schema["items"]) for item in value]
    return value


def fill_defaults(
    arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return `arguments` with the `default` of what is missing, also in given objects and lists.

    An object that is missing, and has no default of its own, stays missing.
    """
    filled = dict(arguments)
    for name, node in _properties(schema).items():
        if name in filled:
            filled[name] = _filled(filled[name], node)
        elif isinstance(node, dict) and "default" in node:
            filled[name] = copy.deepcopy(node["default"])
    return filled


def _filled(value: JsonValue, schema: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        return fill_defaults(value, schema)
    if isinstance(value, list) and "items" in schema:
        return [_filled(item, schema["items"]) for item in value]
    return value


def bad_arguments(
    name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
) -> str | None:
    """Return what to tell a model about unknown or missing arguments of `name`; None if all fit.

    The first object with a problem counts. One whose schema lists no properties takes anything,
    except for the arguments as a whole.
    """
    for missing, unknown in _misfits(arguments, schema):
        return (
            f"Invalid arguments: Invalid arguments (missing: {_listed(missing)}, "
            f"unknown: {_listed(unknown)})\n\n"
            f'You can call `describe_tools(tools: ["{name}"])` to learn more about how to use the '
            "tool correctly."
        )
    return None


def _misfits(
    value: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the missing and unknown keys of each object that has some, outer ones first."""
    properties = _properties(schema)
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    missing = [name for name in wanted if isinstance(name, str) and name not in value]
    unknown = [name for name in value if name not in properties]
    if missing or unknown:
        yield missing, unknown
    for name, node in properties.items():
        yield from _misfits_below(value.get(name), node)


def _misfits_below(value: JsonValue, schema: JsonValue) -> Iterator[tuple[list[str], list[str]]]:
    if not isinstance(schema, dict):
        return
    if isinstance(value, dict) and _properties(schema):
        yield from _misfits(value, schema)
    elif isinstance(value, list):
        for item in value:
            yield from _misfits_below(item, schema.get("items"))


def _listed(names: list[str]) -> str:
    return json.dumps(names, ensure_ascii=False)


def _properties(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def declared_types(schema: Mapping[str, JsonValue]) -> set[str]:
    """Return the JSON types that `schema` declares; none if that cannot be told."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {name for name in declared if isinstance(name, str)}
    members = schema.get("anyOf")
    if isinstance(members, list):
        found = [declared_types(member) for member in members if isinstance(member, dict)]
        return set().union(*found) if found and all(found) else set()
    return set()


def _fits(value: JsonValue, wanted: set[str]) -> bool:
    for name in wanted:
        if isinstance(value, bool) and name != "boolean":
            continue
        if isinstance(value, _PYTHON.get(name, ())):
            return True
    return False
