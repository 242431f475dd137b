"""Partial configurations: nested objects that hold only what somebody set.

A partial is a plain JSON object; what is absent (or null) says nothing. `merge` lays one over
another, `Change` is what a delta of the record says.

Layers are folded from the lowest up: a list that appends means something only above what it is
appended to.

Source: `docs/configuration.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, TypeGuard

from pydantic import BaseModel, JsonValue, ValidationError

from jp_nb.config.schema import (
    JSON,
    ROOT,
    Element,
    Keys,
    SchemaNode,
    format_path,
    lookup,
    node_at,
    parse_path,
)
from jp_nb.json_values import sorted_json

Partial = dict[str, JsonValue]

_ANNOTATIONS = frozenset({"value", "strategy", "separator", "dedup", "discard_when_merged"})
_SEPARATORS = {"none": "", "space": " ", "line": "\n", "paragraph": "\n\n"}


@dataclass(frozen=True)
class Change:
    """One delta of the record: `unsets` first, then `delta` is merged.

    What is unset stays so, whatever lower layers say; at those of `unsets` that it `uncovers` the
    conversation has no say any more, and the lower layers show again.
    """

    delta: Partial = field(default_factory=dict)
    unsets: tuple[str, ...] = ()
    uncovers: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.delta or self.unsets)

    @cached_property
    def leaves(self) -> dict[Keys, JsonValue]:
        """Everything that `delta` may change, with its value: see `changed_leaves`."""
        return dict(iter_changed_leaves(self.delta))


# --- values with a strategy ------------------------------------------------------------------


def is_wrapper(value: object, node: SchemaNode | None) -> TypeGuard[dict[str, JsonValue]]:
    """True if `value` for `node` is written as `{value, strategy}`.

    Where keys are free, both are needed: a map may have a key `value` of its own.
    """
    if node is None or not isinstance(value, dict) or "value" not in value:
        return False
    if not value.keys() <= _ANNOTATIONS:
        return False
    if node.kind == "json" or (node.kind == "map" and node.merge.annotated):
        return "strategy" in value
    return node.kind in ("list", "text")


def unwrap(value: JsonValue, node: SchemaNode | None) -> JsonValue:
    """`value` without its strategy, if it was written with one."""
    return value["value"] if is_wrapper(value, node) else value


def _rewrap(
    node: SchemaNode, old: JsonValue, value: JsonValue, *, replaces: bool = False
) -> JsonValue:
    """`value` with what `old` says about meeting what lies below it."""
    if not is_wrapper(old, node):
        return {"value": value, "strategy": "replace"} if replaces else value
    kept: Partial = {k: v for k, v in old.items() if k != "discard_when_merged"}
    if replaces:
        kept["strategy"] = "replace"
    return {**kept, "value": value}


# --- merging ---------------------------------------------------------------------------------


def merge(base: Mapping[str, JsonValue], over: Mapping[str, JsonValue]) -> Partial:
    """`base` with `over` laid over it, each field as it says (`jp_nb.config.tree.base`).

    Neither argument is changed; what is not touched is shared.
    """
    return _merge(ROOT, base, over)


def _merge(
    node: SchemaNode, base: Mapping[str, JsonValue], over: Mapping[str, JsonValue]
) -> Partial:
    result = dict(base)
    for key, value in over.items():
        below = node.child(key)
        if value is None or (value == [] and below is not None and below.kind == "list"):
            continue  # says nothing
        result[key] = combine_values(below or JSON, result.get(key), value)
    return result


def combine_values(node: SchemaNode, old: JsonValue, new: JsonValue) -> JsonValue:
    """Return what the value `old` of `node` becomes under `new`."""
    if not isinstance(old, dict) and not isinstance(new, dict) and node.kind != "list":
        return new  # most are so
    if isinstance(old, dict) != isinstance(new, dict):  # a shorthand meets a table
        old, new = expand_shorthand(node, old), expand_shorthand(node, new)
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
        return _merge(node, {}, new)
    return _rewrap(node, old, _merge(node, below, new))


def expand_shorthand(node: SchemaNode, value: JsonValue) -> JsonValue:
    """A shorthand of a table written out, so that tables merge field by field."""
    if node.kind != "table" or value is None or isinstance(value, dict):
        return value
    try:
        found = node.adapter.validate_python(value)
    except ValidationError:
        return value  # reported with its path by `validate`
    if not isinstance(found, BaseModel):
        return value  # a word that stands for itself
    return found.model_dump(mode="json", exclude_unset=True)


def _combine_lists(node: SchemaNode, old: JsonValue, new: JsonValue) -> JsonValue:
    below, above = unwrap(old, node), unwrap(new, node)
    if not isinstance(above, list):
        return new  # reported by `validate`
    if node.merge.strategy == "preserve" and below is not None:
        return old
    says = new.get("strategy") if is_wrapper(new, node) else None
    strategy = str(says or ("replace" if node.merge.strategy == "replace" else "append"))
    items = below if isinstance(below, list) and strategy != "replace" else []
    first, second = (above, items) if strategy == "prepend" else (items, above)
    whole = [*first, *second]
    dedup = _dedup(node, old, new)
    if dedup:
        first_of = dict[str, JsonValue]()
        for item in whole:
            first_of.setdefault(sorted_json(item), item)
        whole = list(first_of.values())
    replaces = strategy == "replace"
    if old is None and is_wrapper(new, node):
        return {**new, "value": whole}
    result = _rewrap(node, old, whole, replaces=replaces)
    says_so = is_wrapper(result, node) and "dedup" in result
    if dedup != node.merge.dedup or says_so:
        plain: Partial = {"value": whole, "strategy": "append"}
        return {**(result if is_wrapper(result, node) else plain), "dedup": dedup}
    return result


def _dedup(node: SchemaNode, old: JsonValue, new: JsonValue) -> bool:
    """True if equal items are dropped: the newer value says so, else the older, else the field."""
    for value in (new, old):
        says = value.get("dedup") if is_wrapper(value, node) else None
        if isinstance(says, bool):
            return says
    return node.merge.dedup


def _combine_wrapped(node: SchemaNode, old: JsonValue, wrapped: dict[str, JsonValue]) -> JsonValue:
    """A text, a map, or any JSON, written with a strategy."""
    below, above = unwrap(old, node), wrapped["value"]
    strategy = wrapped.get("strategy", "append")
    if below is None or strategy == "replace":
        return wrapped
    match below, above:
        case str(), str():
            first, second = (above, below) if strategy == "prepend" else (below, above)
            separator = _SEPARATORS.get(str(wrapped.get("separator", "none")), "")
            return _rewrap(node, old, first + separator + second)
        case list(), list():
            return _rewrap(
                node, old, [*above, *below] if strategy == "prepend" else [*below, *above]
            )
        case dict(), dict():
            merged = _merge(node, below, above)
            if strategy == "merge":
                merged = {**below, **above}
            elif strategy == "keep":
                merged = {**above, **below}
            return _rewrap(node, old, merged)
    return wrapped


def strip_strategies(partial: Mapping[str, JsonValue]) -> Partial:
    """`partial` without strategies: nothing lies below it."""
    return _settled(ROOT, partial)


def _settled(node: SchemaNode | None, partial: Mapping[str, JsonValue]) -> Partial:
    result: Partial = {}
    for key, value in partial.items():
        if not isinstance(value, dict) and value != []:
            result[key] = value  # most are: nothing is said about them
            continue
        below = node.child(key) if node is not None else None
        if value == [] and below is not None and below.kind == "list":
            continue
        plain = unwrap(value, below) if isinstance(value, dict) and "value" in value else value
        result[key] = _settled(below, plain) if isinstance(plain, dict) else plain
    return result


def as_replacement(partial: Mapping[str, JsonValue]) -> Partial:
    """`partial` so that it means the same over anything: lists replace, texts are plain.

    Of a whole configuration, dumped, that is the partial which yields it again.
    """
    return _pinned(ROOT, strip_strategies(partial))


def _pinned(node: SchemaNode, partial: Mapping[str, JsonValue]) -> Partial:
    result: Partial = {}
    for key, value in partial.items():
        below = node.child(key) or JSON
        if isinstance(value, dict) and below.kind != "json":
            inner = _pinned(below, value)
            wraps = below.kind == "map" and below.merge.annotated
            result[key] = {"value": inner, "strategy": "replace"} if wraps else inner
        else:
            result[key] = _verbatim(below, value)
    return result


def _verbatim(node: SchemaNode, value: JsonValue) -> JsonValue:
    """`value` so that it replaces whatever it meets, and is not taken for a wrapper."""
    if node.kind == "list" or (node.kind == "json" and is_wrapper(value, node)):
        return {"value": value, "strategy": "replace"}
    return value


# --- reading ---------------------------------------------------------------------------------


def iter_leaf_paths(
    partial: Mapping[str, JsonValue], prefix: str = ""
) -> Iterator[tuple[str, JsonValue]]:
    """Every value that is set, without its strategy, with its path."""
    keys = parse_path(prefix) if prefix else ()
    for found, value in iter_leaves(partial, node_at(keys), keys):
        yield format_path(found), value


def iter_leaves(
    partial: Mapping[str, JsonValue], node: SchemaNode | None = ROOT, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """As `leaves`, with keys instead of paths."""
    for key, value in partial.items():
        keys, below = (*above, key), node.child(key) if node is not None else None
        plain = unwrap(value, below)
        if isinstance(plain, dict) and plain:
            yield from iter_leaves(plain, below, keys)
        elif plain is not None:
            yield keys, plain


def iter_changed_leaves(
    partial: Mapping[str, JsonValue], node: SchemaNode | None = ROOT, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """Everything that merging `partial` may change, one leaf at a time, with its value.

    Each key of a map counts for itself, and free JSON is one leaf. A list that adds to a set of
    items is one leaf an item, `field["item"]`; one that is replaced, or in which repeats matter,
    is a leaf as a whole, and so is an entry of a map, or a map, that is replaced.

    Source: `docs/turns.md`.
    """
    for key, value in partial.items():
        keys, below = (*above, key), (node.child(key) if node is not None else None) or JSON
        plain = unwrap(value, below)
        if plain is None:
            continue
        if _is_one_leaf(below, value) or not isinstance(plain, (dict, list)):
            yield keys, plain
        elif isinstance(plain, list):
            for item in plain if below.merge.items != "sequence" else ():
                named = get_identity(below, item)
                yield (*keys, Element(item if named is None else named)), item
            if plain and below.merge.items == "sequence":
                yield keys, plain
        elif _strategy(below, value) == "merge" and below.kind == "map":  # entry by entry
            yield from (((*keys, str(name)), entry) for name, entry in plain.items())
        else:
            yield from iter_changed_leaves(plain, below, keys)


def remove_empty(partial: Mapping[str, JsonValue], node: SchemaNode = ROOT) -> Partial:
    """`partial` without what touches nothing: tables, and lists that add, in which nothing is."""
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
    """True if `value` of `node`, a table or list perhaps, counts as a whole.

    Free JSON does; so does what takes the place of what was there, or says how repeats and later
    values are met.
    """
    if node.kind == "json":
        return value is not None
    if node.kind not in ("list", "map"):
        return False
    says = is_wrapper(value, node) and not {"dedup", "discard_when_merged"}.isdisjoint(value)
    return says or _strategy(node, value) == "replace"


def _strategy(node: SchemaNode, value: JsonValue) -> JsonValue:
    """Return the strategy by which the list or map `value` of `node` meets an earlier one."""
    says = value.get("strategy") if is_wrapper(value, node) else None
    if node.kind == "map" and node.merge.strategy == "replace":
        return says or "deep_merge"  # maps recurse unless they say otherwise
    return says or node.merge.strategy


def get_path(partial: Mapping[str, Any], path: str) -> Any:
    """Return the value of `partial` at `path`, without its strategy; None if it has none.

    `field["name"]` is the last item of a list that has this identity.

    Raises:
        ConfigError: If `path` is not a path.
    """
    value: Any = partial
    node: SchemaNode | None = ROOT
    for key in parse_path(path):
        named: list[Any] = []
        if isinstance(key, Element) and isinstance(value, list) and node is not None:
            named = [item for item in value if _is_named(node, item, key)]
        value = named[-1] if named else lookup(value, (key,))
        node = node.child(key) if node is not None else None
        value = unwrap(value, node)
    return value


def build_partial(path: str, value: JsonValue) -> Partial:
    """A partial that sets `path` alone."""
    return _build(parse_path(path), value)


def _build(keys: Sequence[str], value: JsonValue) -> Partial:
    for key in reversed(keys[1:]):
        value = {str(key): value}
    return {str(keys[0]): value}


# --- removing --------------------------------------------------------------------------------


def unset(partial: Partial, path: str, below: Mapping[str, JsonValue] | None = None) -> Partial:
    """`partial` without what it sets at `path`; what lies `below` shows there.

    An item in brackets is taken out of its list, whoever put it there, unless it lies below. What
    is not there is not missed.

    Raises:
        ConfigError: If `path` is not a path.
    """
    return _unset(ROOT, partial, parse_path(path), below or {})


def _unset(
    node: SchemaNode | None, value: Partial, keys: Sequence[str], below: Mapping[str, JsonValue]
) -> Partial:
    key, rest = keys[0], keys[1:]
    inner = node.child(key) if node is not None else None
    if not rest:
        kept = {name: item for name, item in value.items() if name != key}
        return {**kept, str(key): below[key]} if below.get(key) is not None else kept
    mine, lower = value.get(key), unwrap(below.get(key), inner)
    plain = unwrap(mine, inner)
    if inner is not None and inner.kind == "list":
        return _without_items(inner, value, str(key), rest, lower)
    shows = lower if isinstance(lower, dict) else {}
    if not isinstance(plain, dict) and not (plain is None and shows):
        return value
    changed = _unset(inner, plain if isinstance(plain, dict) else {}, rest, shows)
    if plain is None and not changed:
        return value
    return {**value, str(key): _rewrap(inner or JSON, mine, changed)}


def _without_items(
    node: SchemaNode, value: Partial, key: str, keys: Sequence[str], lower: JsonValue
) -> Partial:
    """`value` in whose list `key` nothing is what `keys` name, but for what is so in `lower`."""
    mine = value.get(key)
    plain = unwrap(mine, node)
    items: list[JsonValue] = plain if isinstance(plain, list) else []
    fewer = _fewer(node, items, keys)
    if isinstance(lower, list) and len(keys) == 1 and isinstance(keys[0], (Element, _Items)):
        kept = {sorted_json(item) for item in _fewer(node, lower, keys)}
        fewer = _with_shown(fewer, lower, {sorted_json(item) for item in lower} - kept)
    if fewer == items:
        return value
    return {**value, key: _rewrap(node, mine, fewer)}


def _with_shown(
    items: Sequence[JsonValue], lower: Sequence[JsonValue], shown: Set[str]
) -> list[JsonValue]:
    """`items` and those of `lower` that are `shown`, before what comes behind them in `lower`."""
    places = {sorted_json(item): place for place, item in reversed(list(enumerate(items)))}
    before: dict[int, list[JsonValue]] = {}
    place = len(items)
    for item in reversed(lower):
        form = sorted_json(item)
        if form in shown:
            before.setdefault(place, []).append(item)
        else:
            place = places.get(form, place)
    found: list[JsonValue] = []
    for number in range(len(items) + 1):
        found += reversed(before.get(number, []))
        found += items[number : number + 1]
    return found


def _fewer(node: SchemaNode, items: Sequence[JsonValue], keys: Sequence[str]) -> list[JsonValue]:
    """`items` without the one that `keys` name, or without what they name inside of it."""
    key, rest = keys[0], keys[1:]
    if isinstance(key, _Items):
        return [item for item in items if not key.name(node, item)]
    kept: list[JsonValue] = []
    for place, item in enumerate(items):
        named = str(place) == key
        if isinstance(key, Element):
            named = _is_named(node, item, key)
        if not named:
            kept.append(item)
        elif rest:
            kept.append(_unset(node.item, item, rest, {}) if isinstance(item, dict) else item)
    return kept


class _Items(str):
    """The last part of a path that stands for many: items of one list, all in brackets."""

    __slots__ = ("_forms", "_names")
    _names: set[str]
    _forms: set[str]

    def __new__(cls, elements: Iterable[Element]) -> _Items:
        made = super().__new__(cls)
        made._names = set(elements)
        made._forms = {sorted_json(element.json) for element in elements}
        return made

    def name(self, node: SchemaNode, item: JsonValue) -> bool:
        """True if `item` of the list `node` is one of them."""
        return get_identity(node, item) in self._names or sorted_json(item) in self._forms


def _together(paths: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """The keys of `paths`; items of one list that follow one another are one path."""
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
    """Return the name of `item` in the list `node`: itself if a text, else one of its fields."""
    if isinstance(item, str):
        return item
    if isinstance(item, dict):
        for key in node.merge.keys:
            if isinstance(found := item.get(key), str):
                return found
        if node.item.table is not None and node.item.takes_any_text:
            return _as_text(node.item, item)
    return None


def _as_text(node: SchemaNode, item: JsonValue) -> str | None:
    """The shorthand of a table, where its class knows one."""
    try:
        found = node.adapter.validate_python(item)
    except ValidationError:
        return None
    return str(found) if "__str__" in vars(type(found)) else None


# --- applying and finding changes ------------------------------------------------------------


def apply(
    partial: Partial,
    change: Change,
    defaults: Mapping[str, JsonValue] | None = None,
    below: Mapping[str, JsonValue] | None = None,
) -> Partial:
    """`partial` after `change`: what it unsets first, then what it sets (D4).

    A field that the change both unsets and sets takes the new value as it is.

    Args:
        partial: What is set now, lower layers included.
        change: What to do to it.
        defaults: What shows where something is unset.
        below: What shows where `change` uncovers it: all lower layers.
    """
    for uncovers, paths in groupby(change.unsets, lambda path: path in change.uncovers):
        for keys in _together(paths):
            shows = below if uncovers else None if _is_item(keys) else defaults
            partial = _unset(ROOT, partial, keys, shows or {})
    if not change.unsets:
        return merge(partial, change.delta)
    gone = {parse_path(path) for path in change.unsets}
    return merge(_cleared(ROOT, partial, change.delta, (), gone), change.delta)


def _is_item(keys: Sequence[str]) -> bool:
    """True if `keys` lead to an item of a list: it has no default, and is gone when it is unset."""
    above = node_at(tuple(keys[:-1])) if isinstance(keys[-1], (Element, _Items)) else None
    return above is not None and above.kind == "list"


def _cleared(
    node: SchemaNode | None,
    partial: Partial,
    delta: Mapping[str, JsonValue],
    above: tuple[str, ...],
    gone: Set[tuple[str, ...]],
) -> Partial:
    """`partial` without lists, texts and maps that `delta` sets at or below a path in `gone`."""
    result = partial
    for key, value in delta.items():
        keys, below = (*above, key), node.child(key) if node is not None else None
        if key not in result:
            continue
        if any(keys[:length] in gone for length in range(1, len(keys) + 1)):
            result = {name: item for name, item in result.items() if name != key}
            continue
        inner = result[key]
        if not isinstance(value, dict) or not isinstance(inner, dict):
            continue
        if not is_wrapper(value, below) and not is_wrapper(inner, below):
            result = {**result, key: _cleared(below, inner, value, keys, gone)}
    return result


def diff(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> Change:
    """The smallest change that makes `after` of `before`.

    So that `apply(before, diff(before, after)) == after`. Both without strategies
    (`strip_strategies`).
    """
    unsets: list[str] = []
    delta = _diff(ROOT, dict(before), dict(after), (), unsets)
    return Change(delta, tuple(unsets))


def _diff(
    node: SchemaNode | None,
    before: Partial,
    after: Partial,
    above: tuple[str, ...],
    unsets: list[str],
) -> Partial:
    delta: Partial = {}
    for key in before:
        if after.get(key) is None and before[key] is not None:
            unsets.append(format_path((*above, key)))
    for key, new in after.items():
        below = (node.child(key) if node is not None else None) or JSON
        old = before.get(key)
        if new is None or expand_shorthand(below, new) == expand_shorthand(below, old):
            continue
        if isinstance(new, dict) and isinstance(old, dict) and not _is_whole(below):
            if inner := _diff(below, old, new, (*above, key), unsets):
                delta[key] = inner
        else:
            delta[key] = _step(below, old, new)
    return delta


def _is_whole(node: SchemaNode) -> bool:
    """True if a table is stored whole: half a model id is hard to read."""
    return node.table is not None and node.takes_any_text and bool(node.required_fields)


def _step(node: SchemaNode, old: JsonValue, new: JsonValue) -> JsonValue:
    """The shortest way to write `new` so that it becomes that over `old`."""
    forms: list[JsonValue] = [new]
    if isinstance(new, list) and isinstance(old, list) and new[: len(old)] == old:
        forms.insert(0, new[len(old) :])
    forms.append({"value": new, "strategy": "replace"})
    if isinstance(new, list):
        forms.append({"value": new, "strategy": "replace", "dedup": False})
    for form in forms:
        if form != [] and unwrap(combine_values(node, old, form), node) == new:
            return form
    return new
