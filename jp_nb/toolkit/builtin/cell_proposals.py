"""Proposals of edits of cells: the two runs of a call, and the change that the user decided.

The first run returns the edits for the review (`NeedsReview`). In the second run, `_apply_decision`
changes the notebook as the user decided (`EditDecision`), and describes what was applied.

The change of one call is an *operation* (`EditOperation`). Its id is the same after a restart of
the kernel, and the page writes it into the notebook, so no call applies its edits twice.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from jp_nb.toolkit.builtin.earlier_edits import find_earlier_edits
from jp_nb.toolkit.builtin.edit_record import EditRecord
from jp_nb.toolkit.builtin.edit_results import EditResults
from jp_nb.toolkit.builtin.edit_runs import EditRuns, run_edited_cells
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.editing.cell_edits import read_edits
from jp_nb.toolkit.editing.document_change import CellChange, ChangeResult, EditOperation
from jp_nb.toolkit.editing.edit_planner import plan_edits
from jp_nb.toolkit.editing.edit_review import EditDecision, EditReview
from jp_nb.toolkit.notebook_access import NotebookAccess
from jp_nb.toolkit.outcome import NeedsReview, Outcome, Success, ToolFailure
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets
from jp_nb.toolkit.tool_context import ToolContext

NO_DOCUMENT: Final = "This conversation has no notebook. Do not try again."
NO_REASON: Final = "`why` is missing: give the reason for the edits, one sentence for the user."
Propose = Callable[
    [Mapping[str, JsonValue], ToolContext, NotebookAccess],
    Awaitable[EditReview | Success | ToolFailure],
]
"""Returns the review of edits, or the result of the call if there is nothing to review."""


async def run_proposal(
    arguments: Mapping[str, JsonValue],
    context: ToolContext,
    cell: CellThread,
    propose: Propose,
) -> Outcome | NeedsReview:
    """Run one of the two runs of a call that proposes edits.

    The first run returns the review of the edits that `propose` returns. After the user decided,
    the tool runs again, with the decision in `context.edit_decision`. That run applies the edits.
    If the user need not review them, the first run applies all of them.

    Raises:
        ToolError: The edits are wrong, or nothing can be edited here.
    """
    notebook = context.notebook
    if notebook is None:
        return ToolFailure(NO_DOCUMENT)

    if context.edit_decision is not None:
        return await _apply_decision(context.edit_decision, context, notebook, cell)

    review = await propose(arguments, context, notebook)
    if isinstance(review, Success | ToolFailure):
        return review

    # A command of the user that proposes edits, such as to take back a turn, always shows them.
    if context.needs_review or review.proposer == "user":
        return NeedsReview(review)

    all_numbers = frozenset(edit.number for edit in review.edits)
    decision = EditDecision(review, all_numbers, may_run=True, decider="unattended")
    return await _apply_decision(decision, context, notebook, cell)


async def _apply_decision(
    decision: EditDecision, context: ToolContext, notebook: NotebookAccess, cell: CellThread
) -> Outcome | NeedsReview:
    """Apply the chosen edits, run their cells, and return what happened to each edit.

    If cells have changed since the user saw them, nothing is applied, and the user reviews the
    edits again.
    """
    secrets = await cell.call(lambda: NotebookSecrets(notebook.namespace))
    results = EditResults(decision, secrets)
    plan = decision.plan
    if not plan.edits:  # the user has chosen none
        return results.make_outcome(None)

    # No program can change the notebook: the user gets the new sources to copy.
    if not decision.review.document.can_change:
        sources = [(planned.cell_kind, planned.after) for planned in plan.edits]
        await cell.call(lambda: notebook.offer(sources))
        return results.make_outcome(ChangeResult("offered"))

    # The journal gets the edits before the change: after a restart of the kernel, the same call
    # then finds out if they were applied. The ids of new cells are not known yet.
    operation = context.edit_operation or EditOperation("")
    if operation.note is not None:
        record = EditRecord(decision, secrets)
        operation.note(record.to_json(ids={}, operation=operation.operation_id))

    change = CellChange(
        steps=tuple(plan.steps),
        expected=tuple(plan.named_cells),
        operation=operation.operation_id,
    )
    changed = ChangeResult("applied")
    if change.steps:  # a plan that only runs cells has none
        changed = await notebook.change(change)

    if changed.outcome == "conflict" and decision.decider == "user":
        review = await _make_conflict_review(decision, notebook, changed)
        return NeedsReview(review)

    runs: EditRuns | None = None
    if changed.outcome == "applied" and decision.may_run:
        runs = await run_edited_cells(plan, notebook, cell, changed)
    return results.make_outcome(changed, runs)


async def propose_edits(
    arguments: Mapping[str, JsonValue], context: ToolContext, notebook: NotebookAccess
) -> EditReview | Success | ToolFailure:
    """Return the review of the edits; or the result of an earlier run that was interrupted."""
    operation = context.edit_operation
    if operation is not None and operation.may_be_applied:
        earlier_result = await find_earlier_edits(operation, arguments, notebook)
        if earlier_result is not None:
            return earlier_result
    return await _make_review(arguments, notebook)


async def _make_review(
    arguments: Mapping[str, JsonValue], notebook: NotebookAccess
) -> EditReview | ToolFailure:
    """Return the review of the edits in the arguments, on the present cells.

    Raises:
        ToolError: They are not valid, or do not fit the cells.
    """
    edits = read_edits(arguments)
    why = arguments.get("why")
    if not isinstance(why, str) or not why.strip():
        return ToolFailure(NO_REASON)

    document = await notebook.document()
    plan_edits(edits, document)  # raises `ToolError` if they do not fit the document
    return EditReview(edits, document, why)


async def _make_conflict_review(
    decision: EditDecision, notebook: NotebookAccess, changed: ChangeResult
) -> EditReview:
    """Return the review of the same edits on the present cells, with the conflicts."""
    reasons = {conflict.cell_id: conflict.reason for conflict in changed.conflicts}
    conflicts = dict(decision.review.conflicts)
    for edit in decision.review.edits:
        for cell_id in (edit.cell, edit.after):  # the place of a new cell may be gone
            if cell_id in reasons:
                conflicts[edit.number] = reasons[cell_id]

    document = await notebook.document()
    return replace(decision.review, document=document, conflicts=conflicts)
