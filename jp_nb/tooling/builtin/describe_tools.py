"""`describe_tools`: the model reads up on the tools it is offered.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.tooling.base import CellThread, ToolDefaults
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import Failure, Outcome, Success

NAME = "describe_tools"

DESCRIPTION = """\
Get the full documentation of one or more tools: purpose, examples, and parameters. Use it before \
you call a tool whose short description is not sufficient."""


class DescribeTools(ToolDefaults):
    """Hands the model the documentation of tools on offer."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": {"state": True, "allow_toggle": "never"},
        "run": "unattended",
        # `results_file_link` of the specification is a setting of JP's that no notebook has.
        "style": {"hidden": True, "inline_results": "off", "parameters": "off"},
        "description": DESCRIPTION,
        "parameters": {
            "tools": {
                "type": "array",
                "required": True,
                "description": "Names of the tools.",
                "items": {"type": "string"},
            }
        },
    }

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the sections of the tools asked for, and the names that have none."""
        names = arguments.get("tools")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return Failure("Missing or invalid `tools` parameter.")
        if not names:
            return Failure("The `tools` array must not be empty.")
        asked = {str(name): context.catalog.get(str(name), "") for name in names}
        parts = [section for section in asked.values() if section]
        if unknown := [name for name, section in asked.items() if not section]:
            parts.append(f"No additional documentation available for: {', '.join(unknown)}")
        return Success("\n\n---\n\n".join(parts))
