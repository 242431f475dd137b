"""Built-in tool `describe_tools`: the full documentation of other tools.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.toolkit.arguments.parameters import argument
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import Outcome, Success, ToolFailure
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
        # JP, whose settings these are, also sets `results_file_link`. A notebook has no use for it.
        "style": {"hidden": True, "inline_results": "off", "parameters": "off"},
        "description": DESCRIBE_TOOLS_DESCRIPTION,
        "parameters": {
            "tools": argument(
                "array", "Names of the tools.", required=True, items={"type": "string"}
            )
        },
    }

    read_only = True

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the documentation of the tools, and the names of those without documentation."""
        names = arguments.get("tools")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return ToolFailure("Missing or invalid `tools` parameter.")
        if not names:
            return ToolFailure("The `tools` array must not be empty.")

        # The catalog has the documentation by name; "" of a tool that has none.
        sections = {str(name): context.catalog.get(str(name), "") for name in names}
        parts = [section for section in sections.values() if section]
        unknown = [name for name, section in sections.items() if not section]
        if unknown:
            parts.append(f"No additional documentation available for: {', '.join(unknown)}")
        return Success("\n\n---\n\n".join(parts))
