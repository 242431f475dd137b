"""Built-in tool `read_skill`: the text of a skill of the workspace.

It is offered if the workspace has skills that the user has consented to.

Source: `docs/guide.md` (instructions of the project).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.toolkit.arguments.parameters import argument
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import Outcome, Success, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

SKILL_TOOL: Final = "read_skill"
"""Key of the tool in `conversation.tools`."""
NO_SKILLS: Final = "This conversation has no skills. Do not try again."


class ReadSkill(Tool):
    """Tool that returns the text of a skill to the model."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        # `Resolver` enables the tool if there are skills.
        "enable": {"state": False, "allow_toggle": "never"},
        "run": "unattended",
        "result": "unattended",
        "description": (
            "Read a skill of the user's workspace: instructions for one kind of task. The system "
            "prompt lists the skills. Read a skill before a task that its description fits."
        ),
        "parameters": {"name": argument("string", "The name of the skill.", required=True)},
    }
    read_only = True

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the text of the skill.

        Raises:
            ToolError: `context.read_skill` finds no such skill.
        """
        if context.read_skill is None:
            return ToolFailure(NO_SKILLS)
        return Success(context.read_skill(str(arguments.get("name", ""))))
