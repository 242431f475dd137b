"""Find loops in JSON schemas, and count the steps of a validation.

A schema may contain itself, through references. Some of these loops end with the value, and others
make a validation endless. Loops are found by the paths of subschemas (`json_schema.py`), because
two equal schemas at different paths are no loop.

Source: https://json-schema.org/draft/2020-12/json-schema-core, sections 8.2 and 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.json_schema import (
    DEFINITIONS,
    Schema,
    SchemaPath,
    format_schema_path,
    resolve_own_reference,
    walk_child_schemas,
    walk_schemas,
)

ONLY_ITSELF: Final = "the schema only refers to itself"
"""Error message for a schema that is only a reference to itself."""
_SAME_VALUE_KEYWORDS: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)
"""Keywords with schemas for the same value, not for a part of it."""


def find_loop(root: Schema, *, same_value: bool = False) -> SchemaPath | None:
    """Return the path of the schema that closes a loop of subschemas and references, or None.

    With `same_value`, find only loops whose schemas all apply to the same value, so that validation
    would never end. Other loops end with the value.

    Raises:
        UsageError: A reference is not valid or not supported.
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
    path = find_loop(schema, same_value=True)  # raises for a reference that is not valid
    if path is not None:
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
    for where, _ in resolve_own_reference(root, path, schema):
        yield where
    for way, _ in walk_child_schemas(schema):
        if way[0] not in DEFINITIONS and (not same_value or way[0] in _SAME_VALUE_KEYWORDS):
            yield (*path, *way)
