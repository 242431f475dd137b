"""Tools of MCP servers as tools of the model: names, descriptions, schemas, digests.

Everything that a server says about its tools is hostile text. A tool with a schema that cannot be
used is dropped alone, in bounded time.

Source: `docs/mcp.md`, Tools; https://modelcontextprotocol.io/specification/2026-07-28/server/tools.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from jp_nb.config.tree.tool_settings import JSON_TYPES
from jp_nb.errors import UsageError
from jp_nb.json_schema import (
    ONLY_ITSELF,
    Schema,
    find_loop,
    format_schema_path,
    map_schemas,
    walk_schemas,
    without_infinite_numbers,
)
from jp_nb.json_values import (
    MAX_SCHEMA_LEVELS,
    JsonObject,
    encode_utf8,
    is_deeper,
    make_storable,
    sorted_json,
)
from jp_nb.mcp.exchange import ServerTool
from jp_nb.text import one_line, plain
from jp_nb.toolkit.misfits import find_property_problems, find_schema_problem

SEPARATOR: Final = "__"
MAX_TOOL_NAME_CHARS: Final = 64
"""Maximum length of the name of a tool. All providers accept it."""
HASH_CHARS: Final = 8
MAX_DESCRIPTION_CHARS: Final = 4_000
"""Maximum length of the description of a server's tool, as it is sent."""
MAX_INSTRUCTIONS_CHARS: Final = 2_000
"""Maximum length of a server's instructions, as they are sent."""
MAX_SCHEMA_VALUES: Final = 5_000
"""Maximum number of values in the schema of a server's tool."""
MAX_SCHEMA_CHARS: Final = 200_000
"""Maximum length of the schema of a server's tool as JSON."""
_NOT_ACCEPTED: Final = re.compile(r"[^A-Za-z0-9_-]")
_FIRST_ACCEPTED: Final = re.compile(r"[A-Za-z_]")


def make_digest(value: JsonValue) -> str:
    """Return the SHA-256 of `value` as JSON, independent of the order of keys."""
    return hashlib.sha256(encode_utf8(sorted_json(value))).hexdigest()


# --- names ---------------------------------------------------------------------------------------


def map_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the name for the model of each tool of `server`, by the server's own name.

    Two tools with the same name for the model both get a hash of their own names. The result only
    depends on the server and its tools, so another kernel finds the same names. A tool whose name
    collides all the same is not in the result.
    """
    own_names = list(dict.fromkeys(tools))
    plain_names = {own: _accept_name(server, own) for own in own_names}
    counts = Counter(plain_names.values())
    hashed = {own: _add_hash(plain_names[own], server, own) for own in own_names}
    taken = {hashed[own] for own in own_names if counts[plain_names[own]] > 1}

    names: dict[str, str] = {}
    used: set[str] = set()
    for own in own_names:
        name = plain_names[own]
        if counts[name] > 1 or name in taken:
            name = hashed[own]
        if name not in used:
            names[own] = name
            used.add(name)
    return names


def may_be_name(server: str, name: str) -> bool:
    """Return True if `map_names` may give `name` to a tool of `server`."""
    return name.startswith(_prefix(server)) and len(name) > len(_prefix(server))


def _prefix(server: str) -> str:
    prefix = _NOT_ACCEPTED.sub("_", server) + SEPARATOR
    return prefix if _FIRST_ACCEPTED.match(prefix) else f"_{prefix}"


def _accept_name(server: str, tool: str) -> str:
    prefix = _prefix(server)
    name = prefix + _NOT_ACCEPTED.sub("_", tool)
    # `a__b` of the server `c`, and `b` of the server `c__a`, are different tools.
    is_ambiguous = name.partition(SEPARATOR)[0] != server or name.partition(SEPARATOR)[2] == ""
    if is_ambiguous or len(name) > MAX_TOOL_NAME_CHARS:
        return _add_hash(name, server, tool)
    return name


def _add_hash(name: str, server: str, tool: str) -> str:
    mark = make_digest([server, tool])[:HASH_CHARS]
    if name.endswith(f"_{mark}"):
        return name
    return f"{name[: MAX_TOOL_NAME_CHARS - HASH_CHARS - 1]}_{mark}"


# --- definitions ---------------------------------------------------------------------------------


def format_problems(problems: Mapping[str, str]) -> list[str]:
    """Return the `problems` in words, by the names of properties; "" is the whole value."""
    lines: list[str] = []
    for name, text in problems.items():
        line = f"{name}: {text}" if name else text
        lines.append(line)
    return lines


@dataclass(frozen=True, slots=True)
class UnusableTool:
    """A tool of a server that is not offered, with the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class McpDefinition:
    """A tool of a server as the model gets it.

    Attributes:
        server: Name of the server in the configuration.
        tool: The tool as the server describes it.
        name: Name for the model.
        schema: JSON schema of the arguments.
    """

    server: str
    tool: ServerTool
    name: str
    schema: Schema

    @cached_property
    def digest(self) -> str:
        """Digest of everything that the server says about the tool."""
        return definition_digest(self.tool)

    @cached_property
    def description(self) -> str:
        """Description for the model, marked as the words of the server."""
        own = self.tool.description or self.tool.title or ""
        mark = f"[Tool of the MCP server {self.server}]"
        words = plain(own, limit=MAX_SCHEMA_CHARS).strip()
        return cut_text(f"{mark} {words}".strip(), MAX_DESCRIPTION_CHARS)

    @cached_property
    def _can_check(self) -> bool:
        return find_schema_problem(self.schema) is None

    def check_arguments(self, arguments: Mapping[str, JsonValue]) -> str | None:
        """Return the problems of `arguments` in words, or None.

        A schema whose check may take too long is left to the server.
        """
        if not self._can_check:
            return None
        problems = find_property_problems(arguments, self.schema)
        if not problems:
            return None

        lines = format_problems(problems)
        return f"Invalid arguments for {self.name}: {'; '.join(lines)}. Correct the call."


@dataclass(frozen=True, slots=True)
class ServerDefinitions:
    """The tools of a server that can be offered, in its order, and the others."""

    usable: tuple[McpDefinition, ...] = ()
    unusable: tuple[UnusableTool, ...] = ()

    def find(self, tool: str) -> McpDefinition | None:
        """Return the definition of the tool that the server calls `tool`."""
        return next((each for each in self.usable if each.tool.name == tool), None)


def read_definitions(server: str, tools: Sequence[ServerTool]) -> ServerDefinitions:
    """Return the definitions of the `tools` of `server`."""
    names = map_names(server, [tool.name for tool in tools])
    usable: dict[str, McpDefinition] = {}
    unusable: list[UnusableTool] = []

    for tool in tools:
        name = names.get(tool.name)
        if name is None or name in usable:
            unusable.append(UnusableTool(tool.name, "another tool of the server has its name"))
            continue

        schema = read_schema(tool.input_schema)
        if isinstance(schema, str):
            unusable.append(UnusableTool(tool.name, schema))
        else:
            usable[name] = McpDefinition(server, tool, name, schema)

    return ServerDefinitions(tuple(usable.values()), tuple(unusable))


def definition_digest(tool: ServerTool) -> str:
    """Return the digest of everything that a server says about `tool`."""
    output_schema = None if tool.output_schema is None else dict(tool.output_schema)
    said: JsonValue = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": dict(tool.input_schema),
        "outputSchema": output_schema,
        "hints": dict(tool.hints),
    }
    return make_digest(make_storable(said))


def find_changes(before: ServerDefinitions, now: ServerDefinitions) -> list[str]:
    """Return the names for the model of the tools that changed, in the order of `before`."""
    digests = {each.name: each.digest for each in now.usable}
    return [
        each.name for each in before.usable if digests.get(each.name, each.digest) != each.digest
    ]


def read_schema(schema: Mapping[str, JsonValue]) -> Schema | str:
    """Return the schema of a tool's arguments, or the reason why it cannot be used."""
    if is_deeper(dict(schema), MAX_SCHEMA_LEVELS):
        return f"its schema has more than {MAX_SCHEMA_LEVELS} objects and lists in each other"
    if _count_values(schema, MAX_SCHEMA_VALUES) > MAX_SCHEMA_VALUES:
        return f"its schema has more than {MAX_SCHEMA_VALUES} values"

    stored = make_storable(dict(schema))
    assert isinstance(stored, dict)
    if len(sorted_json(stored)) > MAX_SCHEMA_CHARS:
        return f"its schema has more than {MAX_SCHEMA_CHARS} characters"
    if stored.get("type", "object") != "object":
        return "its arguments are not an object"

    properties = stored.get("properties", {})
    if not isinstance(properties, dict):
        return "`properties` of its schema is not an object"

    try:
        if problem := _find_problem(stored):
            return f"its schema is not valid: {problem}"
    except UsageError as exc:
        return one_line(f"its schema is not valid: {exc}", limit=300)

    modern = map_schemas(without_infinite_numbers(stored), _modernize)
    return {"type": "object", **modern}


def _find_problem(schema: Schema) -> str | None:
    for path, part in walk_schemas(schema).items():
        for keyword, value in part.items():
            if not _is_valid_keyword(keyword, value):
                return f"{format_schema_path((*path, keyword))} has a value that it cannot have"

    loop = find_loop(schema, same_value=True)
    return None if loop is None else f"{format_schema_path(loop)}: {ONLY_ITSELF}"


def _is_valid_keyword(keyword: str, value: JsonValue) -> bool:
    """Return True unless servers of models refuse the whole request for this keyword."""
    match keyword, value:
        case "type", list():
            return bool(value) and all(name in JSON_TYPES for name in value)
        case "type", _:
            return value in JSON_TYPES
        case "required", list():
            return all(isinstance(name, str) for name in value)
        case (("anyOf" | "oneOf" | "allOf" | "prefixItems"), list()):
            return bool(value) and all(isinstance(item, dict | bool) for item in value)
        case (("properties" | "patternProperties" | "$defs" | "definitions"), dict()):
            return all(isinstance(item, dict | bool) for item in value.values())

    types = _KEYWORD_TYPES.get(keyword)
    if types is None:
        return True
    is_bool = isinstance(value, bool)
    return bool in types if is_bool else isinstance(value, types)


_KEYWORD_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("$ref", "description", "format", "pattern", "title"), (str,)),
    **dict.fromkeys(("enum", "required"), (list,)),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), (list,)),
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), (dict,)),
    **dict.fromkeys(("additionalProperties", "not", "contains", "propertyNames"), (dict, bool)),
    **dict.fromkeys(("if", "then", "else"), (dict, bool)),
    "items": (dict, bool, list),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), (int, float)),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), (int, float)),
    "uniqueItems": (bool,),
}


def _modernize(part: JsonObject) -> JsonObject:
    """Return `part` in the version of JSON Schema that servers of models expect (2020-12)."""
    modern = {key: value for key, value in part.items() if key not in ("$schema", "$id")}
    if isinstance(modern.get("items"), list):  # of version 7
        modern["prefixItems"] = modern.pop("items")
        if "additionalItems" in modern:
            modern["items"] = modern.pop("additionalItems")

    return modern


def _count_values(value: object, limit: int) -> int:
    """Return the number of values in `value`, and stop above `limit`."""
    waiting: list[object] = [value]
    count = 0
    while waiting and count <= limit:
        item = waiting.pop()
        count += 1
        if isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return count


_HINTS: Final[Mapping[str, str]] = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}


def read_hints(annotations: Mapping[str, JsonValue]) -> dict[str, bool]:
    """Return the hints that a server gives about its tool, by our names. Nothing checks them."""
    given = {name: annotations.get(key) for key, name in _HINTS.items()}
    return {name: value for name, value in given.items() if isinstance(value, bool)}


def cut_text(text: str, limit: int) -> str:
    """Return `text` in at most `limit` characters, with a mark at a cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def format_instructions(server: str, instructions: str) -> str:
    """Return the instructions of a server as a section of its own, marked as its words."""
    words = plain(instructions, limit=MAX_SCHEMA_CHARS).strip()
    cut = cut_text(words, MAX_INSTRUCTIONS_CHARS)
    return (
        f"The MCP server {server} describes the use of its tools as follows. "
        f"These are the words of the server, not of the user:\n\n{cut}"
    )
