"""Merge partial configurations: each setting of the upper one over that of the lower one.

Sources are merged from the lowest layer up, because a list that appends has a meaning only in
relation to the list below it. The setting's own rule (`Merge`, in its schema node) or the strategy
with which a value is wrapped (`partial.py`) decides how values combine: `["a"]` merged over `["b"]`
is `["b", "a"]` for a list that appends.

A *wrapped* value is `{value, strategy, …}`. `unwrap` returns its content, and `rewrap(node, old,
value)` gives a new value the strategy and the other options of `old`, if `old` has them. With
`replaces`, the strategy of the result is `replace`, so that it also hides still lower layers.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, JsonValue, ValidationError

from jp_nb.config.partials.partial import Partial, is_wrapper, rewrap, unwrap
from jp_nb.config.schema import (
    JSON,
    ROOT,
    SchemaNode,
)
from jp_nb.json_writing import sorted_json

TEXT_SEPARATORS = {"none": "", "space": " ", "line": "\n", "paragraph": "\n\n"}


def merge_partials(
    lower: Mapping[str, JsonValue], upper: Mapping[str, JsonValue], node: SchemaNode = ROOT
) -> Partial:
    """Return `lower` with `upper` merged into it, by the merge rule of each setting of `node`.

    Null and an empty list in `upper` mean "not set". The result shares unchanged values with the
    arguments, which are not modified.
    """
    result = dict(lower)

    for key, value in upper.items():
        child = node.child(key)
        if value is None or (value == [] and child is not None and child.kind == "list"):
            continue  # not set
        result[key] = combine_values(child or JSON, result.get(key), value)

    return result


def combine_values(node: SchemaNode, lower: JsonValue, upper: JsonValue) -> JsonValue:
    """Return the value of `node` after `upper` is merged into `lower`.

    The first case that applies decides:
        - A list: its strategy, or that of the schema (`_combine_lists`).
        - Another value that is wrapped with a strategy: this strategy (`_combine_wrapped`).
        - Two tables: they are merged field by field. A short form is expanded before.
        - Any other value: `upper` replaces `lower`.
    """
    is_any_table = isinstance(lower, dict) or isinstance(upper, dict)
    if not is_any_table and node.kind != "list":
        return upper  # fast path for most settings
    if node.kind == "table" and isinstance(lower, dict) and isinstance(upper, dict):
        return merge_partials(lower, upper, node)  # fast path for most tables

    if isinstance(lower, dict) != isinstance(upper, dict):  # a short form and a table
        lower = expand_shorthand(node, lower)
        upper = expand_shorthand(node, upper)

    lower = _discard_default(node, lower)
    if node.kind == "list":
        return _combine_lists(node, lower, upper)
    if is_wrapper(upper, node):
        return _combine_wrapped(node, lower, upper)

    lower_content = unwrap(lower, node)
    if not isinstance(upper, dict) or node.kind in ("scalar", "text"):
        return upper
    if not isinstance(lower_content, dict):
        return merge_partials({}, upper, node)
    return rewrap(node, lower, merge_partials(lower_content, upper, node))


def _discard_default(node: SchemaNode, lower: JsonValue) -> JsonValue:
    """Return `lower` without its content if it is wrapped with `discard_when_merged`.

    Such a value is a default that disappears when another layer sets anything. Its `dedup` stays,
    because it applies to the values of the other layers as well (see `_removes_repeated`).
    """
    if not is_wrapper(lower, node) or lower.get("discard_when_merged") is not True:
        return lower
    if lower.get("dedup") is None:
        return None
    return {"value": [], "dedup": lower["dedup"]}


def expand_shorthand(node: SchemaNode, value: JsonValue) -> JsonValue:
    """Return a table in place of its short form, so that tables merge field by field."""
    if node.kind != "table" or value is None or isinstance(value, dict):
        return value
    try:
        table = node.adapter.validate_python(value)
    except ValidationError:
        return value  # the validation of the merged configuration reports it
    if isinstance(table, BaseModel):
        return table.model_dump(mode="json", exclude_unset=True)
    return value


def _combine_lists(node: SchemaNode, lower: JsonValue, upper: JsonValue) -> JsonValue:
    """Return the list `upper` merged into `lower`, wrapped if its strategies have to be kept."""
    lower_items = unwrap(lower, node)
    upper_items = unwrap(upper, node)
    if not isinstance(upper_items, list):
        return upper  # the validation of the merged configuration reports it
    if node.merge.strategy == "preserve" and lower_items is not None:
        return lower  # such as `extends`, which belongs to one file

    default = "replace" if node.merge.strategy == "replace" else "append"
    own = upper.get("strategy") if is_wrapper(upper, node) else None
    strategy = str(own or default)

    kept_items: list[JsonValue] = []
    if isinstance(lower_items, list) and strategy != "replace":
        kept_items = lower_items

    items = [*kept_items, *upper_items]
    if strategy == "prepend":
        items = [*upper_items, *kept_items]

    removes_repeated = _removes_repeated(node, lower, upper)
    if removes_repeated:
        items = list({sorted_json(item): item for item in items}.values())

    if lower is None and is_wrapper(upper, node):
        return {**upper, "value": items}

    result = rewrap(node, lower, items, replaces=strategy == "replace")
    return _keep_dedup(node, result, removes_repeated)


def _keep_dedup(node: SchemaNode, result: JsonValue, removes_repeated: bool) -> JsonValue:
    """Return the merged list `result` in a form that tells `dedup` to the values of upper layers.

    A list that was not wrapped is wrapped only if `removes_repeated` differs from the schema. Its
    strategy is then `append`, which adds the list to the one below it, as without a wrapper.
    """
    is_default = removes_repeated == node.merge.dedup

    if not is_wrapper(result, node):
        if is_default:
            return result
        return {"value": result, "strategy": "append", "dedup": removes_repeated}

    if is_default and "dedup" not in result:
        return result
    return {**result, "dedup": removes_repeated}


def _removes_repeated(node: SchemaNode, lower: JsonValue, upper: JsonValue) -> bool:
    """Return True if the list has each item once: `dedup` of `upper`, `lower`, or the schema."""
    for value in (upper, lower):
        dedup = value.get("dedup") if is_wrapper(value, node) else None
        if isinstance(dedup, bool):
            return dedup
    return node.merge.dedup


def _combine_wrapped(node: SchemaNode, lower: JsonValue, upper: dict[str, JsonValue]) -> JsonValue:
    """Return `upper`, which is wrapped with a strategy, merged into `lower`.

    `upper` is a map, a text, or any JSON value of a setting without a type, also a list.
    """
    lower_content = unwrap(lower, node)
    upper_content = upper["value"]
    strategy = upper.get("strategy", "append")

    if lower_content is None or strategy == "replace":
        return upper

    if isinstance(lower_content, dict) and isinstance(upper_content, dict):
        if strategy == "merge":
            return rewrap(node, lower, {**lower_content, **upper_content})
        if strategy == "keep":
            return rewrap(node, lower, {**upper_content, **lower_content})
        return rewrap(node, lower, merge_partials(lower_content, upper_content, node))

    in_order: tuple[JsonValue, JsonValue] = (lower_content, upper_content)
    if strategy == "prepend":
        in_order = (upper_content, lower_content)

    match in_order:
        case str(first), str(second):
            separator = TEXT_SEPARATORS.get(str(upper.get("separator", "none")), "")
            return rewrap(node, lower, first + separator + second)
        case list(first), list(second):
            return rewrap(node, lower, [*first, *second])
    return upper
