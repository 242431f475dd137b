"""Repair and complete the arguments of a call by the JSON schema of its tool.

Models send numbers as texts, and null for an omitted argument. Both are repaired.
Then defaults are filled in, and missing or unknown arguments are an error for the model.

Only the repair of nulls follows references (`$ref`), and looks into alternatives (`anyOf`). The
conversion of texts reads the types of the alternatives, and nothing inside of them. Both occur in
the schemas of Python functions and of servers, which convert and complete their arguments
themselves.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from pydantic import JsonValue

from jp_nb.json_reading import read_json
from jp_nb.json_schema import Schema
from jp_nb.json_values import as_object
from jp_nb.toolkit.arguments.json_types import has_type, list_declared_types
from jp_nb.toolkit.arguments.parameter_nodes import ParameterNode, list_alternatives

Arguments = Mapping[str, JsonValue]
_NESTED_ALTERNATIVES: Final = 6
"""Limit for alternatives in alternatives: those of a recursive schema never end."""


def coerce_arguments(arguments: Arguments, schema: Schema) -> dict[str, JsonValue]:
    """Parse each text as JSON if `schema` declares another type than a string."""
    known = as_object(schema.get("properties"))
    return {name: coerce(value, known.get(name)) for name, value in arguments.items()}


def coerce(value: JsonValue, schema: JsonValue) -> JsonValue:
    """Convert one argument, and the texts inside of it, as in `coerce_arguments`."""
    if not isinstance(schema, dict):
        return value

    wanted_types = list_declared_types(schema)
    if isinstance(value, str) and wanted_types and "string" not in wanted_types:
        try:
            parsed = read_json(value)
        except ValueError:
            return value
        # A text such as '["1", "2"]' may contain texts to convert.
        return coerce(parsed, schema) if has_type(parsed, wanted_types) else value

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
    """Return the object `value`, whose schema is `node`, without nulls for optional properties."""
    properties = as_object(node.schema.get("properties"))
    kept: dict[str, JsonValue] = {}

    for name, item in value.items():
        if name not in properties:
            kept[name] = item
            continue

        child = node.resolve(properties[name])
        if item is None and _is_optional(name, child, node) and not _allows_null(child):
            continue
        kept[name] = _drop_nested_nulls(item, child)

    return kept


def _is_optional(name: str, child: ParameterNode, parent: ParameterNode) -> bool:
    """Return True if `parent` does not require its property `name`, whose schema is `child`."""
    required_names = parent.schema.get("required")
    if isinstance(required_names, list) and name in required_names:
        return False

    # In the setting `parameters`, a parameter has its own `required`, which is a boolean.
    return child.schema.get("required") is not True


def _drop_nested_nulls(value: JsonValue, node: ParameterNode) -> JsonValue:
    """Return `value` without nulls in the objects that it is or contains."""
    nodes = [node, *list_alternatives(node)]

    # With several alternatives, it is not known which of them the value is to fit.
    objects = [candidate for candidate in nodes if "properties" in candidate.schema]
    if isinstance(value, dict) and len(objects) == 1:
        return _drop_nulls(value, objects[0])

    lists = [candidate for candidate in nodes if "items" in candidate.schema]
    if isinstance(value, list) and len(lists) == 1:
        item_node = lists[0].resolve(lists[0].schema["items"])
        return [_drop_nested_nulls(item, item_node) for item in value]

    return value


def _allows_null(node: ParameterNode, levels: int = _NESTED_ALTERNATIVES) -> bool:
    """Return True if null fits `node`, or if that is not known."""
    schema = node.schema
    if "const" in schema:
        return schema["const"] is None

    declared = schema.get("type")
    if declared is not None:
        return declared == "null" or (isinstance(declared, list) and "null" in declared)

    choices = schema.get("enum")
    if isinstance(choices, list):
        return None in choices

    alternatives = list_alternatives(node)
    if not alternatives or not levels:
        return True
    return any(_allows_null(alternative, levels - 1) for alternative in alternatives)


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
    """Return `value` with the defaults of missing properties in the objects that it contains."""
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

    missing = json.dumps(problem.missing, ensure_ascii=False)
    unknown = json.dumps(problem.unknown, ensure_ascii=False)
    # The program JP repeats the first words, and models see the same error here.
    return (
        f"Invalid arguments: Invalid arguments (missing: {missing}, unknown: {unknown})\n\n"
        f'You can call `describe_tools(tools: ["{name}"])` to learn more about how to use the '
        "tool correctly."
    )


class _KeyProblem(NamedTuple):
    """The missing and the unknown keys of one object."""

    missing: list[str]
    unknown: list[str]


def _find_problem(value: Arguments, schema: Schema) -> _KeyProblem | None:
    """Return the problem of the first object that has one, outer objects first."""
    properties = as_object(schema.get("properties"))
    required = schema.get("required")
    wanted = required if isinstance(required, list) else []

    missing = [name for name in wanted if isinstance(name, str) and name not in value]
    unknown = [name for name in value if name not in properties]
    if missing or unknown:
        return _KeyProblem(missing, unknown)

    for name, node in properties.items():
        problem = _find_nested_problem(value.get(name), node)
        if problem is not None:
            return problem
    return None


def _find_nested_problem(value: JsonValue, schema: JsonValue) -> _KeyProblem | None:
    """Return the problem of the object `value`, or of the first item of a list that has one."""
    if not isinstance(schema, dict):
        return None
    if isinstance(value, dict) and as_object(schema.get("properties")):
        return _find_problem(value, schema)

    items = value if isinstance(value, list) else []
    for item in items:
        problem = _find_nested_problem(item, schema.get("items"))
        if problem is not None:
            return problem
    return None
