"""Run the cells of applied edits, after the user has allowed it (`cell_proposals.py`).

Source: `docs/cells.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from jp_nb.images import Image
from jp_nb.toolkit.builtin.run_python import make_run_outcome
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.editing.cell_edits import CellEdit
from jp_nb.toolkit.editing.document_change import ChangeResult
from jp_nb.toolkit.editing.edit_plan import EditPlan
from jp_nb.toolkit.notebook_access import NotebookAccess
from jp_nb.toolkit.outcome import Success, ToolFailure


@dataclass(slots=True)
class EditRuns:
    """The runs of edited cells. Without any, the user did not allow them.

    Attributes:
        ends: The end of a run in words, or the reason why there is none, by the number of the
            first edit of the cell that asks for a run.
        started_targets: The cells that ran, by `CellEdit.target`.
        outputs: The title and text of the output of each run, in order.
        images: The images of all outputs.
    """

    ends: dict[int, str] = field(default_factory=dict)
    started_targets: set[str] = field(default_factory=set)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)

    def describe(self, edit: CellEdit) -> str:
        """Return the end of the run that `edit` asks for, or the reason why it has none."""
        if edit.number in self.ends:
            return self.ends[edit.number]
        if edit.target in self.started_targets:  # an earlier edit of the cell has the end
            return "it runs once, after its last edit"
        return "the user did not run it"

    def add(self, edit: CellEdit, outcome: Success | ToolFailure) -> None:
        """Add the `outcome` of the run that `edit` asks for."""
        self.started_targets.add(edit.target)
        title = f"output of the cell of edit {edit.number}"

        if isinstance(outcome, ToolFailure):
            self.ends[edit.number] = "its run failed"
            self.outputs.append((title, outcome.message))
        else:
            self.ends[edit.number] = "it ran"
            self.outputs.append((title, outcome.content))
            self.images += outcome.images


async def run_edited_cells(
    plan: EditPlan, notebook: NotebookAccess, cell: CellThread, changed: ChangeResult
) -> EditRuns:
    """Run the cells that the model wants to run, in order, up to the first error.

    A cell with several edits runs once, with the source after its last edit. A cell does not run if
    another user edited it right after the edits (`changed.merged`): that code was not reviewed.
    """
    runs = EditRuns()
    final_sources = {planned.edit.target: planned.after for planned in plan.edits}
    deleted = {planned.edit.target for planned in plan.edits if planned.edit.kind == "delete"}
    has_failed = False

    for planned in plan.edits:
        edit = planned.edit
        if not edit.is_run or edit.target in runs.started_targets:
            continue
        if edit.target in deleted:
            runs.ends[edit.number] = "not run, because the cell is deleted"
            continue

        cell_id = changed.get_cell_id(edit)
        if cell_id in changed.merged:
            runs.ends[edit.number] = "not run, because another user edited it"
            continue
        if has_failed:
            runs.ends[edit.number] = "not run, because a cell before failed"
            continue

        source = final_sources[edit.target]
        run = await cell.call(partial(notebook.run_cell, cell_id, source))
        outcome = make_run_outcome(run)
        runs.add(edit, outcome)
        has_failed = isinstance(outcome, ToolFailure)

    return runs
