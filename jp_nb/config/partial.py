"""Merge, change, and compare partial configurations.

A partial configuration is a JSON object with the settings of one source. An absent setting or null
means "not set". Sources are merged from the lowest layer up, because a list that appends has a
meaning only in relation to the list below it. A text that is not a path is a `ConfigError`.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import is_
from types import MappingProxyType
from typing import Any, TypeGuard

from pydantic import BaseModel, JsonValue, ValidationError

from jp_nb.config.schema import (
    JSON,
    ROOT,
    Element,
    PathKeys,
    SchemaNode,
    format_path,
    look_up,
    node_at,
    parse_path,
)
from jp_nb.json_values import sorted_json

Partial = dict[str, JsonValue]

_ANNOTATIONS = frozenset({"value", "strategy", "separator", "dedup", "discard_when_merged"})
TEXT_SEPARATORS = {"none": "", "space": " ", "line": "\n", "paragraph": "\n\n"}


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


def is_wrapper(value: object, node: SchemaNode | None) -> TypeGuard[dict[str, JsonValue]]:
    """Return True if `value` of `node` is an object with a merge strategy: `{value, strategy, …}`.

    For free JSON and maps, `strategy` is required: they may have a key `value`.
    """
    if not isinstance(value, dict) or "value" not in value or node is None:
        return False

    if not value.keys() <= _ANNOTATIONS:
        return False
    if node.kind == "json" or (node.kind == "map" and node.merge.annotated):
        return "strategy" in value
    return node.kind in ("list", "text")


def unwrap(value: JsonValue, node: SchemaNode | None) -> JsonValue:
    """Return `value` without its merge strategy, if it has one."""
    if not isinstance(value, dict) or "value" not in value:
        return value  # fast path for most settings
    return value["value"] if is_wrapper(value, node) else value


def _rewrap(
    node: SchemaNode, old: JsonValue, value: JsonValue, *, replaces: bool = False
) -> JsonValue:
    if not is_wrapper(old, node):
        return {"value": value, "strategy": "replace"} if replaces else value

    annotations: Partial = {k: v for k, v in old.items() if k != "discard_when_merged"}
    if replaces:
        annotations["strategy"] = "replace"
    return {**annotations, "value": value}


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
    return _rewrap(node, old, merge_partials(below, new, node))


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

    below = unwrap(old, node)
    above = unwrap(new, node)
    if not isinstance(above, list):
        return new  # `validate` reports it
    if node.merge.strategy == "preserve" and below is not None:
        return old

    own = new.get("strategy") if is_wrapper(new, node) else None
    default = "replace" if node.merge.strategy == "replace" else "append"
    strategy = str(own or default)
    items = below if isinstance(below, list) and strategy != "replace" else []
    first, second = (above, items) if strategy == "prepend" else (items, above)
    whole = [*first, *second]

    given = [value.get("dedup") for value in (new, old) if is_wrapper(value, node)]
    dedup = next((each for each in given if isinstance(each, bool)), node.merge.dedup)
    if dedup:
        whole = list({sorted_json(item): item for item in whole}.values())

    if old is None and is_wrapper(new, node):
        return {**new, "value": whole}
    result = _rewrap(node, old, whole, replaces=strategy == "replace")

    is_default = dedup == node.merge.dedup
    if not is_wrapper(result, node):
        return result if is_default else {"value": whole, "strategy": "append", "dedup": dedup}
    return result if is_default and "dedup" not in result else {**result, "dedup": dedup}


def _combine_wrapped(node: SchemaNode, old: JsonValue, wrapped: dict[str, JsonValue]) -> JsonValue:
    below = unwrap(old, node)
    above = wrapped["value"]
    strategy = wrapped.get("strategy", "append")

    if below is None or strategy == "replace":
        return wrapped

    if isinstance(below, dict) and isinstance(above, dict):
        if strategy == "merge":
            return _rewrap(node, old, {**below, **above})
        combined = {**above, **below} if strategy == "keep" else merge_partials(below, above, node)
        return _rewrap(node, old, combined)

    match (above, below) if strategy == "prepend" else (below, above):
        case str(first), str(second):
            separator = TEXT_SEPARATORS.get(str(wrapped.get("separator", "none")), "")
            return _rewrap(node, old, first + separator + second)
        case list(first), list(second):
            return _rewrap(node, old, [*first, *second])
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


def iter_leaf_paths(partial: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield the path and value of each setting, without merge strategies."""
    return ((format_path(keys), value) for keys, value in iter_leaves(partial))


def iter_leaves(
    partial: Mapping[str, JsonValue], node: SchemaNode | None = ROOT, above: PathKeys = ()
) -> Iterator[tuple[PathKeys, JsonValue]]:
    """Yield the keys and value of each setting, without merge strategies."""
    for key, value in partial.items():
        keys = (*above, key)
        below = node.child(key) if node is not None else None
        plain = unwrap(value, below)
        if isinstance(plain, dict) and plain:
            yield from iter_leaves(plain, below, keys)
        elif plain is not None:
            yield keys, plain


def iter_changed_leaves(
    partial: Mapping[str, JsonValue], node: SchemaNode | None = ROOT, above: PathKeys = ()
) -> Iterator[tuple[PathKeys, JsonValue]]:
    """Yield the keys and value of each setting that a merge of `partial` may change.

    - Free JSON is one leaf, and so is each entry of a map with the strategy `merge`.
    - A list has one leaf for each item, `field["item"]`, if its items have an identity.
    - Any other list is one leaf as a whole. So is a list or map that is replaced, or that has
      annotations for later values.
    """
    for key, value in partial.items():
        keys = (*above, key)
        child = node.child(key) if node is not None else None
        below = child or JSON
        plain = unwrap(value, below)
        if plain is None:
            continue

        if _is_one_leaf(below, value) or not isinstance(plain, (dict, list)):
            yield keys, plain
        elif isinstance(plain, list):
            for item in plain if below.merge.items != "sequence" else ():
                name = get_identity(below, item)
                named = item if name is None else name
                yield (*keys, Element(named)), item
            if plain and below.merge.items == "sequence":
                yield keys, plain
        elif _strategy(below, value) == "merge" and below.kind == "map":  # entry by entry
            yield from (((*keys, str(name)), entry) for name, entry in plain.items())
        else:
            yield from iter_changed_leaves(plain, below, keys)


def select_settings(
    partial: Mapping[str, JsonValue],
    is_wanted: Callable[[SchemaNode | None, PathKeys, JsonValue], bool | None],
    node: SchemaNode | None = ROOT,
    above: PathKeys = (),
) -> Partial:
    """Return the wanted values of `partial`. `is_wanted` returns None for a table to look into."""
    selected: Partial = {}

    for key, value in partial.items():
        keys = (*above, key)
        below = node.child(key) if node is not None else None
        wanted = is_wanted(below, keys, value)

        if wanted is None and isinstance(value, dict):
            if inner := select_settings(value, is_wanted, below, keys):
                selected[key] = inner
        elif wanted:
            selected[key] = value

    return selected


def remove_empty(partial: Mapping[str, JsonValue], node: SchemaNode = ROOT) -> Partial:
    """Return `partial` without nulls, empty tables, and empty lists that append."""
    kept: Partial = {}

    for key, value in partial.items():
        below = node.child(key) or JSON
        whole = _is_one_leaf(below, value)
        if not whole and isinstance(value, dict) and not is_wrapper(value, below):
            value = remove_empty(value, below)

        if whole or unwrap(value, below) not in (None, {}, []):
            kept[key] = value
    return kept


def _is_one_leaf(node: SchemaNode, value: JsonValue) -> bool:
    if node.kind == "json":
        return value is not None
    if node.kind not in ("list", "map"):
        return False
    if is_wrapper(value, node) and ("dedup" in value or "discard_when_merged" in value):
        return True  # these annotations also apply to later values
    return _strategy(node, value) == "replace"


def _strategy(node: SchemaNode, value: JsonValue) -> JsonValue:
    own = value.get("strategy") if is_wrapper(value, node) else None
    if node.kind == "map" and node.merge.strategy == "replace":
        return own or "deep_merge"  # the default for maps
    return own or node.merge.strategy


def get_path(partial: Mapping[str, Any], path: str | PathKeys) -> Any:
    """Return the value at `path`, without its merge strategy; None if it is not set.

    `field["name"]` is the last item of a list with this identity.
    """
    value: Any = partial
    node: SchemaNode | None = ROOT

    for key in parse_path(path) if isinstance(path, str) else path:
        items: list[Any] = []
        if isinstance(key, Element) and isinstance(value, list) and node is not None:
            items = [item for item in value if _is_named(node, item, key)]
        value = items[-1] if items else look_up(value, (key,))
        node = node.child(key) if node is not None else None
        value = unwrap(value, node)
    return value


def build_partial(path: str | PathKeys, value: JsonValue) -> Partial:
    """Return a partial configuration that sets only `path`."""
    keys = parse_path(path) if isinstance(path, str) else path
    for key in reversed(keys[1:]):
        value = {str(key): value}
    return {str(keys[0]): value}


def unset_path(
    value: Partial,
    path: str | PathKeys,
    below: Mapping[str, JsonValue] = MappingProxyType({}),
    node: SchemaNode | None = ROOT,
) -> Partial:
    """Return `value` of `node` with `path` unset; a value of `below` takes its place.

    An item in brackets is removed from its list, unless `below` contains it. A path that is not set
    has no effect.
    """
    keys = parse_path(path) if isinstance(path, str) else path
    key = keys[0]
    rest = keys[1:]
    inner = node.child(key) if node is not None else None
    if not rest:
        kept = {name: item for name, item in value.items() if name != key}
        return {**kept, str(key): below[key]} if below.get(key) is not None else kept

    own = value.get(key)
    lower = unwrap(below.get(key), inner)
    plain = unwrap(own, inner)

    if inner is not None and inner.kind == "list":
        return _unset_items(inner, value, str(key), rest, lower)
    restored = lower if isinstance(lower, dict) else {}
    if not isinstance(plain, dict) and not (plain is None and restored):
        return value

    table = plain if isinstance(plain, dict) else {}
    changed = unset_path(table, rest, restored, inner)
    if plain is None and not changed:
        return value
    return {**value, str(key): _rewrap(inner or JSON, own, changed)}


def _unset_items(
    node: SchemaNode, value: Partial, key: str, keys: PathKeys, lower: JsonValue
) -> Partial:
    own = value.get(key)

    plain = unwrap(own, node)
    items: list[JsonValue] = plain if isinstance(plain, list) else []

    rest = _remove_items(node, items, keys)
    if isinstance(lower, list) and len(keys) == 1 and isinstance(keys[0], (Element, _Items)):
        others = {sorted_json(item) for item in _remove_items(node, lower, keys)}
        rest = _restore_items(rest, lower, {sorted_json(item) for item in lower} - others)

    if rest == items:
        return value
    return {**value, key: _rewrap(node, own, rest)}


def _restore_items(
    items: Sequence[JsonValue], lower: Sequence[JsonValue], restored: Set[str]
) -> list[JsonValue]:
    # A restored item comes before the items that follow it in `lower`.
    places = {sorted_json(item): place for place, item in reversed(list(enumerate(items)))}

    before: dict[int, list[JsonValue]] = {}
    place = len(items)

    for item in reversed(lower):
        form = sorted_json(item)
        if form in restored:
            before.setdefault(place, []).append(item)
        else:
            place = places.get(form, place)

    result: list[JsonValue] = []
    for number in range(len(items) + 1):
        result += reversed(before.get(number, []))
        result += items[number : number + 1]
    return result


def _remove_items(node: SchemaNode, items: Sequence[JsonValue], keys: PathKeys) -> list[JsonValue]:
    key = keys[0]
    rest = keys[1:]
    if isinstance(key, _Items):
        return [item for item in items if not key.contains(node, item)]

    kept: list[JsonValue] = []
    for place, item in enumerate(items):
        is_named = _is_named(node, item, key) if isinstance(key, Element) else str(place) == key
        if not is_named or (rest and not isinstance(item, dict)):
            kept.append(item)
        elif rest and isinstance(item, dict):
            kept.append(unset_path(item, rest, node=node.item))
    return kept


class _Items(str):
    """Last part of a path that names several items of one list."""

    __slots__ = ("_forms", "_names")
    _names: set[str]
    _forms: set[str]

    def __new__(cls, elements: Iterable[Element]) -> _Items:
        items = super().__new__(cls)
        items._names = set(elements)
        items._forms = {sorted_json(element.json) for element in elements}
        return items

    def contains(self, node: SchemaNode, item: JsonValue) -> bool:
        return get_identity(node, item) in self._names or sorted_json(item) in self._forms


def _group_items(paths: Iterable[str]) -> Iterator[PathKeys]:

    # Consecutive items of one list are one path: a list is then copied once, not once an item.
    parsed = map(parse_path, paths)
    for above, group in groupby(parsed, lambda k: k[:-1] if isinstance(k[-1], Element) else k):
        several = list(group)
        items = [keys[-1] for keys in several if isinstance(keys[-1], Element)]

        node = node_at(above) if len(items) == len(several) > 1 else None
        if node is not None and node.kind == "list":
            yield (*above, _Items(items))
        else:
            yield from several


def _is_named(node: SchemaNode, item: JsonValue, key: Element) -> bool:
    return bool(item == key.json) or get_identity(node, item) == key


def get_identity(node: SchemaNode, item: JsonValue) -> str | None:
    """Return the name of `item` in the list `node`: a text itself, or a field; None without one."""
    if isinstance(item, str):
        return item

    if isinstance(item, dict):
        for key in node.merge.keys:
            if isinstance(name := item.get(key), str):
                return name
        if node.item.table is not None and node.item.takes_any_text:
            with suppress(ValidationError):
                table = node.item.adapter.validate_python(item)
                return str(table) if "__str__" in vars(type(table)) else None
    return None


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
    for uncovers, paths in groupby(change.unsets, lambda path: path in change.uncovers):
        for keys in _group_items(paths):
            default = None if _is_item(keys) else defaults  # an item of a list has no default
            restored = below if uncovers else default
            partial = unset_path(partial, keys, restored or {})

    for keys in map(parse_path, change.unsets):
        # Without the restored defaults of paths that `delta` sets: it must not merge with them.
        if not _is_item(keys) and look_up(change.delta, keys) is not None:
            partial = unset_path(partial, keys)

    return merge_partials(partial, change.delta)


def _is_item(keys: PathKeys) -> bool:
    above = node_at(keys[:-1]) if isinstance(keys[-1], (Element, _Items)) else None
    return above is not None and above.kind == "list"


def diff_partials(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> Change:
    """Return the smallest change with `apply_change(before, change) == after`.

    Neither may contain merge strategies: remove them with `strip_strategies`.
    """
    unsets: list[str] = []

    def changed(
        node: SchemaNode,
        before: Mapping[str, JsonValue],
        after: Mapping[str, JsonValue],
        above: PathKeys,
    ) -> Partial:
        unsets.extend(
            format_path((*above, key))
            for key, old in before.items()
            if old is not None and after.get(key) is None
        )
        delta: Partial = {}

        for key, new in after.items():
            old = before.get(key)
            below = node.child(key) or JSON
            if new is None or new is old:
                continue
            if expand_shorthand(below, new) == expand_shorthand(below, old):
                continue

            # Half of a model id would be hard to read.
            is_whole = below.table is not None and below.takes_any_text and below.required_fields
            if isinstance(new, dict) and isinstance(old, dict) and not is_whole:
                if inner := changed(below, old, new, (*above, key)):
                    delta[key] = inner
            else:
                delta[key] = _find_shortest_form(below, old, new)
        return delta

    return Change(changed(ROOT, before, after, ()), tuple(unsets))


def _find_shortest_form(node: SchemaNode, old: JsonValue, new: JsonValue) -> JsonValue:
    forms: list[JsonValue] = [new, {"value": new, "strategy": "replace"}]

    if isinstance(new, list):
        forms.append({"value": new, "strategy": "replace", "dedup": False})
        if isinstance(old, list) and new[: len(old)] == old:
            forms.insert(0, new[len(old) :])

    for form in forms:
        if form != [] and unwrap(combine_values(node, old, form), node) == new:
            return form
    return new
