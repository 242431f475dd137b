"""Make the JSON schema of a tool's arguments from the setting `parameters`.

In the setting, each parameter has its own `required`, and may have texts for the documentation:

    {"city": {"type": "string", "summary": "A city.", "required": True}}

In the schema, `required` is a list of names, and one of the texts is the `description`:

    {"type": "object", "properties": {"city": {"type": "string", "description": "A city."}},
     "required": ["city"], "additionalProperties": False}

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.json_values import as_object


def argument(kind: JsonValue, description: str, **more: JsonValue) -> dict[str, JsonValue]:
    """Return the schema of an argument of a built-in tool, of a JSON type (or of several).

    `more` are further keywords of JSON Schema.
    """
    return {"type": kind, **more, "description": description}


def make_parameters_schema(parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the JSON schema of the setting `parameters`, without additional properties."""
    required: list[JsonValue] = [
        name
        for name, node in parameters.items()
        if isinstance(node, dict) and node.get("required") is True
    ]

    return {
        "type": "object",
        "properties": {name: _make_parameter_schema(node) for name, node in parameters.items()},
        "additionalProperties": False,
        "required": required,
    }


def _make_parameter_schema(node: JsonValue) -> JsonValue:
    """Return the schema of one parameter, with only the keywords that the model needs."""
    if not isinstance(node, dict):
        return node

    schema: dict[str, JsonValue] = {}
    if "type" in node:
        schema["type"] = node["type"]
    # The summary is the short text. With one, the description is only in the documentation.
    description = node.get("summary") or node.get("description")
    if description:
        schema["description"] = description

    if "default" in node:
        schema["default"] = node["default"]
    if node.get("enum"):
        schema["enum"] = node["enum"]
    if "items" in node:
        schema["items"] = _make_parameter_schema(node["items"])

    properties = as_object(node.get("properties"))
    if properties:
        object_schema = make_parameters_schema(properties)
        schema["properties"] = object_schema["properties"]
        schema["required"] = object_schema["required"]
    return schema
