"""Select the settings of a record or a file that this release knows.

A record may be from another release, and a file may also be read by JP, the program whose
configuration this one extends. Their other settings are removed, and the rest still applies.

A *node* is the type of a setting in the schema, and a value may be *wrapped* with the strategy of
its merge: `{value, strategy}` (`partial.py`).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from jp_nb.config.layer_reading import read_layer
from jp_nb.config.partials.partial import Partial, is_wrapper
from jp_nb.config.schema import ROOT, SchemaNode
from jp_nb.config.setting_paths import PathKeys
from jp_nb.config.storable_settings import remove_unstorable
from jp_nb.config.tree.ignored_settings import IGNORED_PATTERNS
from jp_nb.errors import ConfigProblem


def remove_ignored(partial: Mapping[str, JsonValue]) -> Partial:
    """Return `partial` without the settings that only JP has."""
    return _remove_patterns(partial, IGNORED_PATTERNS)


def _remove_patterns(table: Mapping[str, JsonValue], patterns: Sequence[Sequence[str]]) -> Partial:
    """Return `table` without the settings at `patterns`; `*` in a pattern matches any key."""
    kept: Partial = {}
    for key, value in table.items():
        # The rest of each pattern that matches so far.
        patterns_below = [rest for first, *rest in patterns if first in ("*", key)]
        is_removed = [] in patterns_below  # a pattern ends at this key
        if is_removed:
            continue

        if isinstance(value, dict) and patterns_below:
            value = _remove_patterns(value, patterns_below)
        kept[key] = value
    return kept


def split_unknown(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[ConfigProblem]]:
    """Return the settings of a stored `partial` that are valid in this release, and the problems.

    The settings are returned as JSON with short forms expanded. An invalid value is removed alone;
    a table without a required field is removed as a whole. Settings that only JP has are removed
    without a problem.
    """
    kept, problems = remove_unstorable(remove_ignored(partial))  # such as NaN

    # A removed value may leave a table without a required field, which is then removed too. So the
    # rest is read again, until it has no problem.
    while True:
        result, located = read_layer(kept)  # `located`: each problem with the keys of its setting
        if not located:
            return result, problems

        problems += [problem for _, problem in located]
        invalid = {_find_existing_part(ROOT, kept, keys) for keys, _ in located}
        kept = {} if () in invalid else _remove_values(ROOT, kept, invalid)


def _find_existing_part(node: SchemaNode | None, value: JsonValue, keys: PathKeys) -> PathKeys:
    """Return the beginning of `keys` that exists in `value` of `node`.

    It is shorter for the problem of a required field that is missing: only its table exists.
    """
    for length, key in enumerate(keys):
        inner = value["value"] if is_wrapper(value, node) else value
        if isinstance(inner, dict) and key in inner:
            value = inner[key]
        elif isinstance(inner, list) and key.isdecimal() and int(key) < len(inner):
            value = inner[int(key)]
        else:
            return keys[:length]

        node = node.child(key) if node is not None else None
    return keys


def _remove_values(node: SchemaNode | None, value: Any, removed: Iterable[PathKeys]) -> Any:
    """Return `value` of `node` without the values at the keys `removed`, which exist in it.

    One pass removes them all, because a record may have thousands of invalid values.
    """
    if not is_wrapper(value, node):
        return _remove_plain_values(node, value, removed)
    # Unwrapped once: the value may be a map with entries `value` and `strategy`.
    return {**value, "value": _remove_plain_values(node, value["value"], removed)}


def _remove_plain_values(node: SchemaNode | None, value: Any, removed: Iterable[PathKeys]) -> Any:
    """Return a `value` that is not wrapped, as `_remove_values` does."""
    removed_below: dict[str, list[PathKeys]] = {}
    for key, *rest in removed:
        removed_below.setdefault(key, []).append(tuple(rest))

    items = enumerate(value) if isinstance(value, list) else value.items()
    kept = {}
    for name, item in items:
        below_item = removed_below.get(str(name), [])
        is_removed = () in below_item  # the item itself
        if is_removed:
            continue

        child = None if node is None else node.child(str(name))
        kept[name] = _remove_values(child, item, below_item) if below_item else item

    return list(kept.values()) if isinstance(value, list) else kept
