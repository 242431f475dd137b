"""Combine configuration changes that are applied one after the other into one change.

A batch of tool calls may make several changes, and the record gets one `config_delta` for them:
`{a: 1}` and then `{a: 2}` with `unsets: [b]` become `{a: 2}` with `unsets: [b]`. Where the merge
strategies of lists, texts, and maps cannot express the result, the value itself is set.

Words of the schema (`schema.py`) and of partial configurations (`partial.py`) in this module:

- A list, text, or map may be *wrapped*: `{"value": ["a"], "strategy": "replace", "dedup": true}`.
  Its other keys are *annotations* for later merges, except the strategy.
- A table may have a *short form*: `assistant.model.id` may be the text `anthropic/claude` instead.
- A *group* is a table without a short form, or a map without strategies. Its fields are set and
  unset one by one; other values are set as a whole.

Source: `docs/turns.md`, `docs/decisions.md` D38.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial, build_partial, get_path, is_wrapper, unwrap
from jp_nb.config.partials.partial_change import Change, apply_change, unset_path
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.partials.setting_leaves import remove_empty
from jp_nb.config.schema import JSON, ROOT, SchemaNode, node_at
from jp_nb.config.setting_paths import Element, PathKeys, format_path, parse_path

_ANNOTATIONS = ("dedup", "discard_when_merged")
"""Keys of a wrapped value that also apply to later merges."""


def squash_changes(
    changes: Sequence[Change], before: Partial, defaults: Mapping[str, JsonValue]
) -> Change:
    """Return one change that has the same effect on `before` as `changes` in their order.

    A `Change` unsets its paths `unsets`, and then merges its settings `delta`; its `leaves` are the
    settings that the merge may change. If merge strategies cannot express the result, the value is
    set. `defaults` are restored where something is unset.
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

    # Groups come last, because to set another field removes empty tables from the change.
    differing.sort(key=lambda keys: _is_group(_get_node(keys)))
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
        field = keys[:-1] if isinstance(keys[-1], Element) else keys
        is_new_list = field in unsets and _get_node(field).kind == "list"

        # `unset a`, then `a = [1]`: one change with both would append 1 to the list of the layers
        # below. So it becomes `a = {value = [1], strategy = "replace"}`.
        if is_new_list:
            replacement: JsonValue = {"value": get_path(delta, field), "strategy": "replace"}
            delta = merge_partials(delta, build_partial(field, replacement))
            unsets.remove(field)

        unsets = [path for path in unsets if not _is_at_or_below(path, keys)]

    return _create_change(merge_partials(change.delta, delta), map(format_path, unsets))


def _is_at_or_below(path: PathKeys, keys: PathKeys) -> bool:
    return path[: len(keys)] == keys


def _create_change(delta: Partial, unsets: Iterable[str]) -> Change:
    """Return a change without those `unsets` that `delta` sets."""
    paths = tuple(unsets)
    if not paths:
        return Change(delta)

    sets = Change(delta).leaves
    return Change(delta, tuple(path for path in paths if parse_path(path) not in sets))


def _append_unset(change: Change, keys: PathKeys) -> Change:
    """Return `change` and then an unset of `keys`, which discards what it did at or below them."""
    path = format_path(keys)
    unsets = [other for other in change.unsets if not _is_at_or_below(parse_path(other), keys)]
    delta = remove_empty(unset_path(change.delta, path))
    return Change(delta, (*unsets, path))


def _set_field(change: Change, keys: PathKeys, before: Partial, after: Partial) -> Change:
    """Return `change`, which also gives the field at `keys` its value in `after`.

    A group is only created, with an empty table: its fields are set by themselves. Any other field
    is unset first, so that nothing of the value before remains.
    """
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

    # If the value is a table, its leaves are below `keys`. Then `_create_change` keeps the unset of
    # `keys`, and no field of the table before remains.
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
    """Return the value at `keys` in a form that replaces any other value; None if it is not set.

    - A group is an empty table, because its fields are compared by themselves.
    - An empty list or map counts as not set.
    - A list, a map, and a value with annotations are wrapped with the strategy `replace`.
    - Any other value is plain.
    """
    node = _get_node(keys)

    parent = get_path(partial, keys[:-1]) if keys[1:] else partial
    stored: JsonValue = parent.get(keys[-1]) if isinstance(parent, dict) else None
    value = unwrap(stored, node)

    if _is_group(node):
        return None if stored is None else {}
    if (stored == [] and node.kind == "list") or (stored == {} and node.kind == "map"):
        return None

    annotations: Partial = {}
    if is_wrapper(stored, node):
        annotations = {key: stored[key] for key in _ANNOTATIONS if key in stored}

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
