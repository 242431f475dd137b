"""Change partial configurations: unset paths, and merge a delta.

A path may name an item of a list, such as `conversation.attachments["a.md"]`. A key in brackets is
an `Element`: a text, with its value in `json`. It names an item if the value above it is a list.
Further keys may follow, which are settings of the item. The *identity* of an item is the text that
names it: the item itself, or a field such as its title. A value may be *wrapped* with the strategy
of its merge, `{value, strategy}`; `unwrap` and `rewrap` remove and restore this wrapper
(`partial.py`). `partial_diff.py` finds the change between two partial configurations.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from types import MappingProxyType

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial, get_identity, is_named, rewrap, unwrap
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.partials.setting_leaves import iter_changed_leaves
from jp_nb.config.schema import JSON, ROOT, SchemaNode, node_at
from jp_nb.config.setting_paths import Element, PathKeys, look_up, parse_path
from jp_nb.json_writing import sorted_json


@dataclass(frozen=True)
class Change:
    """One configuration change of the record: unset paths, then merge `delta`."""

    delta: Partial = field(default_factory=dict)
    unsets: tuple[str, ...] = ()
    """They stay unset, even if a lower layer sets them."""
    uncovers: frozenset[str] = frozenset()
    """Those of `unsets` at which the value of the lower layers applies again."""

    def __bool__(self) -> bool:
        return bool(self.delta or self.unsets)

    @cached_property
    def leaves(self) -> dict[PathKeys, JsonValue]:
        """The settings that `delta` may change, by keys: see `iter_changed_leaves`."""
        return dict(iter_changed_leaves(self.delta))


class _ItemGroup(str):
    """Last part of a path that names several items of one list, in place of an `Element`.

    It is a `str` only because the keys of a path are. It has no text of its own, and is never
    looked up as a key. An item is named by its identity,
    such as a field `name`, or by its JSON.
    """

    __slots__ = ("_forms", "_names")
    _names: set[str]
    _forms: set[str]

    def __new__(cls, elements: Iterable[Element]) -> _ItemGroup:
        items = super().__new__(cls)
        items._names = set(elements)
        items._forms = {sorted_json(element.json) for element in elements}
        return items

    def contains(self, node: SchemaNode, item: JsonValue) -> bool:
        return get_identity(node, item) in self._names or sorted_json(item) in self._forms


def apply_change(
    partial: Partial,
    change: Change,
    defaults: Mapping[str, JsonValue] | None = None,
    below: Mapping[str, JsonValue] | None = None,
) -> Partial:
    """Return `partial`, the merged configuration of all layers, after `change` (D4).

    If the change both unsets and sets a setting, the new value is not merged with the old one.
    `defaults` are restored where the change unsets something, and values of the lower layers
    `below` where it uncovers them.
    """
    partial = _unset_all(partial, change, defaults, below)
    partial = _drop_restored(partial, change)
    return merge_partials(partial, change.delta)


def _unset_all(
    partial: Partial,
    change: Change,
    defaults: Mapping[str, JsonValue] | None,
    below: Mapping[str, JsonValue] | None,
) -> Partial:
    """Return `partial` without the unset paths, at which defaults or lower values are restored."""
    # In the order of the unsets, but successive ones of one kind together.
    for is_uncovered, paths in groupby(change.unsets, lambda path: path in change.uncovers):
        for keys in _group_items(paths):
            if is_uncovered:
                restored = below
            elif _is_item(keys):
                restored = None  # an item of a list has no default
            else:
                restored = defaults
            partial = unset_path(partial, keys, restored or {})

    return partial


def _drop_restored(partial: Partial, change: Change) -> Partial:
    """Return `partial` without the restored values of paths that `change.delta` sets.

    The delta must not merge with them. For example, a change that unsets `a` and sets
    `{"a": {"x": 1}}` gives exactly this, without the other fields of a default of `a`.
    """
    for keys in map(parse_path, change.unsets):
        if not _is_item(keys) and look_up(change.delta, keys) is not None:
            partial = unset_path(partial, keys)

    return partial


def _group_items(paths: Iterable[str]) -> Iterator[PathKeys]:
    """Yield the keys of `paths`, with consecutive items of one list as one path (`_ItemGroup`).

    So a list is copied once, not once an item.
    """

    def get_list_keys(keys: PathKeys) -> PathKeys:
        return keys[:-1] if isinstance(keys[-1], Element) else keys

    for list_keys, group in groupby(map(parse_path, paths), get_list_keys):
        several = list(group)
        items = [keys[-1] for keys in several if isinstance(keys[-1], Element)]
        # The path `a` of the list itself is in one group with its item `a["x"]`.
        are_all_items = len(items) == len(several)

        node = node_at(list_keys)
        if len(items) > 1 and are_all_items and node is not None and node.kind == "list":
            yield (*list_keys, _ItemGroup(items))
        else:
            yield from several


def _is_item(keys: PathKeys) -> bool:
    """Return True if `keys` name an item of a list, or several."""
    above = node_at(keys[:-1]) if isinstance(keys[-1], (Element, _ItemGroup)) else None
    return above is not None and above.kind == "list"


def unset_path(
    value: Partial,
    path: str | PathKeys,
    below: Mapping[str, JsonValue] = MappingProxyType({}),
    node: SchemaNode | None = ROOT,
) -> Partial:
    """Return the table `value` of `node` with `path` unset; a value of `below` takes its place.

    `below` is the table of a lower layer. An item in brackets is removed from its list, unless
    `below` contains it. A path that is not set has no effect.
    """
    keys = parse_path(path) if isinstance(path, str) else path
    key = keys[0]
    rest = keys[1:]
    child = node.child(key) if node is not None else None

    if not rest:
        kept = {name: item for name, item in value.items() if name != key}
        if below.get(key) is not None:
            kept[str(key)] = below[key]
        return kept

    stored = value.get(key)
    lower = unwrap(below.get(key), child)

    if child is not None and child.kind == "list":
        return _unset_items(child, value, str(key), rest, lower)

    # A missing table is made only for a value of the lower layer.
    table = unwrap(stored, child)
    lower_table = lower if isinstance(lower, dict) else {}
    is_missing = table is None
    if is_missing and lower_table:
        table = {}
    if not isinstance(table, dict):
        return value

    changed = unset_path(table, rest, lower_table, child)
    if is_missing and not changed:
        return value
    return {**value, str(key): rewrap(child or JSON, stored, changed)}


def _unset_items(
    node: SchemaNode, value: Partial, key: str, keys: PathKeys, lower: JsonValue
) -> Partial:
    """Return `value` without the items at `keys` in its list `key`.

    Those that the list `lower` of a lower layer has are restored.
    """
    stored = value.get(key)
    plain = unwrap(stored, node)
    items: list[JsonValue] = plain if isinstance(plain, list) else []

    remaining = _remove_items(node, items, keys)
    names_items = len(keys) == 1 and isinstance(keys[0], (Element, _ItemGroup))
    # The items of the lower list that the key names. An index names no item of another list.
    if isinstance(lower, list) and names_items:
        others = {sorted_json(item) for item in _remove_items(node, lower, keys)}
        restored = {sorted_json(item) for item in lower} - others
        remaining = _restore_items(remaining, lower, restored)

    if remaining == items:
        return value
    return {**value, key: rewrap(node, stored, remaining)}


def _restore_items(
    items: Sequence[JsonValue], lower: Sequence[JsonValue], restored: Set[str]
) -> list[JsonValue]:
    """Return `items` with the `restored` ones of `lower`, which are given as JSON.

    A restored item comes before the items that follow it in `lower`: with the items `a`, `d`, the
    lower list `a`, `b`, `c`, `d`, and the restored `b`, `c`, these are `a`, `b`, `c`, `d`.
    """
    # Reversed, so that the first index of a repeated item remains.
    indexes = {sorted_json(item): index for index, item in reversed(list(enumerate(items)))}

    # From the end: the index in `items` before which each restored item comes.
    restored_before: dict[int, list[JsonValue]] = {}
    index = len(items)
    for item in reversed(lower):
        form = sorted_json(item)
        if form in restored:
            restored_before.setdefault(index, []).append(item)
        else:
            index = indexes.get(form, index)

    result: list[JsonValue] = []
    for index in range(len(items) + 1):
        result += reversed(restored_before.get(index, []))
        result += items[index : index + 1]
    return result


def _remove_items(node: SchemaNode, items: Sequence[JsonValue], keys: PathKeys) -> list[JsonValue]:
    """Return `items` without those that the first of the `keys` names.

    If more keys follow, such an item is kept, and only the setting below it is unset.
    """
    key = keys[0]
    rest = keys[1:]
    if isinstance(key, _ItemGroup):
        return [item for item in items if not key.contains(node, item)]

    kept: list[JsonValue] = []
    for index, item in enumerate(items):
        is_meant = is_named(node, item, key) if isinstance(key, Element) else str(index) == key
        if not is_meant or (rest and not isinstance(item, dict)):
            kept.append(item)
        elif rest and isinstance(item, dict):
            kept.append(unset_path(item, rest, node=node.item))
    return kept
