"""The documentation of a tool, in Markdown, for a model that asks for it.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from pydantic import JsonValue

MAX_DEPTH = 8
"""Of parameters within parameters."""
MAX_PARAMETERS = 200
"""Of one tool; of more, their number is told."""
MAX_COUNTED = 1000
"""Of those that are not written: schemas that refer to one another may have very many."""
MAX_TYPE_LEVELS = 6
"""Of types within the type of one parameter."""

Schema = Mapping[str, JsonValue]


def document(
    name: str, summary: str | None, description: str | None, examples: str | None, schema: Schema
) -> str:
    """Return the section about tool `name`; "" if there is nothing to say about it.

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
    found, others = parameters(schema)
    if lines := [line for parameter in found for line in _item(parameter)]:
        written = "\n".join([*lines, *([f"- {others}"] if others else [])])
        parts.append(f"### Parameters\n\n{written}")
    return "\n\n".join([f"## {name}", *parts]) if parts else ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool, or one within another.

    Attributes:
        path: Its name, after the names of those that it is in.
        type: Such as `array of integer` or `string or null`; "" if anything goes.
        required: True if a call must have it.
        values: What is said about its values, such as its default, in Markdown.
        texts: What it is for, in paragraphs.
    """

    path: tuple[str, ...]
    type: str
    required: bool
    values: tuple[str, ...]
    texts: tuple[str, ...]


def parameters(schema: Schema) -> tuple[list[Parameter], str]:
    """Return the first parameters of `schema`, each before those in it, and a word on the rest.

    That is "" if there are no others.
    """
    found = _parameters(_Node(schema, schema), ())
    first = list(islice(found, MAX_PARAMETERS))
    others = sum(1 for _ in islice(found, MAX_COUNTED))
    more = f"more than {others - 1}" if others == MAX_COUNTED else str(others)
    return first, f"… and {more} more" if others else ""


def _parameters(node: _Node, above: tuple[str, ...]) -> Iterator[Parameter]:
    properties, required = node.says.get("properties"), node.says.get("required")
    if not isinstance(properties, dict) or len(above) > MAX_DEPTH:
        return
    for name, written in properties.items():
        below = node.below(written)
        says, within = below.says, list(_within(below))
        by_parent = isinstance(required, list) and name in required
        texts = _paragraphs(says.get("summary"), says.get("description"))
        texts += [f"Examples: {text}" for text in _paragraphs(says.get("examples"))]
        again = ["as above"] if any(inner.again for inner in within) else []
        yield Parameter(
            path=(*above, name),
            type=_type(below),
            required=by_parent or says.get("required") is True,
            values=(*again, *_values(says)),
            texts=tuple(texts),
        )
        for inner in within:
            yield from _parameters(inner, (*above, name))


def _item(parameter: Parameter) -> Iterator[str]:
    """Yield its lines in a list of lists."""
    indentation = "  " * (len(parameter.path) - 1)
    facts = [parameter.type, "required" if parameter.required else "", *parameter.values]
    head = f"`{parameter.path[-1]}` ({', '.join(x for x in facts if x)})".removesuffix(" ()")
    texts = parameter.texts
    text = "\n\n".join([f"{head}: {texts[0]}", *texts[1:]] if texts else [head])
    first, *others = text.split("\n")
    yield f"{indentation}- {first}"
    yield from (f"{indentation}  {line}".rstrip() for line in others)


def _paragraphs(*texts: JsonValue) -> list[str]:
    """Return those of `texts` that say something, each once."""
    said = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    return list(dict.fromkeys(said))


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of a schema, with the definition it refers to.

    Attributes:
        says: Its keys and those of the definition.
        root: The schema.
        open: The definitions that it is in: a schema may refer to itself.
        again: It refers to one of those, whose parts are not written again.
    """

    says: Schema
    root: Schema
    open: frozenset[str] = frozenset()
    again: bool = False

    def below(self, written: JsonValue) -> _Node:
        """Return the node `written` in this one; its own words count before the definition's."""
        if not isinstance(written, dict):
            return replace(self, says={}, again=False)
        several = written.get("allOf")
        reference = several[0] if isinstance(several, list) and len(several) == 1 else written
        name = reference.get("$ref") if isinstance(reference, dict) else None
        definitions = self.root.get("$defs")
        found = None
        if isinstance(name, str) and isinstance(definitions, dict):
            found = definitions.get(name.removeprefix("#/$defs/"))
        if not isinstance(name, str) or not isinstance(found, dict):
            return replace(self, says=written, again=False)
        if name in self.open:
            found = {key: value for key, value in found.items() if key not in _PARTS}
            return replace(self, says={**found, **written}, again=True)
        return _Node({**found, **written}, self.root, self.open | {name})


_PARTS = ("properties", "items", "anyOf", "oneOf")


def _alternatives(node: _Node) -> list[_Node]:
    found: list[_Node] = []
    for key in ("anyOf", "oneOf"):
        members = node.says.get(key)
        found += [node.below(member) for member in members] if isinstance(members, list) else []
    return found


def _within(node: _Node) -> Iterator[_Node]:
    """Yield the nodes whose properties belong below `node`."""
    for one in (node, *_alternatives(node)):
        yield one
        if "items" in one.says:
            yield one.below(one.says["items"])


def _type(node: _Node, levels: int = MAX_TYPE_LEVELS) -> str:
    """Return the type in words: `string`, `array of integer`, `string or null`."""
    declared = node.says.get("type")
    if isinstance(declared, str) and declared != "array":
        return declared
    if not levels:
        return declared if isinstance(declared, str) else ""
    if declared == "array":
        inner = _type(node.below(node.says.get("items")), levels - 1)
        return f"array of {inner}" if inner and " or " not in inner else "array"
    names = declared if isinstance(declared, list) else []
    names = names or [_type(member, levels - 1) for member in _alternatives(node)]
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
