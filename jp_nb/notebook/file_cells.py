"""The cells of the notebook file in a headless run, and their changes.

`jp-nb run` gives the cells to the kernel, and repeats the changes in the notebook that it writes.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final

from jp_nb.storage.cell_snapshot import (
    EDITS_EVENT,
    RAN_EVENT,
    CellSnapshot,
    SnapshotCell,
    read_snapshot,
    read_started_cells,
)
from jp_nb.storage.run_events import append_run_event
from jp_nb.toolkit.editing.conflicts import find_conflicts
from jp_nb.toolkit.editing.document_cells import CELL_KINDS, CellKind, DocumentCell, DocumentCells
from jp_nb.toolkit.editing.edit_plan import apply_steps
from jp_nb.toolkit.editing.edit_review import CellChange, ChangeResult
from jp_nb.toolkit.notebook_access import CellState, NotebookCell, NotebookCells

ID_CHARS: Final = 8


class FileCells:
    """The cells of the notebook file, as they are after the changes of this kernel."""

    def __init__(self, snapshot: CellSnapshot) -> None:
        cells = enumerate(snapshot["cells"])
        self._cells = tuple(_read_cell(number, cell) for number, cell in cells)
        self._may_run = snapshot["run_inserted"]
        self._inserted = 0
        self._operation = ""
        self._new_ids: Mapping[str, str] = {}

    @classmethod
    def find(cls) -> FileCells | None:
        """Return the cells of this run; None if its runner gives none."""
        snapshot = read_snapshot()
        return None if snapshot is None else cls(snapshot)

    def list_cells(self, executed: Iterable[NotebookCell]) -> NotebookCells:
        """Return the cells for the tools that read them, with the states of `executed`."""
        started = read_started_cells()
        known = {cell.source: cell for cell in executed}
        cells = tuple(_with_state(cell, started, known) for cell in self._cells)
        return NotebookCells(cells, "file")

    def document(self) -> DocumentCells:
        """Return the cells that may be edited."""
        started = read_started_cells()
        this = started[-1] if started else ""
        return DocumentCells(
            self._cells,
            this,
            may_run=self._may_run,
            operation=self._operation,
            new_ids=self._new_ids,
        )

    def change(self, change: CellChange) -> ChangeResult:
        """Apply a change, and report it to the runner."""
        conflicts = find_conflicts(change.expected, self.document())
        if conflicts:
            return ChangeResult("conflict", conflicts=conflicts)

        ids = {step.cell: self._make_id(step.source) for step in change.steps if _is_new(step.cell)}
        self._cells = apply_steps(self._cells, change.steps, ids)
        steps: Any = [asdict(step) for step in change.steps]
        append_run_event(**{EDITS_EVENT: steps, "ids": dict(ids)})
        self._operation = change.operation
        self._new_ids = ids
        return ChangeResult("applied", ids)

    def note_run(self, cell_id: str) -> None:
        """Report to the runner that a cell ran in a turn."""
        append_run_event(**{RAN_EVENT: cell_id})

    def _make_id(self, source: str) -> str:
        # Not random: equal inputs give equal notebooks.
        taken = {cell.cell_id for cell in self._cells}
        while True:
            self._inserted += 1
            data = f"{self._inserted}:{source}".encode("utf-8", "surrogatepass")
            made = f"jp-{hashlib.sha256(data).hexdigest()[:ID_CHARS]}"
            if made not in taken:
                return made


def _is_new(key: str) -> bool:
    return key.startswith("new:")


def _read_cell(number: int, cell: SnapshotCell) -> DocumentCell:
    kind: CellKind = next((each for each in CELL_KINDS if each == cell["type"]), "raw")
    return DocumentCell(
        cell["id"],
        number,
        cell["source"],
        kind,
        is_editable=cell["editable"],
        is_deletable=cell["deletable"],
        has_record=cell["record"],
        tags=tuple(cell["tags"]),
    )


def _with_state(
    cell: DocumentCell, started: list[str], known: Mapping[str, NotebookCell]
) -> NotebookCell:
    listed = NotebookCell(cell.number, cell.source, cell.kind, cell.cell_id)
    if cell.cell_id not in started:
        return listed

    state: CellState = "running" if cell.cell_id == started[-1] else "ran"
    ran = known.get(cell.source)
    count = None if ran is None else ran.execution_count
    if ran is not None and state == "ran":
        state = ran.state
    return NotebookCell(
        cell.number, cell.source, cell.kind, cell.cell_id, execution_count=count, state=state
    )
