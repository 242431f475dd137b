"""Rules about the arguments of calls as text: for the configuration, and for the user.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.config.condition_text import describe_conditions, format_conditions
from jp_nb.config.tree.tool_settings import ArgumentRule


def format_rule(rule: ArgumentRule) -> str:
    """Return `rule` as an item of the setting `rules`, in one line."""
    only = ", only_these = true" if rule.only_these else ""
    return f'{{ when = {format_conditions(rule.when)}{only}, run = "{rule.run}" }}'


def format_rule_table(tool: str, rule: ArgumentRule) -> str:
    """Return `rule` as it would be written in a configuration file."""
    # The name of the tool, quoted as TOML needs it.
    key = format_conditions({tool: 0}).removeprefix("{ ").removesuffix(" = 0 }")
    lines = [f"[[conversation.tools.{key}.rules]]", f"when = {format_conditions(rule.when)}"]
    if rule.only_these:
        lines.append("only_these = true")
    return "\n".join([*lines, f'run = "{rule.run}"'])


def describe_rule(when: Mapping[str, JsonValue], *, only_these: bool) -> str:
    """Return the conditions of a rule in words, for the line of a call."""
    if not only_these:
        return describe_conditions(when)
    return f"{describe_conditions(when)}, no other arguments" if when else "no arguments"


def format_recorded_rule(rule: Mapping[str, JsonValue]) -> str:
    """Return the conditions of a recorded rule, which approved or denied a call, in words.

    The fields of `rule` are unchecked: `when`, the expected arguments by name, and `only_these`,
    true if no other arguments are allowed.
    """
    when = rule.get("when")
    if not isinstance(when, dict):
        when = {}

    return describe_rule(when, only_these=rule.get("only_these") is True)
