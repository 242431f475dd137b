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
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.json_schema import Schema
from jp_nb.json_values import as_object
from jp_nb.toolkit.arguments.parameter_nodes import ParameterNode, list_alternatives

MAX_PARAMETER_DEPTH = 8  # limit for the nesting of parameters
MAX_PARAMETERS = 200
"""Limit for the documented parameters of one tool. Further ones are only counted."""
MAX_COUNTED = 1000  # limit for that count: a recursive schema may have very many parameters
_TYPE_LEVELS = 6  # limit for the nesting of a type, such as `array of array of integer`


def format_documentation(
    name: str, summary: str | None, description: str | None, examples: str | None, schema: Schema
) -> str:
    """Return the documentation of the tool `name` in Markdown; "" if there is none.

    As in the setting `parameters`, a property in `schema` may also have `summary`, `examples`, and
    `required`.
    """
    parts = _list_different_texts(summary, description)
    if examples and examples.strip():
        parts.append(f"### Examples\n\n{examples.strip()}")

    listed = list_parameters(schema)
    lines: list[str] = []
    for parameter in listed.parameters:
        lines += _format_parameter(parameter)
    if listed.note:
        lines.append(f"- {listed.note}")

    if lines:
        parameter_list = "\n".join(lines)
        parts.append(f"### Parameters\n\n{parameter_list}")

    if not parts:
        return ""
    return "\n\n".join([f"## {name}", *parts])


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool, or a property of a parameter.

    Attributes:
        path: The names of the outer parameters, then its own.
        type: For example `array of integer` or `string or null`; "" for any type.
        required: True if the model must give it.
        values: Facts about its values, such as the default, in Markdown.
        texts: The paragraphs of its description.
    """

    path: tuple[str, ...]
    type: str
    required: bool
    values: tuple[str, ...]
    texts: tuple[str, ...]


class ListedParameters(NamedTuple):
    """The documented parameters of a tool, and a note about the others; "" if there are none."""

    parameters: list[Parameter]
    note: str


def list_parameters(schema: Schema) -> ListedParameters:
    """Return the first `MAX_PARAMETERS` parameters, each one above its properties."""
    all_parameters = _walk_parameters(ParameterNode(schema, schema), ())
    first = list(islice(all_parameters, MAX_PARAMETERS))
    other_count = sum(1 for _ in islice(all_parameters, MAX_COUNTED))

    if not other_count:
        return ListedParameters(first, "")
    if other_count == MAX_COUNTED:
        return ListedParameters(first, f"… and more than {MAX_COUNTED - 1} more")
    return ListedParameters(first, f"… and {other_count} more")


def _walk_parameters(node: ParameterNode, outer_names: tuple[str, ...]) -> Iterator[Parameter]:
    """Yield the properties of the object `node`, each followed by its own properties.

    This also ends for a recursive schema: a recursive node has no properties.
    """
    if len(outer_names) > MAX_PARAMETER_DEPTH:
        return

    required_names = node.schema.get("required")
    for name, schema in as_object(node.schema.get("properties")).items():
        child = node.resolve(schema)
        is_required_by_node = isinstance(required_names, list) and name in required_names
        inner_nodes = list(_iter_inner_nodes(child))
        is_recursive = any(inner.is_recursive for inner in inner_nodes)

        yield _make_parameter(
            (*outer_names, name),
            child,
            is_required_by_node=is_required_by_node,
            is_recursive=is_recursive,
        )

        for inner in inner_nodes:
            yield from _walk_parameters(inner, (*outer_names, name))


def _iter_inner_nodes(node: ParameterNode) -> Iterator[ParameterNode]:
    """Yield `node`, its alternatives, and their items: each of them may have properties."""
    for alternative in (node, *list_alternatives(node)):
        yield alternative
        if "items" in alternative.schema:
            yield alternative.resolve(alternative.schema["items"])


def _make_parameter(
    path: tuple[str, ...], node: ParameterNode, *, is_required_by_node: bool, is_recursive: bool
) -> Parameter:
    """Return the documentation of one parameter. A recursive one refers to itself above."""
    schema = node.schema
    texts = _list_different_texts(schema.get("summary"), schema.get("description"))
    texts += [f"Examples: {text}" for text in _list_different_texts(schema.get("examples"))]

    values = list(_format_values(schema))
    if is_recursive:
        values.insert(0, "as above")

    return Parameter(
        path=path,
        type=_format_type(node),
        required=is_required_by_node or schema.get("required") is True,
        values=tuple(values),
        texts=tuple(texts),
    )


def _format_type(node: ParameterNode, levels: int = _TYPE_LEVELS) -> str:
    """Return the type in words, as in `Parameter.type`, spelled out to `levels` levels."""
    declared = node.schema.get("type")
    if isinstance(declared, str) and declared != "array":
        return declared

    if not levels:
        return declared if isinstance(declared, str) else ""

    if declared == "array":
        inner = _format_type(node.resolve(node.schema.get("items")), levels - 1)
        # "array of integer or null" could mean two types.
        return f"array of {inner}" if inner and " or " not in inner else "array"

    if isinstance(declared, list) and declared:
        names = [str(name) for name in declared]
    else:
        names = [_format_type(member, levels - 1) for member in list_alternatives(node)]
    return " or ".join(dict.fromkeys(name for name in names if name))


def _format_values(schema: Schema) -> Iterator[str]:
    """Yield facts about the values of a parameter: the choices, and its default."""
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
    """Yield the lines of one item of the list, indented by its depth."""
    facts = [parameter.type] if parameter.type else []
    if parameter.required:
        facts.append("required")
    facts += filter(None, parameter.values)

    text = f"`{parameter.path[-1]}`"
    if facts:
        text += f" ({', '.join(facts)})"
    if parameter.texts:
        text += ": " + "\n\n".join(parameter.texts)

    indentation = "  " * (len(parameter.path) - 1)
    first_line, *other_lines = text.split("\n")
    yield f"{indentation}- {first_line}"
    yield from (f"{indentation}  {line}".rstrip() for line in other_lines)


def _list_different_texts(*texts: JsonValue) -> list[str]:
    """Return those of `texts` that are not blank. A description often repeats the summary."""
    stripped = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    return list(dict.fromkeys(stripped))
