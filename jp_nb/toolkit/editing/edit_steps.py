"""The steps in which a front end changes the document.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jp_nb.toolkit.editing.cell_edits import START
from jp_nb.toolkit.editing.document_cells import DocumentCell
from jp_nb.toolkit.editing.edit_schema import CellKind


@dataclass(frozen=True, slots=True)
class EditStep:
    """One change of the document.

    Attributes:
        kind: `set` replaces the source of a cell.
        cell: The id of the cell, or the key of a new cell.
        after: The id or key of the cell that precedes an inserted or moved cell afterwards, or
            `start`; "" for other kinds.
        cell_kind: The type of an inserted cell.
        source: The source of an inserted or changed cell.
    """

    kind: Literal["insert", "set", "move", "delete"]
    cell: str
    after: str = ""
    cell_kind: CellKind = "code"
    source: str = ""


def apply_steps(
    cells: Sequence[DocumentCell], steps: Sequence[EditStep], ids: Mapping[str, str]
) -> tuple[DocumentCell, ...]:
    """Return the `cells` of a document after `steps`. `ids` has the ids of new cells by key.

    A headless run applies the steps here, to the cells that the kernel knows, and the runner
    changes the file. An open page has its own code.
    """
    cells_by_id = {cell.cell_id: cell for cell in cells}
    order = [cell.cell_id for cell in cells]

    for step in steps:
        cell_id = ids.get(step.cell, step.cell)
        after = ids.get(step.after, step.after)
        match step.kind:
            case "insert":
                # All cells are numbered at the end.
                cells_by_id[cell_id] = DocumentCell(cell_id, 0, step.source, step.cell_kind)
                order.insert(find_position(order, after), cell_id)
            case "move":
                order.remove(cell_id)
                order.insert(find_position(order, after), cell_id)
            case "set":
                old_cell = cells_by_id[cell_id]
                # Outputs belong to the source that ran.
                cells_by_id[cell_id] = replace(old_cell, source=step.source, has_outputs=False)
            case "delete":
                order.remove(cell_id)

    return tuple(
        replace(cells_by_id[cell_id], number=number) for number, cell_id in enumerate(order, 1)
    )


def find_position(order: Sequence[str], after: str) -> int:
    """Return the index in `order` of a cell that comes after the cell `after`, or at the start."""
    return 0 if after == START else order.index(after) + 1
