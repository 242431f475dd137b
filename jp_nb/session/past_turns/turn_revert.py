"""Take back the edits of cells that a turn has applied: `%jp revert`.

The inverse edits are proposed, and the user reviews them in the running cell. A cell that has
changed since the turn is a conflict, which the review shows (`edit_inverse.py`).

The *tool bench* runs tools without a trace in the conversation: the review is a tool that runs on
it (`user_edits.py`).

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.call_steps.call_outcome import CallOutcome
from jp_nb.errors import ToolError, UsageError
from jp_nb.record.entries.turn_entries import TurnEntries
from jp_nb.record.entries.turn_numbers import to_shown_turn, to_stored_turn
from jp_nb.record.reading.turn_reader import EDIT_CELLS_NAME, read_turn
from jp_nb.rendering.transcripts.edit_text import count_applied_edits, list_applied_edits
from jp_nb.session.past_turns.bench import ToolBench
from jp_nb.session.past_turns.user_edits import review_user_edits
from jp_nb.text import pluralize
from jp_nb.toolkit.editing.document_cells import DocumentCells
from jp_nb.toolkit.editing.edit_inverse import invert_edits
from jp_nb.toolkit.editing.edit_review import EditReview

UNTRUSTED_WARNING: Final = (
    "This notebook's history is not trusted ({}). The sources below come from it, and may have "
    "been written by someone else."
)
NOTHING_TO_REVERT: Final = (
    "The edits of turn {} are not in the notebook any more: there is nothing to take back."
)


@dataclass(frozen=True, slots=True)
class TurnRevert:
    """Takes back the applied edits of a turn: `%jp revert`."""

    bench: ToolBench

    def run(self, shown_number: int | None) -> CallOutcome:
        """Propose the inverse edits of a turn, by default the last one with applied edits.

        The outcome says which edits the user took back, or that there was nothing left to take
        back.

        Raises:
            UsageError: There is no such turn, or it has no applied edits.
        """
        turn = self._find_turn(shown_number)
        applied = _list_applied(turn)
        number = to_shown_turn(turn.number)
        distrust = self.bench.active.trust.why_not
        warning = "" if distrust is None else UNTRUSTED_WARNING.format(distrust)

        # The tool of the review calls it with the present cells. A `ToolError` is its outcome.
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
    """Return the applied edits of all calls of `turn`, in order.

    They are in the structured results of `edit_cells`.
    """
    applied: list[Mapping[str, JsonValue]] = []
    for call in read_turn(turn.number, turn.entries).tool_calls:
        if call.name == EDIT_CELLS_NAME:
            applied += list_applied_edits(call.structured)
    return applied
