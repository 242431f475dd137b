"""A turn that begins with a plan: nothing changes before the user has approved it.

The model gets all tools from the start, so that the beginning of its requests, which servers cache,
stays the same. Until the approval, calls of tools that may change something are refused.

Source: `docs/turns.md` (plan first), `docs/decisions.md` D275.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.text import one_line

REFUSED_TEXT: Final = (
    "{} did not run: it may change something, and the user has not approved a plan yet. {} Submit "
    "your plan with {}. After the approval, call this tool again if the plan needs it."
)
READERS_TEXT: Final = "Until then, only these tools run: {}."
NO_READERS_TEXT: Final = "No tool of this turn only reads."
CHANGE_REFUSED_TEXT: Final = (
    "{} ran, and its configuration change is not applied: the user has not approved a plan yet."
)
NOT_APPROVED_NOTICE: Final = (
    "▸ The turn ended without an approved plan, so no tool that may change something ran"
)
MAX_READERS_CHARS: Final = 2_000
"""Maximum length of the names of tools in a refusal. *Readers* are tools that change nothing."""


@dataclass(slots=True)
class TurnPlan:
    """The plan of a turn.

    Attributes:
        is_required: True if the turn may change nothing before the user approves a plan.
        is_approved: True once the user has approved one.
    """

    is_required: bool = False
    is_approved: bool = False

    @property
    def is_pending(self) -> bool:
        """True if only tools that change nothing may run now."""
        return self.is_required and not self.is_approved


def describe_refused_call(refused: OfferedTool, tools: Mapping[str, OfferedTool]) -> str:
    """Return the response to a call of the tool `refused` before the plan is approved.

    It names those of all `tools` that only read, and those that submit a plan.
    """
    readers: list[str] = []
    planners: list[str] = []
    for name, tool in tools.items():
        if tool.executor.plan_argument:  # the name of the argument with the plan; "" without one
            planners.append(name)
        elif tool.read_only:
            readers.append(name)

    names = one_line(", ".join(readers), limit=MAX_READERS_CHARS)
    usable = READERS_TEXT.format(names) if readers else NO_READERS_TEXT
    return REFUSED_TEXT.format(refused.name, usable, " or ".join(planners))
