"""Document a tool and its parameters in Markdown, for the model and for `%jp tools`.

Each parameter is one item of a list. The properties of an object are a list below it:

    - `city` (string, required): Name of the city.
    - `options` (object)
      - `days` (integer, default `3`)

Source: `docs/turns.md`, `docs/extending.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_values import as_object
from jp_nb.toolkit.arguments.parameter_nodes import ParameterNode, list_alternatives

MAX_PARAMETER_DEPTH = 8  # limit for the nesting of parameters
MAX_PARAMETERS = 200
"""Limit for the documented parameters of one tool. Further ones are only counted."""
MAX_COUNTED = 1000  # limit for that count: a recursive schema may have very many parameters


def format_documentation(
    name: str, summary: str | None, description: str | None, examples: str | None, schema: Schema
) -> str:
    """Return the documentation of the tool `name` in Markdown; "" if there is none.

    As in the setting `parameters`, a property in `schema` may also have `summary`, `examples`, and
    `required`.
    """
    parts = _split_paragraphs(summary, description)
    if examples and examples.strip():
        parts.append(f"### Examples\n\n{examples.strip()}")

    found, others = list_parameters(schema)
    lines: list[str] = []
    for parameter in found:
        lines += _format_parameter(parameter)
    if lines:
        if others:
            lines.append(f"- {others}")
        written = "\n".join(lines)
        parts.append(f"### Parameters\n\n{written}")

    if not parts:
        return ""
    return "\n\n".join([f"## {name}", *parts])


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool, or a property of a parameter. `path` has the names to it.

    Attributes:
        type: For example `array of integer` or `string or null`; "" for any type.
        values: Facts about its values, such as the default, in Markdown.
    """

    path: tuple[str, ...]
    type: str
    required: bool
    values: tuple[str, ...]
    texts: tuple[str, ...]


def list_parameters(schema: Schema) -> tuple[list[Parameter], str]:
    """Return the first `MAX_PARAMETERS` parameters, outer ones first, and a note about the rest.

    The note is "" if there are no others.
    """
    found = _walk_parameters(ParameterNode(schema, schema), ())
    first = list(islice(found, MAX_PARAMETERS))
    others = sum(1 for _ in islice(found, MAX_COUNTED))
    more = f"more than {others - 1}" if others == MAX_COUNTED else str(others)
    note = f"… and {more} more" if others else ""
    return first, note


def _walk_parameters(node: ParameterNode, above: tuple[str, ...]) -> Iterator[Parameter]:
    required = node.keys.get("required")
    if len(above) > MAX_PARAMETER_DEPTH:
        return

    for name, schema in as_object(node.keys.get("properties")).items():
        child = node.resolve(schema)
        keys = child.keys
        parents = list(_iter_nodes_with_properties(child))
        by_parent = isinstance(required, list) and name in required
        texts = _split_paragraphs(keys.get("summary"), keys.get("description"))
        texts += [f"Examples: {text}" for text in _split_paragraphs(keys.get("examples"))]
        recursion = ["as above"] if any(each.is_recursive for each in parents) else []

        yield Parameter(
            path=(*above, name),
            type=_format_type(child),
            required=by_parent or keys.get("required") is True,
            values=(*recursion, *_format_values(keys)),
            texts=tuple(texts),
        )

        for each in parents:
            yield from _walk_parameters(each, (*above, name))


def _iter_nodes_with_properties(node: ParameterNode) -> Iterator[ParameterNode]:
    for each in (node, *list_alternatives(node)):
        yield each
        if "items" in each.keys:
            yield each.resolve(each.keys["items"])


def _format_type(node: ParameterNode, levels: int = 6) -> str:  # deeper types are not spelled out
    declared = node.keys.get("type")
    if isinstance(declared, str) and declared != "array":
        return declared

    if not levels:
        return declared if isinstance(declared, str) else ""

    if declared == "array":
        inner = _format_type(node.resolve(node.keys.get("items")), levels - 1)
        return f"array of {inner}" if inner and " or " not in inner else "array"

    names = declared if isinstance(declared, list) else []
    names = names or [_format_type(member, levels - 1) for member in list_alternatives(node)]
    return " or ".join(dict.fromkeys(str(name) for name in names if name))


def _format_values(schema: Schema) -> Iterator[str]:
    values = schema.get("enum")
    if isinstance(values, list) and values:
        yield f"one of {', '.join(map(_format_json, values))}"
    if "const" in schema:
        yield f"always {_format_json(schema['const'])}"
    if "default" in schema:
        yield f"default {_format_json(schema['default'])}"


def _format_json(value: JsonValue) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _format_parameter(parameter: Parameter) -> Iterator[str]:
    indentation = "  " * (len(parameter.path) - 1)
    facts = [parameter.type] if parameter.type else []
    if parameter.required:
        facts.append("required")
    facts += filter(None, parameter.values)
    text = f"`{parameter.path[-1]}`"
    if facts:
        text += f" ({', '.join(facts)})"
    if parameter.texts:
        text += ": " + "\n\n".join(parameter.texts)

    first, *others = text.split("\n")
    yield f"{indentation}- {first}"
    yield from (f"{indentation}  {line}".rstrip() for line in others)


def _split_paragraphs(*texts: JsonValue) -> list[str]:
    found = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    return list(dict.fromkeys(found))
