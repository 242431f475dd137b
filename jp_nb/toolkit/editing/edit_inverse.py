"""Edits that take back the applied edits of a turn, from the record.

The edits of a turn are read together: a cell that several of them changed gets its first source
back. A cell that has changed since is a conflict. The record may come from someone else, so each
field may be missing or have another type. `edit_record.py` writes these fields of an edit:

    op, cell, type                    kind of edit, id of the cell, kind of cell
    version_before, source_before     the source before the edit
    version                           the version that the edit left
    place_before                      id of the cell above, before the edit; `start` at the top

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.toolkit.editing.cell_edits import NEW_CELL_PREFIX, SAME, START, CellEdit
from jp_nb.toolkit.editing.document_cells import DocumentCell, DocumentCells
from jp_nb.toolkit.editing.edit_schema import CELL_KINDS, CellKind

NO_SOURCE: Final = "the record does not have its source from before."
GONE: Final = "the cell was deleted."
CHANGED: Final = "the source has changed since."
BUSY: Final = "the cell is running or waits to run."
NOT_EDITABLE: Final = "the metadata of the cell has `editable: false`."
NOT_DELETABLE: Final = "the metadata of the cell has `deletable: false`."
HAS_RECORD: Final = "the cell has data of jp in its metadata."


@dataclass(slots=True)
class _CellHistory:
    """The edits of one cell in a turn, as the record has them.

    Attributes:
        cell_id: The id of the cell.
        kind: The type of the cell, `code` if the record has none.
        is_new: True if the turn inserted the cell.
        is_deleted: True if the turn deleted it.
        is_moved: True if the turn moved it.
        is_changed: True if the turn changed its source.
        source: The source before the turn; None if the record does not have it.
        version_before: The version of this source.
        version: The version that the turn left.
    """

    cell_id: str
    kind: CellKind = "code"
    is_new: bool = False
    is_deleted: bool = False
    is_moved: bool = False
    is_changed: bool = False
    source: str | None = None
    version_before: str = ""
    version: str = ""

    @property
    def comes_back(self) -> bool:
        """True if the turn deleted a cell that was there before."""
        return self.is_deleted and not self.is_new

    def add(self, applied: Mapping[str, JsonValue]) -> None:
        """Add the next edit of this cell."""
        for kind in CELL_KINDS:
            if kind == applied.get("type"):
                self.kind = kind

        match applied.get("op"):
            case "insert":
                self.is_new = True
            case "replace" | "patch":
                self._keep_source(applied)
                self.is_changed = True
            case "delete":
                self._keep_source(applied)
                self.is_deleted = True
            case "move":
                self.is_moved = True
        self.version = _read_text(applied, "version") or self.version

    def _keep_source(self, applied: Mapping[str, JsonValue]) -> None:
        """Keep the source from before the turn, which the first edit of the source has."""
        if self.is_changed:
            # An earlier edit has the source from before the turn. A deletion needs no such mark,
            # because no edit of the cell follows it.
            return

        self.version_before = _read_text(applied, "version_before")
        source = applied.get("source_before")
        self.source = source if isinstance(source, str) else None


@dataclass(slots=True)
class InverseEdits:
    """The edits that take others back.

    Attributes:
        edits: The edits, in order. The user reviews them, also those that are not possible.
        conflicts: The reasons why edits are not possible, by the number of the edit.
    """

    edits: list[CellEdit] = field(default_factory=list)
    conflicts: dict[int, str] = field(default_factory=dict)

    def add(
        self,
        kind: Literal["insert", "replace", "delete", "move"],
        history: _CellHistory,
        cell: DocumentCell | None,
        *,
        after: str = START,
        key: str = "",
    ) -> None:
        """Add an edit of `cell`, or the insertion of a deleted one with the name `key`.

        `cell` is the present one; None if it is gone. An edit is for the version that the turn
        left, so a cell that has changed since is a conflict.
        """
        number = len(self.edits) + 1
        has_earlier_edit = any(edit.cell == history.cell_id for edit in self.edits)
        cell_id = "" if key else history.cell_id
        version = SAME if has_earlier_edit else history.version
        edit = CellEdit(
            number,
            kind,
            cell=cell_id,
            version=version,
            after=after,
            cell_kind=history.kind,
            source=history.source or "",
            key=key,
        )
        self.edits.append(edit)

        reason = _find_reason(edit, history, cell)
        if reason:
            self.conflicts[number] = reason


def invert_edits(
    applied: Sequence[Mapping[str, JsonValue]], document: DocumentCells
) -> InverseEdits:
    """Return the edits that take back the edits `applied`, in the order of the record."""
    histories: dict[str, _CellHistory] = {}
    for entry in applied:
        cell_id = _read_text(entry, "cell")
        if cell_id:
            histories.setdefault(cell_id, _CellHistory(cell_id)).add(entry)

    inverse = InverseEdits()
    for history in histories.values():
        if not history.is_deleted:
            _add_source_edit(inverse, history, document.find(history.cell_id))

    _add_insertions_and_moves(inverse, applied, histories, document)
    return inverse


def _add_source_edit(
    inverse: InverseEdits, history: _CellHistory, cell: DocumentCell | None
) -> None:
    """Add the deletion of a new cell, or the first source of a changed one."""
    if history.is_new:
        if cell is not None:
            inverse.add("delete", history, cell)
        return

    # The user may have undone the edit already.
    has_first_source = cell is not None and cell.version == history.version_before
    if history.is_changed and not has_first_source:
        inverse.add("replace", history, cell)


def _add_insertions_and_moves(
    inverse: InverseEdits,
    applied: Sequence[Mapping[str, JsonValue]],
    histories: Mapping[str, _CellHistory],
    document: DocumentCells,
) -> None:
    """Add insertions of deleted cells, and moves, in the order of the notebook afterwards.

    `previous` is the cell after which the next one comes: its id, or the key of an insertion.
    """
    old_order = _restore_order(applied, document)
    misplaced_ids = _find_misplaced(old_order, histories, document)
    insert_count = 0
    previous = START

    for cell_id in old_order:
        cell = document.find(cell_id)
        if cell is not None:
            if cell_id in misplaced_ids:
                inverse.add("move", histories[cell_id], cell, after=previous)
            previous = cell_id
            continue

        # Only a deletion puts a cell that is gone into the old order. A damaged record may have
        # the insertion of that cell after it.
        history = histories[cell_id]
        if history.comes_back:
            insert_count += 1
            key = f"{NEW_CELL_PREFIX}{insert_count}"
            inverse.add("insert", history, None, after=previous, key=key)
            # Without its source the cell is a conflict, so the next one cannot come after it.
            if history.source is not None:
                previous = key


def _find_misplaced(
    old_order: Sequence[str], histories: Mapping[str, _CellHistory], document: DocumentCells
) -> set[str]:
    """Return the ids of the cells that the turn moved, and that are still in another place.

    A cell is in another place if the cell above it is not the one of the old order. Only cells
    that are in both orders count: a deleted or new neighbor moves no cell.
    """
    present_ids = [cell.cell_id for cell in document.cells if cell.cell_id in old_order]
    old_order_of_present = [cell_id for cell_id in old_order if cell_id in present_ids]

    misplaced_ids = set[str]()
    for cell_id in present_ids:
        history = histories.get(cell_id)
        if history is None or not history.is_moved:
            continue
        if _get_previous(present_ids, cell_id) != _get_previous(old_order_of_present, cell_id):
            misplaced_ids.add(cell_id)
    return misplaced_ids


def _restore_order(
    applied: Sequence[Mapping[str, JsonValue]], document: DocumentCells
) -> list[str]:
    """Return the ids of the cells in the order before the edits."""
    order = [cell.cell_id for cell in document.cells]
    for entry in reversed(applied):
        cell_id = _read_text(entry, "cell")
        if not cell_id:
            continue  # a damaged entry

        old_place = _read_text(entry, "place_before")
        match entry.get("op"):
            case "insert" if cell_id in order:
                order.remove(cell_id)
            case "delete" if cell_id not in order:
                order.insert(_find_index(order, old_place), cell_id)
            case "move" if cell_id in order:
                order.remove(cell_id)
                order.insert(_find_index(order, old_place), cell_id)
    return order


def _find_index(order: Sequence[str], after: str) -> int:
    """Return the index below the cell `after`; the end if the cell is gone."""
    if after == START:
        return 0
    return order.index(after) + 1 if after in order else len(order)


def _get_previous(order: Sequence[str], cell_id: str) -> str:
    """Return the id of the cell before this one, or `start`."""
    index = order.index(cell_id)
    return order[index - 1] if index else START


def _find_reason(edit: CellEdit, history: _CellHistory, cell: DocumentCell | None) -> str:
    """Return the reason why `edit` is not possible; "" if it is."""
    if edit.kind in ("insert", "replace") and history.source is None:
        return NO_SOURCE
    if edit.kind == "insert":
        return ""
    if cell is None:
        return GONE

    if edit.version not in (SAME, cell.version):
        return CHANGED
    if cell.is_busy:
        return BUSY
    # As for edits of the model: such a cell is not even moved (`edit_planner.py`).
    if cell.has_record:
        return HAS_RECORD
    if edit.kind == "replace" and not cell.is_editable:
        return NOT_EDITABLE
    if edit.kind == "delete" and not cell.is_deletable:
        return NOT_DELETABLE
    return ""


def _read_text(values: Mapping[str, JsonValue], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""
