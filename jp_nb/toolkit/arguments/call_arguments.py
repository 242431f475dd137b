"""Repair and complete the arguments of a call by the JSON schema of its tool.

Models send numbers as texts, and null for an omitted argument. Both are repaired.
Then defaults are filled in, and missing or unknown arguments are an error for the model.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_values import as_object, read_json
from jp_nb.toolkit.arguments.json_types import has_type, list_declared_types
from jp_nb.toolkit.arguments.parameter_nodes import ParameterNode, list_alternatives

Arguments = Mapping[str, JsonValue]


def coerce_arguments(arguments: Arguments, schema: Schema) -> dict[str, JsonValue]:
    """Parse each text as JSON if `schema` declares another type than a string."""
    known = as_object(schema.get("properties"))
    return {name: coerce(value, known.get(name)) for name, value in arguments.items()}


def coerce(value: JsonValue, schema: JsonValue) -> JsonValue:
    """Convert one argument as in `coerce_arguments`."""
    if not isinstance(schema, dict):
        return value

    wanted = list_declared_types(schema)
    if isinstance(value, str) and wanted and "string" not in wanted:
        try:
            parsed = read_json(value)
        except ValueError:
            return value
        return coerce(parsed, schema) if has_type(parsed, wanted) else value

    properties = schema.get("properties")
    if isinstance(value, dict) and isinstance(properties, dict):
        return coerce_arguments(value, schema)
    if isinstance(value, list) and "items" in schema:
        return [coerce(item, schema["items"]) for item in value]
    return value


def drop_optional_nulls(arguments: Arguments, schema: Schema) -> dict[str, JsonValue]:
    """Return `arguments` without each `null` for an optional argument that does not allow it.

    Models send null for an omitted argument. The same applies to properties of objects.
    """
    return _drop_nulls(arguments, ParameterNode(schema, schema))


def _drop_nulls(value: Arguments, node: ParameterNode) -> dict[str, JsonValue]:
    properties = as_object(node.keys.get("properties"))
    required = node.keys.get("required")
    names = required if isinstance(required, list) else []
    kept: dict[str, JsonValue] = {}

    for name, item in value.items():
        if name not in properties:
            kept[name] = item
            continue

        child = node.resolve(properties[name])
        is_optional = name not in names and child.keys.get("required") is not True
        if item is not None or not is_optional or _allows_null(child):
            kept[name] = _drop_nested_nulls(item, child)

    return kept


def _drop_nested_nulls(value: JsonValue, node: ParameterNode) -> JsonValue:
    objects = [each for each in (node, *list_alternatives(node)) if "properties" in each.keys]
    if isinstance(value, dict) and len(objects) == 1:
        return _drop_nulls(value, objects[0])

    lists = [each for each in (node, *list_alternatives(node)) if "items" in each.keys]
    if isinstance(value, list) and len(lists) == 1:
        items = lists[0].resolve(lists[0].keys["items"])
        return [_drop_nested_nulls(item, items) for item in value]
    return value


def _allows_null(node: ParameterNode, levels: int = 6) -> bool:
    """Return True if null fits `node`, or if that is not known."""
    keys = node.keys
    if "const" in keys:
        return keys["const"] is None

    declared = keys.get("type")
    if declared is not None:
        return declared == "null" or (isinstance(declared, list) and "null" in declared)
    choices = keys.get("enum")
    if isinstance(choices, list):
        return None in choices

    members = list_alternatives(node)
    if not members or not levels:
        return True
    return any(_allows_null(member, levels - 1) for member in members)


def fill_defaults(arguments: Arguments, schema: Schema) -> dict[str, JsonValue]:
    """Return `arguments` with the defaults of missing arguments, and of their missing properties.

    A missing object stays missing unless the object itself has a default.
    """
    filled = dict(arguments)

    for name, node in as_object(schema.get("properties")).items():
        if name in filled:
            filled[name] = _fill_nested(filled[name], node)
        elif isinstance(node, dict) and "default" in node:
            filled[name] = copy.deepcopy(node["default"])

    return filled


def _fill_nested(value: JsonValue, schema: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        return fill_defaults(value, schema)
    if isinstance(value, list) and "items" in schema:
        return [_fill_nested(item, schema["items"]) for item in value]
    return value


def format_argument_problems(name: str, arguments: Arguments, schema: Schema) -> str | None:
    """Return an error for the model if arguments of the tool `name` are missing or unknown.

    It is about the first object with a problem. An object without properties in its schema accepts
    any keys, except for the arguments as a whole.
    """
    problem = _find_problem(arguments, schema)
    if problem is None:
        return None

    missing, unknown = (json.dumps(names, ensure_ascii=False) for names in problem)
    return (
        f"Invalid arguments: Invalid arguments (missing: {missing}, unknown: {unknown})\n\n"
        f'You can call `describe_tools(tools: ["{name}"])` to learn more about how to use the '
        "tool correctly."
    )


def _find_problem(value: Arguments, schema: Schema) -> tuple[list[str], list[str]] | None:
    # The missing and unknown keys of the first object with a problem, outer objects first.
    properties = as_object(schema.get("properties"))
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []
    missing = [name for name in wanted if isinstance(name, str) and name not in value]
    unknown = [name for name in value if name not in properties]

    if missing or unknown:
        return missing, unknown

    nested = (_find_nested_problem(value.get(name), node) for name, node in properties.items())
    return next(filter(None, nested), None)


def _find_nested_problem(value: JsonValue, schema: JsonValue) -> tuple[list[str], list[str]] | None:
    if not isinstance(schema, dict):
        return None
    if isinstance(value, dict) and as_object(schema.get("properties")):
        return _find_problem(value, schema)

    items = value if isinstance(value, list) else []
    nested = (_find_nested_problem(item, schema.get("items")) for item in items)
    return next(filter(None, nested), None)
