"""The cells of the open page, and their changes: one transaction of the page, or none.

A tool edits the cells with `PageDocument`, and runs one with `CellOfPage` (`page_own_cell.py`). The
page compares each named cell with the one that the user saw, in the same step in which it changes
them. It writes the id of the operation into the notebook's metadata, so that no change is applied
twice.

Source: `docs/cells.md`, `docs/protocol.md`.
"""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import StorageError, ToolError
from jp_nb.exact_form import format_user_name
from jp_nb.json_values import JsonObject
from jp_nb.notebook.document_answers import (
    PageState,
    read_change_answer,
    read_page_state,
)
from jp_nb.notebook.page.live_store import LiveStore
from jp_nb.toolkit.editing.conflicts import find_merged
from jp_nb.toolkit.editing.document_cells import DocumentCell, DocumentCells
from jp_nb.toolkit.editing.document_change import CellChange, ChangeResult
from jp_nb.toolkit.editing.edit_steps import EditStep
from jp_nb.toolkit.editing.source_ranges import SourceChange

READ_TIMEOUT_S: Final = 10.0
"""Time that the page has to send its cells."""
CHANGE_TIMEOUT_S: Final = 10.0
"""Time that the page has to apply a change."""
MERGE_S: Final = 1.0
"""Time after which the cells of a shared document are compared once more."""
NOT_READ: Final = (
    "The cells of the notebook cannot be read: {}. No edit was applied, and the user was not asked."
)
NO_PAGE_ANSWER: Final = "the page did not answer within {:g} s"
NOT_COMPARED: Final = "It is unknown whether other users have changed the cells meanwhile: {}."
ANOTHER_USER: Final = "another user"
NOT_THERE: Final = "When it was asked again, the page did not have this change."


@dataclass(frozen=True, slots=True)
class PageDocument:
    """The document of the open page, in which the cell `this` runs."""

    store: LiveStore
    this: str

    async def read(self, session: str) -> DocumentCells:
        """Return the cells that may be edited, for a cell that a page of this `session` runs.

        Raises:
            ToolError: The page cannot edit them, or does not answer.
        """
        refusal = self.store.requests.check_edits(session)
        if refusal is not None:
            raise ToolError(refusal)

        try:
            state = await self._read_state()
        except (StorageError, TimeoutError) as exc:
            why = str(exc) or NO_PAGE_ANSWER.format(READ_TIMEOUT_S)
            raise ToolError(NOT_READ.format(why)) from exc
        return DocumentCells(
            state.cells,
            self.this,
            operation=state.operation,
            new_ids=state.ids or {},
            other_users=tuple(self.store.requests.list_other_users()),
        )

    async def _read_state(self) -> PageState:
        text = await _wait(self.store.requests.ask_document(), READ_TIMEOUT_S)
        return read_page_state(text)

    async def change(self, change: CellChange) -> ChangeResult:
        """Let the page apply `change`, and return its answer."""
        # The call of a tool has an id for its change, so that it is not applied twice.
        operation = change.operation or uuid.uuid4().hex
        present_sources = {cell.cell_id: cell.source for cell in change.expected}
        steps: list[JsonValue] = [
            _format_step(step, present_sources.get(step.cell)) for step in change.steps
        ]
        expected: list[JsonValue] = [_format_expected(cell) for cell in change.expected]

        try:
            answer = self.store.requests.ask_edit(operation, steps, expected)
            text = await _wait(answer, CHANGE_TIMEOUT_S)
            changed = read_change_answer(text, operation)
        except TimeoutError:
            return await self._find_outcome(operation)
        except StorageError as exc:
            return ChangeResult("unknown", operation=operation, note=f"{exc}.")

        # In a shared document, an edit of another user may arrive meanwhile.
        if changed.outcome != "applied" or not self.store.requests.is_shared:
            return changed
        return await self._find_merged(change, changed)

    async def _find_merged(self, change: CellChange, changed: ChangeResult) -> ChangeResult:
        """Compare the cells once more: an edit of another page may have been merged later."""
        await asyncio.sleep(MERGE_S)
        try:
            state = await self._read_state()
        except (StorageError, TimeoutError) as exc:
            why = str(exc) or NO_PAGE_ANSWER.format(READ_TIMEOUT_S)
            return replace(changed, note=NOT_COMPARED.format(why))

        # The cells that are not as the change has left them.
        merged = find_merged(change.steps, changed.ids, state.cells)
        if not merged:
            return changed

        user = ANOTHER_USER
        others = self.store.requests.list_other_users()
        if len(others) == 1:  # it can only have been this one
            user = format_user_name(others[0])
        return replace(changed, merged=merged, merged_by=user)

    async def _find_outcome(self, operation: str) -> ChangeResult:
        """Ask once more: the page may have applied the change, and its answer was lost."""
        try:
            state = await self._read_state()
        except (StorageError, TimeoutError):
            note = f"{NO_PAGE_ANSWER.format(CHANGE_TIMEOUT_S)}.".capitalize()
            return ChangeResult("unknown", operation=operation, note=note)

        if state.operation == operation:
            return ChangeResult("applied", state.ids or {}, operation=operation)
        return ChangeResult("unknown", operation=operation, note=NOT_THERE)


def _format_step(step: EditStep, present: str | None) -> JsonObject:
    """Return the step for the page. `present` is the source of its cell; None for a new cell."""
    formatted: JsonObject = {
        "kind": step.kind,
        "cell": step.cell,
        "after": step.after,
        "type": step.cell_kind,
        "source": step.source,
    }
    if step.kind == "set" and present is not None:
        # The page replaces only these parts, so that edits of other users beside them stay.
        ranges = SourceChange(present, step.source).list_ranges()
        formatted["ranges"] = [[*changed] for changed in ranges]
    return formatted


def _format_expected(cell: DocumentCell) -> JsonObject:
    """Return a cell as the user saw it, with which the page compares its own."""
    return {
        "id": cell.cell_id,
        "type": cell.kind,
        "source": cell.source,
        "editable": cell.is_editable,
        "deletable": cell.is_deletable,
    }


async def _wait(answer: Future[str], timeout_s: float) -> str:
    async with asyncio.timeout(timeout_s):
        return await asyncio.wrap_future(answer)
