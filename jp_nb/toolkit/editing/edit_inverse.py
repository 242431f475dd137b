"""Edits that take back the applied edits of a turn, from the record.

The edits of a turn are read together: a cell that several of them changed gets its first source
back. A cell that has changed since is a conflict. The record may come from someone else, so each
field may be missing or have another type.

Source: `docs/cells.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.toolkit.editing.cell_edits import SAME, START, CellEdit
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
    """The edits of one cell in a turn.

    `source` is the one before the first of them, None if the record does not have it.
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

    def add(self, applied: Mapping[str, JsonValue]) -> None:
        """Add the next edit of this cell."""
        kind = applied.get("type")
        self.kind = next((each for each in CELL_KINDS if each == kind), self.kind)

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
        if self.is_changed:
            return
        self.version_before = _read_text(applied, "version_before")
        source = applied.get("source_before")
        self.source = source if isinstance(source, str) else None


@dataclass(slots=True)
class InverseEdits:
    """The edits that take others back, and the reasons why some are not possible, by number."""

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
        """Add an edit of `cell`, or the insertion of a deleted one with the name `key`."""
        number = len(self.edits) + 1
        is_later = any(edit.cell == history.cell_id for edit in self.edits)
        edit = CellEdit(
            number,
            kind,
            cell="" if key else history.cell_id,
            version=SAME if is_later else history.version,
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
    for each in applied:
        cell_id = _read_text(each, "cell")
        if cell_id:
            histories.setdefault(cell_id, _CellHistory(cell_id)).add(each)

    inverse = InverseEdits()
    for history in histories.values():
        cell = document.find(history.cell_id)
        if history.is_new:
            if cell is not None and not history.is_deleted:
                inverse.add("delete", history, cell)
        elif history.is_changed and not history.is_deleted and not _is_back(history, cell):
            inverse.add("replace", history, cell)

    _add_places(inverse, applied, histories, document)
    return inverse


def _is_back(history: _CellHistory, cell: DocumentCell | None) -> bool:
    """Return True if the cell has its source from before, as after an undo."""
    return cell is not None and cell.version == history.version_before


def _add_places(
    inverse: InverseEdits,
    applied: Sequence[Mapping[str, JsonValue]],
    histories: Mapping[str, _CellHistory],
    document: DocumentCells,
) -> None:
    """Add insertions of deleted cells, and moves, in the order of the notebook afterwards."""
    order = _restore_order(applied, document)
    present = [cell.cell_id for cell in document.cells if cell.cell_id in order]
    keys: dict[str, str] = {}
    before = START

    for cell_id in order:
        history = histories.get(cell_id)
        cell = document.find(cell_id)
        name = cell_id

        if history is not None and cell is None and history.is_deleted and not history.is_new:
            key = f"new:{len(keys) + 1}"
            keys[cell_id] = key
            inverse.add("insert", history, None, after=before, key=key)
            # A cell that does not come back is no place for the next one.
            name = before if history.source is None else key
        elif history is not None and cell is not None and history.is_moved:
            kept = [each for each in order if each in present]
            if _get_previous(kept, cell_id) != _get_previous(present, cell_id):
                inverse.add("move", history, cell, after=before)
        before = name


def _restore_order(
    applied: Sequence[Mapping[str, JsonValue]], document: DocumentCells
) -> list[str]:
    """Return the ids of the cells in the order before the edits."""
    order = [cell.cell_id for cell in document.cells]
    for each in reversed(applied):
        cell_id = _read_text(each, "cell")
        op = each.get("op")
        if op == "insert" and cell_id in order:
            order.remove(cell_id)

        is_back = op == "delete" and cell_id not in order
        if is_back or (op == "move" and cell_id in order):
            if not is_back:
                order.remove(cell_id)
            order.insert(_find_index(order, _read_text(each, "place_before")), cell_id)
    return order


def _find_index(order: Sequence[str], after: str) -> int:
    if after == START:
        return 0
    return order.index(after) + 1 if after in order else len(order)


def _get_previous(order: Sequence[str], cell_id: str) -> str:
    index = order.index(cell_id)
    return order[index - 1] if index else START


def _find_reason(edit: CellEdit, history: _CellHistory, cell: DocumentCell | None) -> str:
    """Return the reason why `edit` is not possible; "" if it is."""
    if edit.kind in ("insert", "replace") and history.source is None:
        return NO_SOURCE
    if edit.key:
        return ""
    if cell is None:
        return GONE
    return next(_list_reasons(edit, cell), "")


def _list_reasons(edit: CellEdit, cell: DocumentCell) -> Iterator[str]:
    if edit.version not in (SAME, cell.version):
        yield CHANGED
    if cell.is_busy:
        yield BUSY
    if cell.has_record:
        yield HAS_RECORD
    if edit.kind == "replace" and not cell.is_editable:
        yield NOT_EDITABLE
    if edit.kind == "delete" and not cell.is_deletable:
        yield NOT_DELETABLE


def _read_text(values: Mapping[str, JsonValue], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""
