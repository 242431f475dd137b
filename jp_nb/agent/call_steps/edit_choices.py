"""Let the user choose among proposed edits of cells, change their sources, and reject them.

`edit_requests.py` shows the review, and carries out the buttons that decide (apply, reject). These
dialogues are behind its other buttons, and lead back to it. A rejection ends the call of the tool.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jp_nb.agent.approvals.edit_choice_prompts import (
    make_choice_prompt,
    make_pick_prompt,
    make_source_prompt,
)
from jp_nb.agent.approvals.edit_prompts import EDIT_ACTION, can_edit
from jp_nb.agent.calls.call import CallEnded
from jp_nb.agent.calls.call_decisions import describe_missing_decision
from jp_nb.agent.prompting.prompt_ends import Answered, FormEnd, NotAnswered, Unavailable, is_back
from jp_nb.agent.prompting.prompts import QuestionPrompt
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.json_values import as_object
from jp_nb.toolkit.editing.edit_plan import EditPlan, PlannedEdit
from jp_nb.toolkit.editing.edit_planner import plan_chosen
from jp_nb.toolkit.editing.edit_review import EditDecision, EditReview
from jp_nb.toolkit.question import Question

REJECTED_TEXT = "The user rejected all edits. No edit was applied."
REJECTED_WITH_REASON_TEXT = "The user rejected all edits: {} No edit was applied."


@dataclass(slots=True)
class EditChoices:
    """The user's choices so far.

    Attributes:
        review: The proposed edits, and the cells that they are about.
        chosen: Numbers of the edits to apply.
        sources: The sources that the user has changed, by the number of the edit.
    """

    review: EditReview
    chosen: frozenset[int]
    sources: dict[int, str] = field(default_factory=dict)

    @property
    def plan(self) -> EditPlan:
        """The plan of the chosen edits. It drops an edit that needs one which is not chosen."""
        return plan_chosen(
            self.review.edits, self.review.document, chosen=self.chosen, sources=self.sources
        )

    def are_shown(self, shown: Sequence[PlannedEdit]) -> bool:
        """Return True if the edits that would be applied are exactly as the review showed them.

        In a form, the user may have cleared the check box of an edit just before. Without it,
        another edit that needs it is dropped, or has another place or source than in `shown`.
        """
        plan = self.plan
        are_all_shown = all(planned in shown for planned in plan.edits)
        has_dropped_chosen = bool(plan.dropped.keys() & self.chosen)
        return bool(plan.edits) and are_all_shown and not has_dropped_chosen

    def make_decision(self, *, may_run: bool) -> EditDecision:
        """Return the decision to apply the chosen edits, and to run cells if `may_run`."""
        return EditDecision(self.review, self.chosen, dict(self.sources), may_run=may_run)

    def make_empty_decision(self) -> EditDecision:
        """Return the decision to apply nothing, for a review with conflicts.

        The call does not end with it: its tool runs again, and tells the model the conflicts.
        """
        return EditDecision(self.review, frozenset(), dict(self.sources), may_run=False)


async def change_choices(ask: SafeAsk, choices: EditChoices, action: str) -> None:
    """Let the user choose edits, change a source, or give a reason, which ends the call.

    `action` is the value of a button of the review that does not decide.
    """
    match action:
        case "reason":
            await _ask_reason(ask)
        case "choose":
            await _choose(ask, choices)
        case "edit":  # on stdin, where the user picks the edit
            await _edit_source(ask, choices)
        case _ if action.startswith(EDIT_ACTION):  # the button of one edit in a form
            await _edit_source(ask, choices, int(action.removeprefix(EDIT_ACTION)))


async def _ask_reason(ask: SafeAsk) -> None:
    """End the call with the user's reason; return if the user went back."""
    question = Question.text("reason", "Why should these edits not be applied? (sent to the model)")
    end = await ask(QuestionPrompt(question))

    if isinstance(end, Answered):
        text = str(end.value).strip()
        content = REJECTED_WITH_REASON_TEXT.format(text) if text else REJECTED_TEXT
        raise CallEnded(content, is_error=True, skipped=True)
    if not is_back(end):
        raise make_edit_rejection(end)


async def _choose(ask: SafeAsk, choices: EditChoices) -> None:
    """Let the user choose edits, on stdin. A form has check boxes instead."""
    end = await ask(make_choice_prompt(choices.review, choices.chosen))
    if isinstance(end, Answered) and isinstance(end.value, list):
        numbers = [int(str(value)) for value in end.value]
        choices.chosen = frozenset(numbers)
    elif not is_back(end):
        raise make_edit_rejection(end)


async def _pick_edit(
    ask: SafeAsk, editable: list[PlannedEdit], plan: EditPlan
) -> PlannedEdit | None:
    """Return the edit whose source the user wants to change; None if the user went back."""
    if len(editable) == 1:
        return editable[0]
    if not editable:  # the user cleared its check box, and then pressed its button
        return None

    end = await ask(make_pick_prompt(plan))
    if is_back(end):
        return None
    if not isinstance(end, Answered):
        raise make_edit_rejection(end)
    [picked] = [planned for planned in editable if str(planned.edit.number) == end.value]
    return picked


async def _edit_source(ask: SafeAsk, choices: EditChoices, number: int | None = None) -> None:
    """Let the user change the source of edit `number`, or of one that the user picks."""
    plan = choices.plan
    editable = [planned for planned in plan.edits if can_edit(planned)]
    if number is not None:
        editable = [planned for planned in editable if planned.edit.number == number]
    picked = await _pick_edit(ask, editable, plan)
    if picked is None:
        return

    end = await ask(make_source_prompt(picked))
    if is_back(end):
        return
    if not isinstance(end, FormEnd):
        raise make_edit_rejection(end)

    [edited] = end.ends  # the form has one page
    if isinstance(edited, Answered):
        source = str(as_object(edited.value).get("source", ""))
        if source != picked.after:
            choices.sources[picked.edit.number] = source
    elif not is_back(edited):
        raise make_edit_rejection(edited)


def make_edit_rejection(end: object) -> CallEnded:
    """Return the end of the call for a prompt that ended without an answer.

    A closed prompt is a rejection by the user. Otherwise, the model gets the reason for the lack of
    a decision, such as a deadline.
    """
    reason = None
    if isinstance(end, NotAnswered | Unavailable):
        reason = describe_missing_decision(end)
    content = REJECTED_TEXT if reason is None else f"No edit was applied: {reason}."
    return CallEnded(content, is_error=True, skipped=True)
