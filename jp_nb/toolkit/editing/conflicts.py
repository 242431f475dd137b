"""Compare cells with the ones that the user saw in a review.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Iterable

from jp_nb.toolkit.editing.document_cells import DocumentCell, DocumentCells
from jp_nb.toolkit.editing.edit_review import CellConflict


def find_conflicts(
    expected: Iterable[DocumentCell], document: DocumentCells
) -> tuple[CellConflict, ...]:
    """Return the cells of `document` that are not as `expected`. A new position is no conflict."""
    conflicts: list[CellConflict] = []
    for cell in expected:
        present = document.find(cell.cell_id)
        if present is None:
            conflicts.append(CellConflict(cell.cell_id, "the cell was deleted."))
            continue

        reason = _describe_change(cell, present)
        if reason:
            conflicts.append(CellConflict(cell.cell_id, reason, present.source))
    return tuple(conflicts)


def _describe_change(cell: DocumentCell, present: DocumentCell) -> str:
    if present.version != cell.version:
        return f"the source has changed, and its version is now {present.version}."
    if present.kind != cell.kind:
        return f"the cell is now a {present.kind} cell."
    if present.is_busy:
        return "the cell is running or waits to run."
    rules = (present.is_editable, present.is_deletable)
    if rules != (cell.is_editable, cell.is_deletable):
        return "the metadata `editable` or `deletable` has changed."
    return ""
