"""Proposals of edits: their review, and the change of the notebook that the user decided.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from jp_nb.toolkit.builtin.earlier_edits import find_earlier_edits
from jp_nb.toolkit.builtin.edit_results import EditResults
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.editing.cell_edits import read_edits
from jp_nb.toolkit.editing.edit_plan import plan_edits
from jp_nb.toolkit.editing.edit_review import (
    CellChange,
    ChangeResult,
    EditDecision,
    EditOperation,
    EditReview,
)
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
"""Returns the review of edits, or the result of the call without one."""


async def run_proposal(
    arguments: Mapping[str, JsonValue],
    context: ToolContext,
    cell: CellThread,
    propose: Propose,
) -> Outcome | NeedsReview:
    """Return the review of what `propose` returns, or apply the user's decision about it.

    Raises:
        ToolError: The edits are wrong, or nothing can be edited here.
    """
    notebook = context.notebook
    if notebook is None:
        return ToolFailure(NO_DOCUMENT)

    decision = context.edit_decision
    if decision is None:
        review = await propose(arguments, context, notebook)
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


async def propose_edits(
    arguments: Mapping[str, JsonValue], context: ToolContext, notebook: NotebookAccess
) -> EditReview | Success | ToolFailure:
    """Return the review of the edits; or the result of an earlier run that was interrupted."""
    operation = context.edit_operation
    if operation is not None and operation.may_be_applied:
        found = await find_earlier_edits(operation, arguments, notebook)
        if found is not None:
            return found
    return await _make_review(arguments, notebook)


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
