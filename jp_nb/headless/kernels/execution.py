"""Execute the cells of a notebook with nbclient, and note the end of each.

nbclient would kill the kernel on Ctrl+C, and lose the running turn. Here, Ctrl+C interrupts the
kernel, and the cell ends as in a live session. A second Ctrl+C, or a cell that does not end, kills
the kernel.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_async
from nbclient.exceptions import DeadKernelError
from traitlets import TraitError
from traitlets.config import Config

from jp_nb.headless.kernels.kernel_client import KernelBounds, KernelClient
from jp_nb.headless.kernels.run_cells import RunCells
from jp_nb.headless.kernels.time_limits import Overrun, TimeLimits, format_running_tools
from jp_nb.headless.run_events_reading import read_events
from jp_nb.record.documents.carrier import CARRIER_MODULE
from jp_nb.record.documents.document import get_conversation_id
from jp_nb.storage.run_events import append_event

CellStatus = Literal["passed", "failed", "not run"]
RAISES: Final = "raises-exception"  # tag of a cell that may fail, as in Jupyter's runners


@dataclass(frozen=True, slots=True)
class CellEnd:
    """The end of one code cell.

    Attributes:
        cell: Index of the cell, from 0.
        status: Also `failed` if the kernel died or the time was over.
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
    """The failure of a run. `cell` is its index from 0, or None if no cell caused the failure."""

    cell: int | None
    name: str
    message: str


KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
PATIENCE_S = 10.0  # seconds that an interrupted cell has to end
WAKE_INTERVAL_S = 0.5  # interval, in seconds, at which the waiting thread handles signals
ENCRYPTION: Final = "transport_encryption"  # setting of newer kernel managers


class NotStartedError(DeadKernelError):
    """The kernel ended before it was ready. No cell ran."""


class Execution:
    """One run of a notebook. The cells run in the event loop of another thread.

    Signal handlers run in the main thread, and only count interrupts and wake that event loop.

    Attributes:
        client: The client of the kernel.
        interrupts: How often the user pressed Ctrl+C.
        began: True once a cell has started.
        overrun: The time limit that the run exceeded.
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
        self.bounds = bounds or KernelBounds()
        self.client = KernelClient(
            notebook,
            bounds=self.bounds,
            cells=cells,
            timeout=None,
            record_timing=False,  # times would change the file in each run
            config=make_kernel_config(),
            on_cell_execute=self._on_cell_start,
            on_cell_executed=self._on_cell_end,
        )
        self._cells = cells
        self._limits = limits
        self._events = events

        self.interrupts = 0
        self.began = False
        self.overrun: Overrun | None = None
        self._running: tuple[Any, float] | None = None  # a cell, and the time of its start
        self._ends: list[tuple[Any, CellEnd]] = []  # with the cell, whose number may change
        self._failed: Any = None  # the cell that ran when the run failed

        self._loop: asyncio.AbstractEventLoop | None = None  # None: it does not run
        self._task: asyncio.Task[None] | None = None  # executes the cells
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
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        run_timer = self._start_timer("run", self._limits.run_s)
        try:
            if not self.interrupts:  # Ctrl+C may precede the loop
                await self._execute(cwd, environment)
        except asyncio.CancelledError as exc:
            if self.overrun is not None and not self.began:
                raise NotStartedError(str(self.overrun)) from exc
            raise DeadKernelError("interrupted") from exc
        finally:
            self._loop = None
            if run_timer is not None:
                run_timer.cancel()
            await self._end_kernel()

    async def _execute(self, cwd: str, environment: Mapping[str, str]) -> None:
        for is_last_attempt in (False, True):  # another process may take a port of the first
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
        manager = self.client.km
        if manager is not None and self.client.owns_km:
            if not self.began and manager.has_kernel:
                # A shutdown interrupts first, and a starting kernel would print a traceback.
                await ensure_async(manager.signal_kernel(KILL))
            await self.client._async_cleanup_kernel()

        self.client.end_processes()
        atexit.unregister(self.client._cleanup_kernel)

    def _on_sigint(self, _number: int, _frame: FrameType | None) -> None:
        self.interrupts += 1
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._interrupt)

    def _start_timer(
        self, limit: Literal["cell", "run"], seconds: float | None
    ) -> asyncio.TimerHandle | None:
        if seconds is None:
            return None
        return asyncio.get_running_loop().call_later(seconds, self._on_limit, limit, seconds)

    def _on_limit(self, limit: Literal["cell", "run"], seconds: float) -> None:
        """End the run as Ctrl+C does, so that the cell's outputs and the record are complete."""
        if self.overrun is not None or self.interrupts:  # the run already ends
            return

        tools = tuple(read_events(self._events).running_tools.values())
        self.overrun = Overrun(limit, seconds, tools)
        self._note_failed_cell()
        self._interrupt()

    def _note_failed_cell(self) -> None:
        if self._running is not None:
            self._failed = self._running[0]

    @property
    def failed_cell(self) -> int | None:
        """Index of the cell that ran when the run failed."""
        return self._find_number(self._failed)

    def _find_number(self, cell: Any) -> int | None:
        for number, placed in enumerate(self.client.nb.cells):
            if placed is cell:
                return number
        return None  # a tool has deleted it

    def _interrupt(self) -> None:
        """End the run: interrupt the running cell, then wait for its end, at most `PATIENCE_S`.

        A second Ctrl+C, or one while the kernel starts, ends the run at once. Called in the event
        loop that executes the run.
        """
        assert self._task is not None
        manager = self.client.km
        if self.interrupts > 1 or not self.began or manager is None:
            self._task.cancel()
            return

        loop = asyncio.get_running_loop()
        self._signal_task = loop.create_task(ensure_async(manager.interrupt_kernel()))
        loop.call_later(PATIENCE_S, self._task.cancel)
        if self.bounds.terminate_after_s is not None:
            loop.call_later(self.bounds.terminate_after_s, self._terminate)

    def _terminate(self) -> None:
        """Send SIGTERM to a kernel that has ignored the interrupt."""
        manager = self.client.km
        if self._loop is not None and manager is not None and manager.has_kernel:
            sending = ensure_async(manager.signal_kernel(signal.SIGTERM))
            self._signal_task = self._loop.create_task(sending)

    def _on_cell_start(self, cell_index: int, **_: Any) -> None:
        if self.interrupts or self.overrun:  # the previous cell ignored the interrupt
            raise asyncio.CancelledError

        self.began = True
        cell = self.client.nb.cells[cell_index]
        self._running = (cell, time.monotonic())

        cell_id = str(cell.get("id", ""))
        key = self._cells.find_key(cell)
        append_event(str(self._events), {"cell": cell_index, "id": cell_id, "key": key})

        self._cell_timer = self._start_timer("cell", self._limits.cell_s)

    def _on_cell_end(self, cell: Any, execute_reply: Any, **_: Any) -> None:
        # An error with text that is not UTF-8 leaves no output, so use the reply.
        is_error = execute_reply["content"]["status"] == "error"
        tags = cell.metadata.get("tags", [])
        may_fail = isinstance(tags, list) and RAISES in tags

        if self.overrun is not None or (is_error and not may_fail):
            self._record_end("failed")
        else:
            self._record_end("passed")

    def _record_end(self, status: CellStatus) -> None:
        """Note the end of the running cell, if there is one."""
        if self._running is None:
            return
        if self._cell_timer is not None:
            self._cell_timer.cancel()

        cell, start = self._running
        self._running = None
        seconds = time.monotonic() - start

        carrier = self._find_carrier_state()
        conversation = get_conversation_id(carrier.get("jp"))
        length = carrier.get("length")
        entries = length if isinstance(length, int) else 0

        number = self._find_number(cell) or 0
        self._ends.append((cell, CellEnd(number, status, seconds, conversation, entries)))

    def _find_carrier_state(self) -> Mapping[str, Any]:
        """Return the state of the newest widget that has a copy of the record; {} without one."""
        states: Iterable[Mapping[str, Any]] = reversed(self.client.widget_state.values())
        for state in states:
            if state.get("_model_module") == CARRIER_MODULE:
                return state
        return {}

    def make_time_failure(self) -> CellFailure | None:
        """Return the failure of a run that exceeded a limit; None if it did not."""
        if self.overrun is None:
            return None
        return CellFailure(self.failed_cell, "TimeoutError", str(self.overrun))

    def make_kernel_failure(self) -> CellFailure:
        """Return the failure of a run whose kernel died."""
        self._note_failed_cell()
        tools = format_running_tools(read_events(self._events).running_tools.values())
        return CellFailure(self.failed_cell, "DeadKernelError", f"Kernel died{tools}")

    def finish(self) -> tuple[CellEnd, ...]:
        """Return the ends of the code cells that are not empty. A running cell has failed."""
        self._record_end("failed")
        known_ends = {id(cell): end for cell, end in self._ends}

        ends = []
        for number, cell in enumerate(self.client.nb.cells):
            if cell.cell_type == "code" and cell.source.strip():
                end = known_ends.get(id(cell), CellEnd(number, "not run"))
                ends.append(replace(end, cell=number))  # cells above may be new
        return tuple(ends)


def make_kernel_config() -> Config:
    """Return the configuration of kernels: encrypted messages, where the libraries can do that."""
    # Other users of the computer could read unencrypted messages, and kernels warn of them.
    config = Config()
    if ENCRYPTION in KernelManager.class_trait_names():
        with suppress(TraitError):  # the sockets library does not support it
            KernelManager(**{ENCRYPTION: "auto"})
            config.KernelManager[ENCRYPTION] = "auto"
    return config
