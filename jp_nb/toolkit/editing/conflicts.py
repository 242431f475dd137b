"""Compare cells with the ones that the user saw in a review, and with the ones that were applied.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jp_nb.toolkit.editing.document_cells import DocumentCell, DocumentCells
from jp_nb.toolkit.editing.edit_plan import EditStep
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


def find_merged(
    steps: Iterable[EditStep], ids: Mapping[str, str], cells: Iterable[DocumentCell]
) -> dict[str, str | None]:
    """Return the present sources of `cells` that are not as `steps` have left them, by id.

    `ids` are those of new cells by key. The source of a cell that is gone is None.
    """
    present: dict[str, list[str]] = {}
    for cell in cells:
        present.setdefault(cell.cell_id, []).append(cell.source)

    merged: dict[str, str | None] = {}
    for step in steps:
        cell_id = ids.get(step.cell, step.cell)
        found = present.get(cell_id, [])
        match step.kind:
            case "insert" | "set":
                is_as_applied = found == [step.source]
            case "move":  # two pages that move one cell leave it twice
                is_as_applied = len(found) == 1
            case "delete":
                is_as_applied = not found
        if not is_as_applied:
            merged[cell_id] = found[0] if found else None
    return merged


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
