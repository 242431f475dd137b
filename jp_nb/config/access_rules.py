"""Decide if a tool may read, set, or unset a setting, by the access rules of the tool.

    rule    = path; `*` matches any key of a map
    winner  = the matching rule with the most keys; of several, the one declared last

Only the winner applies. Without a matching rule, access is denied. A value that is read or set as a
whole, such as a replaced list, is also subject to the rules below it (D30). For example, with

    [{path = "style", write = true}, {path = "style.code", write = false}]

a tool may set `style.reasoning`, but neither `style.code` nor the whole of `style`.

A key in brackets is an `Element`, which names an item of a list: the last key of
`conversation.attachments["a.md"]`. `access_rule_checks.py` checks the rules themselves.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jp_nb.config.partials.partial import Partial, get_identity
from jp_nb.config.partials.setting_leaves import iter_changed_leaves
from jp_nb.config.schema import JSON, mark_items, node_at
from jp_nb.config.setting_paths import Element, PathKeys, look_up, parse_path
from jp_nb.config.tree.access_settings import ConfigRule
from jp_nb.config.tree.ignored_settings import covers_keys
from jp_nb.config.tree.tool_settings import STAR

SENSITIVE_PATHS: Final = (("conversation", "tools", "*", "access"),)
"""Settings that need `write = "insecure_allow"`: with them, a tool can extend its own access.

The user always decides about commands and sources of tools, which are therefore not included.
"""


def overlaps_sensitive(keys: Sequence[str]) -> bool:
    """Return True if a sensitive setting is at, above, or below `keys`."""
    return any(_overlap(keys, pattern) for pattern in SENSITIVE_PATHS)


def is_sensitive(keys: Sequence[str]) -> bool:
    """Return True if `keys` are a sensitive setting, or below one."""
    return any(covers_keys(pattern, keys) for pattern in SENSITIVE_PATHS)


class Grants:
    """Access of one tool to the configuration. Keys are as `parse_path` returns them."""

    def __init__(self, rules: Sequence[ConfigRule]) -> None:
        self._rules = [(_normalize(parse_path(rule.path)), rule) for rule in rules]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grants) and self._rules == other._rules

    def __hash__(self) -> int:
        # The rules themselves cannot be hashed: they contain tables.
        return hash(len(self._rules))

    def find_rule(self, keys: Sequence[str]) -> ConfigRule | None:
        """Return the rule that applies to `keys`, or None."""
        keys = _normalize(keys)
        winner: ConfigRule | None = None
        most_keys = 0

        for path, rule in self._rules:
            is_match = len(path) <= len(keys) and all(map(_matches, path, keys))
            # Of rules with as many keys, the later one wins.
            if is_match and len(path) >= most_keys:
                winner = rule
                most_keys = len(path)

        return winner

    def may_read(self, keys: Sequence[str]) -> bool:
        """Return True if the tool may read the whole value at `keys`."""
        return self._all_allow(keys, lambda rule, _: rule.read)

    def may_write(self, keys: Sequence[str]) -> bool:
        """Return True if the tool may set the whole value at `keys`."""
        return self._all_allow(keys, _allows_write)

    def may_unset(self, keys: Sequence[str]) -> bool:
        """Return True if the tool may unset the whole value at `keys`."""
        return self._all_allow(keys, lambda rule, _: rule.delete)

    def needs_approval(self, keys: Sequence[str]) -> bool:
        """Return True if the user has to approve a change at `keys`."""
        return not self._all_allow(keys, lambda rule, _: rule.apply == "unattended")

    def _all_allow(
        self, keys: Sequence[str], allows: Callable[[ConfigRule, PathKeys], bool]
    ) -> bool:
        """Return True if the winner at `keys`, and the winner at each path below, allow it."""
        for path in self._list_decided_paths(_normalize(keys)):
            winner = self.find_rule(path)
            if winner is None or not allows(winner, path):
                return False

        return True

    def _list_decided_paths(self, keys: PathKeys) -> set[PathKeys]:
        """Return `keys`, and the paths below it where another rule may win.

        For the keys `conversation.tools.build` and a rule for `conversation.tools.*.access`, this
        is `conversation.tools.build.access`.
        """
        paths = {keys}
        for path, _ in self._rules:
            if _overlap(keys, path):
                paths.add(_intersect(keys, path))

        return paths

    def select_readable(self, values: Partial) -> Partial:
        """Return the part of the effective configuration `values` that the tool may read."""
        readable: Partial = {}

        # `iter_changed_leaves` yields each setting in `values` with its keys, but a list item by
        # item: the last key is then an `Element`.
        for keys, item in iter_changed_leaves(values):
            if not self.may_read(keys):
                continue

            is_item = isinstance(keys[-1], Element)
            path = keys[:-1] if is_item else keys
            *above, last = map(str, path)
            table: dict[str, Any] = readable
            for key in above:
                table = table.setdefault(key, {})

            if is_item:
                table.setdefault(last, []).append(item)
            else:
                # Not `item`: of free JSON such as `{"value": 1, "strategy": "x"}`, which looks like
                # a value with its merge strategy, `iter_changed_leaves` yields only the value.
                table[last] = look_up(values, keys)

        return readable


def _allows_write(rule: ConfigRule, keys: PathKeys) -> bool:
    if overlaps_sensitive(keys):
        return rule.write == "insecure_allow"

    return bool(rule.write)


def _normalize(keys: Sequence[str]) -> PathKeys:
    """Return `keys` in the one spelling in which rules and settings are compared.

    `parse_path` returns each key in brackets as an `Element`, also a key of a map. Only items of
    lists stay so. An item that is a table is then named by its identity, such as its title:

        conversation.tools["build"]       becomes  conversation.tools.build
        conversation.attachments[{…}]     becomes  conversation.attachments["NAME OF THE ITEM"]
    """
    normalized: list[str] = []

    for key in mark_items(keys):
        if isinstance(key, Element):
            name = get_identity(node_at(normalized) or JSON, key.json)
            key = key if name is None else Element(name)
        normalized.append(key)

    return tuple(normalized)


def _matches(part: str, key: str) -> bool:
    """Return True if the key `part` of a rule, which may be `*`, stands for `key`.

    An item of a list does not match a key of a map with the same text.
    """
    return part == STAR or (part == key and isinstance(part, Element) == isinstance(key, Element))


def _overlap(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return True if one path is, or can be, at or above the other.

    Each key that both have is the same, or `*` in one of them.
    """
    pairs = zip(first, second, strict=False)
    return all(one == other or STAR in (one, other) for one, other in pairs)


def _intersect(first: PathKeys, second: PathKeys) -> PathKeys:
    """Return the longer one of two paths that overlap, with a key where only the other has `*`.

    For `conversation.tools.*.access` and `conversation.tools.build`, this is
    `conversation.tools.build.access`.
    """
    keys = [*first, *second[len(first) :]]
    for index, key in enumerate(second):
        if keys[index] == STAR:
            keys[index] = key

    return tuple(keys)
