"""Job queue of the cell's thread while a turn runs.

The agent's thread posts jobs: displays, prompts, and `def` tools. The cell's thread runs them until
the turn ends.

Source: `docs/architecture.md`.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from operator import attrgetter
from queue import Empty, SimpleQueue
from threading import current_thread, get_ident, main_thread
from time import monotonic
from typing import Generic, Protocol, TypeVar

from jp_nb.toolkit.cell_thread import CallInterrupted, ControlFlowError

T = TypeVar("T")
V = TypeVar("V")
Job = Callable[[], None]

MAX_WAIT_S = 0.1  # limit of a single wait, for systems on which a wait cannot be interrupted

MAX_INTERRUPTS = 3
"""The interrupt with this number ends even work that handles none, such as a hanging callback."""

log = logging.getLogger(__name__)


# A future cannot hold a StopIteration.
_ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, StopIteration)


def _never() -> bool:
    return False


_DEFAULT_HANDLER = signal.default_int_handler


def _is_main_thread() -> bool:
    return current_thread() is main_thread()


class DeferredInterrupts:
    """Delays SIGINT while jobs run, so that it cannot end a job halfway.

    While `deferring`, SIGINT is counted, and `check` raises `KeyboardInterrupt`. `on_interrupt` and
    `next_handler` run in the signal handler, and must not take a lock.

    Attributes:
        received: Number of interrupts so far.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.on_interrupt: Callable[[], None] | None = None
        self.next_handler: Callable[[], None] | None = None
        self.received = 0
        self._count = 0
        self._is_internal: Callable[[], bool] = _never
        self.deferring = False

    @contextmanager
    def defer(self, *, in_job: bool = False) -> Iterator[None]:
        """Defer interrupts in the block, and raise `KeyboardInterrupt` after it.

        `in_job`: the block is part of a job of `serve`, which has installed the handler.
        """
        outer = self.deferring
        installs = False
        if not in_job and _is_main_thread():
            installs = signal.getsignal(signal.SIGINT) is _DEFAULT_HANDLER

        try:  # an interrupt can arrive between any two of these lines
            self.deferring = True
            if installs:
                signal.signal(signal.SIGINT, self._handle_signal)
            yield
        finally:
            self.deferring = outer
            if installs:
                signal.signal(signal.SIGINT, _DEFAULT_HANDLER)
        if not outer:
            self.check()

    @contextmanager
    def allow(self, is_internal: Callable[[], bool] = _never) -> Iterator[None]:
        """Allow interrupts in the block, which runs user code or waits for a line.

        Interrupts for which `is_internal` returns True are raised, but not reported.
        """
        self.check()

        outer = self.deferring
        self.deferring = False
        self._is_internal = is_internal

        try:
            yield
        finally:
            self.deferring = outer
            self._is_internal = _never

    def check(self) -> None:
        """Raise one `KeyboardInterrupt` if interrupts were deferred."""
        count = self._count
        self._count = 0
        if count:
            raise KeyboardInterrupt

    def is_unchanged(self, received: int) -> bool:
        """Return True if no interrupt arrived since the number of interrupts was `received`."""
        if not _is_main_thread() or signal.getsignal(signal.SIGINT) != self._handle_signal:
            return False  # not known
        return self.received == received

    def count(self) -> None:
        """Count an interrupt, which `check` raises."""
        self._count += 1
        if self.on_interrupt is not None and not self._is_internal():
            self.on_interrupt()

    def _handle_signal(self, *_: object) -> None:
        self.received += 1
        if self.deferring and self.next_handler is not None:
            handler = self.next_handler
            self.next_handler = None
            handler()
            return

        self.count()
        if not self.deferring or self._count >= MAX_INTERRUPTS:
            self._count = 0
            raise KeyboardInterrupt

        self._wake()


class Listener(Protocol):
    """Waits on the cell's thread until `wake` is called, an event arrives, or time is over."""

    def wait(self, timeout: float) -> None:
        """Wait at most `timeout` seconds. Return at once if there is work."""

    def wake(self) -> None:
        """End the current or the next wait; from any thread."""


class _JobListener:
    """The default listener: only jobs end its wait."""

    def __init__(self) -> None:
        # A SimpleQueue, not an Event: its C code leaves no lock behind when interrupted.
        self._wakeups: SimpleQueue[None] = SimpleQueue()

    def wait(self, timeout: float) -> None:
        try:
            self._wakeups.get(timeout=timeout)
        except Empty:
            return

    def wake(self) -> None:
        # One wakeup is enough: its receiver looks at all queues.
        if self._wakeups.empty():
            self._wakeups.put(None)


class _PostedJob:
    """A job without a result."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.started = False

    def run(self) -> None:
        self.started = True
        try:
            self._job()
        except Exception:
            log.exception("A job on the cell's thread failed; the turn continues")


class _QueuedCall(Generic[T]):
    """A function call whose result a task of the agent awaits."""

    def __init__(self, function: Callable[[], T], interrupts: DeferredInterrupts) -> None:
        self._function = function
        self._interrupts = interrupts
        self._loop = asyncio.get_running_loop()
        self.result: asyncio.Future[T] = self._loop.create_future()
        self.started = False

    def run(self) -> None:
        self._interrupts.check()  # else the function would start and end at once
        self.started = True
        if self.result.cancelled():
            return

        received = self._interrupts.received
        try:
            try:
                self._interrupts.deferring = False
                result = self._function()
            finally:
                self._interrupts.deferring = True
        except _ENDS as exc:
            if isinstance(exc, KeyboardInterrupt) and self._interrupts.is_unchanged(received):
                own = ControlFlowError(repr(exc))  # the user did not interrupt
                own.__cause__ = exc
                self._end(self.result.set_exception, own)
                return

            cause = f"{type(exc).__name__}: {exc}" if str(exc) else repr(exc)
            interrupted = CallInterrupted(cause)
            interrupted.__cause__ = exc
            self._end(self.result.set_exception, interrupted)
            if isinstance(exc, KeyboardInterrupt):
                raise
        except CancelledError:  # of a future that the function awaited: the call ends like its task
            self._end(self.result.set_exception, asyncio.CancelledError())
        except BaseException as exc:
            self._end(self.result.set_exception, exc)
        else:
            self._end(self.result.set_result, result)

    def _end(self, end: Callable[[V], None], value: V) -> None:
        def settle() -> None:
            if not self.result.done():  # else the task was canceled
                end(value)

        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle)


class Timer(_PostedJob):
    """A job that runs at `deadline`."""

    def __init__(self, deadline: float, job: Job) -> None:
        super().__init__(job)
        self.deadline = deadline

    def cancel(self) -> None:
        """Drop the job if it has not run; from any thread."""
        self._job = lambda: None


def _run_first_due(timers: list[Timer], now: float) -> bool:
    first = min(timers, key=attrgetter("deadline"), default=None)
    if first is None or first.deadline > now:
        return False

    timers.remove(first)
    first.run()
    return True


class CellLoop:
    """The queue between the agent and the cell's thread; implements `CellThread`.

    Jobs run in the order in which they were posted. Calls (`def` tools) run one at a time, in
    order, each after the jobs posted so far.

    Attributes:
        interrupts: Only `serve` raises `KeyboardInterrupt` while they are deferred.
        idle_s: Seconds that the cell's thread has waited without work. A job or a function that
            runs does not count. The time in which the process was stopped does not count either,
            because messages of that time are read only afterwards.
        running_call: Stands for the call that runs now; None between the calls.
    """

    def __init__(self) -> None:
        self._jobs: deque[_PostedJob | _QueuedCall[object]] = deque()
        self._calls: deque[_PostedJob | _QueuedCall[object]] = deque()
        self.idle_s = 0.0
        self._timers: list[Timer] = []  # used only by the cell's thread, as the next ones
        self._idle_timers: list[Timer] = []
        self._job_listener = _JobListener()
        self._listener: Listener = self._job_listener
        self._thread: int | None = None
        self._is_held = False
        self.running_call: object | None = None
        self.interrupts = DeferredInterrupts(self.wake)

    @property
    def thread(self) -> int | None:
        """The id of the thread that serves the queue now."""
        return self._thread

    @property
    def is_served_by_other_thread(self) -> bool:
        """True if another thread than the caller's serves the queue."""
        return self._thread not in (None, get_ident())

    def post(self, job: Job) -> None:
        """Queue `job` for the cell's thread; from any thread. An exception in it is logged."""
        self._jobs.append(_PostedJob(job))
        self._listener.wake()

    def wake(self) -> None:
        """Let `serve` check its condition again; from any thread."""
        self._listener.wake()

    def call_later(self, seconds: float, job: Job) -> Timer:
        """Run `job` on the cell's thread in `seconds`, if it serves the queue then."""
        timer = Timer(monotonic() + seconds, job)
        self.post(lambda: self._timers.append(timer))
        return timer

    def call_after_idle(self, seconds: float, job: Job) -> Timer:
        """Run `job` when the cell's thread has been idle for `seconds` from now on.

        Use it for time limits of users and pages: messages that have arrived are handled before the
        limit takes effect. Call it on the cell's thread.
        """
        timer = Timer(self.idle_s + seconds, job)
        self._idle_timers.append(timer)
        return timer

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the cell's thread; return its result or raise its exception.

        Cancelling the awaiting task removes a function that has not started.

        Raises:
            CallInterrupted: An interrupt, or an exception such as `SystemExit`, ended it.
            ControlFlowError: The function raised a `KeyboardInterrupt` without an interrupt.
        """
        called = _QueuedCall(function, self.interrupts)
        self._calls.append(called)  # type: ignore[arg-type]  # the future knows T
        self._listener.wake()
        return await called.result

    def hold(self) -> None:
        """Start no call until `release`, because the kernel was interrupted."""
        self._is_held = True

    def release(self) -> None:
        """Start calls again; from any thread."""
        self._is_held = False
        self._listener.wake()

    def replace_next_interrupt(self, job: Job | None) -> None:
        """Let the next interrupt post `job` instead of interrupting the turn; None: undo that.

        The caller must show a notice about it. A running `def` tool is interrupted as usual.
        """
        self.interrupts.next_handler = None if job is None else lambda: self.post(job)

    def interrupt(self) -> None:
        """Interrupt the turn, as the kernel's stop button does. Call it in a job of `serve`."""
        self.interrupts.count()

    def set_listener(self, listener: Listener | None) -> None:
        """Wait with `listener` from now on; None: the default one. Call it on the cell's thread."""
        self._listener = listener or self._job_listener

    def serve(self, until: Callable[[], bool], *, tools: bool = True) -> None:
        """Run jobs and calls until `until()` is true and every job posted before has run.

        `until` is checked after each job: code that makes it true on another thread calls `wake` or
        posts a job. A call that waits passes `tools=False`, so that other calls stay queued. An
        interrupt raises `KeyboardInterrupt` at once, and unstarted work stays queued.
        """
        with self.interrupts.defer():
            outer = self._thread
            self._thread = get_ident()
            try:
                while not self._run_next(until, tools=tools):
                    pass
            finally:
                self._thread = outer

    def _run_next(self, until: Callable[[], bool], *, tools: bool) -> bool:
        """Run a job or a call, or wait; return True at the end."""
        self.interrupts.check()
        if _run_first_due(self._timers, monotonic()) or _run_first(self._jobs):
            return False

        if until():
            return True

        if tools and not self._is_held and self._run_first_call():
            return False

        began = monotonic()
        left = [each.deadline - began for each in self._timers]
        left += [each.deadline - self.idle_s for each in self._idle_timers]
        timeout = max(0.0, min([MAX_WAIT_S, *left]))
        self._listener.wait(timeout)
        self.idle_s += min(timeout, monotonic() - began)

        if not self._jobs:
            _run_first_due(self._idle_timers, self.idle_s)
        return False

    def _run_first_call(self) -> bool:
        outer = self.running_call
        self.running_call = object()
        try:
            return _run_first(self._calls)
        finally:
            self.running_call = outer


def _run_first(jobs: deque[_PostedJob | _QueuedCall[object]]) -> bool:
    # A job leaves the queue only after it started: an interrupt in between must not lose it.
    while jobs and jobs[0].started:
        jobs.popleft()

    if not jobs:
        return False
    jobs[0].run()
    return True
