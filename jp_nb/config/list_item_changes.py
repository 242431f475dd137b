"""Change a value in an item of a list, such as `assistant.instructions.0.title=Style`.

A merge of settings cannot change an item of a list. So the change has the whole list with its new
item, and replaces the list.

An item is named by its number, from 0. Elsewhere a path can also name an item by its value in
brackets, as in `conversation.attachments["file://notes.md"]`; such a key is an `Element`. It is
refused here.

The type of a value is its *node* in the schema (`schema.py`); values in free JSON have the node
`JSON`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial, build_partial, get_path
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.partial_merge import expand_shorthand
from jp_nb.config.schema import JSON, SchemaNode, node_at
from jp_nb.config.setting_paths import Element, format_path, is_index
from jp_nb.errors import ConfigError


def find_list_depth(keys: Sequence[str]) -> int | None:
    """Return the number of keys of the first list above the last key; None if there is none.

    It is 2 for `assistant.instructions.0.title`: the list is `assistant.instructions`. If only the
    last key is a list, the list itself is set, which a merge can do.
    """
    for depth in range(1, len(keys)):
        above = node_at(keys[:depth])
        if above is not None and above.kind == "list":
            return depth
    return None


def set_in_list(
    keys: Sequence[str],
    list_depth: int,
    value: JsonValue,
    current: Partial,
    *,
    extend: bool,
) -> Change:
    """Return the change of the value at `keys`, in an item of a list.

    The list is at the first `list_depth` keys. With `extend`, `value` is added to the one there.

    Raises:
        ConfigError: The list has no such item, or `value` cannot be added.
    """
    path = format_path(keys[:list_depth])
    key = keys[list_depth]

    now = get_path(current, path)
    items = list(now) if isinstance(now, list) else []

    # The schema has a node below a list only for an index or an `Element`, so other keys, which
    # `int` could not read, are refused before.
    if isinstance(key, Element) or int(key) >= len(items):
        has = f"the list has {len(items)}" if items else "the list is empty"
        raise ConfigError(
            f"unknown index: items are numbered from 0, and {has}",
            path=format_path(keys[: list_depth + 1]),
            kind="unknown_index",
        )

    item_node = node_at(keys[: list_depth + 1]) or JSON
    keys_below = keys[list_depth + 1 :]
    items[int(key)] = _replace(
        item_node, items[int(key)], keys_below, value, extend=extend, path=format_path(keys)
    )
    return Change(build_partial(path, {"value": items, "strategy": "replace"}))


def _replace(
    node: SchemaNode,
    item: JsonValue,
    rest: Sequence[str],
    value: JsonValue,
    *,
    extend: bool,
    path: str,
) -> JsonValue:
    """Return `item` with `value` set at, or added to, the keys `rest` below it.

    `path` is the whole path, for errors.
    """
    if not rest:
        return _extend_item(node, item, value, path) if extend else value

    key = rest[0]
    below = node.child(key) or JSON
    item = expand_shorthand(node, item)

    if isinstance(item, list):
        if not is_index(key) or int(key) >= len(item):
            raise ConfigError(
                f"unknown index: items are numbered from 0, and the list has {len(item)}",
                path=path,
                kind="unknown_index",
            )
        inner = _replace(below, item[int(key)], rest[1:], value, extend=extend, path=path)
        return [*item[: int(key)], inner, *item[int(key) + 1 :]]

    table = item if isinstance(item, dict) else {}
    inner = _replace(below, table.get(key), rest[1:], value, extend=extend, path=path)
    return {**table, str(key): inner}


def _extend_item(node: SchemaNode, item: JsonValue, value: JsonValue, path: str) -> JsonValue:
    """Return `item`, a value in a list, with `value` added to it, as a whole new value."""
    match item, value:
        case list(), list():
            return [*item, *value]
        case (list(), _) if node.kind == "list":
            return [*item, value]
        case str(), str():
            return item + value
        case dict(), dict():
            return {**item, **value}
        case (None, _) if node.kind in ("list", "text", "map", "json"):
            return value
    raise ConfigError("`+=` works only on a list, a text, or a map", path=path, kind="type")
