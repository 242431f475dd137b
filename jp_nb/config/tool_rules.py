"""The rules about a tool's calls: those of the tool, and those of all tools.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jp_nb.config.tree.tool_settings import ArgumentRule, RunMode, ToolConfig

_STRICTNESS: Final[Sequence[RunMode]] = ("unattended", "ask", "edit", "skip")
"""Permissions, from the loosest to the strictest."""


def join_rules(tool: ToolConfig, star: ToolConfig) -> tuple[ArgumentRule, ...]:
    """Return the rules of `tool`, followed by those of `*`. The first one that fits a call counts.

    A rule of `*` is not looser than the tool's own setting `run`: a user who sets `run = "ask"` for
    a tool is asked, although `*` has a rule to run some calls unattended.
    """
    general = [_tighten(rule, tool.run) for rule in star.rules or ()]
    return (*(tool.rules or ()), *general)


def _tighten(rule: ArgumentRule, run: RunMode | None) -> ArgumentRule:
    if run is None or _STRICTNESS.index(rule.run) >= _STRICTNESS.index(run):
        return rule
    return rule.model_copy(update={"run": run})
