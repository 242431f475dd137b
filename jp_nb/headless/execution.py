"""Executes the cells of a notebook so that Ctrl+C ends it well.

nbclient would kill the kernel, and what the running turn has got so far with it. Here the kernel is
interrupted as a person would interrupt it, and the cell ends as it does then; a second Ctrl+C, or a
cell that does not end, is cut off.
"""

from __future__ import annotations

import asyncio
import atexit
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_async
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from traitlets import TraitError
from traitlets.config import Config

from jp_nb.headless.cell_ends import CellWatch

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
PATIENCE = 10.0
"""Seconds that an interrupted cell has to end."""
WAKES_S = 0.5
"""Seconds after which the thread that waits for a run handles signals."""

STARTS = 2
"""Times a kernel is started: who starts beside it may take a port before it does."""

ENCRYPTION: Final = "transport_encryption"
"""A setting of newer managers of kernels; kernels warn of its lack in each run."""

OnCell = Callable[[int, Any], None]
"""Called with number and node of each cell that was executed, its outputs included."""


class NotStartedError(DeadKernelError):
    """The kernel ended before it was ready; nothing ran."""


class Execution:
    """One run of a notebook. The cells run in a thread of their own, this one waits.

    Args:
        notebook: The notebook; its cells get their outputs.
        timeout: For each cell, in seconds.
        on_cell: What to tell of each cell that was executed.

    Attributes:
        client: What runs the cells.
        interrupts: How often somebody pressed Ctrl+C.
        began: Whether a cell was run.
        watch: What follows how the cells end.
    """

    def __init__(self, notebook: Any, *, timeout: float | None, on_cell: OnCell | None) -> None:
        def executed(cell: Any, cell_index: int, execute_reply: Any, **_: Any) -> None:
            self.watch.ends(cell, execute_reply)
            if on_cell is not None:
                on_cell(cell_index, cell)

        self.client = NotebookClient(
            notebook,
            timeout=timeout,
            record_timing=False,  # times would make every run another file
            config=_encryption(),
            on_cell_execute=self._cell_begins,
            on_cell_executed=executed,
        )
        self.watch = CellWatch(self.client)
        self.interrupts = 0
        self.began = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._sent: asyncio.Task[None] | None = None

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Hear Ctrl+C meanwhile without being cut off by it; at the end it is raised.

        Raises:
            KeyboardInterrupt: If it was pressed.
        """
        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if not ours or threading.current_thread() is not threading.main_thread():
            yield
            return
        signal.signal(signal.SIGINT, self._heard)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.interrupts:
            raise KeyboardInterrupt

    def run(self, cwd: str, environment: Mapping[str, str]) -> None:
        """Run all cells, or until one fails.

        Raises:
            CellExecutionError: If a cell failed.
            CellTimeoutError: If one took too long.
            DeadKernelError: If the kernel died, or was cut off.
            NotStartedError: If no kernel could be started.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="jp-nb-run") as pool:
            running = pool.submit(asyncio.run, self._run(cwd, environment))
            # Handlers of signals run in this thread, but Ctrl+C may wake another one.
            while not wait([running], timeout=WAKES_S).done:
                pass
            running.result()

    async def _run(self, cwd: str, environment: Mapping[str, str]) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            if not self.interrupts:  # it may have come before there was a loop
                await self._execute(cwd, environment)
        except asyncio.CancelledError as exc:
            raise DeadKernelError("interrupted") from exc
        finally:
            self._loop = None
            await self._clean_up()

    async def _execute(self, cwd: str, environment: Mapping[str, str]) -> None:
        for left in reversed(range(STARTS)):
            try:
                await self.client.async_execute(cwd=cwd, env=dict(environment))
            except RuntimeError as exc:  # of a kernel that ended before it was ready, too
                if self.began or self.interrupts:
                    raise
                if not left:
                    raise NotStartedError(str(exc)) from exc
            else:
                return

    async def _clean_up(self) -> None:
        """Leave no kernel behind that was cut off while it started."""
        if (manager := self.client.km) is not None and self.client.owns_km:
            if not self.began and manager.has_kernel:
                # To shut it down begins with an interrupt: one that starts prints a traceback then.
                await ensure_async(manager.signal_kernel(KILL))
            await self.client._async_cleanup_kernel()
        atexit.unregister(self.client._cleanup_kernel)

    # --- interrupts ----------------------------------------------------------------------------

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        self.interrupts += 1
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        """End the run; in the loop that executes it."""
        assert self._task is not None
        manager = self.client.km
        if self.interrupts > 1 or not self.began or manager is None:
            self._task.cancel()
            return
        loop = asyncio.get_running_loop()
        self._sent = loop.create_task(_sent(manager))
        loop.call_later(PATIENCE, self._task.cancel)

    def _cell_begins(self, cell_index: int, **_: Any) -> None:
        if self.interrupts:  # the cell before went on all the same
            raise asyncio.CancelledError
        self.began = True
        self.watch.begins(cell_index)


def _encryption() -> Config:
    """Have what goes to and from the kernel encrypted where both sides can: other users listen."""
    config = Config()
    if ENCRYPTION in KernelManager.class_trait_names():
        with suppress(TraitError):  # sockets were built without it
            KernelManager(**{ENCRYPTION: "auto"})
            config.KernelManager[ENCRYPTION] = "auto"
    return config


async def _sent(manager: Any) -> None:
    """Interrupt the kernel of `manager`."""
    await ensure_async(manager.interrupt_kernel())
