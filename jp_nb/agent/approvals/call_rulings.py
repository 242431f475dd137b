"""Decide by the arguments of a call whether its tool asks before it runs.

The first rule of the configuration that matches a call replaces the setting `run`. Rules that the
user kept in a permission prompt only answer such a prompt: they loosen no `skip`, and no rule that
asks, unless the user kept them in a prompt that this rule caused.

Source: `docs/turns.md`, `docs/configuration.md`, `docs/decisions.md` D229, D230.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from jp_nb.agent.approvals.permission_rules import KeptRules
from jp_nb.agent.approvals.rule_texts import describe_rule, format_rule
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.config.argument_rules import JudgedCall, matches_conditions
from jp_nb.config.tree.tool_settings import ArgumentRule, RunMode


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


def find_kept_permission(
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
    if not rules or not may_keep_rule(tool):
        return None

    call = make_judged_call(tool, arguments, root)
    identity = tool.identity
    for kept_rule in rules:
        if kept_rule.identity != identity or kept_rule.asked_by != ruling.asked_by:
            continue
        if matches_conditions(kept_rule.when, call, only_these=kept_rule.only_these):
            return Ruling("unattended", kept_rule.rule, kept_rule.scope)
    return None


def may_keep_rule(tool: OfferedTool) -> bool:
    """Return True if the user may keep rules about `tool`.

    A tool that executes its arguments gets permissions for exactly these, so no rule can be kept.
    """
    return tool.covers != "arguments"


def make_judged_call(
    tool: OfferedTool, arguments: Mapping[str, JsonValue], root: str
) -> JudgedCall:
    """Return the parts of a call that rules can decide by.

    A tool may run in another folder than the workspace. A relative path must lead into the folder
    of a rule from each of them.
    """
    workspace = Path(root or ".").absolute()
    folders = [Path.cwd()] if tool.runs_in_kernel else []
    if tool.executor.folder is not None:
        folders.append(workspace / tool.executor.folder)

    return JudgedCall(arguments, workspace, tuple(folders), tool.executor.hints)
