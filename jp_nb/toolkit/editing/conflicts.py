"""Compare cells with the ones that the user saw in a review, and with the ones that were applied.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jp_nb.toolkit.editing.document_cells import DocumentCell, DocumentCells
from jp_nb.toolkit.editing.document_change import CellConflict
from jp_nb.toolkit.editing.edit_steps import EditStep


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

    Another user edited these cells at the same time, and the pages merged both edits.

    Args:
        steps: The steps that were applied.
        ids: The ids of new cells by key.
        cells: The cells as they are now.

    Returns:
        The source by cell id; None for a cell that is gone.
    """
    sources_by_id: dict[str, list[str]] = {}
    for cell in cells:
        sources_by_id.setdefault(cell.cell_id, []).append(cell.source)

    merged: dict[str, str | None] = {}
    for step in steps:
        cell_id = ids.get(step.cell, step.cell)
        sources = sources_by_id.get(cell_id, [])
        match step.kind:
            case "insert" | "set":
                is_as_applied = sources == [step.source]
            case "move":  # two pages that move one cell leave it twice
                is_as_applied = len(sources) == 1
            case "delete":
                is_as_applied = not sources
        if not is_as_applied:
            merged[cell_id] = sources[0] if sources else None
    return merged


def _describe_change(cell: DocumentCell, present: DocumentCell) -> str:
    """Return how the `present` cell differs from the one that the user saw; "" if it does not."""
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
