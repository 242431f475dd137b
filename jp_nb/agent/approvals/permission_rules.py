"""Decide by the arguments of a call whether its tool asks before it runs.

Rules of the configuration replace the setting `run` for the calls that they match. Rules that the
user kept in a permission prompt only answer such a prompt: they loosen no `skip`, and no rule that
asks, unless the user kept them in a prompt that this rule caused.

Source: `docs/turns.md`, `docs/configuration.md`, `docs/decisions.md` D229, D230.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from pydantic import JsonValue

from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.config.argument_rules import JudgedCall, matches_conditions
from jp_nb.config.condition_text import describe_conditions, format_conditions
from jp_nb.config.tree.tool_settings import ArgumentRule, RunMode

RuleScope = Literal["session", "notebook"]
SCOPE_WORDS: Final[Mapping[RuleScope, str]] = {
    "session": "for this session",
    "notebook": "in this notebook",
}


@dataclass(frozen=True, slots=True)
class KeptRule:
    """A rule that the user kept: calls of `tool` that match it run without a question.

    Attributes:
        identity: Digest of the tool's definition and of its server's entry.
        when: Conditions about the arguments; see `jp_nb/config/argument_rules.py`.
        only_these: True if a call with arguments beyond those of `when` does not match.
        asked_by: The rule of the configuration that caused the prompt; "" if it was `run`.
    """

    tool: str
    identity: str
    when: Mapping[str, JsonValue]
    scope: RuleScope
    only_these: bool = True
    asked_by: str = ""

    @property
    def rule(self) -> ArgumentRule:
        """The rule as one of the configuration."""
        return ArgumentRule(when=dict(self.when), only_these=self.only_these, run="unattended")


class KeptRules(Protocol):
    """The rules that the user kept. Called on the agent's thread."""

    @property
    def scopes(self) -> tuple[RuleScope, ...]:
        """The scopes for which the user can keep a rule."""

    def list_for_tool(self, tool: str) -> Sequence[KeptRule]:
        """Return the rules about the tool of this name."""

    def keep(self, rule: KeptRule) -> None:
        """Keep `rule`.

        Raises:
            StorageError: It cannot be stored.
        """


@dataclass(slots=True)
class SessionRules:
    """Rules that are kept in memory, for as long as the kernel runs."""

    rules: list[KeptRule] = field(default_factory=list)
    scopes: tuple[RuleScope, ...] = ("session",)

    def list_for_tool(self, tool: str) -> Sequence[KeptRule]:
        """Return the rules about the tool of this name."""
        return [rule for rule in self.rules if rule.tool == tool]

    def keep(self, rule: KeptRule) -> None:
        """Keep `rule`, once."""
        if rule not in self.rules:
            self.rules.append(rule)


@dataclass(frozen=True, slots=True)
class Ruling:
    """The permission of a call.

    Attributes:
        run: `unattended`, `ask`, `edit` (edit the arguments first), or `skip`.
        rule: The rule that decided it; None if the setting `run` did.
        origin: `configuration`, or the scope of a rule that the user kept.
    """

    run: RunMode
    rule: ArgumentRule | None = None
    origin: str = "configuration"

    @property
    def asked_by(self) -> str:
        """The rule as text, which a kept rule names as its cause; "" without one."""
        return "" if self.rule is None else format_rule(self.rule)

    @property
    def description(self) -> str | None:
        """The rule for the line of the call; None without one."""
        if self.rule is None:
            return None
        return describe_rule(self.rule.when, only_these=self.rule.only_these)

    @property
    def metadata(self) -> dict[str, JsonValue] | None:
        """The rule for the record; None without one."""
        if self.rule is None:
            return None
        stored: dict[str, JsonValue] = {"when": dict(self.rule.when), "from": self.origin}
        if self.rule.only_these:
            stored["only_these"] = True
        return stored


def judge(tool: OfferedTool, arguments: Mapping[str, JsonValue], root: str) -> Ruling:
    """Return the permission of a call with the `arguments` with which it will run."""
    if tool.rules:
        call = make_judged_call(tool, arguments, root)
        for rule in tool.rules:
            if matches_conditions(rule.when, call, only_these=rule.only_these):
                return Ruling(rule.run, rule)
    return Ruling(tool.run)


def find_kept(
    kept: KeptRules,
    tool: OfferedTool,
    arguments: Mapping[str, JsonValue],
    root: str,
    ruling: Ruling,
) -> Ruling | None:
    """Return the permission of a rule that the user kept, for a call that `ruling` asks about.

    A kept rule applies while the tool is the same, and only to a prompt with the same cause.
    """
    rules = kept.list_for_tool(tool.name)
    if not rules or not may_keep(tool):
        return None

    call = make_judged_call(tool, arguments, root)
    identity = tool.identity
    for kept_rule in rules:
        if kept_rule.identity != identity or kept_rule.asked_by != ruling.asked_by:
            continue
        if matches_conditions(kept_rule.when, call, only_these=kept_rule.only_these):
            return Ruling("unattended", kept_rule.rule, kept_rule.scope)
    return None


def may_keep(tool: OfferedTool) -> bool:
    """Return True if the user may keep rules about `tool`: its arguments are not code."""
    return tool.covers != "arguments"


def make_judged_call(
    tool: OfferedTool, arguments: Mapping[str, JsonValue], root: str
) -> JudgedCall:
    """Return the parts of a call that rules can decide by.

    A tool may run in another folder than the workspace. A path must be inside of the folder of a
    rule from there as well.
    """
    workspace = Path(root or ".").absolute()
    folders = [Path.cwd()] if tool.runs_in_kernel else []
    if tool.executor.folder is not None:
        folders.append(workspace / tool.executor.folder)

    return JudgedCall(arguments, workspace, tuple(folders), tool.executor.hints)


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
