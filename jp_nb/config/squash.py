"""Several changes of the configuration as one.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import JsonValue

from jp_nb.config.partial import (
    Change,
    Partial,
    apply,
    build,
    get_path,
    is_wrapper,
    merge,
    strip_strategies,
    unset,
    unwrap,
    without_empty,
)
from jp_nb.config.paths import Element, Keys, format_path, parse_path
from jp_nb.config.schema import JSON, ROOT, SchemaNode, node_at
from jp_nb.config.tree.node import ShortTable


def squash(changes: Sequence[Change], before: Partial, defaults: Mapping[str, JsonValue]) -> Change:
    """One change that does to `before` what `changes` do, one after the other.

    The last word on a path counts, and no path is both set and unset. What strategies of merging
    cannot say about several changes at once is said by the value itself.

    Args:
        changes: In the order in which they are made.
        before: What is in force before the first.
        defaults: What shows where something is unset.
    """
    change = Change()
    for one in changes:
        change = _followed(change, one)
    if [change] == list(changes):
        return change
    after = before
    for one in changes:
        after = apply(after, one, defaults)
    came_to = apply(before, change, defaults)
    if came_to == after:
        return change
    fields = dict.fromkeys([*_fields(came_to), *_fields(after)])
    differ = [keys for keys in fields if _said(came_to, keys) != _said(after, keys)]
    for keys in sorted(differ, key=lambda keys: _is_group(_node(keys))):
        change = _restated(change, keys, before, after)
    return change


def _followed(change: Change, then: Change) -> Change:
    """`change` and then `then`: the later word on each path, and what both add to a list."""
    for path in then.unsets:
        change = _without(change, parse_path(path))
    unsets, delta = list(map(parse_path, change.unsets)), then.delta
    for keys in then.leaves:
        whole = keys[:-1] if isinstance(keys[-1], Element) else keys
        if whole in unsets and _node(whole).kind == "list":  # it is begun anew
            anew: JsonValue = {"value": get_path(delta, format_path(whole)), "strategy": "replace"}
            delta = merge(delta, build(format_path(whole), anew))
            unsets.remove(whole)
        unsets = [other for other in unsets if other[: len(keys)] != keys]
    return _both(merge(change.delta, delta), map(format_path, unsets))


def _both(delta: Partial, unsets: Iterable[str]) -> Change:
    """Return a change that sets `delta`, and unsets those of `unsets` that it does not set."""
    if not (paths := tuple(unsets)):
        return Change(delta)
    sets = Change(delta).leaves
    return Change(delta, tuple(path for path in paths if parse_path(path) not in sets))


def _without(change: Change, keys: Keys) -> Change:
    """`change`, and then what is at `keys` is unset."""
    path = format_path(keys)
    unsets = [other for other in change.unsets if parse_path(other)[: len(keys)] != keys]
    return Change(without_empty(unset(change.delta, path)), (*unsets, path))


def _restated(change: Change, keys: Keys, before: Partial, after: Partial) -> Change:
    """`change`, but that it makes of the field at `keys` what that is in `after`."""
    node, value = _node(keys), _said(after, keys)
    if _is_group(node):
        return Change(merge(change.delta, build(format_path(keys), value)), change.unsets)
    if value is None and node.kind in ("list", "map"):  # unset, it would show its default
        value = {"value": [] if node.kind == "list" else {}, "strategy": "replace"}
    change = _without(change, keys)
    if value is None:
        return change
    if is_wrapper(value, node) and is_wrapper(was := _said(before, keys), node) and "dedup" in was:
        value = {"dedup": node.merge.dedup, **value}
    # A table takes no other one's place: it stays among what is unset first.
    return _both(merge(change.delta, build(format_path(keys), value)), change.unsets)


# --- fields ----------------------------------------------------------------------------------


def _fields(partial: Partial, node: SchemaNode = ROOT, above: Keys = ()) -> Iterator[Keys]:
    """The keys of everything in `partial` that is set, or unset, as a whole.

    That is a value, a list, or a table that may also be something plain. Any other table counts
    where it says something though nothing is set in it: as an entry of a map.
    """
    for key, value in partial.items():
        keys, inner = (*above, key), node.child(key) or JSON
        plain = unwrap(value, inner)
        is_group = _is_group(inner) and isinstance(plain, dict)
        if isinstance(plain, dict) and is_group:
            yield from _fields(plain, inner, keys)
        if node.kind == "map" or not is_group:
            yield keys


def _said(partial: Partial, keys: Keys) -> JsonValue:
    """Return what says, over anything, what `partial` says at `keys`; None if that is nothing."""
    node, above = _node(keys), get_path(partial, format_path(keys[:-1])) if keys[1:] else partial
    found: JsonValue = above.get(keys[-1]) if isinstance(above, dict) else None
    value = unwrap(found, node)
    if _is_group(node):
        return None if found is None else {}  # all that it says by itself: it is there
    if (found == [] and node.kind == "list") or (found == {} and node.kind == "map"):
        return None
    kept: Partial = {}
    if is_wrapper(found, node):
        kept = {key: found[key] for key in ("dedup", "discard_when_merged") if key in found}
    if kept or (node.kind != "table" and isinstance(value, (dict, list))):
        return {"value": value, "strategy": "replace", **kept}
    return get_path(strip_strategies(build(format_path(keys), value)), format_path(keys))  # type: ignore[no-any-return]


def _node(keys: Keys) -> SchemaNode:
    return node_at(keys) or JSON


def _is_group(node: SchemaNode) -> bool:
    """True if `node` is a table and never something plain, or a map that knows no strategies."""
    if node.kind == "table" and node.table is not None:
        return not node.tagged and not issubclass(node.table, ShortTable)
    return node.kind == "map" and not node.merge.annotated
