"""nbclient's client, with bounds for unattended kernels, and with cells that a run may change.

`Execution` (`execution.py`) makes one for each run. Workers of a batch set bounds for the processes
and the output of the kernel; `jp-nb run` sets none for one notebook. The cells run in the order of
the notebook, which the kernel may change: `RunCells` (`run_cells.py`) has the edits that it
reports, and the cells that must not run, because they ran in a turn. `kernel_manager.py` starts the
kernel.

Source: `docs/many-notebooks.md`, https://nbclient.readthedocs.io/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from nbclient import NotebookClient

from jp_nb.headless.kernels.kernel_manager import RunKernelManager
from jp_nb.headless.kernels.kernel_processes import KernelProcesses, format_left_processes
from jp_nb.headless.kernels.kernel_template import KernelTemplate
from jp_nb.headless.kernels.output_limits import OutputLimit, move_keys
from jp_nb.headless.kernels.run_cells import RunCells

MAX_CELL_OUTPUT_CHARS: Final = 20_000_000
"""Output of one cell of a batch that is kept. A notebook of this size still opens."""


@dataclass(frozen=True, slots=True)
class KernelBounds:
    """Bounds of a kernel; None: no such bound.

    Attributes:
        processes: Ends what the kernel leaves, and the kernel if this program is killed.
        terminate_after_s: Seconds after an interrupt at which `Execution` sends SIGTERM.
        max_cell_output_chars: Output of a cell beyond which further output is dropped.
        template: The process from which kernels are forked.
    """

    processes: KernelProcesses | None = None
    terminate_after_s: float | None = None
    max_cell_output_chars: int | None = None
    template: KernelTemplate | None = None


class KernelClient(NotebookClient):
    """Client of one kernel with `bounds`.

    It overrides four methods that nbclient calls: when it starts the kernel, for each cell, and for
    each output that a cell adds or clears. nbclient knows a cell by its index.

    Attributes:
        warnings: Warnings for the user about the kernel's processes and output.
    """

    def __init__(
        self, notebook: Any, *, bounds: KernelBounds, cells: RunCells, **options: Any
    ) -> None:
        super().__init__(notebook, kernel_manager_class=RunKernelManager, **options)
        self.warnings: list[str] = []
        self._bounds = bounds
        self._output_limit = OutputLimit(bounds.max_cell_output_chars, self.warnings)
        self._cells = cells
        self._has_started = False  # True once `_execute_in_order` was called

    async def async_start_new_kernel(self, **options: Any) -> None:
        """Start the kernel, and watch its processes."""
        if isinstance(self.km, RunKernelManager):
            self.km.template = self._bounds.template
        await super().async_start_new_kernel(**options)
        provisioner = getattr(self.km, "provisioner", None)
        pid = getattr(provisioner, "pid", None)
        if self._bounds.processes is not None and pid is not None:
            self._bounds.processes.add(pid)

    async def async_execute_cell(
        self,
        cell: Any,
        cell_index: int,
        execution_count: int | None = None,
        store_history: bool = True,
    ) -> Any:
        """Execute all cells in the order of the notebook, which the cells may change.

        nbclient calls this for each cell that it finds. The first call executes all of them.
        """
        if not self._has_started:
            self._has_started = True
            await self._execute_in_order()
        return cell

    async def _execute_in_order(self) -> None:
        """Execute the first cell, and then always the next one below the cell that has ended."""
        done: list[Any] = []
        current: Any = None

        while True:
            index = self._find_next(current, done)
            if index is None:
                return

            current = self.nb.cells[index]
            done.append(current)
            count = self.code_cells_executed + 1
            try:
                await super().async_execute_cell(current, index, execution_count=count)
            finally:
                self._apply_edits()
                # Cells that ran in a turn have execution counts, which no other cell may get.
                last_count = self._cells.last_count
                self.code_cells_executed = max(self.code_cells_executed, last_count)

    def _find_next(self, current: Any, done: list[Any]) -> int | None:
        """Return the index of the first cell below `current` that is to be executed.

        Cells have no index that lasts: a cell may insert, move, and delete others.
        """
        cells = self.nb.cells
        start = 0
        if current is not None:
            [start] = [index + 1 for index, cell in enumerate(cells) if cell is current]

        for index in range(start, len(cells)):
            cell = cells[index]
            is_done = any(executed is cell for executed in done)
            if not is_done and not self._cells.is_skipped(cell):
                return index
        return None

    def _apply_edits(self) -> None:
        """Apply the edits of the cell that ended, and move values stored by index."""
        cells_before = list(self.nb.cells)
        if not self._cells.apply_reported():
            return

        # The new index of each old one; None for a deleted cell.
        indices = {id(cell): index for index, cell in enumerate(self.nb.cells)}
        moved = {old: indices.get(id(cell)) for old, cell in enumerate(cells_before)}

        self._output_limit.move_cells(moved)
        # nbclient's map of displays: for each display id, the positions of its outputs, by the
        # index of the cell.
        for display_id, places in self._display_id_map.items():
            self._display_id_map[display_id] = move_keys(places, moved)

        # A cell with a new source has lost its outputs.
        for places in self._display_id_map.values():
            for index, positions in places.items():
                count = len(self.nb.cells[index].get("outputs", ()))
                places[index] = [position for position in positions if position < count]

    def end_processes(self) -> None:
        """End what the kernel has left. Call it after the kernel has ended."""
        if self._bounds.processes is None:
            return
        left = self._bounds.processes.end()
        if left:
            self.warnings.append(format_left_processes(left))

    def clear_output(self, outs: list[Any], msg: Any, cell_index: int) -> None:
        """Clear the outputs of a cell, which may then have new ones."""
        super().clear_output(outs, msg, cell_index)
        self._output_limit.clear(cell_index)

    def output(self, outs: list[Any], msg: Any, display_id: str | None, cell_index: int) -> Any:
        """Add an output to a cell, unless the cell has too much of it."""
        if not self._output_limit.admit(outs, msg, cell_index):
            return None
        return super().output(outs, msg, display_id, cell_index)
