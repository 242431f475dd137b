"""The documentation of a tool, in Markdown, for a model that asks for it.

Source: `spec/tools-and-turn-loop.md` sections 1.7 and 2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

MAX_DEPTH = 8
"""Of parameters within parameters: a schema may refer to itself."""

Schema = Mapping[str, JsonValue]


def document(
    name: str, summary: str | None, description: str | None, examples: str | None, schema: Schema
) -> str:
    """The section about tool `name`; "" if there is nothing to say about it.

    Args:
        name: The tool.
        summary: What the model is told with every request, if that is not the description.
        description: What it does, at length.
        examples: How it is used.
        schema: JSON schema of its arguments. Nodes may also have `summary` and `examples`, and
            `required` of their own, as parameters are configured.
    """
    parts = _paragraphs(summary, description)
    if examples and examples.strip():
        parts.append(f"### Examples\n\n{examples.strip()}")
    if lines := "\n".join(line for parameter in parameters(schema) for line in _item(parameter)):
        parts.append(f"### Parameters\n\n{lines}")
    return "\n\n".join([f"## {name}", *parts]) if parts else ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool, or one within another.

    Attributes:
        path: Its name, after the names of those that it is in.
        type: Such as `array of integer` or `string or null`; "" if anything goes.
        required: Whether a call must have it.
        values: What is said about its values, such as its default, in Markdown.
        texts: What it is for, in paragraphs.
    """

    path: tuple[str, ...]
    type: str
    required: bool
    values: tuple[str, ...]
    texts: tuple[str, ...]


def parameters(schema: Schema) -> Iterator[Parameter]:
    """The parameters of `schema`, each before those within it."""
    return _parameters(schema, schema, ())


def _parameters(node: Schema, root: Schema, above: tuple[str, ...]) -> Iterator[Parameter]:
    properties, required = node.get("properties"), node.get("required")
    if not isinstance(properties, dict) or len(above) > MAX_DEPTH:
        return
    for name, written in properties.items():
        below = _resolved(written, root)
        by_parent = isinstance(required, list) and name in required
        texts = _paragraphs(below.get("summary"), below.get("description"))
        texts += [f"Examples: {text}" for text in _paragraphs(below.get("examples"))]
        yield Parameter(
            path=(*above, name),
            type=_type(below, root),
            required=by_parent or below.get("required") is True,
            values=tuple(_values(below)),
            texts=tuple(texts),
        )
        for inner in _within(below, root):
            yield from _parameters(inner, root, (*above, name))


def _item(parameter: Parameter) -> Iterator[str]:
    """Its lines in a list of lists."""
    indentation = "  " * (len(parameter.path) - 1)
    facts = [parameter.type, "required" if parameter.required else "", *parameter.values]
    head = f"`{parameter.path[-1]}` ({', '.join(x for x in facts if x)})".removesuffix(" ()")
    texts = parameter.texts
    text = "\n\n".join([f"{head}: {texts[0]}", *texts[1:]] if texts else [head])
    first, *others = text.split("\n")
    yield f"{indentation}- {first}"
    yield from (f"{indentation}  {line}".rstrip() for line in others)


def _paragraphs(*texts: JsonValue) -> list[str]:
    """Those of `texts` that say something, each once."""
    said = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    return list(dict.fromkeys(said))


def _resolved(node: JsonValue, root: Schema) -> Schema:
    """`node` with the definition it refers to; what it says itself counts first."""
    if not isinstance(node, dict):
        return {}
    several = node.get("allOf")
    reference = several[0] if isinstance(several, list) and len(several) == 1 else node
    name = reference.get("$ref") if isinstance(reference, dict) else None
    definitions = root.get("$defs")
    if not isinstance(name, str) or not isinstance(definitions, dict):
        return node
    found = definitions.get(name.removeprefix("#/$defs/"))
    return {**found, **node} if isinstance(found, dict) else node


def _alternatives(node: Schema, root: Schema) -> list[Schema]:
    found: list[Schema] = []
    for key in ("anyOf", "oneOf"):
        members = node.get(key)
        found += [_resolved(m, root) for m in members] if isinstance(members, list) else []
    return found


def _within(node: Schema, root: Schema) -> Iterator[Schema]:
    """The nodes whose properties belong below `node`."""
    for one in (node, *_alternatives(node, root)):
        yield one
        if "items" in one:
            yield _resolved(one["items"], root)


def _type(node: Schema, root: Schema) -> str:
    """Such as `string`, `array of integer`, `string or null`."""
    declared = node.get("type")
    if declared == "array":
        inner = _type(_resolved(node.get("items"), root), root)
        return f"array of {inner}" if inner and " or " not in inner else "array"
    if isinstance(declared, str):
        return declared
    names = declared if isinstance(declared, list) else []
    names = names or [_type(member, root) for member in _alternatives(node, root)]
    return " or ".join(dict.fromkeys(str(name) for name in names if name))


def _values(node: Schema) -> Iterator[str]:
    values = node.get("enum")
    if isinstance(values, list) and values:
        yield f"one of {', '.join(map(_json, values))}"
    if "const" in node:
        yield f"always {_json(node['const'])}"
    if "default" in node:
        yield f"default {_json(node['default'])}"


def _json(value: JsonValue) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`"
