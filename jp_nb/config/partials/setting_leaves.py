"""Walk over the settings of a partial configuration: list its leaves, and select some of them.

A *leaf* is a setting with its value. A value may be *wrapped* with the strategy of its merge, and a
*node* is the type of a setting in the schema: `partial.py` explains both.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial, get_identity, is_wrapper, unwrap
from jp_nb.config.schema import JSON, ROOT, SchemaNode
from jp_nb.config.setting_paths import Element, PathKeys, format_path


def iter_settings(partial: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield the path and value of each setting, without merge strategies."""
    return ((format_path(keys), value) for keys, value in iter_leaves(partial))


def list_leaf_paths(partials: Iterable[Partial]) -> list[str]:
    """Return the path of each value in `partials`, with repetitions."""
    paths: list[str] = []
    for partial in partials:
        paths += [path for path, _ in iter_settings(partial)]
    return paths


def iter_leaves(
    partial: Mapping[str, JsonValue], node: SchemaNode | None = ROOT, above: PathKeys = ()
) -> Iterator[tuple[PathKeys, JsonValue]]:
    """Yield the keys and value of each setting, without merge strategies.

    A list is one setting. For the settings that a merge may change, see `iter_changed_leaves`.
    """
    for key, value in partial.items():
        keys = (*above, key)
        child = node.child(key) if node is not None else None
        plain = unwrap(value, child)
        if isinstance(plain, dict) and plain:
            yield from iter_leaves(plain, child, keys)
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
        child = (node.child(key) if node is not None else None) or JSON
        plain = unwrap(value, child)
        if plain is None:
            continue

        if _is_one_leaf(child, value) or not isinstance(plain, (dict, list)):
            yield keys, plain
        elif isinstance(plain, list):
            yield from _iter_list_leaves(child, plain, keys)
        elif child.kind == "map" and _find_strategy(child, value) == "merge":
            for name, entry in plain.items():
                yield (*keys, str(name)), entry
        else:
            yield from iter_changed_leaves(plain, child, keys)


def _iter_list_leaves(
    node: SchemaNode, items: list[JsonValue], keys: PathKeys
) -> Iterator[tuple[PathKeys, JsonValue]]:
    """Yield the leaves of a list at `keys`: its items, or the list if they have no identity."""
    if node.merge.items == "sequence":
        if items:
            yield keys, items
        return

    for item in items:
        identity = get_identity(node, item)
        name = item if identity is None else identity
        yield (*keys, Element(name)), item


def _is_one_leaf(node: SchemaNode, value: JsonValue) -> bool:
    """Return True if a merge changes `value` only as a whole."""
    if node.kind == "json":
        return value is not None
    if node.kind not in ("list", "map"):
        return False
    if is_wrapper(value, node) and ("dedup" in value or "discard_when_merged" in value):
        return True  # these annotations also apply to later values
    return _find_strategy(node, value) == "replace"


def _find_strategy(node: SchemaNode, value: JsonValue) -> JsonValue:
    """Return the merge strategy of `value`: its own, or that of the schema."""
    own = value.get("strategy") if is_wrapper(value, node) else None
    default: JsonValue = node.merge.strategy
    if node.kind == "map" and default == "replace":
        default = "deep_merge"  # the schema has `replace` for maps without a rule of their own
    return own or default


def select_settings(
    partial: Mapping[str, JsonValue],
    is_wanted: Callable[[SchemaNode | None, PathKeys, JsonValue], bool | None],
    node: SchemaNode | None = ROOT,
    above: PathKeys = (),
) -> Partial:
    """Return the wanted values of `partial`.

    `is_wanted` is called with the node, the keys, and the value of each setting. It returns None
    for a table whose settings it wants to decide one by one. A table is omitted if none is wanted.
    """
    selected: Partial = {}

    for key, value in partial.items():
        keys = (*above, key)
        child = node.child(key) if node is not None else None
        wanted = is_wanted(child, keys, value)

        if wanted is None and isinstance(value, dict):
            if inner := select_settings(value, is_wanted, child, keys):
                selected[key] = inner
        elif wanted:
            selected[key] = value

    return selected


def remove_empty(partial: Mapping[str, JsonValue], node: SchemaNode = ROOT) -> Partial:
    """Return `partial` without nulls, empty tables, and empty lists that append."""
    kept: Partial = {}

    for key, value in partial.items():
        child = node.child(key) or JSON
        has_meaning_if_empty = _is_one_leaf(child, value)  # such as `[]` that replaces a list
        if has_meaning_if_empty:
            kept[key] = value
            continue

        if isinstance(value, dict) and not is_wrapper(value, child):
            value = remove_empty(value, child)
        if unwrap(value, child) not in (None, {}, []):
            kept[key] = value
    return kept
