"""Edits of cells that a command of the user proposes, in the review of proposals of a model.

They run on the tool bench (`bench.py`), so nothing is recorded, and no request is sent.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.call_steps.call_outcome import CallOutcome
from jp_nb.agent.calls.call import Call
from jp_nb.errors import ToolError, UsageError
from jp_nb.record.entries.events import ToolCallRequest
from jp_nb.record.entries.turn_entries import TurnEntries
from jp_nb.record.entries.turn_numbers import to_shown_turn, to_stored_turn
from jp_nb.record.reading.turn_reader import EDIT_CELLS_NAME, read_turn
from jp_nb.rendering.transcripts.edit_text import count_applied_edits, list_applied_edits
from jp_nb.session.past_turns.bench import ToolBench, raise_for_end
from jp_nb.text import pluralize
from jp_nb.toolkit.builtin.cell_proposals import run_proposal
from jp_nb.toolkit.builtin.cells import EditCells
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.editing.document_cells import DocumentCells
from jp_nb.toolkit.editing.edit_inverse import invert_edits
from jp_nb.toolkit.editing.edit_review import EditReview
from jp_nb.toolkit.notebook_access import NotebookAccess
from jp_nb.toolkit.outcome import NeedsReview, Outcome, Success, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

UNTRUSTED_WARNING: Final = (
    "This notebook's history is not trusted ({}). The sources below come from it, and may have "
    "been written by someone else."
)
NOTHING_TO_REVERT: Final = (
    "The edits of turn {} are not in the notebook any more: there is nothing to take back."
)
MakeReview = Callable[[DocumentCells], EditReview]


class UserEdits(EditCells):
    """Edits that a command of the user proposes, as a tool that models cannot call.

    `make_review` gets the cells of the notebook, and returns the review of the edits. It raises
    `ToolError` if there is nothing to propose.
    """

    registration: Mapping[str, JsonValue] = {}

    def __init__(self, make_review: MakeReview) -> None:
        self._make_review = make_review

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome | NeedsReview:
        """Return the review, or apply the user's decision about it.

        Raises:
            ToolError: There is nothing to propose, or nothing can be edited here.
        """
        return await run_proposal(arguments, context, cell, self._propose)

    async def _propose(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, notebook: NotebookAccess
    ) -> EditReview | Success | ToolFailure:
        """Return the review of the edits; `run_proposal` calls it with the user's notebook."""
        document = await notebook.document()
        if not document.can_change:
            raise ToolError(f"Cells cannot be edited here: {document.why}.")
        return self._make_review(document)


def review_user_edits(bench: ToolBench, name: str, make_review: MakeReview) -> CallOutcome:
    """Let the user review edits in the running cell, apply the chosen ones, and return the outcome.

    `name` is the command that proposes them, for the display.

    Raises:
        UsageError: A turn runs.
        KeyboardInterrupt: The user stopped it.
        PromptUnavailable: No user is available in a strict run.
    """
    tools = bench.find_tools()
    editor = tools.find(EDIT_CELLS_NAME)

    # The tool of models with another executor. The user always reviews the edits (`ask`), whatever
    # the settings and rules of the tool say, and the display shows the whole result.
    tool = replace(
        editor,
        name=name,
        executor=UserEdits(make_review),
        definition=replace(editor.definition, name=name, parameters={"type": "object"}),
        run="ask",
        result="unattended",
        rules=(),
        formatter=None,
        inline_results="full",
        inline_errors="full",
    )
    request = ToolCallRequest(id="bench", name=name, arguments={})
    run = bench.run_batches(tools, [[Call(request, tool)]], {})
    raise_for_end(run)
    [(_, outcome)] = run.iter_outcomes()
    return outcome


@dataclass(frozen=True, slots=True)
class TurnRevert:
    """Takes back the applied edits of a turn: `%jp revert`."""

    bench: ToolBench

    def run(self, shown_number: int | None) -> CallOutcome:
        """Propose the inverse edits of a turn, by default the last one with applied edits.

        Raises:
            UsageError: There is no such turn, or it has no applied edits.
        """
        turn = self._find_turn(shown_number)
        applied = _list_applied(turn)
        number = to_shown_turn(turn.number)
        distrust = self.bench.active.trust.why_not
        warning = "" if distrust is None else UNTRUSTED_WARNING.format(distrust)

        def make_review(document: DocumentCells) -> EditReview:
            inverse = invert_edits(applied, document)
            if not inverse.edits:
                raise ToolError(NOTHING_TO_REVERT.format(number))

            count = len(applied)
            why = f"Take back {count} applied {pluralize('edit', count)} of turn {number}"
            return EditReview(
                tuple(inverse.edits),
                document,
                why,
                conflicts=inverse.conflicts,
                proposer="user",
                warning=warning,
            )

        return review_user_edits(self.bench, "revert", make_review)

    def _find_turn(self, shown_number: int | None) -> TurnEntries:
        """Return the turn with that number, counted from 1, or the last one with applied edits."""
        turns = list(self.bench.active.document.conversation.turns())
        if shown_number is None:
            edited = [turn for turn in turns if count_applied_edits(turn.entries)]
            if not edited:
                raise UsageError("There is nothing to revert: no turn has edited cells.")
            return edited[-1]

        index = to_stored_turn(shown_number)
        if index >= len(turns):
            raise UsageError(f"There is no turn {shown_number}. The last turn is {len(turns)}.")
        if not count_applied_edits(turns[index].entries):
            raise UsageError(f"Turn {shown_number} has edited no cells. `%jp log` lists the turns.")
        return turns[index]


def _list_applied(turn: TurnEntries) -> Sequence[Mapping[str, JsonValue]]:
    """Return the applied edits of all calls of `turn`, in order."""
    applied: list[Mapping[str, JsonValue]] = []
    for call in read_turn(turn.number, turn.entries).tool_calls:
        if call.name == EDIT_CELLS_NAME:
            applied += list_applied_edits(call.structured)
    return applied
