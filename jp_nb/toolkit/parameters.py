"""Parameters of tools: their JSON Schema and documentation, and checks of arguments.

A text argument such as code has `contentMediaType` in its schema, such as `text/x-python`.

Source: `docs/turns.md`, `docs/extending.md`,
https://json-schema.org/draft/2020-12/json-schema-validation#section-8.4,
https://json-schema.org/understanding-json-schema/reference/type#built-in-formats.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from itertools import islice
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import JsonValue

from jp_nb.json_values import as_object, read_json

MAX_PARAMETER_DEPTH = 8  # limit for the nesting of parameters
MAX_PARAMETERS = 200
"""Limit for the documented parameters of one tool. Further ones are only counted."""
MAX_COUNTED = 1000  # limit for that count: a recursive schema may have very many parameters

Schema = Mapping[str, JsonValue]
Arguments = Mapping[str, JsonValue]


def format_documentation(
    name: str, summary: str | None, description: str | None, examples: str | None, schema: Schema
) -> str:
    """Return the documentation of the tool `name` in Markdown; "" if there is none.

    As in the setting `parameters`, a property in `schema` may also have `summary`, `examples`, and
    `required`.
    """
    parts = _paragraphs(summary, description)
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
    found = _walk_parameters(_Node(schema, schema), ())
    first = list(islice(found, MAX_PARAMETERS))
    others = sum(1 for _ in islice(found, MAX_COUNTED))
    more = f"more than {others - 1}" if others == MAX_COUNTED else str(others)
    note = f"… and {more} more" if others else ""
    return first, note


def _walk_parameters(node: _Node, above: tuple[str, ...]) -> Iterator[Parameter]:
    required = node.keys.get("required")
    if len(above) > MAX_PARAMETER_DEPTH:
        return

    for name, schema in as_object(node.keys.get("properties")).items():
        child = node.resolve(schema)
        keys = child.keys
        parents = list(_nodes_with_properties(child))
        by_parent = isinstance(required, list) and name in required
        texts = _paragraphs(keys.get("summary"), keys.get("description"))
        texts += [f"Examples: {text}" for text in _paragraphs(keys.get("examples"))]
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


def _paragraphs(*texts: JsonValue) -> list[str]:
    found = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class _Node:
    """A part of a schema: the keys of its definition, overridden by those of the part itself.

    `open` has the references that lead to this part. If its own reference is among them
    (`is_recursive`), its properties are omitted.
    """

    keys: Schema
    root: Schema
    open: frozenset[str] = frozenset()
    is_recursive: bool = False

    def resolve(self, schema: JsonValue) -> _Node:
        if not isinstance(schema, dict):
            return replace(self, keys={}, is_recursive=False)

        members = schema.get("allOf")
        reference = members[0] if isinstance(members, list) and len(members) == 1 else schema
        name = reference.get("$ref") if isinstance(reference, dict) else None

        definitions = self.root.get("$defs")
        found = None
        if isinstance(name, str) and isinstance(definitions, dict):
            found = definitions.get(name.removeprefix("#/$defs/"))

        if not isinstance(name, str) or not isinstance(found, dict):
            return replace(self, keys=schema, is_recursive=False)

        if name in self.open:
            parts = ("properties", "items", "anyOf", "oneOf")
            found = {key: value for key, value in found.items() if key not in parts}
            return replace(self, keys={**found, **schema}, is_recursive=True)
        return _Node({**found, **schema}, self.root, self.open | {name})


def _alternatives(node: _Node) -> list[_Node]:
    found: list[_Node] = []
    for key in ("anyOf", "oneOf"):
        members = node.keys.get(key)
        if isinstance(members, list):
            found += [node.resolve(member) for member in members]
    return found


def _nodes_with_properties(node: _Node) -> Iterator[_Node]:
    for each in (node, *_alternatives(node)):
        yield each
        if "items" in each.keys:
            yield each.resolve(each.keys["items"])


def _format_type(node: _Node, levels: int = 6) -> str:  # deeper types are not spelled out
    declared = node.keys.get("type")
    if isinstance(declared, str) and declared != "array":
        return declared

    if not levels:
        return declared if isinstance(declared, str) else ""

    if declared == "array":
        inner = _format_type(node.resolve(node.keys.get("items")), levels - 1)
        return f"array of {inner}" if inner and " or " not in inner else "array"

    names = declared if isinstance(declared, list) else []
    names = names or [_format_type(member, levels - 1) for member in _alternatives(node)]
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


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def argument(kind: JsonValue, description: str, **more: JsonValue) -> dict[str, JsonValue]:
    """Return the schema of an argument of a JSON type (or of several), with further keywords."""
    return {"type": kind, **more, "description": description}


def parameters_schema(parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the JSON schema of the setting `parameters`, without additional properties."""
    required: list[JsonValue] = [
        name
        for name, node in parameters.items()
        if isinstance(node, dict) and node.get("required") is True
    ]

    return {
        "type": "object",
        "properties": {name: _parameter_schema(node) for name, node in parameters.items()},
        "additionalProperties": False,
        "required": required,
    }


def _parameter_schema(node: JsonValue) -> JsonValue:
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
        schema["items"] = _parameter_schema(node["items"])

    properties = as_object(node.get("properties"))
    if properties:
        below = parameters_schema(properties)
        schema["properties"] = below["properties"]
        schema["required"] = below["required"]
    return schema


def coerce_arguments(arguments: Arguments, schema: Schema) -> dict[str, JsonValue]:
    """Parse each text as JSON if `schema` declares another type than a string."""
    known = as_object(schema.get("properties"))
    return {name: coerce(value, known.get(name)) for name, value in arguments.items()}


def coerce(value: JsonValue, schema: JsonValue) -> JsonValue:
    """Convert one argument as in `coerce_arguments`."""
    if not isinstance(schema, dict):
        return value

    wanted = declared_types(schema)
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

    Models send null for an argument that they leave out. Properties of objects count, too.
    """
    return _drop_nulls(arguments, _Node(schema, schema))


def _drop_nulls(value: Arguments, node: _Node) -> dict[str, JsonValue]:
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


def _drop_nested_nulls(value: JsonValue, node: _Node) -> JsonValue:
    objects = [each for each in (node, *_alternatives(node)) if "properties" in each.keys]
    if isinstance(value, dict) and len(objects) == 1:
        return _drop_nulls(value, objects[0])

    lists = [each for each in (node, *_alternatives(node)) if "items" in each.keys]
    if isinstance(value, list) and len(lists) == 1:
        items = lists[0].resolve(lists[0].keys["items"])
        return [_drop_nested_nulls(item, items) for item in value]
    return value


def _allows_null(node: _Node, levels: int = 6) -> bool:
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

    members = _alternatives(node)
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


def declared_types(schema: Mapping[str, JsonValue]) -> set[str]:
    """Return the JSON types that `schema` declares; an empty set if they are not known."""
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


def has_type(value: JsonValue, wanted: Collection[str]) -> bool:
    """Return True if `value` has one of the JSON types `wanted`."""
    if isinstance(value, bool):  # bool is a subclass of int
        return "boolean" in wanted
    return any(isinstance(value, _PYTHON_TYPES.get(name, ())) for name in wanted)


_LANGUAGE: Final = re.compile("text/(?:x-)?([a-z0-9][a-z0-9+#.-]{0,19})")
_PLAIN: Final = "text"


class TextArgument(NamedTuple):
    """An argument with text in a language such as `python`."""

    name: str
    language: str

    @property
    def caption(self) -> str:
        """Name and language, such as `code (python)`."""
        return self.name if self.language == _PLAIN else f"{self.name} ({self.language})"


def text_arguments(schema: Schema | None, arguments: Arguments) -> tuple[TextArgument, ...]:
    """Return the text arguments among `arguments`, in the order of `schema`.

    >>> schema = {"properties": {"code": {"type": "string", "contentMediaType": "text/x-python"}}}
    >>> text_arguments(schema, {"code": "1 + 1"})
    (TextArgument(name='code', language='python'),)
    """
    properties = as_object((schema or {}).get("properties"))
    found: list[TextArgument] = []
    for name, node in properties.items():
        language = _language(node)
        if language and isinstance(arguments.get(name), str):
            found.append(TextArgument(name, language))
    return tuple(found)


def _language(node: JsonValue) -> str:
    media_type = node.get("contentMediaType") if isinstance(node, dict) else None
    if not isinstance(media_type, str):
        return ""

    found = _LANGUAGE.fullmatch(media_type.partition(";")[0].strip().lower())
    if found is None:
        return ""
    return _PLAIN if found[1] == "plain" else found[1]


TextFormat = Literal["email", "uri", "date", "time", "date-time"]

# No part of this pattern matches the text of another part, so it does not backtrack.
_EMAIL: Final = re.compile(r"[^\s@]+@[^\s@.]+(?:\.[^\s@.]+)*")
_DATE: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = r"\d\d:\d\d(:\d\d([.,]\d{1,6})?)?(Z|[+-]\d\d:\d\d)?"


def _is_uri(text: str) -> bool:
    if not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path))


def has_format(text: str, name: TextFormat) -> bool:
    """Return True if `text` has the format `name`."""
    if len(text) > 4000:  # longer texts have none of the formats
        return False
    match name:
        case "email":
            return text.isprintable() and _EMAIL.fullmatch(text) is not None
        case "uri":
            return _is_uri(text)

    pattern, parse = _TIMES[name]
    if pattern.fullmatch(text) is not None:
        with suppress(ValueError):
            parse(text)
            return True
    return False


_TIMES: Final[Mapping[str, tuple[re.Pattern[str], Callable[[str], object]]]] = {
    "date": (re.compile(_DATE, re.ASCII), date.fromisoformat),
    "time": (re.compile(_TIME, re.ASCII), time.fromisoformat),
    "date-time": (re.compile(f"{_DATE}[Tt ]{_TIME}", re.ASCII), datetime.fromisoformat),
}
