"""Combine configuration changes that are applied one after the other into one change.

A batch of tool calls may make several changes, and the record gets one `config_delta` for them:
`{a: 1}` and then `{a: 2}` with `unsets: [b]` become `{a: 2}` with `unsets: [b]`. Where the merge
strategies of lists, texts, and maps cannot express the result, the value itself is set.

Source: `docs/turns.md`, `docs/decisions.md` D38.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import JsonValue

from jp_nb.config.partials.partial import (
    Partial,
    build_partial,
    get_path,
    is_wrapper,
    remove_empty,
    unwrap,
)
from jp_nb.config.partials.partial_change import Change, apply_change, unset_path
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.schema import JSON, ROOT, SchemaNode, node_at
from jp_nb.config.setting_paths import Element, PathKeys, format_path, parse_path


def squash_changes(
    changes: Sequence[Change], before: Partial, defaults: Mapping[str, JsonValue]
) -> Change:
    """Return one change that has the same effect on `before` as `changes` in their order.

    No path is both set and unset. If merge strategies cannot express the result, the value is set.
    `defaults` are restored where something is unset.
    """
    combined = Change()
    for change in changes:
        combined = _append(combined, change)
    if [combined] == list(changes):
        return combined

    # The combined change may have another effect than all changes in their order.
    expected = before
    for change in changes:
        expected = apply_change(expected, change, defaults)
    result = apply_change(before, combined, defaults)
    if result == expected:
        return combined

    # Then it sets the fields that differ.
    fields = dict.fromkeys([*_iter_set_keys(result), *_iter_set_keys(expected)])
    differing = [keys for keys in fields if _get_value(result, keys) != _get_value(expected, keys)]
    differing.sort(key=lambda keys: _is_group(_get_node(keys)))  # groups after their values
    for keys in differing:
        combined = _set_field(combined, keys, before, expected)

    return combined


def _append(change: Change, then: Change) -> Change:
    """Return `change` with `then` after it, as far as merge strategies can express it."""
    for path in then.unsets:
        change = _append_unset(change, parse_path(path))

    unsets = list(map(parse_path, change.unsets))
    delta = then.delta

    for keys in then.leaves:
        whole = keys[:-1] if isinstance(keys[-1], Element) else keys
        if whole in unsets and _get_node(whole).kind == "list":  # a new list
            items = get_path(delta, whole)
            replacement: JsonValue = {"value": items, "strategy": "replace"}
            delta = merge_partials(delta, build_partial(whole, replacement))
            unsets.remove(whole)
        unsets = [other for other in unsets if other[: len(keys)] != keys]

    return _create_change(merge_partials(change.delta, delta), map(format_path, unsets))


def _create_change(delta: Partial, unsets: Iterable[str]) -> Change:
    """Return a change without those `unsets` that `delta` sets."""
    paths = tuple(unsets)
    if not paths:
        return Change(delta)

    sets = Change(delta).leaves
    return Change(delta, tuple(path for path in paths if parse_path(path) not in sets))


def _append_unset(change: Change, keys: PathKeys) -> Change:
    path = format_path(keys)
    unsets = [other for other in change.unsets if parse_path(other)[: len(keys)] != keys]
    return Change(remove_empty(unset_path(change.delta, path)), (*unsets, path))


def _set_field(change: Change, keys: PathKeys, before: Partial, after: Partial) -> Change:
    """Return `change`, which also sets the field at `keys` to its value in `after`."""
    node = _get_node(keys)
    value = _get_value(after, keys)

    if _is_group(node):
        return Change(merge_partials(change.delta, build_partial(keys, value)), change.unsets)
    if value is None and node.kind in ("list", "map"):  # to unset it would restore its default
        empty: JsonValue = [] if node.kind == "list" else {}
        value = {"value": empty, "strategy": "replace"}

    change = _append_unset(change, keys)
    if value is None:
        return change

    # The value before had its own `dedup`, which must not remain.
    old = _get_value(before, keys)
    if is_wrapper(value, node) and is_wrapper(old, node) and "dedup" in old:
        value = {"dedup": node.merge.dedup, **value}

    # A table does not replace another one: its path stays among the unset paths.
    return _create_change(merge_partials(change.delta, build_partial(keys, value)), change.unsets)


def _iter_set_keys(
    partial: Partial, node: SchemaNode = ROOT, above: PathKeys = ()
) -> Iterator[PathKeys]:
    """Yield the keys of all fields that are set as a whole.

    These are values, lists, and tables with a short form. Entries of maps are included, because
    they have a meaning even if they are empty.
    """
    for key, value in partial.items():
        keys = (*above, key)
        child = node.child(key) or JSON
        plain = unwrap(value, child)
        is_group = _is_group(child) and isinstance(plain, dict)
        if isinstance(plain, dict) and is_group:
            yield from _iter_set_keys(plain, child, keys)

        is_map_entry = node.kind == "map"
        if is_map_entry or not is_group:
            yield keys


def _get_value(partial: Partial, keys: PathKeys) -> JsonValue:
    """Return the value at `keys` in a form that replaces any other value; None if it is not set."""
    node = _get_node(keys)

    above = get_path(partial, keys[:-1]) if keys[1:] else partial
    own: JsonValue = above.get(keys[-1]) if isinstance(above, dict) else None
    value = unwrap(own, node)

    if _is_group(node):
        return None if own is None else {}  # its fields are compared by themselves
    if (own == [] and node.kind == "list") or (own == {} and node.kind == "map"):
        return None

    annotations: Partial = {}
    if is_wrapper(own, node):
        annotations = {key: own[key] for key in ("dedup", "discard_when_merged") if key in own}

    if annotations or (node.kind != "table" and isinstance(value, (dict, list))):
        return {"value": value, "strategy": "replace", **annotations}
    return get_path(strip_strategies(build_partial(keys, value)), keys)  # type: ignore[no-any-return]


def _get_node(keys: PathKeys) -> SchemaNode:
    return node_at(keys) or JSON


def _is_group(node: SchemaNode) -> bool:
    """Return True for a table without a short form, and for a map without merge strategies."""
    if node.kind == "table":
        return not node.has_short_form
    return node.kind == "map" and not node.merge.annotated
