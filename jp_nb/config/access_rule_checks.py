"""Check the access rules of tools, when a configuration is read: problems and probable mistakes.

A rule (`access.config`) lets a tool read, set, or unset the settings at a path, with or without the
user's approval (`apply`). `access_rules.py` applies the rules.

A problem, such as a path that is no path, makes the configuration invalid. A warning is about a
valid rule, for example one that matches no setting.

*Sensitive* settings are the access rules themselves: with them, a tool could extend its own access.
A rule may only let a tool write them with `write = "insecure_allow"`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from jp_nb.config.access_rules import is_sensitive, overlaps_sensitive
from jp_nb.config.partials.partial import get_path
from jp_nb.config.schema import JSON, ROOT, SchemaNode, node_at
from jp_nb.config.setting_paths import Element, PathKeys, format_path, parse_path
from jp_nb.config.tool_authority import always_needs_user
from jp_nb.config.tree.access_settings import ConfigRule
from jp_nb.config.tree.tool_settings import STAR
from jp_nb.errors import ConfigError

Approval = Literal["always", "sometimes", "never"]
"""When the user has to approve the changes that a rule grants."""


def iter_rules(partial: Mapping[str, JsonValue]) -> Iterator[tuple[str, list[ConfigRule]]]:
    """Yield each tool in `partial` that has rules, with its rules.

    `partial` is a layer whose settings are valid, so that each rule can be read.
    """
    tools = get_path(partial, "conversation.tools")
    for name in tools if isinstance(tools, dict) else ():
        rules = get_path(partial, ("conversation", "tools", name, "access", "config"))
        if isinstance(rules, list) and rules:
            yield name, [ConfigRule.model_validate(rule) for rule in rules]


def find_rule_problems(tool: str, rules: Sequence[ConfigRule]) -> Iterator[tuple[str, str]]:
    """Yield path and message of each problem in the rules of `tool`."""
    for number, rule in enumerate(rules):
        rule_path = format_path(("conversation", "tools", tool, "access", "config", str(number)))
        try:
            keys = parse_path(rule.path)
        except ConfigError as exc:
            yield f"{rule_path}.path", f"tool '{tool}': access.config path {exc}"
            continue

        not_a_map = _find_star_outside_of_map(keys)
        if not_a_map is not None:
            yield (
                f"{rule_path}.path",
                f"tool '{tool}': access.config path '{rule.path}' uses '*' at "
                f"'{format_path(not_a_map)}', which is not a map",
            )

        if rule.write is True and overlaps_sensitive(keys):
            yield (
                f"{rule_path}.write",
                f"tool '{tool}' grants write = true to path '{rule.path}' which is a sensitive "
                'path. Use write = "insecure_allow" to explicitly acknowledge this grant.',
            )


def _find_star_outside_of_map(keys: PathKeys) -> PathKeys | None:
    """Return the path above the first `*` that stands for no key of a map, or None."""
    for depth, key in enumerate(keys):
        # An unknown setting counts as free JSON, which is no map either.
        above = node_at(keys[:depth]) or JSON
        if key == STAR and above.kind != "map":
            return keys[:depth]

    return None


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

        if rule.apply == "unattended" and find_approval(rule) == "always":
            yield (
                f"tool '{tool}' has apply = \"unattended\" for path '{rule.path}', "
                "where the user always decides: the tool asks anyway"
            )


def find_approval(rule: ConfigRule) -> Approval:
    """Return when the user has to approve a change that `rule` grants.

    The user always decides about settings with authority, such as commands. Of these, a rule with
    `insecure_allow` may only grant new access rules without the user.
    """
    keys = parse_path(rule.path)

    if rule.apply == "ask":
        return "always"

    if is_sensitive(keys) and rule.write == "insecure_allow":
        # Setting an access rule is granted. Unsetting one may widen the access: the user decides.
        return "sometimes" if rule.delete else "never"

    match always_needs_user(keys):
        case True:
            return "always"
        case False:
            return "never"
        case None:  # the value decides, or the path is above settings of both kinds
            return "sometimes"


def matches_nothing(rule: ConfigRule) -> bool:
    """Return True if the configuration has no setting that `rule` can match."""
    node: SchemaNode | None = ROOT
    for key in parse_path(rule.path):
        if node is None or (node.kind == "list" and not isinstance(key, Element)):
            return True  # rules name an item in brackets (`Element`), not by its number
        node = node.child(key)

    return node is None
