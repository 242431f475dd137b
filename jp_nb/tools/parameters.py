"""JSON Schema for the parameters of Python functions, and conversion of arguments.

A text argument such as code has `contentMediaType` in its schema, such as `text/x-python`.

Source: `docs/turns.md`, `docs/extending.md`,
https://json-schema.org/draft/2020-12/json-schema-validation#section-8.4,
https://json-schema.org/understanding-json-schema/reference/type#built-in-formats.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from itertools import islice
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import JsonValue

from jp_nb.json_values import read_json

MAX_DEPTH = 8
"""Of parameters within parameters."""
MAX_PARAMETERS = 200
"""Of one tool; of more, their number is told."""
MAX_COUNTED = 1000
"""Of those that are not written: schemas that refer to one another may have very many."""
MAX_TYPE_LEVELS = 6
"""Of types within the type of one parameter."""

Schema = Mapping[str, JsonValue]


def format_documentation(
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
    found, others = list_parameters(schema)
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


def list_parameters(schema: Schema) -> tuple[list[Parameter], str]:
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


_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def parameters_schema(parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
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
        below = parameters_schema(properties)
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


def format_argument_problems(
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


_LANGUAGE: Final = re.compile("text/(?:x-)?([a-z0-9][a-z0-9+#.-]{0,19})")
_PLAIN: Final = "text"


class TextArgument(NamedTuple):
    """One such argument: its name, and the language of its text, such as `python`."""

    name: str
    language: str

    @property
    def caption(self) -> str:
        """Return its name and language, in words."""
        return self.name if self.language == _PLAIN else f"{self.name} ({self.language})"


def text_arguments(
    schema: Mapping[str, JsonValue] | None, arguments: Mapping[str, JsonValue]
) -> tuple[TextArgument, ...]:
    """Return those of `arguments` that `schema` says are such texts, in the order of `schema`.

    >>> schema = {"properties": {"code": {"type": "string", "contentMediaType": "text/x-python"}}}
    >>> text_arguments(schema, {"code": "1 + 1"})
    (TextArgument(name='code', language='python'),)
    """
    properties = (schema or {}).get("properties")
    nodes = properties if isinstance(properties, dict) else {}
    return tuple(
        TextArgument(name, language)
        for name, node in nodes.items()
        if isinstance(arguments.get(name), str) and (language := _language(node))
    )


def _language(node: JsonValue) -> str:
    """Return the language that a property is written in; "" if it is no such text."""
    media_type = node.get("contentMediaType") if isinstance(node, dict) else None
    if not isinstance(media_type, str):
        return ""
    found = _LANGUAGE.fullmatch(media_type.partition(";")[0].strip().lower())
    return "" if found is None else _PLAIN if found[1] == "plain" else found[1]


TextFormat = Literal["email", "uri", "date", "time", "date-time"]

_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@.]+(?:\.[^\s@.]+)*")  # no part can match another's text
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(r"\d\d:\d\d(:\d\d([.,]\d{1,6})?)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_LONGEST: Final = 4000
"""Characters of a text that is looked at: none of these is longer."""


def _is_email(text: str) -> bool:
    return text.isprintable() and _EMAIL.fullmatch(text) is not None


def _is_uri(text: str) -> bool:
    if not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path))


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _parses(date.fromisoformat, text)


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and _parses(time.fromisoformat, text)


def _is_date_time(text: str) -> bool:
    day, between, hour = text[:10], text[10:11], text[11:]
    fits = between in ("T", "t", " ") and _is_date(day) and _TIME.fullmatch(hour) is not None
    return fits and _parses(datetime.fromisoformat, text)


def _parses(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _bounded(check: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: len(text) <= _LONGEST and check(text)


FORMATS: Final[Mapping[TextFormat, Callable[[str], bool]]] = {
    "email": _bounded(_is_email),
    "uri": _bounded(_is_uri),
    "date": _bounded(_is_date),
    "time": _bounded(_is_time),
    "date-time": _bounded(_is_date_time),
}
"""Says of each format whether a text has it."""
