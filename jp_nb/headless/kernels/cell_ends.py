"""The cells of a run: which one runs, and how each one has ended.

`Execution` (`execution.py`) tells `CellEnds` of each start and end. A tool may insert, move, and
delete cells during the run, so a cell is remembered as an object, and its index is looked up when
it is needed. The report of the run finds the turns of a cell by the entries that the record had at
its end.

Source: `docs/ci.md`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from nbclient import NotebookClient

from jp_nb.record.documents.carrier import CARRIER_MODULE
from jp_nb.record.documents.record_shape import get_conversation_id

CellStatus = Literal["passed", "failed", "not run"]


@dataclass(frozen=True, slots=True)
class CellEnd:
    """The end of one code cell.

    Attributes:
        cell: Index of the cell, from 0.
        status: Also `failed` if the kernel died or the time was over.
        seconds: Time from the start of the cell to its end.
        conversation: Id of the conversation that was active then; "" without a record.
        entries: Number of entries of that conversation then.
    """

    cell: int
    status: CellStatus
    seconds: float = 0.0
    conversation: str = ""
    entries: int = 0


@dataclass(frozen=True, slots=True)
class CellFailure:
    """The failure of a run.

    Attributes:
        cell: Index of the cell that caused it, from 0; None if no cell did.
        name: The type of the exception, or `TimeoutError`, `DeadKernelError`, or `StorageError`.
        message: The text of the exception.
    """

    cell: int | None
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class _RunningCell:
    """The cell that runs now, and the time of its start by the monotonic clock."""

    cell: Any
    start: float


class CellEnds:
    """The ends of the cells of the notebook that `client` executes."""

    def __init__(self, client: NotebookClient) -> None:
        self._client = client
        self._running: _RunningCell | None = None
        self._ends: list[tuple[Any, CellEnd]] = []  # each cell with its end
        self._failed: Any = None  # the cell that ran when the run failed

    def start(self, cell: Any) -> None:
        """Note that `cell` starts."""
        self._running = _RunningCell(cell, time.monotonic())

    def end(self, status: CellStatus) -> None:
        """Note the end of the running cell, if there is one."""
        if self._running is None:
            return

        cell = self._running.cell
        seconds = time.monotonic() - self._running.start
        self._running = None

        carrier = self._find_carrier_state()
        conversation = get_conversation_id(carrier.get("jp"))
        length = carrier.get("length")
        entries = length if isinstance(length, int) else 0

        end = CellEnd(
            self._find_index(cell) or 0,  # `list_all` sets the index at the end of the run
            status,
            seconds=seconds,
            conversation=conversation,
            entries=entries,
        )
        self._ends.append((cell, end))

    def blame_running_cell(self) -> None:
        """Make the running cell, if there is one, the `failed_cell` of the run, which fails now."""
        if self._running is not None:
            self._failed = self._running.cell

    @property
    def failed_cell(self) -> int | None:
        """Index of the cell that ran when the run failed; None if none did, or it was deleted."""
        return self._find_index(self._failed)

    def _find_index(self, cell: Any) -> int | None:
        for index, placed in enumerate(self._client.nb.cells):
            if placed is cell:
                return index
        return None

    def _find_carrier_state(self) -> Mapping[str, Any]:
        """Return the state of the newest *carrier*, a widget with a copy of the record; else {}.

        It has the record as `jp`, and the number of entries of the active conversation as `length`.
        """
        states: Iterable[Mapping[str, Any]] = reversed(self._client.widget_state.values())
        for state in states:
            if state.get("_model_module") == CARRIER_MODULE:
                return state
        return {}

    def list_all(self) -> tuple[CellEnd, ...]:
        """Return the ends of the code cells that are not empty, with their present indexes."""
        known_ends = {id(cell): end for cell, end in self._ends}

        ends = []
        for index, cell in enumerate(self._client.nb.cells):
            if cell.cell_type == "code" and cell.source.strip():
                end = known_ends.get(id(cell), CellEnd(index, "not run"))
                ends.append(replace(end, cell=index))
        return tuple(ends)
