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
    """Runs work beside the coordinator's loop, and hands the results over to that loop.

    Attributes:
        cutting: True while the tasks are being ended.
    """

    def __init__(self) -> None:
        self._queue: asyncio.Queue[PromptEvent] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._patient: dict[asyncio.Future[None], None] = {}
        self._listens = False
        self._epoch = 0
        self.cutting = False

    @property
    def waiting(self) -> bool:
        """True if there are events that nobody took."""
        return not self._queue.empty()

    def post(self, event: PromptEvent) -> None:
        """Have `event` called in the loop."""
        self._queue.put_nowait(event)

    async def next(self) -> PromptEvent:
        """Return the oldest event as soon as there is one."""
        self._listens = True
        self._let_one_on()
        try:
            return await self._queue.get()
        finally:
            self._listens = False

    async def when_idle(self) -> None:
        """Wait in a task until all others wait here, too, or are done: then the first goes on.

        What takes no time of its own comes in the same order each time by that.
        """
        turn = asyncio.get_running_loop().create_future()
        self._patient[turn] = None
        self._let_one_on()
        try:
            await turn
        finally:
            self._patient.pop(turn, None)

    def _let_one_on(self) -> None:
        busy = not self._listens or self.waiting or len(self._tasks) > len(self._patient)
        turn = next(iter(self._patient), None)
        if turn is not None and not busy and not turn.done():
            turn.set_result(None)

    def spawn(self, work: Callable[[], Awaitable[PromptEvent]]) -> asyncio.Task[None]:
        """Run `work` beside the loop; the event it returns is called in the loop.

        What was begun before the tasks were cut is not heard any more.
        """
        epoch = self._epoch

        async def run() -> None:
            try:
                event = await work()
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                event = partial(_raise, RuntimeError("the code cancelled its own task"))
            except Exception as exc:  # a fault of ours: the loop raises it, and nobody waits
                event = partial(_raise, exc)
            if epoch == self._epoch:
                self.post(event)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        if self.cutting:
            task.cancel()
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._let_one_on()

    async def cut(self) -> None:
        """Cancel every task, and call the events of those that ended before."""
        self.cutting = True
        try:
            running = list(self._tasks)
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=STOP_GRACE)
            while self.waiting:
                self._drain(self._queue.get_nowait())
        finally:
            self.cutting = False
            self._epoch += 1

    @staticmethod
    def _drain(event: PromptEvent) -> None:
        """Call `event`; a fault in it leaves the other calls their responses."""
        try:
            event()
        except Exception:
            log.exception("An event of a batch that was cut failed")


def _raise(exc: Exception) -> None:
    raise exc


T = TypeVar("T")

SETTLE_S = 1.0
"""Seconds that a function waits until the result of the one before is kept.

It takes a few milliseconds, unless a tool blocks the agent's loop.
"""


class CellFunctions:
    """The functions that the runs of a batch have on the cell's thread.

    Args:
        cell: The cell's thread.
        display: Shows when a function begins and ends.
        ended: Called when one has ended.

    Attributes:
        running: Those that have begun and not ended.
        interrupts: How many interrupts were heard so far.
        settled: Set once the result of the last function is kept: a function that ends the process
            must not take the result of the one before with it.
    """

    def __init__(self, cell: CellThread, display: Display, ended: Callable[[], None]) -> None:
        self.cell = cell
        self.display = display
        self.ended = ended
        self.running: set[CellCall] = set()
        self.interrupts = 0
        self.settled = Event()
        self.settled.set()

    def for_run(self, call: Call, starts: Callable[[], None]) -> CellCall:
        """Return the cell's thread for one run of the tool of `call`.

        `starts` is called there before each function.
        """
        return CellCall(self, call, starts)

    def forget_runs(self) -> None:
        """Let the next function run whatever became of the one before: its run was cut."""
        self.settled.set()


class CellCall:
    """The cell's thread for one run of a tool.

    Functions wait for each other, and for what an interrupt of the one before comes to: what was
    heard when the run was asked for says nothing about the interrupt that cuts its function.

    Attributes:
        interrupts: How many interrupts were heard when the function began.
        seconds: How long the functions ran; the time in which they waited is not included.
    """

    def __init__(self, functions: CellFunctions, call: Call, starts: Callable[[], None]) -> None:
        self._all = functions
        self._call = call
        self._starts = starts
        self._settled = Event()
        self.interrupts = functions.interrupts
        self.seconds = 0.0

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` there, and show that it does."""
        agent = get_ident()

        def begin() -> T:
            self.interrupts = self._all.interrupts
            self._all.running.add(self)
            self._all.display(FunctionBegins(self._call.key, self._call.title))
            before, self._all.settled = self._all.settled, self._settled
            began = monotonic()
            try:
                if before is not self._settled and get_ident() != agent:
                    before.wait(SETTLE_S)
                    began = monotonic()
                self._starts()
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
        """Let the next function run: the result of this run is kept."""
        self._settled.set()

    def release(self) -> None:
        """Let functions run that were held back."""
        self._all.cell.release()


def was_interrupted(exc: BaseException) -> bool:
    """True if the cell was interrupted while the function ran; the turn hears of that too."""
    return isinstance(exc, CallInterrupted) and isinstance(exc.__cause__, KeyboardInterrupt)
