"""Resume an interrupted turn: `%jp resume`.

No tool runs a second time without a question, as it may already have had its effect
(`resume_prompts.py`).

An `InterruptedTurn` has `open_calls`, and as `finished` the calls of the same response that have a
result. The options of a turn, such as `-m MODEL`, are configuration changes that are reverted if it
ends without an answer. They apply again (`taken_back`), except for `untrusted_changes`, of which
only the number is known.

Source: `docs/guide.md`, `docs/decisions.md` D124.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from jp_nb.agent.turn_state import RecordedAnswer
from jp_nb.errors import UsageError
from jp_nb.record.entries.events import ToolCallResponse
from jp_nb.record.entries.unanswered_turns import NoAnswer, make_no_answer
from jp_nb.record.interrupted_turn import InterruptedTurn, find_interrupted_turn
from jp_nb.record.reading.plan_marks import begins_with_plan
from jp_nb.record.reading.turn_view import Turn
from jp_nb.record.unfinished_calls import OpenCall
from jp_nb.rendering.prompt_texts.interrupted_turn_text import (
    describe_finished_calls,
    describe_skipped_calls,
)
from jp_nb.rendering.prompt_texts.prompt_text import spell_name
from jp_nb.session.past_turns.bench import BenchTools
from jp_nb.session.past_turns.own_tool_choice import find_own_tool_choice
from jp_nb.session.past_turns.resume_prompts import make_resume_prompt, read_resume_decision
from jp_nb.session.past_turns.reusable_answers import read_reusable_answers
from jp_nb.session.session import Session
from jp_nb.session.turns.turn_draft import TurnDraft
from jp_nb.text import one_line
from jp_nb.toolkit.builtin.submit_plan import PLAN_TOOL

ABANDONED: Final = (
    "This tool call was interrupted and may have run, fully or partly. The user chose not to run "
    "it again."
)
UNTRUSTED_SKIPPED: Final = "The user chose not to run this tool call."
_UNFINISHED: Final = ("failed", "interrupted", "stopped")
"""Statuses of a turn of this kernel that ended before its final answer."""


class TurnResumption:
    """Continues the last turn of the active conversation: `%jp resume`.

    An *open* call is a tool call without a response. It runs again or is skipped.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._active = session.active
        self._turns = session.turns

    def run(self, conversation: str = "") -> Turn | None:
        """Continue the last turn, which was interrupted, and show that in the cell.

        The user decides about each tool call that may have run already, and about each open call
        of an untrusted record. Raises the errors of `TurnRunner.run`.

        The journal may have conversations of an earlier kernel. With `conversation`, the id of one
        or the beginning of it, that one becomes active instead. So does the newest one if the last
        turn is complete. In both cases, nothing is sent, and None is returned.

        Raises:
            UsageError: There is no such conversation, nothing to resume, or an undefined tool.
            PromptUnavailable: No user is available to decide about a call. Nothing has changed.
            PromptCancelled: The user decides later. Nothing has changed.
        """
        self._turns.require_ready()
        if conversation:
            self._restore_named(conversation)
            return None

        turn = self._find_turn()
        if turn is None:  # it is complete
            self._restore_newest()
            return None

        editing_tools = self._find_editing_tools(turn)
        repeated, skipped = self._ask_user(turn, editing_tools)

        # The draft may start tools, and shows that early in the output of the turn. If the turn
        # does not begin, as after an error, `ending_early` ends this output.
        with self._turns.runner.output.ending_early():
            draft = self._draft(turn)
            self._add_notices(turn, skipped)
            return self._turns.resume(
                turn,
                repeated,
                self._make_skipped_responses(skipped),
                resolved=draft.resolved,
                recorded=self._read_answers(repeated),
            )

    def _find_editing_tools(self, turn: InterruptedTurn) -> frozenset[str]:
        """Return the names of the tools of open calls that propose edits of cells.

        The sources of all tools of open calls start for it.

        Raises:
            UsageError: A tool of an open call is not available.
        """
        if not turn.open_calls:
            return frozenset()

        names = [call.request.name for call in turn.open_calls]
        if begins_with_plan(turn.request):
            # Only such a turn offers this tool, so it is not among the tools now.
            names = [name for name in names if name != PLAN_TOOL]
        tools = self._session.bench.find_tools(*names)
        _refuse_missing_tools(names, tools)
        offered = tools.offered.tools
        return frozenset(name for name in names if offered[name].executor.proposes_edits)

    def _restore_named(self, conversation: str) -> None:
        """Make a conversation of the journal active, by its id or the beginning of it."""
        if not self._session.conversations.restore_from_journal(conversation):
            raise UsageError(
                f"the journal has no conversation {one_line(conversation, limit=60)} that is "
                "missing from the notebooks. `%jp resume` restores the newest one; "
                "`%jp switch` opens a conversation of this notebook"
            )

    def _restore_newest(self) -> None:
        """Make the newest conversation of the journal active, as the last turn is complete."""
        if self._session.conversations.restore_from_journal():
            return

        if not self._active.document.conversation.turn_count:
            raise UsageError("there is nothing to resume: this conversation has no turn yet")
        raise UsageError(
            "there is nothing to resume: the last turn is complete. Ask it again: `%jp retry`"
        )

    def _add_notices(self, turn: InterruptedTurn, skipped: Sequence[OpenCall]) -> None:
        """Tell the user about the calls of `turn` that do not run, and its options."""
        notices = self._active.notices
        if turn.finished:
            notices.append(describe_finished_calls([call.name for call in turn.finished]))
        if skipped:
            notices.append(describe_skipped_calls([call.request.name for call in skipped]))
        if turn.untrusted_changes:
            notices.append(
                "options of this turn are not applied again, because the history of this notebook "
                "is not trusted: `%jp trust`"
            )

    def _find_turn(self) -> InterruptedTurn | None:
        """Return the last turn if it can be continued; None if it is complete."""
        stream = self._active.document.conversation
        statuses = self._session.conversations.turn_statuses
        return find_interrupted_turn(
            stream,
            ended_early=statuses.get((stream.id, stream.turn_count - 1)) in _UNFINISHED,
            untrusted_count=self._active.settings.projection.untrusted_count,
            progress=self._active.journal_use.call_progress,
        )

    def _ask_user(
        self, turn: InterruptedTurn, editing_tools: Collection[str]
    ) -> tuple[list[OpenCall], list[OpenCall]]:
        """Return the open calls that run, and those that are skipped.

        The user decides about each call that may have run already. Editing tools need no decision:
        they find out from the notebook if they have run. In an untrusted record, the user decides
        about every call, because someone else may have added it.
        """
        distrust = self._active.trust.why_not
        undecided = list(turn.open_calls)
        if distrust is None:
            undecided = [
                call
                for call in turn.open_calls
                if call.may_have_run and call.request.name not in editing_tools
            ]

        skipped: list[OpenCall] = []
        for number, call in enumerate(undecided, start=1):
            prompt = make_resume_prompt(call.request, number, len(undecided), distrust=distrust)
            end = self._turns.cell_questions.ask_action(prompt)
            if not read_resume_decision(end):
                skipped.append(call)

        repeated = [call for call in turn.open_calls if call not in skipped]
        return repeated, skipped

    def _draft(self, turn: InterruptedTurn) -> TurnDraft:
        """Draft the configuration of the rest of `turn`, with the options that it had."""
        choice = None
        # A tool choice of the cell (`-u NAME`) is for the first request, which is sent again.
        if turn.is_unanswered:
            choice = find_own_tool_choice(self._active, turn.request, self._turns.own_requests)
        with self._reapply_options(turn):
            return self._turns.drafter.draft(
                turn.request, tool_choice=choice, plan_first=begins_with_plan(turn.request)
            )

    def _make_skipped_responses(self, skipped: Sequence[OpenCall]) -> list[ToolCallResponse]:
        """Return the responses of calls that the user skipped."""
        text = ABANDONED if self._active.trust.trusted else UNTRUSTED_SKIPPED
        return [
            ToolCallResponse(id=call.request.id, content=text, is_error=True) for call in skipped
        ]

    @contextmanager
    def _reapply_options(self, turn: InterruptedTurn) -> Iterator[None]:
        """Apply the options of a turn that has no answer; take them back if the block fails.

        The cell that ended without an answer took them back (`InterruptedTurn.taken_back`).
        """
        stream = self._active.document.conversation
        changes = turn.taken_back
        stream.append(*(change.stamped("") for change in changes))  # `append` sets the time
        try:
            yield
        except BaseException:
            if changes:  # this entry takes back as many changes before it
                stream.append(make_no_answer(NoAnswer("failed", len(changes))))
            raise

    def _read_answers(self, calls: Sequence[OpenCall]) -> dict[str, RecordedAnswer]:
        """Return the recorded answers to questions of `calls`, by inquiry id."""
        # Someone else may have added the answers of an untrusted record.
        if not calls or not self._active.trust.trusted:
            return {}

        answers = read_reusable_answers(self._active.document.conversation.current_turn())
        prefixes = tuple(f"{call.request.id}." for call in calls)  # of the ids of inquiries
        return {name: answer for name, answer in answers.items() if name.startswith(prefixes)}


def _refuse_missing_tools(names: Sequence[str], tools: BenchTools) -> None:
    """Raise `UsageError` if the model could not call one of these tools now, with a remedy.

    `offered` has the tools that it can call, and `possible` those with all tools turned on.
    """
    for name in dict.fromkeys(names):
        if name in tools.offered.tools:
            continue

        shown = spell_name(name)
        if name in tools.possible.tools:
            turn_on = f"`%jp config conversation.tools.{shown}.enable=true`"
            reason = f"`{shown}` is turned off: turn it on with {turn_on}"
        elif name in tools.possible.missing:
            reason = f"`{shown}` cannot run: {tools.possible.missing[name]}. Change that"
        else:
            reason = f"`{shown}` is not defined in this kernel. Run the cell that defines it"

        raise UsageError(
            f"{reason}, then `%jp resume`. Without this call: ask something new instead"
        )
