"""Ask the user to approve the plan of a turn, which may change something only after that.

In the dialogue, the user can also edit the plan, or reject it with a reason. The model reads every
change that the user made. The approval permits no call: tools still ask as they are configured.

Source: `docs/turns.md` (plan first), `docs/decisions.md` D275, D276.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import unified_diff
from typing import Final

from jp_nb.agent.call_steps.result_delivery import Delivery
from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.call_decisions import CallDecisions, describe_missing_decision
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.display import Waits
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prompting.prompt_ends import (
    Answered,
    Channel,
    NotAnswered,
    PromptEnd,
    Unavailable,
    is_back,
)
from jp_nb.agent.prompting.prompts import Action, ActionPrompt, QuestionPrompt
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.agent.turn_state import TurnContext
from jp_nb.toolkit.base import MAX_PLAN_CHARS
from jp_nb.toolkit.question import Question
from jp_nb.toolkit.question_types.text_answer import TextAnswer

PLAN_ACTIONS: Final = (
    Action("y", "Approve the plan", "approve"),
    Action("e", "Edit the plan …", "edit", is_separated=True),
    Action("n", "Reject the plan", "reject", is_separated=True),
    Action("r", "Reject and say why …", "reason"),
)
PLAN_QUESTION: Final = "Approve this plan? Until then, nothing is changed."
PLAN_LABEL: Final = "Plan"
EDIT_QUESTION: Final = "The plan for the model:"
APPROVE_EDITED_LABEL: Final = "Approve this plan"
REASON_QUESTION: Final = "Why do you reject the plan? (sent to the model)"

APPROVED_TEXT: Final = (
    "The user approved the plan without changes. All tools can run now. Carry out the plan."
)
EDITED_TEXT: Final = (
    "The user edited the plan, and approved it as it is below. All tools can run now. Carry out "
    "the plan as the user approved it.\n\nChanges by the user, as a unified diff:\n\n{}\n\n"
    "The approved plan:\n\n{}"
)
REJECTED_TEXT: Final = (
    "The user rejected the plan. Tools that may change something are still refused."
)
REJECTED_WITH_REASON_TEXT: Final = (
    "The user rejected the plan: {}\n\nTools that may change something are still refused. Submit "
    "another plan, or answer without one."
)
UNDECIDED_TEXT: Final = "The plan is not approved: {}."
ALREADY_APPROVED_TEXT: Final = (
    "The user has already approved a plan in this turn. Carry it out. If it has to change, say so "
    "at the end of the turn, or ask the user."
)
NOT_REQUIRED_TEXT: Final = "This turn does not begin with a plan. Do not submit one."
DIFF_CONTEXT_LINES: Final = 1
NO_BREAK_AT_END: Final = "\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """A plan that the user approved.

    Attributes:
        text: The plan as the user approved it.
        edited_through: The channel through which the user changed it; None if unchanged.
    """

    text: str
    edited_through: Channel | None = None


class PlanApproval:
    """Asks the user to approve plans, one at a time."""

    def __init__(self, turn: TurnContext, screen: ScreenQueue, decisions: CallDecisions) -> None:
        self._turn = turn
        self._screen = screen
        self._decisions = decisions

    async def request_approval(self, call: Call, tool: OfferedTool) -> Delivery:
        """Return the response that tells the model what the user approved.

        Raises:
            CallEnded: The plan is rejected, or not needed, or no user is available.
        """
        self._refuse_needless_plan()
        name = tool.executor.plan_argument
        plan = str(call.state.arguments[name])

        decided = self._decisions.decide_without_prompt("plan", tool, call.state)
        if decided is False:
            raise CallEnded(REJECTED_TEXT, skipped=True)

        approved = ApprovedPlan(plan)
        if decided is None:  # the answers file does not decide
            approved = await self._ask_user(call, tool, plan)

        self._turn.plan.is_approved = True
        call.state.approves_plan = True
        call.view.needs_redisplay = True
        if approved.edited_through is None:
            return Delivery(APPROVED_TEXT)

        call.state.arguments = {**call.state.arguments, name: approved.text}
        call.state.edited_through = approved.edited_through
        return Delivery(EDITED_TEXT.format(format_plan_diff(plan, approved.text), approved.text))

    def _refuse_needless_plan(self) -> None:
        """End the call if no plan can be approved now."""
        if not self._turn.plan.is_required:
            raise CallEnded(NOT_REQUIRED_TEXT, is_error=True)
        if self._turn.plan.is_approved:
            raise CallEnded(ALREADY_APPROVED_TEXT, is_error=True)

    async def _ask_user(self, call: Call, tool: OfferedTool, plan: str) -> ApprovedPlan:
        """Show the plan until the user approves it, perhaps with changes, or rejects it."""
        self._turn.display(Waits(call.key, "your decision on the plan", person=True))
        prompt = ActionPrompt(
            text=PLAN_QUESTION,
            actions=PLAN_ACTIONS,
            label=PLAN_LABEL,
            document=plan,
            only_buttons=True,
        )

        async with self._screen.take_screen() as ask:
            self._refuse_needless_plan()  # another plan of this response may be approved meanwhile
            while True:
                end = await ask(prompt)
                match end:
                    case Unavailable(reason=reason):
                        raise self._decisions.make_end_without_user(
                            tool, "plan", reason, arguments=call.state.arguments
                        )
                    case Answered(value="approve"):
                        return ApprovedPlan(plan)
                    case Answered(value="edit"):
                        edited = await _edit_plan(ask, plan)
                        if edited is not None:
                            return edited
                    case Answered(value="reason"):
                        await _ask_reason(ask)
                    case _:
                        raise _make_refusal(end)


async def _edit_plan(ask: SafeAsk, plan: str) -> ApprovedPlan | None:
    """Return the plan that the user edited and approved; None if the user went back."""
    limited = TextAnswer(max_length=MAX_PLAN_CHARS)  # as long as a model may submit
    question = Question(id="plan", text=EDIT_QUESTION, answer_type=limited, default=plan)
    # `consents`: an empty line on stdin must not approve the plan.
    end = await ask(
        QuestionPrompt(question, consents=True, is_code=True, submit=APPROVE_EDITED_LABEL)
    )

    if is_back(end):
        return None
    if not isinstance(end, Answered):
        raise _make_refusal(end)

    text = str(end.value)
    if not text.strip():
        return None
    if text == plan:
        return ApprovedPlan(plan)
    return ApprovedPlan(text, edited_through=end.channel)


async def _ask_reason(ask: SafeAsk) -> None:
    """End the call with the user's reason; return if the user went back."""
    end = await ask(QuestionPrompt(Question.text("reason", REASON_QUESTION)))
    if is_back(end):
        return
    if not isinstance(end, Answered):
        raise _make_refusal(end)

    reason = str(end.value).strip()
    content = REJECTED_WITH_REASON_TEXT.format(reason) if reason else REJECTED_TEXT
    raise CallEnded(content, skipped=True)


def _make_refusal(end: PromptEnd[Answered]) -> CallEnded:
    """Return the end of a call whose plan is not approved.

    A user who closes the form rejects the plan. Other ends leave it undecided.
    """
    why = describe_missing_decision(end)
    if isinstance(end, Unavailable):
        why = end.reason
    elif isinstance(end, NotAnswered) and end.end == "cancelled":
        why = "the user closed the form"
    content = REJECTED_TEXT if why is None else UNDECIDED_TEXT.format(why)
    return CallEnded(content, skipped=True)


def format_plan_diff(before: str, after: str) -> str:
    """Return the difference of two plans as a unified diff, which names a changed line end too."""
    lines = unified_diff(
        _split_lines(before),
        _split_lines(after),
        "plan",
        "approved plan",
        n=DIFF_CONTEXT_LINES,
        lineterm="",
    )
    return "\n".join(lines)


def _split_lines(text: str) -> list[str]:
    """Return the lines of `text`; the last one has a mark if no line break ends it."""
    lines = text.split("\n")
    if lines[-1]:
        lines[-1] = f"{lines[-1]}\n{NO_BREAK_AT_END}"
    else:
        lines.pop()
    return lines
