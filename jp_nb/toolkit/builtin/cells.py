"""Built-in tool that proposes edits of the notebook's cells. The user reviews and applies them.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import ToolError
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.builtin.earlier_edits import find_earlier_edits
from jp_nb.toolkit.builtin.edit_results import EditResults
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.editing.cell_edits import EDITS_SCHEMA, read_edits
from jp_nb.toolkit.editing.document_cells import DocumentCells
from jp_nb.toolkit.editing.edit_plan import plan_edits
from jp_nb.toolkit.editing.edit_review import (
    CellChange,
    ChangeResult,
    EditDecision,
    EditOperation,
    EditReview,
    NeedsReview,
)
from jp_nb.toolkit.notebook_access import NotebookAccess
from jp_nb.toolkit.outcome import Outcome, Success, ToolFailure
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets
from jp_nb.toolkit.tool_context import ToolContext

CELLS_TOOLSET: Final = "cells"
EDIT_CELLS: Final = "edit_cells"
EDIT_CELLS_DESCRIPTION: Final = """\
Propose edits of cells of the notebook. The user reviews each edit, may change or reject it, and \
applies the others. The result says exactly what was applied. Read ids and versions with \
notebook_cells or notebook_cell first. Prefer small edits (patch), and put all edits of one \
purpose into one call."""
EDIT_CELLS_STOPPED: Final = (
    "The user stopped this call. Edits may have been applied before, and remain. Read the cells "
    "with notebook_cells before you propose other edits."
)
NO_DOCUMENT: Final = "This conversation has no notebook. Do not try again."
NO_REASON: Final = "`why` is missing: give the reason for the edits, one sentence for the user."


class EditCells(Tool):
    """Tool that proposes edits of cells, and applies those that the user chooses."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "toolset": CELLS_TOOLSET,
        "run": "ask",
        "covers": "arguments",
        "description": EDIT_CELLS_DESCRIPTION,
        "cancellation_response": EDIT_CELLS_STOPPED,
    }
    schema = EDITS_SCHEMA
    proposes_edits = True
    needs_exact_text = True

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome | NeedsReview:
        """Return the proposal for the review, or apply the user's decision about it.

        Raises:
            ToolError: The edits are wrong, or nothing can be edited here.
        """
        notebook = context.notebook
        if notebook is None:
            return ToolFailure(NO_DOCUMENT)

        decision = context.edit_decision
        if decision is None:
            review = await self._propose(arguments, context, notebook)
            if isinstance(review, Success | ToolFailure):
                return review
            if context.needs_review or review.proposer == "user":
                return NeedsReview(review)
            everything = frozenset(edit.number for edit in review.edits)
            decision = EditDecision(review, everything, may_run=True, decider="unattended")

        hide = await cell.call(lambda: NotebookSecrets(notebook.namespace))
        results = EditResults(decision, hide)
        plan = decision.plan
        if not plan.edits:
            return results.make_outcome(None)

        if not decision.review.document.can_change:
            sources = [(each.cell_kind, each.after) for each in plan.edits]
            await cell.call(lambda: notebook.offer(sources))
            return results.make_outcome(ChangeResult("offered"))

        operation = context.edit_operation or EditOperation("")
        if operation.note is not None:
            operation.note(results.make_record({}, operation.operation_id))
        named = tuple(plan.named_cells)
        change = CellChange(tuple(plan.steps), named, operation.operation_id)
        changed = await notebook.change(change) if change.steps else ChangeResult("applied")

        if changed.outcome == "conflict" and decision.decider == "user":
            review = await _find_conflicts(decision, notebook, changed)
            return NeedsReview(review)

        if changed.outcome == "applied" and decision.may_run:
            await results.run_cells(notebook, cell, changed)
        return results.make_outcome(changed)

    async def _propose(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, notebook: NotebookAccess
    ) -> EditReview | Success | ToolFailure:
        """Return the review of the edits; or the result of an earlier run that was interrupted."""
        operation = context.edit_operation
        if operation is not None and operation.may_be_applied:
            found = await find_earlier_edits(operation, arguments, notebook)
            if found is not None:
                return found
        return await _make_review(arguments, notebook)


class UserEdits(EditCells):
    """Edits that a command of the user proposes. `make_review` gets the cells of the notebook.

    It raises `ToolError` if there is nothing to propose. Models cannot call it.
    """

    registration: Mapping[str, JsonValue] = {}

    def __init__(self, make_review: Callable[[DocumentCells], EditReview]) -> None:
        self._make_review = make_review

    async def _propose(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, notebook: NotebookAccess
    ) -> EditReview | Success | ToolFailure:
        document = await notebook.document()
        if not document.can_change:
            raise ToolError(f"Cells cannot be edited here: {document.why}.")
        return self._make_review(document)


async def _make_review(
    arguments: Mapping[str, JsonValue], notebook: NotebookAccess
) -> EditReview | ToolFailure:
    edits = read_edits(arguments)
    why = arguments.get("why")
    if not isinstance(why, str) or not why.strip():
        return ToolFailure(NO_REASON)

    document = await notebook.document()
    plan_edits(edits, document)
    return EditReview(edits, document, why)


async def _find_conflicts(
    decision: EditDecision, notebook: NotebookAccess, changed: ChangeResult
) -> EditReview:
    """Return the review of the same edits on the present cells, with the conflicts."""
    reasons = {each.cell_id: each.reason for each in changed.conflicts}
    conflicts: dict[int, str] = {}
    for edit in decision.review.edits:
        for cell_id in (edit.cell, edit.after):  # the place of a new cell may be gone
            if cell_id in reasons:
                conflicts[edit.number] = reasons[cell_id]
    document = await notebook.document()
    earlier = decision.review.conflicts
    return replace(decision.review, document=document, conflicts={**earlier, **conflicts})
