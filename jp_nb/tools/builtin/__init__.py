"""Built-in tools, and their registration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from jp_nb.config.tree.tools import RunMode, ToolConfig
from jp_nb.tools.base import CellThread, Tool, ToolContext, ToolSource
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
"""The built-in tools by their key in `conversation.tools`."""


def tools_config(functions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a partial configuration with the built-in tools, and `functions` by name."""
    tools = {name: dict(tool.registration) for name, tool in BUILTINS.items()}
    toolsets = {TOOLSET: {"state": False}}
    return {"conversation": {"tools": {**tools, **functions}, "toolsets": toolsets}}


class BuiltinTools(ToolSource):
    """Source of the built-in tools. The configuration key is the name (R083-52)."""

    name, title = "builtin", "built-in"
    run: RunMode = "unattended"

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return each of the wanted tools. A missing tool fails when the model calls it."""
        return {name: BUILTINS.get(name) or MissingTool(name) for name in wanted}


class MissingTool(Tool):
    """Placeholder for a configured built-in tool that does not exist."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return a failure with the name."""
        return Failure(f"Tool not found: {self.name}")
