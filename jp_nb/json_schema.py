"""Walk JSON schemas: subschemas, references, and loops.

`jsonschema` and `referencing` validate schemas and answers (`structured.py`), but do
not return the paths of subschemas. Error messages name these paths. The search for loops compares
them, because two equal schemas at different paths are no loop.

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

ONLY_ITSELF: Final = "the schema only refers to itself"
"""Error message for a schema that is only a reference to itself."""
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
_SAME_VALUE_KEYWORDS: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
"""Keywords with schemas for the same value, not for a part of it."""
_PLAIN_KEY: Final = re.compile(r"[\w$-]+")


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
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
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
        targets = _resolve_own_reference(root, path, schema)
        children = [((*path, *way), child) for way, child in walk_child_schemas(schema)]
        for child_path, child in (*targets, *reversed(children)):
            if not isinstance(child, bool):
                waiting.append((child_path, child))

    return found


def _resolve_own_reference(
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


def find_loop(root: Schema, *, same_value: bool = False) -> SchemaPath | None:
    """Return the path of the schema that closes a loop of subschemas and references, or None.

    The references in `root` must be valid. With `same_value`, find only loops whose schemas all
    apply to the same value, so that validation would never end. Other loops end with the value.
    """
    known = walk_schemas(root)
    done: set[SchemaPath] = set()

    # A depth-first search without recursion: a schema may be nested deeply. The trail has the
    # schemas from the start to the current one, each with those that follow it.
    for start in known:
        trail = [(start, _iter_next(root, start, known[start], same_value=same_value))]
        on_trail = {start}

        while trail:
            path, following = trail[-1]
            step = next(following, None)

            if step is None:
                trail.pop()
                on_trail.discard(path)
                done.add(path)
            elif step in on_trail:
                return path
            elif step not in done and step in known:  # `known` has no boolean schemas
                trail.append((step, _iter_next(root, step, known[step], same_value=same_value)))
                on_trail.add(step)

    return None


def check_references(schema: Schema) -> None:
    """Check the references in `schema`.

    Raises:
        UsageError: A reference is not valid, or leads back to itself for the same value.
    """
    if (path := find_loop(schema, same_value=True)) is not None:
        raise UsageError(f"{format_schema_path(path)}: {ONLY_ITSELF}")


def count_steps(root: Schema, *, limit: int) -> int:
    """Return the number of subschemas that a validation with `root` applies, at most `limit` + 1.

    A subschema that several references share counts each time. A schema that contains itself never
    ends for some values, so it counts as more than `limit`.

    Raises:
        UsageError: A reference is not valid or not supported.
    """
    known = walk_schemas(root)
    if len(known) > limit or find_loop(root) is not None:
        return limit + 1

    # Bottom-up, without recursion: a schema waits until those below it are counted.
    steps: dict[SchemaPath, int] = {}
    waiting: list[SchemaPath] = [()]
    while waiting:
        path = waiting[-1]
        following = _iter_next(root, path, known[path], same_value=False)
        below = [step for step in following if step in known]
        missing = [step for step in below if step not in steps]
        if missing:
            waiting += missing
            continue

        steps[path] = min(limit + 1, 1 + sum(steps[step] for step in below))
        waiting.pop()
    return steps[()]


def _iter_next(
    root: Schema, path: SchemaPath, schema: Schema, *, same_value: bool
) -> Iterator[SchemaPath]:
    """Yield the paths of the schemas that `schema` applies: its reference, and its subschemas.

    With `same_value`, only those that apply to the same value.
    """
    for where, _ in _resolve_own_reference(root, path, schema):
        yield where
    for way, _ in walk_child_schemas(schema):
        if way[0] not in DEFINITIONS and (not same_value or way[0] in _SAME_VALUE_KEYWORDS):
            yield (*path, *way)
