"""Write a partial configuration without merge strategies, or with one that replaces each value.

A value with a strategy is *wrapped*: `{"value": […], "strategy": "prepend"}`. A *node* is the type
of a setting in the schema.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial, is_wrapper, unwrap
from jp_nb.config.schema import (
    JSON,
    ROOT,
    SchemaNode,
)


def strip_strategies(
    partial: Mapping[str, JsonValue],
    *,
    earlier: tuple[Partial, Partial] = ({}, {}),
    node: SchemaNode | None = ROOT,
) -> Partial:
    """Return the settings of `partial` as the lowest layer, without merge strategies.

    Tables without strategies are shared with `partial`. `earlier` is the argument and the result of
    an earlier call. Parts of that result are used again for the values that both arguments share,
    because a change copies only the tables above the changed value.
    """
    earlier_partial, earlier_result = earlier
    result: Partial = {}

    for key, value in partial.items():
        if not isinstance(value, dict) and value != []:
            result[key] = value  # fast path for most settings
            continue
        if key in earlier_result and earlier_partial[key] is value:
            result[key] = earlier_result[key]
            continue

        child = node.child(key) if node is not None else None
        # In the lowest layer, an empty list is the same as no list.
        if value == [] and child is not None and child.kind == "list":
            continue

        plain = unwrap(value, child)
        if isinstance(plain, dict):
            is_wrapped = plain is not value
            earlier_child: tuple[Partial, Partial] = ({}, {})
            if not is_wrapped:
                earlier_child = _select_earlier(earlier, key)
            plain = strip_strategies(plain, earlier=earlier_child, node=child)

        result[key] = plain

    is_same = len(result) == len(partial) and all(map(is_, result.values(), partial.values()))
    return partial if is_same and isinstance(partial, dict) else result


def _select_earlier(earlier: tuple[Partial, Partial], key: str) -> tuple[Partial, Partial]:
    """Return the table `key` of an earlier configuration, and its result; empty ones without it."""
    earlier_partial, earlier_result = earlier
    table = earlier_partial.get(key)
    table_result = earlier_result.get(key)
    if isinstance(table, dict) and isinstance(table_result, dict):
        return table, table_result
    return {}, {}


def make_replacement(partial: Mapping[str, JsonValue]) -> Partial:
    """Return `partial` in a form that replaces the value of any lower layer.

    If `partial` has the values of a whole configuration, the result yields the same configuration
    above any other layers. Only its empty lists replace nothing, unless they have a strategy.
    """
    return _as_replacement(ROOT, strip_strategies(partial))


def _as_replacement(node: SchemaNode, partial: Partial) -> Partial:
    """Give each list, and each map that accepts a strategy, the strategy `replace`."""
    result: Partial = {}

    for key, value in partial.items():
        child = node.child(key) or JSON
        replaces = child.kind == "list"

        if isinstance(value, dict) and child.kind == "json":
            # Free JSON that looks like a wrapper must not be read as one.
            replaces = is_wrapper(value, child)
        elif isinstance(value, dict):
            value = _as_replacement(child, value)
            replaces = child.kind == "map" and child.merge.annotated

        result[key] = {"value": value, "strategy": "replace"} if replaces else value

    return result
