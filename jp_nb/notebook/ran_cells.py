"""The cells that a kernel ran, in order: what tools see where no page tells of its cells.

Light: it is loaded with the extension. IPython's own history leaves out what a runner asks it to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jp_nb.tooling.notebook_access import CellState, NotebookCell


class RanCells:
    """Keeps the source of each cell, and how it ended; of those before, what IPython kept.

    Args:
        shell: The IPython shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        history = getattr(shell, "history_manager", None)
        before = enumerate(history.input_hist_raw) if history is not None else ()
        # There is no cell with the number 0.
        self._ran: list[tuple[str, int | None, CellState]] = [
            (source, count, "ran") for count, source in before if count and source
        ]
        self._running_cell()

    def _running_cell(self) -> None:
        """Note the cell that runs now, if this is a kernel: it began before anybody looked."""
        kernel: Any = getattr(self._shell, "kernel", None)
        request = (kernel.get_parent("shell") if hasattr(kernel, "get_parent") else None) or {}
        asked = request.get("content", {})
        if not asked.get("code") or asked.get("silent"):
            return
        if not asked.get("store_history", True):
            self._ran.append((asked["code"], None, "running"))
        elif self._ran:
            source, count, _ = self._ran[-1]
            self._ran[-1] = source, count, "running"

    def cell_begins(self, info: Any) -> None:
        """Note that a cell runs."""
        if info.raw_cell and not info.silent:
            self._ran.append((info.raw_cell, None, "running"))

    def cell_ended(self, result: Any) -> None:
        """Note how the cell that ran last ended."""
        if self._ran and self._ran[-1][2] == "running":
            state: CellState = "done" if result.success else "failed"
            count = result.execution_count if result.info.store_history else None
            self._ran[-1] = self._ran[-1][0], count, state

    def __iter__(self) -> Iterator[NotebookCell]:
        """Yield the cells, the running one last."""
        from jp_nb.tooling.notebook_access import NotebookCell

        for number, (source, count, state) in enumerate(self._ran):
            yield NotebookCell(number, source, execution_count=count, state=state)
