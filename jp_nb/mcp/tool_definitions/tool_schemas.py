"""Read the JSON Schema of the arguments of an MCP server's tool, which may be hostile text.

The servers of models would refuse a whole request because of one invalid schema. So the caller
drops a tool whose schema is too large or not valid, and keeps the other tools. The check takes
bounded time. Lists in `items`, from older versions of JSON Schema, are converted to 2020-12.

Source: `docs/mcp.md`, Tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.config.tree.tool_settings import JSON_TYPES
from jp_nb.errors import UsageError
from jp_nb.finite_schemas import without_infinite_numbers
from jp_nb.json_limits import MAX_SCHEMA_LEVELS, is_deeper
from jp_nb.json_schema import Schema, format_schema_path, map_schemas, walk_schemas
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import sorted_json
from jp_nb.schema_loops import ONLY_ITSELF, find_loop
from jp_nb.storable_json import make_storable
from jp_nb.text import one_line

MAX_SCHEMA_VALUES: Final = 5_000
"""Maximum number of values in the schema of a server's tool."""
MAX_SCHEMA_CHARS: Final = 200_000
"""Maximum length of the schema of a server's tool as JSON."""


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
    """Return the first problem for which servers of models would refuse the request."""
    for path, part in walk_schemas(schema).items():
        for keyword, value in part.items():
            if not _is_valid_keyword(keyword, value):
                return f"{format_schema_path((*path, keyword))} has a value that it cannot have"

    # A reference that leads back to itself for the same value: a check would never end.
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
    if isinstance(value, bool):  # True is also an `int` in Python
        return bool in types
    return isinstance(value, types)


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
"""The Python types of the value of each keyword. Keywords that are not listed are not checked."""


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
    stack: list[object] = [value]
    count = 0
    while stack and count <= limit:
        item = stack.pop()
        count += 1
        if isinstance(item, Mapping):
            stack += item.values()
        elif isinstance(item, list):
            stack += item
    return count
