"""Execute the cells of a notebook with nbclient, also when the user or a time limit ends the run.

nbclient would kill the kernel on Ctrl+C, and lose the running turn. Here, Ctrl+C interrupts the
kernel, and the cell ends as in a live session. A second Ctrl+C, or a cell that does not end, kills
the kernel. `cell_ends.py` notes the end of each cell.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

from jupyter_core.utils import ensure_async
from nbclient.exceptions import CellExecutionError, DeadKernelError

from jp_nb.headless.kernels.cell_ends import CellEnd, CellEnds, CellFailure
from jp_nb.headless.kernels.kernel_client import KernelBounds, KernelClient
from jp_nb.headless.kernels.kernel_manager import make_kernel_config
from jp_nb.headless.kernels.run_cells import RunCells
from jp_nb.headless.kernels.time_limits import Overrun, TimeLimits, format_running_tools
from jp_nb.headless.run_events_reading import read_events
from jp_nb.storage.run_events import append_event

RAISES: Final = "raises-exception"  # tag of a cell that may fail, as in Jupyter's runners
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
PATIENCE_S = 10.0  # seconds that an interrupted cell has to end
WAKE_INTERVAL_S = 0.5  # interval, in seconds, at which the waiting thread handles signals


class NotStartedError(DeadKernelError):
    """The kernel ended before it was ready. No cell ran."""


@dataclass(frozen=True, slots=True)
class _ActiveRun:
    """The event loop that executes the cells, and its task that does so."""

    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[Any]


class Execution:
    """One run of a notebook. The cells run in the event loop of another thread.

    Signal handlers run in the main thread, and only count interrupts and wake that event loop.

    A run ends early in two ways: the user presses Ctrl+C, which `interrupts` counts, or a time
    limit is exceeded, which is the `overrun`. Both call `_interrupt`.

    Args:
        notebook: The notebook, whose cells get their outputs.
        limits: Time limits of each cell and of the run.
        events: The file to which the kernel appends its events (`jp_nb/storage/run_events.py`).
        cells: The cells of the notebook, as the kernel knows and changes them.
        bounds: Bounds of a kernel in a batch; None for a single notebook.

    Attributes:
        client: The client of the kernel.
        interrupts: How often the user pressed Ctrl+C.
        began: True once a cell has started.
        overrun: The time limit that the run exceeded; None if it did not.
    """

    def __init__(
        self,
        notebook: Any,
        *,
        limits: TimeLimits,
        events: Path,
        cells: RunCells,
        bounds: KernelBounds | None = None,
    ) -> None:
        self._bounds = bounds or KernelBounds()
        self.client = KernelClient(
            notebook,
            bounds=self._bounds,
            cells=cells,
            timeout=None,
            record_timing=False,  # times would change the file in each run
            config=make_kernel_config(),
            on_cell_execute=self._on_cell_start,
            on_cell_executed=self._on_cell_end,
        )
        self._run_cells = cells
        self._ends = CellEnds(self.client)
        self._limits = limits
        self._events = events

        self.interrupts = 0
        self.began = False
        self.overrun: Overrun | None = None

        self._active: _ActiveRun | None = None  # None: no cells are being executed
        self._signal_task: asyncio.Task[None] | None = None  # referenced until it has ended
        self._cell_timer: asyncio.TimerHandle | None = None

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Handle Ctrl+C in this block, and raise `KeyboardInterrupt` only at its end.

        It has no effect outside of the main thread, or if the program has its own SIGINT handler.

        Raises:
            KeyboardInterrupt: The user pressed Ctrl+C.
        """
        is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if not is_default or threading.current_thread() is not threading.main_thread():
            yield
            return

        signal.signal(signal.SIGINT, self._on_sigint)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

        if self.interrupts:
            raise KeyboardInterrupt

    def run(self, cwd: str, environment: Mapping[str, str]) -> None:
        """Run all cells, up to the first that fails.

        Raises:
            CellExecutionError: A cell failed.
            DeadKernelError: The kernel died or was killed, perhaps after an `overrun`.
            NoSuchKernel: The kernel is not installed.
            NotStartedError: The kernel could not be started.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="jp-nb-run") as pool:
            running = pool.submit(asyncio.run, self._run(cwd, environment))
            # Signal handlers run in this thread, but Ctrl+C may wake another one.
            while not wait([running], timeout=WAKE_INTERVAL_S).done:
                pass
            running.result()

    async def _run(self, cwd: str, environment: Mapping[str, str]) -> None:
        """Execute the cells in the event loop of this thread, then end the kernel."""
        task = asyncio.current_task()
        assert task is not None
        self._active = _ActiveRun(asyncio.get_running_loop(), task)
        run_timer = self._start_timer("run", self._limits.run_s)
        try:
            if not self.interrupts:  # Ctrl+C may precede the loop
                await self._execute(cwd, environment)
        except asyncio.CancelledError as exc:
            if self.overrun is not None and not self.began:
                raise NotStartedError(str(self.overrun)) from exc
            raise DeadKernelError("interrupted") from exc
        finally:
            self._active = None
            if run_timer is not None:
                run_timer.cancel()
            await self._end_kernel()

    async def _execute(self, cwd: str, environment: Mapping[str, str]) -> None:
        """Start the kernel, in a second attempt if the first one fails, and execute the cells."""
        for is_last_attempt in (False, True):  # another process may have taken a port
            try:
                await self.client.async_execute(cwd=cwd, env=dict(environment))
            except RuntimeError as exc:  # also if the kernel ends before it is ready
                if self.began or self.interrupts:
                    raise
                if is_last_attempt:
                    raise NotStartedError(str(exc)) from exc
            else:
                return

    async def _end_kernel(self) -> None:
        """End the kernel and the processes that it has left.

        nbclient's own end of the kernel is private, and its handler for the end of this program is
        not needed any more.
        """
        manager = self.client.km
        if manager is not None and self.client.owns_km:
            if not self.began and manager.has_kernel:
                # A shutdown interrupts first, and a starting kernel would print a traceback.
                await ensure_async(manager.signal_kernel(KILL))
            await self.client._async_cleanup_kernel()

        self.client.end_processes()
        atexit.unregister(self.client._cleanup_kernel)

    # --- the early end of a run ------------------------------------------------------------------

    def _on_sigint(self, _number: int, _frame: FrameType | None) -> None:
        """Count the interrupt, and pass it to the event loop of the cells, if there is one."""
        self.interrupts += 1
        active = self._active  # the other thread may reset it
        if active is not None:
            active.loop.call_soon_threadsafe(self._interrupt)

    def _start_timer(
        self, limit: Literal["cell", "run"], seconds: float | None
    ) -> asyncio.TimerHandle | None:
        """Call `_on_limit` after `seconds`; None for no limit."""
        if seconds is None:
            return None
        return asyncio.get_running_loop().call_later(seconds, self._on_limit, limit, seconds)

    def _on_limit(self, limit: Literal["cell", "run"], seconds: float) -> None:
        """End the run as Ctrl+C does, so that the cell's outputs and the record are complete."""
        if self._ends_early:
            return

        tools = tuple(read_events(self._events).running_tools.values())
        self.overrun = Overrun(limit, seconds, tools)
        self._ends.blame_running_cell()
        self._interrupt()

    @property
    def _ends_early(self) -> bool:
        """True if the user or a time limit has begun to end the run."""
        return self.overrun is not None or self.interrupts > 0

    def _interrupt(self) -> None:
        """End the run: interrupt the running cell, then wait for its end, at most `PATIENCE_S`.

        A second Ctrl+C, or any early end while the kernel starts, ends the run at once. Called in
        the event loop that executes the run.
        """
        if self._active is None:  # the run ended before the loop called this
            return
        task = self._active.task
        manager = self.client.km
        if self.interrupts > 1 or not self.began or manager is None:
            task.cancel()
            return

        loop = self._active.loop
        self._signal_task = loop.create_task(ensure_async(manager.interrupt_kernel()))
        loop.call_later(PATIENCE_S, task.cancel)  # no effect on a task that has ended
        if self._bounds.terminate_after_s is not None:
            loop.call_later(self._bounds.terminate_after_s, self._terminate)

    def _terminate(self) -> None:
        """Send SIGTERM to a kernel that has ignored the interrupt."""
        manager = self.client.km
        if self._active is not None and manager is not None and manager.has_kernel:
            sending = ensure_async(manager.signal_kernel(signal.SIGTERM))
            self._signal_task = self._active.loop.create_task(sending)

    # --- the cells, as nbclient reports them -----------------------------------------------------

    def _on_cell_start(self, cell_index: int, **_: Any) -> None:
        """Note that a cell starts, and limit its time. nbclient calls it before each code cell."""
        # The previous cell ignored the interrupt. `_run` turns the error into the end of the run.
        if self._ends_early:
            raise asyncio.CancelledError

        self.began = True
        cell = self.client.nb.cells[cell_index]
        self._ends.start(cell)

        # The events that the kernel appends from now on belong to this cell.
        cell_id = str(cell.get("id", ""))
        key = self._run_cells.find_key(cell)
        append_event(str(self._events), {"cell": cell_index, "id": cell_id, "key": key})

        self._cell_timer = self._start_timer("cell", self._limits.cell_s)

    def _on_cell_end(self, cell: Any, execute_reply: Any, **_: Any) -> None:
        """Note how a cell has ended. nbclient calls it before it raises the error of the cell."""
        if self._cell_timer is not None:
            self._cell_timer.cancel()

        # An error with text that is not UTF-8 leaves no output, so use the reply.
        is_error = execute_reply["content"]["status"] == "error"
        tags = cell.metadata.get("tags", [])
        may_fail = isinstance(tags, list) and RAISES in tags

        if self.overrun is not None or (is_error and not may_fail):
            self._ends.blame_running_cell()
            self._ends.end("failed")
        else:
            self._ends.end("passed")

    # --- the result ------------------------------------------------------------------------------

    def make_cell_failure(self, error: CellExecutionError) -> CellFailure:
        """Return the failure of a run that ended with the `error` of a cell."""
        return CellFailure(self._ends.failed_cell, error.ename, error.evalue)

    def make_time_failure(self) -> CellFailure | None:
        """Return the failure of a run that exceeded a limit; None if it did not."""
        if self.overrun is None:
            return None
        return CellFailure(self._ends.failed_cell, "TimeoutError", str(self.overrun))

    def make_kernel_failure(self) -> CellFailure:
        """Return the failure of a run whose kernel died."""
        self._ends.blame_running_cell()
        tools = format_running_tools(read_events(self._events).running_tools.values())
        return CellFailure(self._ends.failed_cell, "DeadKernelError", f"Kernel died{tools}")

    def finish(self) -> tuple[CellEnd, ...]:
        """Return the ends of the code cells that are not empty. A running cell has failed."""
        self._ends.end("failed")
        return self._ends.list_all()
