"""Give the cells of the notebook to its kernel, and apply the edits that the kernel reports.

The kernel reads the cells from a file, plans edits on them, and appends each change to the events
of the run. `storage/cell_snapshot.py` has the shape of the file, and `storage/run_events.py` that
of the events. The kernel is the only one that edits the cells, so the runner only repeats its
changes. The runner does this when a cell has ended.

Source: `docs/cells.md`, `docs/ci.md`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from nbformat import from_dict
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from jp_nb.record.documents.record_shape import RECORD_KEY
from jp_nb.storage.cell_snapshot import SnapshotCell, write_snapshot
from jp_nb.storage.run_events import EDITS_EVENT, RAN_EVENT
from jp_nb.toolkit.editing.edit_steps import find_position

_MAKERS: Final[Mapping[str, Any]] = {
    "code": new_code_cell,
    "markdown": new_markdown_cell,
    "raw": new_raw_cell,
}


class RunCells:
    """The cells of a `notebook` in a run, changed as the kernel reports in its `events`.

    The kernel knows a cell by its key: the id of the cell, or a number where ids are missing.

    With `run_inserted`, code cells that the kernel inserted also run, if they are below the cell
    that inserted them.

    Attributes:
        last_count: The largest execution count of cells that ran in a turn. The next cell of the
            notebook gets a larger one.
    """

    def __init__(self, notebook: Any, events: Path, *, run_inserted: bool) -> None:
        self._notebook = notebook
        self._events = events
        self._offset = 0  # in the file of the events, up to which it was read
        self.last_count = 0
        self._run_inserted = run_inserted
        self._has_ids = (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)

        # By key. Deleted cells stay in it: no other object may get the `id()` of a cell.
        self._cells: dict[str, Any] = {}
        self._skipped: list[Any] = []  # cells that the runner does not run (`is_skipped`)

        for number, cell in enumerate(notebook.cells):
            self._cells[self._make_key(number, cell)] = cell

    def _make_key(self, number: int, cell: Any) -> str:
        """Return the id of a cell, or a text with its `number` if it has no own id."""
        key = ""
        if self._has_ids:
            key = str(cell.get("id", ""))

        if not key or key in self._cells:  # a file may have an id twice
            return f"cell-{number}"
        return key

    def write(self, path: Path) -> None:
        """Write the cells for the kernel."""
        cells = [_describe(key, cell) for key, cell in self._cells.items()]
        write_snapshot(path, cells, run_inserted=self._run_inserted)

    def find_key(self, cell: Any) -> str:
        """Return the key of a cell, by which the kernel knows it."""
        return next((key for key, other in self._cells.items() if other is cell), "")

    def is_skipped(self, cell: Any) -> bool:
        """Return True if the runner does not run `cell`.

        The cell ran in a turn, or the kernel inserted it and inserted cells do not run.
        """
        return any(skipped is cell for skipped in self._skipped)

    def apply_reported(self) -> bool:
        """Apply the changes that the kernel has reported since the last call.

        Return True if there were any.
        """
        changed = False
        for event in self._read_events():
            if isinstance(event.get(EDITS_EVENT), list):
                self._apply(event[EDITS_EVENT], event["ids"])
                changed = True
            elif isinstance(event.get(RAN_EVENT), str):
                self._store_run(event)

        return changed

    def _store_run(self, event: Mapping[str, Any]) -> None:
        """Store the outputs of a cell that ran in a turn. The runner does not run it again."""
        cell = self._cells.get(event[RAN_EVENT])
        if cell is None:
            return

        self._skipped.append(cell)
        cell.execution_count = event["count"]
        cell.outputs = [from_dict(output) for output in event["outputs"]]
        self.last_count = max(self.last_count, event["count"])

    def _read_events(self) -> list[dict[str, Any]]:
        """Return the events that the kernel has appended since the last call."""
        try:
            with self._events.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []

        whole = data[: data.rfind(b"\n") + 1]  # the kernel may have died while it wrote a line
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def _apply(self, steps: Sequence[Mapping[str, Any]], ids: Mapping[str, str]) -> None:
        """Apply the steps of an edit.

        The steps name a new cell by a placeholder, such as `new:1`; `ids` has the id that it got.
        """
        for step in steps:
            key = ids.get(step["cell"], step["cell"])
            after = ids.get(step["after"], step["after"])
            match step["kind"]:
                case "insert":
                    self._insert(key, step)
                    self._place(self._cells[key], after)
                case "move":
                    self._remove(self._cells[key])
                    self._place(self._cells[key], after)
                case "set":
                    _set_source(self._cells[key], step["source"])
                case "delete":
                    self._remove(self._cells[key])

    def _insert(self, key: str, step: Mapping[str, Any]) -> None:
        """Make the new cell of a step. `_place` puts it into the notebook."""
        cell = _MAKERS[step["cell_kind"]](step["source"])
        if self._has_ids:
            cell["id"] = key
        else:
            cell.pop("id", None)
        self._cells[key] = cell
        if not self._run_inserted:
            self._skipped.append(cell)

    def _place(self, cell: Any, after: str) -> None:
        """Put `cell` into the notebook below the cell with the key `after`, or at the start."""
        keys = {id(known): key for key, known in self._cells.items()}
        order = [keys.get(id(placed), "") for placed in self._notebook.cells]
        self._notebook.cells.insert(find_position(order, after), cell)

    def _remove(self, cell: Any) -> None:
        cells = self._notebook.cells
        [index] = [number for number, placed in enumerate(cells) if placed is cell]
        del cells[index]


def _describe(key: str, cell: Any) -> SnapshotCell:
    """Return what the kernel needs to know of a cell."""
    tags = cell.metadata.get("tags", [])
    if not isinstance(tags, list):
        tags = []
    return {
        "id": key,
        "type": cell.cell_type,
        "source": cell.source,
        "editable": cell.metadata.get("editable") is not False,
        "deletable": cell.metadata.get("deletable") is not False,
        "record": RECORD_KEY in cell.metadata,
        "tags": [str(tag) for tag in tags],
    }


def _set_source(cell: Any, source: str) -> None:
    """Set the source of a cell. Outputs of another source are removed."""
    if cell.source == source:
        return
    cell.source = source
    if cell.cell_type == "code":
        cell.outputs = []
        cell.execution_count = None
