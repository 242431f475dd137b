"""The review of proposed edits of cells, and the decision of the user.

`document_change.py` has the change of the document that follows.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from jp_nb.toolkit.editing.cell_edits import CellEdit
from jp_nb.toolkit.editing.document_cells import DocumentCells
from jp_nb.toolkit.editing.edit_plan import EditPlan
from jp_nb.toolkit.editing.edit_planner import plan_chosen

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
        decider: Who decided: the user, an answers file (`answers`), or no one, because the user
            allows edits without a review (`unattended`, as in `run = "unattended"`).
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
