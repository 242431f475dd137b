"""The cells of the notebook file of a headless run: a file of the runner for its kernel.

    {"cells": [{"id": "a1", "type": "code", "source": "1 + 1", "editable": true,
                "deletable": true, "record": false, "tags": []}], "run_inserted": false}

The kernel appends its changes to the events of the run (`run_events.py`).

Source: `docs/cells.md`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from jp_nb.file_reading import MAX_NOTEBOOK_BYTES, read_regular
from jp_nb.storage import environment


class SnapshotCell(TypedDict):
    """One cell of the file.

    Attributes:
        type: `code`, `markdown`, or `raw`.
        editable: False if the user has forbidden to change the cell.
        deletable: False if the user has forbidden to delete it.
        record: True if the cell carries the record of a conversation, which no tool may change.
        tags: The tags of the cell.
    """

    id: str
    type: str
    source: str
    editable: bool
    deletable: bool
    record: bool
    tags: list[str]


class CellSnapshot(TypedDict):
    """The content of the file.

    Attributes:
        run_inserted: True if the runner also runs code cells that a tool inserts.
    """

    cells: list[SnapshotCell]
    run_inserted: bool


def write_snapshot(path: Path, cells: Sequence[SnapshotCell], *, run_inserted: bool) -> None:
    """Write the cells of a run to the file at `path`."""
    snapshot: CellSnapshot = {"cells": list(cells), "run_inserted": run_inserted}
    path.write_text(json.dumps(snapshot), encoding="ascii")


def read_snapshot() -> CellSnapshot | None:
    """Return the cells that the runner of this kernel has written; None without such a runner."""
    path = os.environ.get(environment.CELLS_VARIABLE)
    if not path:
        return None
    snapshot: CellSnapshot = json.loads(read_regular(Path(path), max_bytes=MAX_NOTEBOOK_BYTES))
    return snapshot
