"""Built-in tool `submit_plan`: the plan of a turn that changes nothing before its approval.

It is offered only in turns that begin with a plan (`%%jp --plan`). The turn itself asks the user
about the plan, so the tool never runs.

Source: `docs/turns.md` (plan first).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.toolkit.base import MAX_PLAN_CHARS, Tool
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.outcome import Outcome, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

PLAN_TOOL: Final = "submit_plan"
"""Key of the tool in `conversation.tools`."""
PLAN_ARGUMENT: Final = "plan"

PLAN_DESCRIPTION: Final = """\
Submit the plan of this turn to the user, who approves, edits, or rejects it. Until the user has \
approved a plan, only tools that change nothing run. Look at everything that you need before. \
Write the plan in Markdown, short and exact: what you will change, in which order, and how you \
will check the result. The result says what the user decided, and shows each change that the user \
made to the plan. After the approval, carry out the plan as it was approved. Some calls still need \
the user's permission."""

PLAN_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        PLAN_ARGUMENT: {
            "type": "string",
            "contentMediaType": "text/markdown",
            "description": f"The whole plan in Markdown, at most {MAX_PLAN_CHARS} characters.",
        }
    },
    "required": [PLAN_ARGUMENT],
    "additionalProperties": False,
}
NO_PLAN: Final = "`plan` is empty. Give the whole plan, as a text in Markdown."
LONG_PLAN: Final = (
    "`plan` has {count} characters, and at most {limit} are possible. Write a shorter plan: the "
    "steps, without the code."
)
NOT_NEEDED: Final = "This turn does not begin with a plan. Do not submit one."
TURN_NOTE: Final = (
    "change nothing until the user has approved a plan. Only tools that change nothing run before, "
    f"and all others are refused. Look at what you need, then call `{PLAN_TOOL}` with the plan. "
    "After the approval, carry out the plan in this turn."
)
"""Note for the model in the request of a turn that begins with a plan.

It continues a sentence that the request begins (`add_plan_note`).
"""


class SubmitPlan(Tool):
    """Tool that submits the plan of a turn to the user."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": {"state": False, "allow_toggle": "never"},
        "run": "unattended",
        "result": "unattended",
        "style": {"inline_results": "off"},
        "description": PLAN_DESCRIPTION,
    }
    schema = PLAN_SCHEMA
    plan_argument = PLAN_ARGUMENT  # by this argument the turn knows that the call has a plan
    read_only = True

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | ToolFailure:
        """Return `arguments`, or a failure if there is no plan, or if it is too long."""
        plan = arguments.get(PLAN_ARGUMENT)
        if not isinstance(plan, str) or not plan.strip():
            return ToolFailure(NO_PLAN)
        if len(plan) > MAX_PLAN_CHARS:
            return ToolFailure(LONG_PLAN.format(count=len(plan), limit=MAX_PLAN_CHARS))
        return arguments

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return a failure: a turn that begins with a plan asks the user instead."""
        return ToolFailure(NOT_NEEDED)
