"""Walk JSON schemas: their subschemas and references, each with its path.

`jsonschema` and `referencing` validate schemas and answers (`structured.py`), but do not return the
paths of subschemas. Error messages name these paths, and the search for loops compares them
(`schema_loops.py`).

Source: https://json-schema.org/draft/2020-12/json-schema-core, sections 8.2, 10, and 11.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_values import JsonObject

SchemaPath = tuple[str | int, ...]
Schema = Mapping[str, JsonValue]

DEFINITIONS: Final = ("$defs", "definitions")
SINGLE_KEYWORDS: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items",
     "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)  # fmt: skip
"""Keywords whose value is a schema."""
LIST_KEYWORDS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
"""Keywords whose value is a list of schemas."""
NAMED_KEYWORDS: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "dependencies", *DEFINITIONS}
)
"""Keywords whose value is an object of schemas by name."""
_PLAIN_KEY: Final = re.compile(r"[\w$-]+")
_ITEM_NUMBER: Final = re.compile("[0-9]{1,9}")  # `int` refuses thousands of digits


def format_schema_path(path: Iterable[str | int]) -> str:
    """Return `path` as text: `$.properties.x.items`, `$.anyOf[0]`, `$.properties["a b"]`."""
    steps = []
    for key in path:
        if isinstance(key, int):
            steps.append(f"[{key}]")
        else:
            step = f".{key}" if _PLAIN_KEY.fullmatch(key) else f'["{key}"]'
            steps.append(step)

    return "$" + "".join(steps)


def walk_child_schemas(schema: Schema) -> Iterator[tuple[SchemaPath, Schema | bool]]:
    """Yield path and value of each direct subschema. A path starts with a keyword of `schema`."""
    for keyword, value in schema.items():
        inner: Iterable[tuple[SchemaPath, JsonValue]] = ()
        if isinstance(value, list) and keyword in LIST_KEYWORDS:
            inner = (((keyword, number), item) for number, item in enumerate(value))
        elif isinstance(value, dict) and keyword in NAMED_KEYWORDS:
            inner = (((keyword, name), item) for name, item in value.items())
        elif keyword in SINGLE_KEYWORDS:
            inner = [((keyword,), value)]

        for path, item in inner:
            if isinstance(item, dict | bool):
                yield path, item


def map_schemas(schema: Schema, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """Return `schema` after `change` of each subschema, and then of itself."""
    result = {key: _map_subschemas(key, value, change) for key, value in schema.items()}
    return change(result)


def _map_subschemas(
    keyword: str, value: JsonValue, change: Callable[[JsonObject], JsonObject]
) -> JsonValue:
    """Return the value of a schema's `keyword` with each schema directly in it changed."""

    def map_one(part: JsonValue) -> JsonValue:
        return map_schemas(part, change) if isinstance(part, dict) else part

    if isinstance(value, dict) and keyword in NAMED_KEYWORDS:
        return {name: map_one(part) for name, part in value.items()}
    if isinstance(value, list) and keyword in LIST_KEYWORDS:
        return list(map(map_one, value))
    return map_one(value) if keyword in SINGLE_KEYWORDS else value


def resolve_reference(root: Schema, reference: str) -> tuple[SchemaPath, JsonValue]:
    """Return path and value of the target of `reference`, such as `#/$defs/City`, in `root`.

    If it is outside of `root` or does not exist, raise `LookupError` with the reason.
    """
    if reference != "#" and not reference.startswith("#/"):
        raise LookupError(
            "points outside of this schema: write `#/$defs/NAME`, and define NAME there"
        )

    path: list[str | int] = []
    found: JsonValue = dict(root)
    parts = reference[2:].split("/") if reference != "#" else []
    for part in parts:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
            path.append(key)
        elif isinstance(found, list) and _ITEM_NUMBER.fullmatch(key) and int(key) < len(found):
            found = found[int(key)]
            path.append(int(key))
        else:
            raise LookupError(f"points to {format_schema_path([*path, key])}, which does not exist")

    return tuple(path), found


def walk_schemas(root: Schema) -> dict[SchemaPath, Schema]:
    """Return `root`, its subschemas, and the targets of references, by path. Omit boolean schemas.

    If a reference is not valid or not supported, raise `UsageError` with its path.
    """
    found: dict[SchemaPath, Schema] = {}
    waiting: list[tuple[SchemaPath, Schema]] = [((), root)]

    while waiting:
        path, schema = waiting.pop()
        if path in found:
            continue
        found[path] = schema

        # The last entry is the next one: subschemas come in their order, before the targets.
        targets = resolve_own_reference(root, path, schema)
        children = [((*path, *way), child) for way, child in walk_child_schemas(schema)]
        for child_path, child in (*targets, *reversed(children)):
            if not isinstance(child, bool):
                waiting.append((child_path, child))

    return found


def resolve_own_reference(
    root: Schema, path: SchemaPath, schema: Schema
) -> list[tuple[SchemaPath, Schema | bool]]:
    """Return path and value of the schema that the `$ref` of `schema` names; none without `$ref`.

    Raises:
        UsageError: The reference is not valid or not supported. The message has its path.
    """
    for keyword in ("$dynamicRef", "$recursiveRef"):
        if keyword in schema:
            raise UsageError(f"{format_schema_path((*path, keyword))}: not supported, use `$ref`")

    reference = schema.get("$ref")
    if reference is None:
        return []

    at = format_schema_path((*path, "$ref"))
    if not isinstance(reference, str):
        raise UsageError(f"{at}: expected a reference such as `#/$defs/NAME`, as a text")
    try:
        where, found = resolve_reference(root, reference)
    except LookupError as exc:
        raise UsageError(f"{at}: {reference!r} {exc.args[0]}") from exc

    if not isinstance(found, dict | bool):
        raise UsageError(f"{at}: {reference!r} is not a schema but a {type(found).__name__}")
    return [(where, found)]
