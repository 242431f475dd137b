"""Turns that begin with a plan (`%%jp --plan`): check the tool for plans, and restore the state.

Such a turn changes nothing until the user has approved a plan. The model submits it with the
built-in tool `submit_plan`, whose `plan_argument` is the name of the argument with the plan.

Source: `docs/turns.md` (plan first).
"""

from __future__ import annotations

from typing import Final

from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.agent.turn_plan import TurnPlan
from jp_nb.errors import UsageError
from jp_nb.record.entries.events import ChatRequest
from jp_nb.record.reading.plan_marks import begins_with_plan, has_approved_plan
from jp_nb.record.stream import ConversationStream
from jp_nb.toolkit.builtin.submit_plan import PLAN_TOOL

NO_PLAN_TOOL: Final = (
    "a turn that begins with a plan needs the built-in tool `{}`, which is not available: {}"
)


def require_plan_tool(tools: ToolSet) -> None:
    """Raise `UsageError` if the tool for plans is not one of `tools`."""
    tool = tools.tools.get(PLAN_TOOL)
    # Another tool of this name has no argument that is a plan.
    if tool is not None and tool.executor.plan_argument:
        return

    reason = "another tool has its name"
    if tool is None:
        reason = tools.missing.get(PLAN_TOOL, "the configuration does not have it")
    raise UsageError(NO_PLAN_TOOL.format(PLAN_TOOL, reason))


def read_turn_plan(request: ChatRequest, stream: ConversationStream, *, trusted: bool) -> TurnPlan:
    """Return the state of the plan of the last turn in `stream`, which `request` began.

    A turn that is resumed may already have an approved plan. If the record is not `trusted`, an
    approval in it does not count: the user is asked again.
    """
    is_approved = trusted and has_approved_plan(stream.current_turn())
    return TurnPlan(is_required=begins_with_plan(request), is_approved=is_approved)
