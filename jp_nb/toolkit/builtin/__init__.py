"""Built-in tools, and the tool that describes all tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from jp_nb.config.tree.tool_settings import RunMode, ToolConfig
from jp_nb.toolkit.base import Tool, ToolSource
from jp_nb.toolkit.builtin.ask import Ask
from jp_nb.toolkit.builtin.ask_user import AskUser, AskUserRead
from jp_nb.toolkit.builtin.notebook import NOTEBOOK_TOOLS, TOOLSET
from jp_nb.toolkit.builtin.run_python import RunPython
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import Outcome, Success, ToolFailure
from jp_nb.toolkit.parameters import argument
from jp_nb.toolkit.tool_context import ToolContext

DESCRIBE_TOOLS_DESCRIPTION = """\
Get the full documentation of one or more tools: purpose, examples, and parameters. Use it before \
you call a tool whose short description is not sufficient."""


class DescribeTools(Tool):
    """Tool that returns the full documentation of available tools."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": {"state": True, "allow_toggle": "never"},
        "run": "unattended",
        # Without `results_file_link`, which JP sets, because a notebook has no such setting.
        "style": {"hidden": True, "inline_results": "off", "parameters": "off"},
        "description": DESCRIBE_TOOLS_DESCRIPTION,
        "parameters": {
            "tools": argument(
                "array", "Names of the tools.", required=True, items={"type": "string"}
            )
        },
    }

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the documentation of the tools, and the names of those without documentation."""
        names = arguments.get("tools")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return ToolFailure("Missing or invalid `tools` parameter.")
        if not names:
            return ToolFailure("The `tools` array must not be empty.")
        asked = {str(name): context.catalog.get(str(name), "") for name in names}
        parts = [section for section in asked.values() if section]
        if unknown := [name for name, section in asked.items() if not section]:
            parts.append(f"No additional documentation available for: {', '.join(unknown)}")
        return Success("\n\n---\n\n".join(parts))


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
