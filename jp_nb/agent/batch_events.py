"""The one queue of events of a batch of tool calls, and the tasks that fill it.

Source: `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from jp_nb.agent.prompt_queue import Event
from jp_nb.tooling.faults import is_cancelled

log = logging.getLogger(__name__)

STOP_GRACE = 2.0
"""Seconds that cancelled tools have to clean up."""


class BatchEvents:
    """Runs work beside the coordinator's loop, and hands the results over to that loop.

    Attributes:
        cutting: True while the tasks are being ended.
    """

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._patient: dict[asyncio.Future[None], None] = {}
        self._listens = False
        self._epoch = 0
        self.cutting = False

    @property
    def waiting(self) -> bool:
        """True if there are events that nobody took."""
        return not self._queue.empty()

    def post(self, event: Event) -> None:
        """Have `event` called in the loop."""
        self._queue.put_nowait(event)

    async def next(self) -> Event:
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

    def spawn(self, work: Callable[[], Awaitable[Event]]) -> asyncio.Task[None]:
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
    def _drain(event: Event) -> None:
        """Call `event`; a fault in it leaves the other calls their responses."""
        try:
            event()
        except Exception:
            log.exception("An event of a batch that was cut failed")


def _raise(exc: Exception) -> None:
    raise exc
