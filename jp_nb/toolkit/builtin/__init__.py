"""The table of built-in tools, and their source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from jp_nb.config.tree.tool_settings import RunMode, ToolConfig
from jp_nb.toolkit.base import Tool, ToolSource
from jp_nb.toolkit.builtin.ask import Ask
from jp_nb.toolkit.builtin.ask_user import AskUser
from jp_nb.toolkit.builtin.ask_user_read import AskUserRead
from jp_nb.toolkit.builtin.cells import CELLS_TOOLSET, EDIT_CELLS, EditCells
from jp_nb.toolkit.builtin.describe_tools import DescribeTools
from jp_nb.toolkit.builtin.notebook import NOTEBOOK_TOOLS, TOOLSET
from jp_nb.toolkit.builtin.read_skill import SKILL_TOOL, ReadSkill
from jp_nb.toolkit.builtin.run_python import RunPython
from jp_nb.toolkit.builtin.submit_plan import PLAN_TOOL, SubmitPlan
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import Outcome, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

BUILTINS: dict[str, Tool] = {
    "ask": Ask(),
    "ask_user": AskUser(),
    "ask_user_read": AskUserRead(),
    "describe_tools": DescribeTools(),
    EDIT_CELLS: EditCells(),
    "run_python": RunPython(),
    SKILL_TOOL: ReadSkill(),
    PLAN_TOOL: SubmitPlan(),
    **NOTEBOOK_TOOLS,
}
"""The built-in tools by their key in `conversation.tools`."""


def tools_config(functions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a partial configuration with the built-in tools, and `functions` by name.

    Both are registrations (`Tool.registration`). The toolsets of the notebook are off.
    """
    tools = {name: dict(tool.registration) for name, tool in BUILTINS.items()}
    toolsets = {TOOLSET: {"state": False}, CELLS_TOOLSET: {"state": False}}
    return {"conversation": {"tools": {**tools, **functions}, "toolsets": toolsets}}


class BuiltinTools(ToolSource):
    """Source of the built-in tools. A tool is found by its key in `conversation.tools`.

    The name after the dot of `source = "builtin.ask_user"` has no effect (R083-52).
    """

    name = "builtin"
    title = "built-in"
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
        return ToolFailure(f"Tool not found: {self.name}")
