"""Paths of all settings."""

from __future__ import annotations

from typing import Any

from jp_nb.config.schema import ROOT, SchemaNode, format_path


def list_field_paths() -> list[str]:
    """Return the paths of all settings. `*` is a key of a map; lists have no items here."""
    return list(_field_paths(ROOT, (), ()))


def _field_paths(node: SchemaNode, keys: tuple[str, ...], above: tuple[Any, ...]) -> list[str]:
    paths: list[str] = []
    if node.table in above:
        return paths  # a table that contains itself
    below = dict(node.fields)
    if node.kind == "map":
        below["*"] = node.item
    for key, child in below.items():
        path = (*keys, key)
        inner = _field_paths(child, path, (*above, node.table) if node.table else above)
        paths += inner if inner and child.kind != "json" else []
        if not inner or child.kind != "table" or child.takes_any_text:
            paths.append(format_path(path))
    return paths
