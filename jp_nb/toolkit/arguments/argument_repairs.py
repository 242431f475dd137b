"""Repair the arguments of a call: numbers that a model sent as texts, and null for no argument.

Only the repair of nulls follows references (`$ref`), and looks into alternatives (`anyOf`). The
conversion of texts reads the types of the alternatives, and nothing inside of them. The schemas of
Python functions and of servers have references and alternatives. Their texts are converted by the
function or server itself.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from jp_nb.json_reading import read_json
from jp_nb.json_schema import Schema
from jp_nb.json_values import as_object
from jp_nb.toolkit.arguments.call_arguments import Arguments
from jp_nb.toolkit.arguments.json_types import has_type, list_declared_types
from jp_nb.toolkit.arguments.parameter_nodes import ParameterNode, list_alternatives

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
