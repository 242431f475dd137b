"""Get a decision about proposed edits of cells: from the answers file, or from the user.

The user reviews the edits, and can choose among them, change their sources, and reject them
(`edit_choices.py`). A permission that was given before never covers the edits of a proposal.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from jp_nb.agent.approvals.edit_prompts import list_shown_edits, make_review_prompt
from jp_nb.agent.approvals.edit_titles import describe_edit
from jp_nb.agent.call_steps.edit_choices import (
    REJECTED_TEXT,
    EditChoices,
    change_choices,
    make_edit_rejection,
)
from jp_nb.agent.call_steps.permissions import SKIPPED_REMEMBERED_TEXT
from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.screen_queue import ScreenQueue
from jp_nb.agent.display import Notice, Waits
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.prepared_answers import GivenAnswer, OpenDecision
from jp_nb.agent.prompting.prompt_ends import NotAnswered, Unavailable
from jp_nb.agent.prompting.safe_ask import SafeAsk
from jp_nb.agent.turn_state import TurnContext
from jp_nb.toolkit.editing.cell_edits import THIS
from jp_nb.toolkit.editing.edit_plan import PlannedEdit
from jp_nb.toolkit.editing.edit_review import EditDecision, EditReview
from jp_nb.toolkit.editing.source_diff import format_diff

UNATTENDED_TEXT = (
    "No edit was applied: edits need the user's approval, and no user is available: {}. The user "
    'can decide in the answers file, with `"*" = "apply"` in its table [edits]. Do not retry this '
    "tool call in this turn."
)
UNDECIDED_TEXT = "no user is available to approve it."
FILE_NOTICE = "▸ The answers file applies {} of {} edits"


class EditRequests:
    """Gets decisions about proposed edits."""

    def __init__(self, turn: TurnContext, screen: ScreenQueue) -> None:
        self._turn = turn
        self._screen = screen

    async def ask(self, call: Call, tool: OfferedTool, review: EditReview) -> None:
        """Set the decision about `review` in `call`, for the next run of its tool.

        The answers file decides alone if it decides about each edit. Without a user, it decides
        about some, and the others are not applied. Otherwise, its decisions are only the choice
        with which the review begins.

        Raises:
            CallEnded: Nothing is to be applied.
        """
        decided = self._read_file_decisions(review)
        unavailable = self._turn.prompter.unavailable()
        decides_all = len(decided) == len(review.edits)

        if decides_all or (decided and unavailable is not None):
            call.state.edit_decision = self._apply_file_decisions(
                call, review, decided, unavailable
            )
            return
        if unavailable is not None:
            self._note_open(call, review, unavailable.reason, decided)
            raise CallEnded(UNATTENDED_TEXT.format(unavailable.reason), is_error=True)

        choices = self._begin_choices(review, decided, previous=call.state.edit_decision)
        text = f"your review of {len(review.edits)} edits"
        self._turn.display(Waits(call.key, text, person=True))
        async with self._screen.take_screen(after_run=True) as ask:
            # In another review, the user may have rejected all edits of this turn meanwhile.
            if self._turn.memory.find_permission(tool, call.state.arguments) is False:
                raise CallEnded(SKIPPED_REMEMBERED_TEXT, skipped=True)
            call.state.edit_decision = await self._ask_until_decided(ask, call, tool, choices)

    def _begin_choices(
        self, review: EditReview, decided: Mapping[int, bool], *, previous: EditDecision | None
    ) -> EditChoices:
        """Return the choices with which a review begins.

        `previous` is the user's decision before a conflict: its choices and sources are kept.
        """
        chosen = frozenset(edit.number for edit in review.edits if decided.get(edit.number, True))
        choices = EditChoices(review, chosen - frozenset(review.conflicts))
        if previous is not None:
            choices.chosen &= previous.chosen
            choices.sources |= previous.sources
        return choices

    # --- answers file ---------------------------------------------------------------------------

    def _read_file_decisions(self, review: EditReview) -> dict[int, bool]:
        """Return the decisions of the answers file, by the number of the edit; True: apply it.

        A file decides nothing about a review with a warning, which only a user can judge.
        """
        decided: dict[int, bool] = {}
        if review.warning:
            return decided

        for planned in review.plan.edits:
            answer = self._turn.prepared.find_edit_decision(list_decision_names(planned, review))
            if answer is not None:
                decided[planned.edit.number] = isinstance(answer, GivenAnswer)
        return decided

    def _apply_file_decisions(
        self,
        call: Call,
        review: EditReview,
        decided: Mapping[int, bool],
        unavailable: Unavailable | None,
    ) -> EditDecision:
        """Return the decision of the file. Edits that it does not decide about stay open."""
        chosen = frozenset(number for number, applies in decided.items() if applies)
        undecided = frozenset(edit.number for edit in review.edits) - frozenset(decided)
        if undecided and unavailable is not None:
            self._note_open(call, review, unavailable.reason, decided)

        self._turn.display(Notice(FILE_NOTICE.format(len(chosen), len(review.edits))))
        return EditDecision(
            review,
            chosen,
            may_run=review.document.may_run,
            decider="answers",
            open=undecided,
            undecided=UNDECIDED_TEXT,
        )

    def _note_open(
        self, call: Call, review: EditReview, reason: str, decided: Mapping[int, bool]
    ) -> None:
        """Note each edit that the answers file has not `decided`, for the next run."""
        self._turn.unavailable_reason = reason
        for planned in review.plan.edits:
            if planned.edit.number in decided:
                continue
            name = list_decision_names(planned, review)[0]
            detail = (
                describe_edit(planned),
                *format_diff(planned.before, planned.after).split("\n"),
            )
            decision = OpenDecision(
                "edit", name, reason, detail=detail, arguments=call.state.arguments
            )
            self._turn.note_open(decision)

    # --- user -----------------------------------------------------------------------------------

    async def _ask_until_decided(
        self, ask: SafeAsk, call: Call, tool: OfferedTool, choices: EditChoices
    ) -> EditDecision:
        """Show the review until the user decides. Edits are applied only as the user saw them.

        `edit_prompts.py` has the values of the buttons. `tell` is offered after a conflict: nothing
        is applied, and the model reads why. Other buttons lead to a dialogue, which changes
        `choices` (`change_choices`), and back.

        Raises:
            CallEnded: Nothing is to be applied.
        """
        while True:
            end = await ask(make_review_prompt(choices.review, choices.plan))
            if isinstance(end, Unavailable):
                self._note_open(call, choices.review, end.reason, {})
                raise CallEnded(UNATTENDED_TEXT.format(end.reason), is_error=True)
            if isinstance(end, NotAnswered):
                raise make_edit_rejection(end)

            shown = list_shown_edits(choices.review, choices.plan)
            if end.picks is not None:  # of the check boxes of a form
                choices.chosen = frozenset(int(key) for key in end.picks)

            match end.value:
                case "apply" | "apply_run" if not choices.are_shown(shown):
                    continue  # the user sees what changed with the edits that were not chosen
                case "apply" | "apply_run":
                    return choices.make_decision(may_run=end.value == "apply_run")
                case "tell":
                    return choices.make_empty_decision()
                case "reject" | "reject_turn":
                    if end.value == "reject_turn":
                        self._turn.memory.remember_permission(
                            tool, call.state.arguments, may_run=False
                        )
                    raise CallEnded(REJECTED_TEXT, is_error=True, skipped=True)
                case _:
                    await change_choices(ask, choices, str(end.value))


def list_decision_names(planned: PlannedEdit, review: EditReview) -> list[str]:
    """Return the names by which an answers file decides about an edit: the id, and the tags.

    An insertion has those of the cell before it, or `start`, `end`, or `this`.
    """
    edit = planned.edit
    wanted = edit.cell
    if edit.kind == "insert":
        wanted = edit.after
    cell = review.document.find(wanted)
    if cell is not None:
        return [wanted, *cell.tags]

    # A cell of the same proposal is decided about as the one that inserts it.
    for other in review.plan.edits:
        if other.edit.key and other.edit.key == wanted and other is not planned:
            return list_decision_names(other, review)
    return [wanted or THIS]
