"""Partial configurations: their values, wrapped or not, and the paths and names that find them.

A partial configuration is a JSON object with the settings of one source. An absent setting or null
means "not set". A list, text, or map may be *wrapped* with the strategy of its merge:

    {"assistant": {"instructions": {"value": [{"title": "…"}], "strategy": "prepend"}}}

Other keys beside `value` are *annotations*, such as `dedup`. A *node* is the type of a setting in
the schema (`schema.py`): its kind, its fields or items, and its rule for merges (`Merge`). An item
of a list has an *identity* if a text names it: the item itself, or a field such as its title.

Walks over the settings are in `setting_leaves.py`, merging in `partial_merge.py`, unsetting in
`partial_change.py`, and comparing in `partial_diff.py`. A text that is not a path is a
`ConfigError`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeGuard

from pydantic import JsonValue, ValidationError

from jp_nb.config.schema import ROOT, SchemaNode
from jp_nb.config.setting_paths import Element, PathKeys, look_up, parse_path

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
    if node.kind == "json":
        return "strategy" in value
    if node.kind == "map" and node.merge.annotated:
        return value.get("strategy") is not None  # null is no strategy
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
