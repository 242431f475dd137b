"""Work in the queues of the cell's thread: jobs, calls of functions, and timers.

`CellLoop` (`cell_loop.py`) runs them. A *job* has no result, and an exception in it is logged. A
*call* is a `def` tool or another function of the user: a task on the agent's event loop awaits its
result, and only there an interrupt may end it halfway.

Source: `docs/architecture.md` (two threads).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from operator import attrgetter
from typing import Final, Generic, TypeVar

from jp_nb.session.threads.deferred_interrupts import DeferredInterrupts
from jp_nb.toolkit.cell_thread import CallInterrupted, ControlFlowError

T = TypeVar("T")
V = TypeVar("V")
Job = Callable[[], None]

log = logging.getLogger(__name__)

_ENDING_ERRORS: Final = (
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    asyncio.CancelledError,
    StopIteration,
)
"""Exceptions that would end the agent's event loop, or its task, if a future raised them there.

A future cannot even hold a `StopIteration`.
"""


class PostedJob:
    """A job without a result."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.started = False

    def run(self) -> None:
        """Run the job, and log its exception."""
        self.started = True
        try:
            self._job()
        except Exception:
            log.exception("A job on the cell's thread failed; the turn continues")


class QueuedCall(Generic[T]):
    """A function call whose `result` a task of the agent awaits. Make it on the agent's loop.

    `interrupts` counts the interrupts that arrive (`received`). While it is `deferring`, it keeps
    them, and `check` raises one that was kept.
    """

    def __init__(self, function: Callable[[], T], interrupts: DeferredInterrupts) -> None:
        self._function = function
        self._interrupts = interrupts
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[T] = self._loop.create_future()
        self.started = False

    def run(self) -> None:
        """Run the function, and set the result or the exception.

        A future must not get an exception that would end the event loop, or the awaiting task. So
        `result` has another one in its place:

        - `CallInterrupted`, if the user interrupted the function, or it raised `SystemExit` or
          another exception of `_ENDING_ERRORS`;
        - `ControlFlowError`, if the function raised `KeyboardInterrupt` without an interrupt;
        - `asyncio.CancelledError`, if a future that the function waited for was canceled: the call
          ends like its task.

        Raises:
            KeyboardInterrupt: The user interrupted the function. The cell's thread handles it too.
        """
        # Raises a deferred interrupt now. Otherwise the function would start and end at once.
        self._interrupts.check()
        self.started = True
        if self.result.cancelled():
            return

        received_count = self._interrupts.received
        try:
            result = self._run_interruptible()
        except _ENDING_ERRORS as exc:
            is_keyboard_interrupt = isinstance(exc, KeyboardInterrupt)
            if is_keyboard_interrupt and self._interrupts.is_unchanged(received_count):
                control_flow_error = ControlFlowError(repr(exc))
                control_flow_error.__cause__ = exc
                self._settle(self.result.set_exception, control_flow_error)
                return

            cause = f"{type(exc).__name__}: {exc}" if str(exc) else repr(exc)
            interrupted = CallInterrupted(cause)
            interrupted.__cause__ = exc
            self._settle(self.result.set_exception, interrupted)
            if is_keyboard_interrupt:
                raise
        except CancelledError:  # of `concurrent.futures`, which is another class than asyncio's
            self._settle(self.result.set_exception, asyncio.CancelledError())
        except BaseException as exc:
            self._settle(self.result.set_exception, exc)
        else:
            self._settle(self.result.set_result, result)

    def _run_interruptible(self) -> T:
        """Run the function, which is the user's code: an interrupt may end it halfway."""
        try:
            self._interrupts.deferring = False
            return self._function()
        finally:
            self._interrupts.deferring = True

    def _settle(self, set_end: Callable[[V], None], value: V) -> None:
        """Call `set_end`, a method of `result`, on the agent's loop."""

        def settle_once() -> None:
            if not self.result.done():  # else the task was canceled
                set_end(value)

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle_once)


QueuedWork = PostedJob | QueuedCall[object]


def run_first(queue: deque[QueuedWork]) -> bool:
    """Run the first item of `queue`; return False if there is none.

    An item stays in the queue while it runs, and the next call removes it. If it left the queue
    before, an interrupt between the two steps would lose it: not every interrupt is deferred, for
    example the third one.
    """
    while queue and queue[0].started:
        queue.popleft()

    if not queue:
        return False
    queue[0].run()
    return True


class Timer(PostedJob):
    """A job that runs at `deadline`."""

    def __init__(self, deadline: float, job: Job) -> None:
        super().__init__(job)
        self.deadline = deadline

    def cancel(self) -> None:
        """Drop the job if it has not run; from any thread."""
        self._job = lambda: None


def run_first_due(timers: list[Timer], now: float) -> bool:
    """Run the timer with the earliest deadline if it is due; return True if it was.

    It is removed before it runs: its job may serve the timers again.
    """
    first = min(timers, key=attrgetter("deadline"), default=None)
    if first is None or first.deadline > now:
        return False

    timers.remove(first)
    first.run()
    return True
