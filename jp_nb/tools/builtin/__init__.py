"""Tools that every conversation has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from jp_nb.config.tree.tools import RunMode, ToolConfig
from jp_nb.tools.base import CellThread, SourceDefaults, Tool, ToolContext, ToolDefaults
from jp_nb.tools.builtin.ask import Ask
from jp_nb.tools.builtin.ask_user import AskUser, AskUserRead
from jp_nb.tools.builtin.notebook import NOTEBOOK_TOOLS, TOOLSET, DescribeTools, RunPython
from jp_nb.tools.outcome import Failure, Outcome

BUILTINS: dict[str, Tool] = {
    "ask": Ask(),
    "ask_user": AskUser(),
    "ask_user_read": AskUserRead(),
    "describe_tools": DescribeTools(),
    "run_python": RunPython(),
    **NOTEBOOK_TOOLS,
}
"""Executor by the key of `conversation.tools`."""


def tools_config(functions: Mapping[str, Any]) -> dict[str, Any]:
    """Return what builtins bring along, and `functions` by their names: a partial configuration."""
    tools = {name: dict(tool.registration) for name, tool in BUILTINS.items()}
    toolsets = {TOOLSET: {"state": False}}
    return {"conversation": {"tools": {**tools, **functions}, "toolsets": toolsets}}


class BuiltinTools(SourceDefaults):
    """The tools of this package, by their configuration key alone (R083-52)."""

    name, title = "builtin", "built-in"
    run: RunMode = "unattended"

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return every tool that is wanted: one that does not exist fails when it is called."""
        return {name: BUILTINS.get(name) or MissingTool(name) for name in wanted}


class MissingTool(ToolDefaults):
    """Stands in for a builtin that does not exist: configured, offered, and failing when run."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Fail, naming the tool."""
        return Failure(f"Tool not found: {self.name}")
