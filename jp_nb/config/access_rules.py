"""Access rules of tools (`access.config`): settings that a tool may read and change.

    rule    = path; `*` matches any key of a map
    winner  = the matching rule with the most keys; of several, the one declared last

Only the winner applies. Without a matching rule, access is denied. A value that is read or set as a
whole, such as a replaced list, is also subject to the rules below it.

Source: `docs/turns.md`, `docs/decisions.md` D30.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.config.authority import always_needs_user
from jp_nb.config.partial import Partial, get_identity, get_path, iter_changed_leaves
from jp_nb.config.schema import ROOT, Element, SchemaNode, format_path, lookup, node_at, parse_path
from jp_nb.config.tree.tools import ConfigRule
from jp_nb.errors import ConfigError

SENSITIVE: Final = (("conversation", "tools", "*", "access"),)
"""Settings that need `write = "insecure_allow"`: with them, a tool can extend its own access.

Commands and sources of tools are not included, although they run code: the user always decides
about them (`jp_nb/config/authority.py`).
"""

_ANY = "*"


def _is_prefix_of_other(first: Sequence[str], second: Sequence[str]) -> bool:
    pairs = zip(first, second, strict=False)
    return all(one == other or _ANY in (one, other) for one, other in pairs)


def overlaps_sensitive(keys: Sequence[str]) -> bool:
    """Return True if a sensitive setting is at, above, or below `keys`."""
    return any(_is_prefix_of_other(keys, pattern) for pattern in SENSITIVE)


def is_sensitive(keys: Sequence[str]) -> bool:
    """Return True if `keys` are a sensitive setting, or below one."""
    return any(_covers(pattern, keys) for pattern in SENSITIVE)


def _covers(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    return len(pattern) <= len(keys) and all(map(_matches, pattern, keys))


def _matches(part: str, key: str) -> bool:
    # An item of a list does not match a key of a map with the same text.
    return part == _ANY or (part == key and isinstance(part, Element) == isinstance(key, Element))


def _specialize(keys: Sequence[str], path: Sequence[str]) -> tuple[str, ...]:
    # The keys at `keys` or below that a rule for `path` is about.
    pairs = zip(keys, path, strict=False)
    shared = [other if key == _ANY else key for key, other in pairs]
    return (*shared, *keys[len(shared) :], *path[len(shared) :])


def _normalize(keys: Sequence[str]) -> tuple[str, ...]:
    # Items of lists become their names, all other elements plain keys.
    normalized: list[str] = []
    for key in keys:
        if isinstance(key, Element):
            node = node_at(normalized)
            if node is not None and node.kind == "list":
                name = get_identity(node, key.json)
                key = key if name is None else Element(name)
            else:
                key = str(key)
        normalized.append(key)
    return tuple(normalized)


_Allows = Callable[[ConfigRule, Sequence[str]], bool]
"""Return True if a rule grants an operation at the keys."""


def _writes(rule: ConfigRule, keys: Sequence[str]) -> bool:
    return rule.write == "insecure_allow" if overlaps_sensitive(keys) else bool(rule.write)


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
        covering = [(path, rule) for path, rule in self._rules if _covers(path, keys)]
        return max(reversed(covering), key=lambda row: len(row[0]), default=(None, None))[1]

    def may_read(self, keys: Sequence[str]) -> bool:
        """Return True if the tool may read the whole value at `keys`."""
        return self._all_allow(keys, lambda rule, _: rule.read)

    def may_write(self, keys: Sequence[str]) -> bool:
        """Return True if the tool may set the whole value at `keys`."""
        return self._all_allow(keys, _writes)

    def may_unset(self, keys: Sequence[str]) -> bool:
        """Return True if the tool may unset the whole value at `keys`."""
        return self._all_allow(keys, lambda rule, _: rule.delete)

    def needs_approval(self, keys: Sequence[str]) -> bool:
        """Return True if the user has to approve a change at `keys`."""
        return not self._all_allow(keys, lambda rule, _: rule.apply == "unattended")

    def _all_allow(self, keys: Sequence[str], allows: _Allows) -> bool:
        # Also the rules below: those of every entry, if `keys` end with the key `*` of a map.
        keys = _normalize(keys)
        paths = [path for path, _ in self._rules if _is_prefix_of_other(keys, path)]
        for place in {keys, *(_specialize(keys, path) for path in paths)}:
            winner = self.find_rule(place)
            if winner is None or not allows(winner, place):
                return False
        return True

    def select_readable(self, values: Partial) -> Partial:
        """Return the part of the effective configuration `values` that the tool may read.

        Source: `docs/turns.md`.
        """
        readable: Partial = {}
        for keys, item in iter_changed_leaves(values):
            if self.may_read(keys):
                # `item` has no strategy, but free JSON may look like a value with a strategy.
                value = item if isinstance(keys[-1], Element) else lookup(values, keys)
                _set_value(readable, keys, value)
        return readable


def _set_value(tree: dict[str, Any], keys: Sequence[str], value: JsonValue) -> None:
    *above, last = map(str, keys)
    if isinstance(keys[-1], Element):
        *above, last = above
    for key in above:
        tree = tree.setdefault(key, {})
    tree[last] = [*tree.get(last, []), value] if isinstance(keys[-1], Element) else value


def iter_rules(partial: Mapping[str, JsonValue]) -> Iterator[tuple[str, list[ConfigRule]]]:
    """Yield each tool in `partial` that has rules, with its rules. `partial` is in stored form."""
    tools = get_path(partial, "conversation.tools")
    for name in tools if isinstance(tools, dict) else ():
        rules = get_path(partial, format_path(_rules_path(name)))
        if isinstance(rules, list) and rules:
            yield name, [ConfigRule.model_validate(rule) for rule in rules]


def find_rule_problems(tool: str, rules: Sequence[ConfigRule]) -> Iterator[tuple[str, str]]:
    """Yield path and message of each problem in the rules of `tool`."""
    for number, rule in enumerate(rules):
        try:
            keys = parse_path(rule.path)
        except ConfigError as exc:
            yield _rule_path(tool, number, "path"), f"tool '{tool}': access.config path {exc}"
            continue
        for place, key in enumerate(keys):
            node = node_at(keys[:place])
            if key == _ANY and (node is None or node.kind != "map"):
                yield (
                    _rule_path(tool, number, "path"),
                    f"tool '{tool}': access.config path '{rule.path}' uses '*' at "
                    f"'{format_path(keys[:place])}', which is not a map",
                )
                break
        if rule.write is True and overlaps_sensitive(keys):
            yield (
                _rule_path(tool, number, "write"),
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
    """Return True if the user approves each change that `rule` grants.

    The user always decides about settings with authority, except new rules with `insecure_allow`.
    Returns None if it depends on the change.
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


def _rules_path(tool: str) -> tuple[str, ...]:
    return ("conversation", "tools", tool, "access", "config")


def _rule_path(tool: str, number: int, field: str) -> str:
    return format_path((*_rules_path(tool), str(number), field))
