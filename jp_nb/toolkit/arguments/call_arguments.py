"""Complete the arguments of a call by the JSON schema of its tool, or refuse them.

`argument_repairs.py` has repaired them. Defaults are filled in, and missing or unknown arguments
are an error for the model.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_values import as_object

Arguments = Mapping[str, JsonValue]


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
