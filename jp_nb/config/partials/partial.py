"""Partial configurations: wrapped values, lookups, and walks over the settings.

A partial configuration is a JSON object with the settings of one source. An absent setting or null
means "not set". A list, text, or map may be *wrapped* with the strategy of its merge:

    {"assistant": {"instructions": {"value": [{"title": "…"}], "strategy": "prepend"}}}

Other keys beside `value` are *annotations*, such as `dedup`. A *node* is the type of a setting in
the schema (`schema.py`): its kind, its fields or items, and its rule for merges (`Merge`). An item
of a list has an *identity* if a text names it: the item itself, or a field such as its title.

Merging is in `partial_merge.py`, unsetting in `partial_change.py`, and comparing in
`partial_diff.py`. A text that is not a path is a `ConfigError`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeGuard

from pydantic import JsonValue, ValidationError

from jp_nb.config.schema import JSON, ROOT, SchemaNode
from jp_nb.config.setting_paths import Element, PathKeys, format_path, look_up, parse_path

Partial = dict[str, JsonValue]

_WRAPPER_KEYS = frozenset({"value", "strategy", "separator", "dedup", "discard_when_merged"})


def is_wrapper(value: object, node: SchemaNode | None) -> TypeGuard[dict[str, JsonValue]]:
    """Return True if `value` of `node` is *wrapped*: `{value, strategy, …}`.

    For free JSON and maps, `strategy` is required: they may have a key `value`.
    """
    if not isinstance(value, dict) or "value" not in value or node is None:
        return False

    if not value.keys() <= _WRAPPER_KEYS:
        return False
    if node.kind == "json" or (node.kind == "map" and node.merge.annotated):
        return "strategy" in value
    return node.kind in ("list", "text")


def unwrap(value: JsonValue, node: SchemaNode | None) -> JsonValue:
    """Return `value` without its merge strategy, if it has one."""
    if not isinstance(value, dict) or "value" not in value:
        return value  # fast path for most settings
    return value["value"] if is_wrapper(value, node) else value


def rewrap(
    node: SchemaNode, old: JsonValue, value: JsonValue, *, replaces: bool = False
) -> JsonValue:
    """Return `value`, the new value of `old`, wrapped as `old` is.

    If it `replaces` the values of lower layers, it is always wrapped, with the strategy `replace`.
    """
    if not is_wrapper(old, node):
        return {"value": value, "strategy": "replace"} if replaces else value

    # `discard_when_merged` marks a default that any other value replaces: `value` is none.
    annotations: Partial = {k: v for k, v in old.items() if k != "discard_when_merged"}
    if replaces:
        annotations["strategy"] = "replace"
    return {**annotations, "value": value}


def get_path(partial: Mapping[str, Any], path: str | PathKeys) -> Any:
    """Return the value at `path`, without its merge strategy; None if it is not set.

    `field["name"]` is the last item of a list with this identity.
    """
    value: Any = partial
    node: SchemaNode | None = ROOT

    keys = parse_path(path) if isinstance(path, str) else path
    for key in keys:
        named_items: list[Any] = []
        if isinstance(key, Element) and isinstance(value, list) and node is not None:
            named_items = [item for item in value if is_named(node, item, key)]

        value = named_items[-1] if named_items else look_up(value, (key,))
        node = node.child(key) if node is not None else None
        value = unwrap(value, node)
    return value


def build_partial(path: str | PathKeys, value: JsonValue) -> Partial:
    """Return a partial configuration that sets only `path`."""
    keys = parse_path(path) if isinstance(path, str) else path
    for key in reversed(keys[1:]):
        value = {str(key): value}
    return {str(keys[0]): value}


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
        default = "deep_merge"  # `replace` in the schema of a map says that it has none
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


def is_named(node: SchemaNode, item: JsonValue, key: Element) -> bool:
    """Return True if the `item` of the list `node` is the one that `field["key"]` names."""
    return bool(item == key.json) or get_identity(node, item) == key


def get_identity(node: SchemaNode, item: JsonValue) -> str | None:
    """Return the name of `item` in the list `node`: a text itself, or a field; None without one."""
    if isinstance(item, str):
        return item

    if isinstance(item, dict):
        for key in node.merge.keys:
            if isinstance(name := item.get(key), str):
                return name

        # A table that can also be written as a text, such as a model id, has that text as its name.
        if node.item.table is not None and node.item.takes_any_text:
            with suppress(ValidationError):
                table = node.item.adapter.validate_python(item)
                has_text_form = "__str__" in vars(type(table))
                return str(table) if has_text_form else None
    return None
