"""The plan of a proposal: the edits that are applied together, and the cells that they change.

`edit_planner.py` makes it.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jp_nb.toolkit.editing.cell_edits import CellEdit
from jp_nb.toolkit.editing.document_cells import DocumentCell
from jp_nb.toolkit.editing.edit_schema import CellKind
from jp_nb.toolkit.editing.edit_steps import EditStep


@dataclass(frozen=True, slots=True)
class PlannedEdit:
    """One edit on the document.

    Attributes:
        edit: The edit as the model proposed it. Its `target` is the id of its cell, or the key of a
            cell that is inserted.
        cell: The cell of the document; None if an earlier edit inserts it.
        cell_kind: The type of this cell.
        before: Its source before this edit; "" for a new cell.
        after: Its source after this edit; "" if it is deleted.
        place: The key of the cell before the new or moved cell, or `start`.
        place_before: The same before the edit, of a deleted or moved cell.
        named_place: The cell of the document that `edit.after` names; None for `start`, `end`,
            `this`, a new cell, or an edit without a place.
    """

    edit: CellEdit
    cell: DocumentCell | None
    cell_kind: CellKind
    before: str
    after: str
    place: str = ""
    place_before: str = ""
    named_place: DocumentCell | None = None

    @property
    def changes_source(self) -> bool:
        """True if the cell is new, deleted, or has another source afterwards."""
        return self.edit.kind in ("insert", "delete") or self.before != self.after


@dataclass(frozen=True, slots=True)
class EditPlan:
    """The edits that are applied together.

    Attributes:
        edits: The edits, in the order of the proposal.
        order: The ids and keys of all cells afterwards.
        dropped: The reasons why other edits cannot be applied, by the number of the edit.
    """

    edits: tuple[PlannedEdit, ...]
    order: tuple[str, ...]
    dropped: Mapping[int, str] = field(default_factory=dict)

    @property
    def steps(self) -> list[EditStep]:
        """The changes of the document, in order.

        A cell with several edits gets its final source in the first of them, and a cell that is
        deleted gets none.
        """
        final_sources = {planned.edit.target: planned.after for planned in self.edits}
        deleted = {planned.edit.target for planned in self.edits if planned.edit.kind == "delete"}
        written: set[str] = set()
        steps: list[EditStep] = []

        for planned in self.edits:
            target = planned.edit.target
            source = final_sources[target]
            match planned.edit.kind:
                case "insert":
                    written.add(target)
                    step = EditStep(
                        "insert",
                        target,
                        after=planned.place,
                        cell_kind=planned.cell_kind,
                        source=source,
                    )
                    steps.append(step)
                case "move":
                    steps.append(EditStep("move", target, after=planned.place))
                case "delete":
                    steps.append(EditStep("delete", target))
                case "replace" | "patch" if target not in written and target not in deleted:
                    written.add(target)
                    steps.append(EditStep("set", target, source=source))
                # A `run` changes nothing. A further `replace` or `patch` is in the final source, or
                # its cell is deleted.
        return steps

    @property
    def named_cells(self) -> list[DocumentCell]:
        """The cells of the document that the edits name, each once."""
        cells: dict[str, DocumentCell] = {}
        for planned in self.edits:
            if planned.cell is not None:
                cells[planned.cell.cell_id] = planned.cell
        return list(cells.values())
