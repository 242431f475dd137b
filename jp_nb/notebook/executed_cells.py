"""The cells that this kernel has executed, for a tool that reads the notebook without a page.

`%load_ext` loads this module, so it imports little.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jp_nb.notebook.kernel_requests import get_cell_request

if TYPE_CHECKING:
    from jp_nb.toolkit.notebook_access import CellState, NotebookCell


@dataclass(slots=True)
class _ExecutedCell:
    """Source, execution count (None if unknown), and state of a cell.

    The state `ran` means that the cell has ended, but it is unknown if it failed.
    """

    source: str
    count: int | None
    state: CellState


class ExecutedCells:
    """Source and state of each executed cell. Cells before `%load_ext` come from IPython.

    IPython's history omits cells that a runner executes with `store_history=False`.
    """

    def __init__(self, shell: Any) -> None:
        # The cells that run now, each with IPython's `ExecutionInfo`: a cell may run others.
        self._started: list[tuple[Any, _ExecutedCell]] = []

        history = getattr(shell, "history_manager", None)
        earlier = enumerate(history.input_hist_raw) if history is not None else ()
        # IPython counts cells from 1; entry 0 is empty.
        self._cells = [
            _ExecutedCell(source, count, "ran") for count, source in earlier if count and source
        ]
        # The cell with `%load_ext`, which runs now: its `pre_run_cell` could not be observed.
        self._loading = self._find_loading_cell(shell)

    def _find_loading_cell(self, shell: Any) -> _ExecutedCell | None:
        """Return the running cell, which IPython's history has last; add it if it is omitted there.

        None if the extension was not loaded by a cell.
        """
        request = get_cell_request(getattr(shell, "kernel", None))
        content = request.get("content", {})
        if not content.get("code") or content.get("silent"):
            return None

        if not content.get("store_history", True):
            self._cells.append(_ExecutedCell(content["code"], None, "running"))
        if not self._cells:
            return None

        loading = self._cells[-1]
        loading.state = "running"
        return loading

    def on_cell_start(self, info: Any) -> None:
        """Add a cell. This is a callback for `pre_run_cell`."""
        if info.raw_cell and not info.silent:
            cell = _ExecutedCell(info.raw_cell, None, "running")
            self._cells.append(cell)
            self._started.append((info, cell))

    def on_cell_end(self, result: Any) -> None:
        """Set the state of the cell that ended. This is a callback for `post_run_cell`."""
        cell = self._take_started(result.info)
        if cell is None:  # such as an empty cell: IPython reports its end, but no start
            return

        cell.state = "done" if result.success else "failed"
        cell.count = result.execution_count if result.info.store_history else None

    def _take_started(self, info: Any) -> _ExecutedCell | None:
        """Remove the cell with this `ExecutionInfo` from those that run; return it, or None."""
        for number, (started, cell) in enumerate(self._started):
            if started is info:
                del self._started[number]
                return cell

        # The cell with `%load_ext` is the first to end without having started here.
        loading = self._loading
        self._loading = None
        return loading

    def __iter__(self) -> Iterator[NotebookCell]:
        """Yield the cells in the order in which they started."""
        from jp_nb.toolkit.notebook_access import NotebookCell

        for number, cell in enumerate(self._cells, 1):
            yield NotebookCell(number, cell.source, execution_count=cell.count, state=cell.state)
