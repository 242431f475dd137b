"""The cells of the notebook file in a headless run, and their changes.

`jp-nb run` gives the cells to the kernel, and repeats the changes in the notebook that it writes.

Source: `docs/cells.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from jp_nb.json_values import JsonObject
from jp_nb.notebook.display.run_outputs import MAX_STORED_CHARS, RunOutputs
from jp_nb.storage.cell_snapshot import CellSnapshot, SnapshotCell, read_snapshot
from jp_nb.storage.run_events import EDITS_EVENT, RAN_EVENT, append_run_event
from jp_nb.storage.started_cells import read_started_cells
from jp_nb.toolkit.editing.document_cells import DocumentCell, DocumentCells
from jp_nb.toolkit.editing.edit_schema import CELL_KINDS, CellKind
from jp_nb.toolkit.notebook_access import CellState, NotebookCell, NotebookCells

if TYPE_CHECKING:  # most turns edit no cells
    from jp_nb.toolkit.editing.document_change import CellChange, ChangeResult

ID_CHARS: Final = 8
"""Number of hexadecimal digits in the id of a new cell."""
TEXT_OMITTED: Final = (
    f"jp_nb: Printed text was omitted: the outputs have more than {MAX_STORED_CHARS:,} "
    "characters.\n"
)


class FileCells:
    """The cells of the notebook file, as they are after the changes of this kernel.

    The runner passes the cells before (`CellSnapshot`). This kernel reports each change as an event
    of the run, from which the runner makes the notebook.
    """

    def __init__(self, snapshot: CellSnapshot) -> None:
        cells = enumerate(snapshot["cells"], 1)
        self._cells = tuple(_read_cell(number, cell) for number, cell in cells)
        self._may_run = snapshot["run_inserted"]  # True if the model may run its new cells
        self._inserted_count = 0  # for the ids of new cells
        self._counts: dict[str, int] = {}  # execution counts of cells that ran in a turn, by id

        # The id of the last change, and the ids of its new cells by their keys, such as `new:1`.
        self._operation = ""
        self._new_ids: Mapping[str, str] = {}

    @classmethod
    def find(cls) -> FileCells | None:
        """Return the cells of this run; None if its runner gives none."""
        snapshot = read_snapshot()
        return None if snapshot is None else cls(snapshot)

    def list_cells(self, executed: Iterable[NotebookCell]) -> NotebookCells:
        """Return the cells for the tools that read them, with the states of `executed`.

        The kernel knows the source of an executed cell, but not its id.
        """
        started = read_started_cells()
        executed_by_source = {cell.source: cell for cell in executed}
        cells = tuple(
            _with_state(cell, started, executed_by_source, self._counts.get(cell.cell_id))
            for cell in self._cells
        )
        return NotebookCells(cells, "file")

    def document(self) -> DocumentCells:
        """Return the cells that may be edited."""
        started = read_started_cells()
        running_cell = started[-1] if started else ""
        return DocumentCells(
            self._cells,
            running_cell,
            may_run=self._may_run,
            operation=self._operation,
            new_ids=self._new_ids,
        )

    def change(self, change: CellChange) -> ChangeResult:
        """Apply a change, and report it to the runner."""
        from jp_nb.toolkit.editing.conflicts import find_conflicts
        from jp_nb.toolkit.editing.document_change import ChangeResult
        from jp_nb.toolkit.editing.edit_steps import apply_steps

        # The cells that are not as the user saw them when the change was approved.
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

    def store_run(self, cell_id: str, count: int, outputs: list[JsonValue]) -> None:
        """Report to the runner that a cell ran in a turn, with its outputs."""
        self._counts[cell_id] = count
        event: JsonObject = {RAN_EVENT: cell_id, "count": count, "outputs": outputs}
        append_run_event(**event)

    def _make_id(self, source: str) -> str:
        """Return a new id. It is not random: equal inputs give equal notebooks."""
        taken = {cell.cell_id for cell in self._cells}
        while True:
            self._inserted_count += 1
            data = f"{self._inserted_count}:{source}".encode("utf-8", "surrogatepass")
            made = f"jp-{hashlib.sha256(data).hexdigest()[:ID_CHARS]}"
            if made not in taken:
                return made


@dataclass(frozen=True, slots=True)
class CellOfFile:
    """A cell of the notebook file that runs inside of a turn. Implements `OwnCell`."""

    file: FileCells
    cell_id: str
    shows_in_turn: bool = False

    def begin(self) -> None:
        """Do nothing: no page watches."""

    def end(self, count: int, outputs: RunOutputs) -> bool:
        """Report the outputs to the runner, which writes them into the cell."""
        stored: list[Any] = outputs.to_json()
        if not outputs.is_complete:
            stored.append({"output_type": "stream", "name": "stderr", "text": TEXT_OMITTED})
        self.file.store_run(self.cell_id, count, stored)
        return True


def _is_new(key: str) -> bool:
    """Return True if a step names a cell by its key, such as `new:1`, because it has no id yet."""
    return key.startswith("new:")


def _read_cell(number: int, cell: SnapshotCell) -> DocumentCell:
    kind: CellKind = next((known for known in CELL_KINDS if known == cell["type"]), "raw")
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
    cell: DocumentCell,
    started: list[str],
    executed_by_source: Mapping[str, NotebookCell],
    count_in_turn: int | None,
) -> NotebookCell:
    """Return a cell with its state and execution count.

    `started` are the ids of the cells that the runner has started, the running one last.
    `count_in_turn` is the execution count if the cell ran in a turn, where no runner starts it. The
    state `ran` says that the kernel does not know if the cell failed.
    """
    listed = NotebookCell(cell.number, cell.source, cell.kind, cell.cell_id)
    if count_in_turn is not None:
        return replace(listed, execution_count=count_in_turn, state="ran")
    if cell.cell_id not in started:
        return listed

    state: CellState = "running" if cell.cell_id == started[-1] else "ran"
    ran = executed_by_source.get(cell.source)
    count = None if ran is None else ran.execution_count
    if ran is not None and state == "ran":
        state = ran.state
    return replace(listed, execution_count=count, state=state)
