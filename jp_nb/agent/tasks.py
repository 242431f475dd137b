"""Run a tool in a task, or as a function in the cell's thread.

Source: `docs/turns.md`, `docs/decisions.md` D55.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from threading import Event, get_ident
from time import monotonic
from typing import TypeVar

from jp_nb.agent.display import Display, FunctionBegins, FunctionEnds
from jp_nb.agent.prompts import PromptEvent
from jp_nb.agent.tool_call import Call
from jp_nb.tools.base import CallInterrupted, CellThread, is_cancelled

log = logging.getLogger(__name__)

STOP_GRACE = 2.0
"""Seconds that cancelled tools have to clean up."""


class BatchEvents:
    """Runs work as tasks, and passes their events to the coordinator's loop.

    Attributes:
        is_canceling: True while the tasks are being canceled.
    """

    def __init__(self) -> None:
        self._queue: asyncio.Queue[PromptEvent] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle_waiters: dict[asyncio.Future[None], None] = {}
        self._is_idle = False
        self._epoch = 0
        self.is_canceling = False

    @property
    def has_events(self) -> bool:
        """True if there are unprocessed events."""
        return not self._queue.empty()

    def post(self, event: PromptEvent) -> None:
        """Add `event` to the queue of the loop."""
        self._queue.put_nowait(event)

    async def next(self) -> PromptEvent:
        """Wait for the oldest event."""
        self._is_idle = True
        self._wake_idle_waiter()
        try:
            return await self._queue.get()
        finally:
            self._is_idle = False

    async def when_idle(self) -> None:
        """Wait in a task until all other tasks wait here or are done. The first waiter continues.

        This makes the order of work that takes no time reproducible.
        """
        turn = asyncio.get_running_loop().create_future()
        self._idle_waiters[turn] = None
        self._wake_idle_waiter()
        try:
            await turn
        finally:
            self._idle_waiters.pop(turn, None)

    def _wake_idle_waiter(self) -> None:
        busy = not self._is_idle or self.has_events or len(self._tasks) > len(self._idle_waiters)
        turn = next(iter(self._idle_waiters), None)
        if turn is not None and not busy and not turn.done():
            turn.set_result(None)

    def spawn(self, work: Callable[[], Awaitable[PromptEvent]]) -> asyncio.Task[None]:
        """Run `work` as a task. The loop calls the event that it returns.

        Events of tasks that began before a `cut` are dropped.
        """
        epoch = self._epoch

        async def run() -> None:
            try:
                event = await work()
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                event = partial(_raise, RuntimeError("the code cancelled its own task"))
            except Exception as exc:  # a bug in jp_nb: the loop raises it
                event = partial(_raise, exc)
            if epoch == self._epoch:
                self.post(event)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if self.is_canceling:
            task.cancel()
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake_idle_waiter()

    async def cancel_all(self) -> None:
        """Cancel all tasks, and call the events of those that had ended."""
        self.is_canceling = True
        try:
            running = list(self._tasks)
            for task in running:
                task.cancel()
            if running:
                # A tool that ignores its cancellation must not block the turn.
                await asyncio.wait(running, timeout=STOP_GRACE)
            while self.has_events:
                event = self._queue.get_nowait()
                try:
                    event()
                except Exception:  # the other calls still get their responses
                    log.exception("A late event of a canceled batch of tool calls failed")
        finally:
            self.is_canceling = False
            self._epoch += 1  # late events of these tasks are dropped


def _raise(exc: Exception) -> None:
    raise exc


T = TypeVar("T")

SETTLE_S = 1.0
"""Maximum time that a function waits until the result of the previous one is recorded.

Recording takes a few milliseconds, unless a tool blocks the agent's loop.
"""


class CellFunctions:
    """Functions of a batch on the cell's thread.

    Args:
        ended: Called after each function.

    Attributes:
        running: Runs with a function that has not returned.
        interrupts: Number of interrupts so far.
        settled: Set when the result of the last function is recorded. A function that ends the
            process must not destroy the result of the previous one.
    """

    def __init__(self, cell: CellThread, display: Display, ended: Callable[[], None]) -> None:
        self.cell = cell
        self.display = display
        self.ended = ended
        self.running: set[CellCall] = set()
        self.interrupts = 0
        self.settled = Event()
        self.settled.set()

    def forget_runs(self) -> None:
        """Let the next function run: the run before was canceled."""
        self.settled.set()


class CellCall:
    """The cell's thread for one run of a tool.

    A function waits for the previous one, and for the decision about an interrupt that ended it.
    `on_start` is called on the thread before each function.

    Attributes:
        interrupts: Number of interrupts when the function began.
        seconds: Duration of the functions, without the time that they waited.
    """

    def __init__(self, functions: CellFunctions, call: Call, on_start: Callable[[], None]) -> None:
        self._all = functions
        self._call = call
        self._on_start = on_start
        self._settled = Event()
        self.interrupts = functions.interrupts
        self.seconds = 0.0

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the cell's thread, and display that."""
        agent = get_ident()

        def begin() -> T:
            self.interrupts = self._all.interrupts
            self._all.running.add(self)
            self._all.display(FunctionBegins(self._call.key, self._call.title))
            before, self._all.settled = self._all.settled, self._settled
            began = monotonic()
            try:
                # On the agent's thread, waiting would block the recording.
                if before is not self._settled and get_ident() != agent:
                    before.wait(SETTLE_S)
                    began = monotonic()
                self._on_start()
                return function()
            finally:
                self.seconds += monotonic() - began
                self._all.display(FunctionEnds(self._call.key))

        try:
            return await self._all.cell.call(begin)
        finally:
            self._all.running.discard(self)
            self._all.ended()

    def settled(self) -> None:
        """Let the next function run: the result of this run is recorded."""
        self._settled.set()

    def release(self) -> None:
        """Let waiting functions run."""
        self._all.cell.release()


def was_interrupted(exc: BaseException) -> bool:
    """Return True if an interrupt of the cell ended the function."""
    return isinstance(exc, CallInterrupted) and isinstance(exc.__cause__, KeyboardInterrupt)
