"""Access rules: the settings that a tool may read and change.

    rule    = path; `*` matches any key of a map
    winner  = the matching rule with the most keys; of several, the one declared last

Only the winner applies. Without a matching rule, access is denied. A value that is read or set as a
whole, such as a replaced list, is also subject to the rules below it (D30).

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.authority import always_needs_user
from jp_nb.config.partial import Partial, get_identity, get_path, iter_changed_leaves
from jp_nb.config.schema import (
    JSON,
    ROOT,
    Element,
    PathKeys,
    SchemaNode,
    format_path,
    look_up,
    mark_items,
    node_at,
    parse_path,
)
from jp_nb.config.tree.ignored_settings import covers_keys
from jp_nb.config.tree.tool_settings import STAR, ConfigRule
from jp_nb.errors import ConfigError

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


def _overlap(first: Sequence[str], second: Sequence[str]) -> bool:
    pairs = zip(first, second, strict=False)
    return all(one == other or STAR in (one, other) for one, other in pairs)


def _matches(part: str, key: str) -> bool:
    # An item of a list does not match a key of a map with the same text.
    return part == STAR or (part == key and isinstance(part, Element) == isinstance(key, Element))


def _normalize(keys: Sequence[str]) -> PathKeys:
    # Items of lists become their names, all other elements plain keys.
    normalized: list[str] = []

    for key in mark_items(keys):
        if isinstance(key, Element):
            name = get_identity(node_at(normalized) or JSON, key.json)
            key = key if name is None else Element(name)
        normalized.append(key)

    return tuple(normalized)


class Grants:
    """Access of one tool to the configuration. Keys are as `parse_path` returns them."""

    def __init__(self, rules: Sequence[ConfigRule]) -> None:
        self._rules = [(_normalize(parse_path(rule.path)), rule) for rule in rules]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grants) and self._rules == other._rules

    def __hash__(self) -> int:
        return hash(len(self._rules))

    def find_rule(self, keys: Sequence[str]) -> ConfigRule | None:
        """Return the rule that applies to `keys`, or None."""
        keys = _normalize(keys)

        covering = [
            (path, rule)
            for path, rule in self._rules
            if len(path) <= len(keys) and all(map(_matches, path, keys))
        ]

        return max(reversed(covering), key=lambda row: len(row[0]), default=(None, None))[1]

    def may_read(self, keys: Sequence[str]) -> bool:
        """Return True if the tool may read the whole value at `keys`."""
        return self._all_allow(keys, lambda rule, _: rule.read)

    def may_write(self, keys: Sequence[str]) -> bool:
        """Return True if the tool may set the whole value at `keys`."""
        return self._all_allow(
            keys,
            lambda rule, place: (
                bool(rule.write)
                and (rule.write == "insecure_allow" or not overlaps_sensitive(place))
            ),
        )

    def may_unset(self, keys: Sequence[str]) -> bool:
        """Return True if the tool may unset the whole value at `keys`."""
        return self._all_allow(keys, lambda rule, _: rule.delete)

    def needs_approval(self, keys: Sequence[str]) -> bool:
        """Return True if the user has to approve a change at `keys`."""
        return not self._all_allow(keys, lambda rule, _: rule.apply == "unattended")

    def _all_allow(
        self, keys: Sequence[str], allows: Callable[[ConfigRule, PathKeys], bool]
    ) -> bool:
        # Also the rules below: those of every entry, if `keys` end with the key `*` of a map.
        keys = _normalize(keys)
        places = {keys}

        for path, _ in self._rules:
            if _overlap(keys, path):
                pairs = zip(keys, path, strict=False)
                shared = [_select_narrower(key, other) for key, other in pairs]
                places.add((*shared, *keys[len(shared) :], *path[len(shared) :]))

        winners = ((self.find_rule(place), place) for place in places)
        return all(winner is not None and allows(winner, place) for winner, place in winners)

    def select_readable(self, values: Partial) -> Partial:
        """Return the part of the effective configuration `values` that the tool may read."""
        readable: Partial = {}

        for keys, item in iter_changed_leaves(values):
            if self.may_read(keys):
                # `item` has no strategy, but free JSON may look like a value with a strategy.
                is_item = isinstance(keys[-1], Element)
                place = keys[:-1] if is_item else keys
                *above, last = map(str, place)
                table: dict[str, Any] = readable
                for key in above:
                    table = table.setdefault(key, {})
                if is_item:
                    table.setdefault(last, []).append(item)
                else:
                    table[last] = look_up(values, keys)

        return readable


def iter_rules(partial: Mapping[str, JsonValue]) -> Iterator[tuple[str, list[ConfigRule]]]:
    """Yield each tool in `partial` that has rules, with its rules. `partial` is in stored form."""
    tools = get_path(partial, "conversation.tools")
    for name in tools if isinstance(tools, dict) else ():
        rules = get_path(partial, ("conversation", "tools", name, "access", "config"))
        if isinstance(rules, list) and rules:
            yield name, [ConfigRule.model_validate(rule) for rule in rules]


def _select_narrower(key: str, other: str) -> str:
    return other if key == STAR else key


def find_rule_problems(tool: str, rules: Sequence[ConfigRule]) -> Iterator[tuple[str, str]]:
    """Yield path and message of each problem in the rules of `tool`."""
    for number, rule in enumerate(rules):
        at = format_path(("conversation", "tools", tool, "access", "config", str(number)))
        try:
            keys = parse_path(rule.path)
        except ConfigError as exc:
            yield f"{at}.path", f"tool '{tool}': access.config path {exc}"
            continue

        above = (keys[:place] for place, key in enumerate(keys) if key == STAR)
        wrong = next((x for x in above if (node_at(x) or JSON).kind != "map"), None)
        if wrong is not None:
            yield (
                f"{at}.path",
                f"tool '{tool}': access.config path '{rule.path}' uses '*' at "
                f"'{format_path(wrong)}', which is not a map",
            )

        if rule.write is True and overlaps_sensitive(keys):
            yield (
                f"{at}.write",
                f"tool '{tool}' grants write = true to path '{rule.path}' which is a sensitive "
                'path. Use write = "insecure_allow" to explicitly acknowledge this grant.',
            )


def find_rule_warnings(tool: str, rules: Sequence[ConfigRule]) -> Iterator[str]:
    """Yield warnings about valid rules of `tool` that are probably mistakes."""
    for rule in rules:
        if matches_nothing(rule):
            yield (
                f"tool '{tool}': access.config path '{rule.path}' does not exist in "
                "the configuration, so the rule never matches"
            )
            continue

        if rule.delete and overlaps_sensitive(parse_path(rule.path)):
            yield (
                f"tool '{tool}' grants delete = true to path '{rule.path}' which is a "
                "sensitive path: the tool could unset a rule that denies access"
            )

        if rule.apply == "unattended" and is_user_asked(rule):
            yield (
                f"tool '{tool}' has apply = \"unattended\" for path '{rule.path}', "
                "where the user always decides: the tool asks anyway"
            )


def is_user_asked(rule: ConfigRule) -> bool | None:
    """Return True if the user approves each change that `rule` grants; None if it depends.

    The user always decides about settings with authority, except new rules with `insecure_allow`.
    """
    keys = parse_path(rule.path)

    if rule.apply == "ask":
        return True
    if is_sensitive(keys) and rule.write == "insecure_allow":
        return None if rule.delete else False

    return always_needs_user(keys)


def matches_nothing(rule: ConfigRule) -> bool:
    """Return True if the configuration has no setting that `rule` can match."""
    node: SchemaNode | None = ROOT
    for key in parse_path(rule.path):
        if node is None or (node.kind == "list" and not isinstance(key, Element)):
            return True  # rules use names of items, not numbers
        node = node.child(key)
    return node is None
