"""Merge partial configurations: each setting of the upper one over that of the lower one.

Sources are merged from the lowest layer up, because a list that appends has a meaning only in
relation to the list below it. The setting's own rule (`MergeRule` of its schema node) or the
strategy with which a value is wrapped decides how values combine: `["a"]` merged over `["b"]` is
`["b", "a"]` for a list that appends.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

from pydantic import BaseModel, JsonValue, ValidationError

from jp_nb.config.partials.partial import Partial, is_wrapper, rewrap, unwrap
from jp_nb.config.schema import (
    JSON,
    ROOT,
    SchemaNode,
)
from jp_nb.json_values import sorted_json

TEXT_SEPARATORS = {"none": "", "space": " ", "line": "\n", "paragraph": "\n\n"}


def merge_partials(
    base: Mapping[str, JsonValue], over: Mapping[str, JsonValue], node: SchemaNode = ROOT
) -> Partial:
    """Return `base` with `over` merged into it, by the merge rule of each setting of `node`.

    Null and an empty list in `over` mean "not set". The result shares unchanged values with the
    arguments, which are not modified.
    """
    result = dict(base)

    for key, value in over.items():
        below = node.child(key)
        if value is None or (value == [] and below is not None and below.kind == "list"):
            continue  # not set
        result[key] = combine_values(below or JSON, result.get(key), value)

    return result


def combine_values(node: SchemaNode, old: JsonValue, new: JsonValue) -> JsonValue:
    """Return the value of `node` after `new` is merged into `old`."""
    if not isinstance(old, dict) and not isinstance(new, dict) and node.kind != "list":
        return new  # fast path for most settings
    if node.kind == "table" and isinstance(old, dict) and isinstance(new, dict):
        return merge_partials(old, new, node)  # fast path for most tables

    if isinstance(old, dict) != isinstance(new, dict):  # a short form and a table
        old = expand_shorthand(node, old)
        new = expand_shorthand(node, new)

    if is_wrapper(old, node) and old.get("discard_when_merged") is True:
        old = {"value": [], "dedup": old["dedup"]} if old.get("dedup") is not None else None

    if node.kind == "list":
        return _combine_lists(node, old, new)
    if is_wrapper(new, node):
        return _combine_wrapped(node, old, new)

    below = unwrap(old, node)
    if not isinstance(new, dict) or node.kind in ("scalar", "text"):
        return new
    if not isinstance(below, dict):
        return merge_partials({}, new, node)
    return rewrap(node, old, merge_partials(below, new, node))


def expand_shorthand(node: SchemaNode, value: JsonValue) -> JsonValue:
    """Return a table in place of its short form, so that tables merge field by field."""
    if node.kind != "table" or value is None or isinstance(value, dict):
        return value
    try:
        table = node.adapter.validate_python(value)
    except ValidationError:
        return value  # `validate` reports it with its path
    if isinstance(table, BaseModel):
        return table.model_dump(mode="json", exclude_unset=True)
    return value


def _combine_lists(node: SchemaNode, old: JsonValue, new: JsonValue) -> JsonValue:
    """Return the list `new` merged into `old`, wrapped if its strategies have to be kept."""
    below = unwrap(old, node)
    above = unwrap(new, node)
    if not isinstance(above, list):
        return new  # `validate` reports it
    if node.merge.strategy == "preserve" and below is not None:
        return old

    default = "replace" if node.merge.strategy == "replace" else "append"
    own = new.get("strategy") if is_wrapper(new, node) else None
    strategy = str(own or default)

    kept_items = below if isinstance(below, list) and strategy != "replace" else []
    whole = [*above, *kept_items] if strategy == "prepend" else [*kept_items, *above]
    removes_repeated = _removes_repeated(node, old, new)
    if removes_repeated:
        whole = list({sorted_json(item): item for item in whole}.values())

    if old is None and is_wrapper(new, node):
        return {**new, "value": whole}

    # The result tells `dedup` to later values, if it differs from the schema.
    result = rewrap(node, old, whole, replaces=strategy == "replace")
    is_default = removes_repeated == node.merge.dedup
    if is_wrapper(result, node):
        if is_default and "dedup" not in result:
            return result
        return {**result, "dedup": removes_repeated}
    if is_default:
        return result
    return {"value": whole, "strategy": "append", "dedup": removes_repeated}


def _removes_repeated(node: SchemaNode, old: JsonValue, new: JsonValue) -> bool:
    """Return True if the list has each item once: `dedup` of `new`, of `old`, or of the schema."""
    for value in (new, old):
        dedup = value.get("dedup") if is_wrapper(value, node) else None
        if isinstance(dedup, bool):
            return dedup
    return node.merge.dedup


def _combine_wrapped(node: SchemaNode, old: JsonValue, wrapped: dict[str, JsonValue]) -> JsonValue:
    """Return the map or text `wrapped`, which has a strategy, merged into `old`."""
    below = unwrap(old, node)
    above = wrapped["value"]
    strategy = wrapped.get("strategy", "append")

    if below is None or strategy == "replace":
        return wrapped

    if isinstance(below, dict) and isinstance(above, dict):
        if strategy == "merge":
            return rewrap(node, old, {**below, **above})
        combined = {**above, **below} if strategy == "keep" else merge_partials(below, above, node)
        return rewrap(node, old, combined)

    match (above, below) if strategy == "prepend" else (below, above):
        case str(first), str(second):
            separator = TEXT_SEPARATORS.get(str(wrapped.get("separator", "none")), "")
            return rewrap(node, old, first + separator + second)
        case list(first), list(second):
            return rewrap(node, old, [*first, *second])
    return wrapped


def strip_strategies(
    partial: Mapping[str, JsonValue],
    *,
    known: tuple[Partial, Partial] = ({}, {}),
    node: SchemaNode | None = ROOT,
) -> Partial:
    """Return the settings of `partial` as the lowest layer, without merge strategies.

    Tables without strategies are shared with `partial`. `known` is another partial configuration
    and its result, which is reused for the values that both share.
    """
    before, stripped = known
    result: Partial = {}

    for key, value in partial.items():
        if not isinstance(value, dict) and value != []:
            result[key] = value  # fast path for most settings
            continue
        if key in stripped and before[key] is value:
            result[key] = stripped[key]
            continue

        below = node.child(key) if node is not None else None
        if value == [] and below is not None and below.kind == "list":
            continue

        plain = unwrap(value, below)
        if isinstance(plain, dict):
            old = before.get(key)
            old_result = stripped.get(key)
            if not isinstance(old, dict) or not isinstance(old_result, dict) or plain is not value:
                old = {}
                old_result = {}
            plain = strip_strategies(plain, known=(old, old_result), node=below)

        result[key] = plain
    is_same = len(result) == len(partial) and all(map(is_, result.values(), partial.values()))
    return partial if is_same and isinstance(partial, dict) else result


def make_replacement(partial: Mapping[str, JsonValue]) -> Partial:
    """Return `partial` in a form that replaces the value of any lower layer.

    For a dumped configuration, this is the partial configuration that yields it again.
    """
    return _as_replacement(ROOT, strip_strategies(partial))


def _as_replacement(node: SchemaNode, partial: Partial) -> Partial:
    result: Partial = {}

    for key, value in partial.items():
        below = node.child(key) or JSON
        replaces = below.kind == "list"

        if isinstance(value, dict) and below.kind == "json":
            replaces = is_wrapper(value, below)  # it must not be read as one
        elif isinstance(value, dict):
            value = _as_replacement(below, value)
            replaces = below.kind == "map" and below.merge.annotated
        result[key] = {"value": value, "strategy": "replace"} if replaces else value
    return result
