"""Grants: what the rules of `access.config` let a tool read and change.

    rule    = path, of which `*` stands for any one key of a map
    winner  = the rule with the most components that matches; of several, the one declared last

The winner applies as a whole, and where none matches everything is denied. A leaf that is set or
read as a whole, such as a list that is replaced, is also subject to the rules below it.

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
"""Paths that `write = true` does not reach: who writes there grants itself whatever it wants.

Not in it, though whoever writes there has anything run: the commands and sources of tools.
Changes of those, and of all else that reaches out, are a person's to agree to (`authority`).
"""

_ANY = "*"


def _meet(first: Sequence[str], second: Sequence[str]) -> bool:
    """True if one leads to the other, or both to the same; `*` is any key."""
    pairs = zip(first, second, strict=False)
    return all(one == other or _ANY in (one, other) for one, other in pairs)


def overlaps_sensitive(keys: Sequence[str]) -> bool:
    """True if a sensitive path lies at, above or below `keys`."""
    return any(_meet(keys, pattern) for pattern in SENSITIVE)


def is_sensitive(keys: Sequence[str]) -> bool:
    """True if `keys` are a sensitive path, or lie below one."""
    return any(_covers(pattern, keys) for pattern in SENSITIVE)


def _covers(pattern: Sequence[str], keys: Sequence[str]) -> bool:
    """True if a rule for `pattern` matches `keys`: these may be longer."""
    return len(pattern) <= len(keys) and all(map(_is_for, pattern, keys))


def _is_for(part: str, key: str) -> bool:
    """True if `part` of a rule's path matches `key`; an item of a list is no plain key."""
    return part == _ANY or (part == key and isinstance(part, Element) == isinstance(key, Element))


def _where(keys: Sequence[str], path: Sequence[str]) -> tuple[str, ...]:
    """The place at `keys`, or below it, that a rule for `path` is about."""
    pairs = zip(keys, path, strict=False)
    shared = [other if key == _ANY else key for key, other in pairs]
    return (*shared, *keys[len(shared) :], *path[len(shared) :])


def _named(keys: Sequence[str]) -> tuple[str, ...]:
    """`keys` with an item of a list by what names it, and all else as plain keys."""
    found: list[str] = []
    for key in keys:
        if isinstance(key, Element):
            node = node_at(found)
            if node is not None and node.kind == "list":
                name = get_identity(node, key.json)
                key = key if name is None else Element(name)
            else:
                key = str(key)
        found.append(key)
    return tuple(found)


_Allows = Callable[[ConfigRule, Sequence[str]], bool]
"""True if a rule grants something at the keys."""


def _writes(rule: ConfigRule, keys: Sequence[str]) -> bool:
    return rule.write == "insecure_allow" if overlaps_sensitive(keys) else bool(rule.write)


class Grants:
    """The rights of one tool to parts of the configuration.

    Keys are as `parse_path` reads them.
    """

    def __init__(self, rules: Sequence[ConfigRule]) -> None:
        self._rules = [(_named(parse_path(rule.path)), rule) for rule in rules]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grants) and self._rules == other._rules

    def __hash__(self) -> int:
        return hash(len(self._rules))

    def find_rule(self, keys: Sequence[str]) -> ConfigRule | None:
        """The one rule that counts for `keys`; None if nothing is granted."""
        return self._winner(_named(keys))

    def may_read(self, keys: Sequence[str]) -> bool:
        """True if the value at `keys`, all of it, may be seen."""
        return self._all_allow(keys, lambda rule, _: rule.read)

    def may_write(self, keys: Sequence[str]) -> bool:
        """True if the value at `keys`, all of it, may be set."""
        return self._all_allow(keys, _writes)

    def may_unset(self, keys: Sequence[str]) -> bool:
        """True if what is at `keys`, all of it, may be taken out."""
        return self._all_allow(keys, lambda rule, _: rule.delete)

    def needs_approval(self, keys: Sequence[str]) -> bool:
        """True if a person has to agree to a change at `keys`."""
        return not self._all_allow(keys, lambda rule, _: rule.apply == "unattended")

    def _winner(self, keys: Sequence[str]) -> ConfigRule | None:
        covering = [found for found in self._rules if _covers(found[0], keys)]
        return max(reversed(covering), key=lambda found: len(found[0]), default=(None, None))[1]

    def _all_allow(self, keys: Sequence[str], allows: _Allows) -> bool:
        """True if the rule for `keys` does, and so do all for what lies below.

        Defaults for all entries of a map, at its key `*`, are subject to the rules of every entry.
        """
        keys = _named(keys)
        for place in {keys, *(_where(keys, path) for path, _ in self._rules if _meet(keys, path))}:
            winner = self._winner(place)
            if winner is None or not allows(winner, place):
                return False
        return True

    def select_readable(self, values: Partial) -> Partial:
        """Return what may be read of `values`, all that is in force; `{}` if nothing.

        Source: `docs/turns.md`.
        """
        shown: Partial = {}
        for keys, item in iter_changed_leaves(values):
            if self.may_read(keys):
                # Not `item` everywhere: free JSON may look like a value with a strategy.
                _put(shown, keys, item if isinstance(keys[-1], Element) else lookup(values, keys))
        return shown


def _put(tree: dict[str, Any], keys: Sequence[str], value: JsonValue) -> None:
    """Set `keys` in `tree`; an item in brackets joins its list."""
    *above, last = map(str, keys)
    if isinstance(keys[-1], Element):
        *above, last = above
        value = [*_table(tree, above).get(last, []), value]
    _table(tree, above)[last] = value


def _table(tree: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    for key in keys:
        tree = tree.setdefault(key, {})
    return tree


# --- what is wrong with rules ----------------------------------------------------------------


def iter_rules(partial: Mapping[str, JsonValue]) -> Iterator[tuple[str, list[ConfigRule]]]:
    """The rules that `partial`, in the form in which it is stored, has for each tool."""
    tools = get_path(partial, "conversation.tools")
    for name in tools if isinstance(tools, dict) else ():
        rules = get_path(partial, format_path(_place(name)))
        if isinstance(rules, list) and rules:
            yield name, [ConfigRule.model_validate(rule) for rule in rules]


def find_rule_problems(tool: str, rules: Sequence[ConfigRule]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the rules of `tool`: the path in the configuration, and words."""
    for number, rule in enumerate(rules):
        try:
            keys = parse_path(rule.path)
        except ConfigError as exc:
            yield _at(tool, number, "path"), f"tool '{tool}': access.config path {exc}"
            continue
        for place, key in enumerate(keys):
            node = node_at(keys[:place])
            if key == _ANY and (node is None or node.kind != "map"):
                yield (
                    _at(tool, number, "path"),
                    f"tool '{tool}': access.config path '{rule.path}' uses '*' at "
                    f"'{format_path(keys[:place])}', which is not a map",
                )
                break
        if rule.write is True and overlaps_sensitive(keys):
            yield (
                _at(tool, number, "write"),
                f"tool '{tool}' grants write = true to path '{rule.path}' which is a sensitive "
                'path. Use write = "insecure_allow" to explicitly acknowledge this grant.',
            )


def find_rule_warnings(tool: str, rules: Sequence[ConfigRule]) -> Iterator[str]:
    """Yield warnings of rules of `tool` that are not wrong, and hardly meant."""
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
    """True if a person is asked about what `rule` lets a tool change; None if it depends on what.

    What reaches out is a person's to agree to, but for new rules, which `insecure_allow` grants.
    """
    keys = parse_path(rule.path)
    if rule.apply == "ask":
        return True
    if is_sensitive(keys) and rule.write == "insecure_allow":
        return None if rule.delete else False
    return always_needs_user(keys)


def matches_nothing(rule: ConfigRule) -> bool:
    """True if the configuration has no place that `rule` could match."""
    node: SchemaNode | None = ROOT
    for key in parse_path(rule.path):
        if node is None or (node.kind == "list" and not isinstance(key, Element)):
            return True  # items have names here, not numbers
        node = node.child(key)
    return node is None


def _place(tool: str) -> tuple[str, ...]:
    return ("conversation", "tools", tool, "access", "config")


def _at(tool: str, number: int, field: str) -> str:
    return format_path((*_place(tool), str(number), field))
