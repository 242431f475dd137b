"""The review of a proposal, the decision of the user, and the change of the document.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.toolkit.editing.cell_edits import CellEdit
from jp_nb.toolkit.editing.document_cells import DocumentCell, DocumentCells
from jp_nb.toolkit.editing.edit_plan import EditPlan
from jp_nb.toolkit.editing.edit_planner import plan_chosen
from jp_nb.toolkit.editing.edit_steps import EditStep

OPERATION_CHARS: Final = 32
EditsDecider = Literal["user", "answers", "unattended"]


@dataclass(frozen=True, slots=True)
class EditReview:
    """A proposal that the user reviews.

    Attributes:
        edits: The proposed edits.
        document: The present cells.
        why: The reason for the edits, which the user reads.
        conflicts: The reasons why edits cannot be applied, by number: cells have changed since the
            model read them. A review with conflicts is the second one: the edits that the user
            chose in the first one were not applied.
        proposer: `user` if a command of the user proposes the edits.
        warning: A warning to the user about the origin of the edits. Only the user may then
            decide about them, and no answers file.
    """

    edits: tuple[CellEdit, ...]
    document: DocumentCells
    why: str
    conflicts: Mapping[int, str] = field(default_factory=dict)
    proposer: Literal["model", "user"] = "model"
    warning: str = ""

    @property
    def plan(self) -> EditPlan:
        """The plan of all edits without a conflict."""
        numbers = [edit.number for edit in self.edits if edit.number not in self.conflicts]
        return plan_chosen(self.edits, self.document, chosen=numbers, sources={})


@dataclass(frozen=True, slots=True)
class EditDecision:
    """The decision about a proposal.

    Each edit is chosen, rejected, or open: `chosen` and `open` list two of these groups.

    Attributes:
        review: The proposal.
        chosen: Numbers of the edits to apply.
        sources: Sources that the user wrote in place of the model's, by number.
        may_run: True if the code cells that the model wants to run may run.
        reason: The user's message to the model about the other edits.
        open: Numbers of the edits without a decision; `undecided` is the reason.
    """

    review: EditReview
    chosen: frozenset[int]
    sources: Mapping[int, str] = field(default_factory=dict)
    may_run: bool = False
    reason: str = ""
    decider: EditsDecider = "user"
    open: frozenset[int] = frozenset()
    undecided: str = ""

    @property
    def plan(self) -> EditPlan:
        """The plan of the chosen edits, with the sources of the user."""
        return plan_chosen(
            self.review.edits, self.review.document, chosen=self.chosen, sources=self.sources
        )


@dataclass(frozen=True, slots=True)
class CellChange:
    """A change of the document, applied as a whole or not at all.

    Attributes:
        steps: The changes of single cells, in order.
        expected: The cells that the steps name, as the user saw them. If one has changed since,
            nothing is applied.
        operation: The id that the page writes into the document with the change; "" if the page
            has to make one.
    """

    steps: tuple[EditStep, ...]
    expected: tuple[DocumentCell, ...]
    operation: str = ""


@dataclass(frozen=True, slots=True)
class EditOperation:
    """The change of the document that one call makes, also after a restart of the kernel.

    Attributes:
        operation_id: Its id, which the page writes into the document with the edits.
        may_be_applied: True if an earlier run of the call was interrupted, and may have applied it.
        change: The edits of that run; None if it did not get that far, or its journal is lost.
        note: Writes the edits to the journal before they are applied.
        tell: Shows a text to the user.
    """

    operation_id: str
    may_be_applied: bool = False
    change: JsonValue = None
    note: Callable[[JsonValue], None] | None = field(default=None, repr=False)
    tell: Callable[[str], None] | None = field(default=None, repr=False)


def make_operation_id(conversation_id: str, event_id: str) -> str:
    """Return the id of the edits that a call applies, equal after a restart of the kernel.

    `event_id` is the id of the call's request in the record; "" if no record has it. The id is then
    random.
    """
    if not event_id:
        return uuid.uuid4().hex
    return hashlib.sha256(f"{conversation_id}:{event_id}".encode()).hexdigest()[:OPERATION_CHARS]


@dataclass(frozen=True, slots=True)
class CellConflict:
    """A cell that is not as the user saw it; `source` is the present one, None if it is gone."""

    cell_id: str
    reason: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The answer of the front end to a change.

    Attributes:
        outcome: `offered` means that the user got the sources and nothing was applied. `unknown`
            means that the front end did not answer.
        ids: Ids of new cells by key.
        conflicts: The reasons why nothing was applied.
        operation: Id of the change in the document; "" without one.
        note: One sentence for the model.
        merged: The present sources of cells that differ from the plan right after the change,
            because another user edited them; None if the cell is gone.
        merged_by: The name of that user, or words for it.
    """

    outcome: Literal["applied", "conflict", "offered", "unknown"]
    ids: Mapping[str, str] = field(default_factory=dict)
    conflicts: tuple[CellConflict, ...] = ()
    operation: str = ""
    note: str = ""
    merged: Mapping[str, str | None] = field(default_factory=dict)
    merged_by: str = ""
