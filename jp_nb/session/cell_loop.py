"""The loop of the cell's thread while a turn runs.

The agent runs on a thread of its own. Whatever it wants shown, asked or run where the user's
code lives comes here as a job, and the cell's thread serves jobs until the turn is done.

Source: `docs/architecture.md`
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from math import inf
from queue import Empty, SimpleQueue
from threading import current_thread, get_ident, main_thread
from time import monotonic
from typing import Generic, Protocol, TypeVar

from jp_nb.tools.base import CallInterrupted

T = TypeVar("T")
Job = Callable[[], None]

SLICE = 0.1
"""Longest single wait in seconds, for systems on which a wait cannot be interrupted."""

INTERRUPTS_OF_OWN_WORK = 3
"""So many interrupts end even what is ours: a callback of a widget, say, that does not return."""

log = logging.getLogger(__name__)


def _nobody_hears() -> None:
    """Do nothing: nobody wants to know of interrupts."""


def _none_is_ours() -> bool:
    """Return False: every interrupt comes from outside."""
    return False


class DeferredInterrupts:
    """Lets no interrupt land in the middle of our own work, where it would leave half of it done.

    While it is closed, SIGINT is noted and `check` raises `KeyboardInterrupt` for it.

    Args:
        wake: Ends the wait that goes on.

    Attributes:
        heard: Is called for each interrupt, in the signal's handler.
        instead: Takes the next interrupt that comes while it is closed, once, in the signal's
            handler: it is then no interrupt of the turn.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.heard: Callable[[], None] = _nobody_hears
        self.instead: Callable[[], None] | None = None
        self._noted = 0
        self._is_ours: Callable[[], bool] = _none_is_ours
        self._installed = False
        self.closed = False

    @contextmanager
    def close(self) -> Iterator[None]:
        """Keep interrupts out of the block; one that came is raised after it."""
        outer, self.closed = self.closed, True
        ours = (
            not outer
            and not self._installed  # a block around this one hears for it
            and current_thread() is main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        try:
            if ours:
                signal.signal(signal.SIGINT, self._note)
                self._installed = True
            yield
        finally:
            if ours:
                self._installed = False
                signal.signal(signal.SIGINT, signal.default_int_handler)
            self.closed = outer
        if not outer:
            self.check()

    @contextmanager
    def open(self, is_ours: Callable[[], bool] = _none_is_ours) -> Iterator[None]:
        """Let interrupts into the block: code of others runs in it, or it waits for a line.

        Those for which `is_ours` are raised as all are, and told to nobody: no person made them.
        """
        self.check()
        outer, self.closed, self._is_ours = self.closed, False, is_ours
        try:
            yield
        finally:
            self.closed, self._is_ours = outer, _none_is_ours

    def check(self) -> None:
        """Raise `KeyboardInterrupt` for interrupts that came; however many, one."""
        noted, self._noted = self._noted, 0
        if noted:
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        if self.closed and self.instead is not None:
            take, self.instead = self.instead, None
            take()
            return
        self._noted += 1
        if not self._is_ours():
            self.heard()
        if not self.closed or self._noted >= INTERRUPTS_OF_OWN_WORK:
            self._noted = 0
            raise KeyboardInterrupt
        self._wake()


class Listener(Protocol):
    """How the cell's thread sleeps: until `wake`, until something came in, or `timeout`."""

    def wait(self, timeout: float) -> None:
        """Return at once if there is something to do; on the cell's thread."""
        ...

    def wake(self) -> None:
        """End the wait that goes on, or the next one; from any thread."""
        ...


class _Bell:
    """The listener for when nothing but jobs can come in."""

    def __init__(self) -> None:
        # A SimpleQueue, not an Event: its C code leaves no lock behind when interrupted.
        self._rings: SimpleQueue[None] = SimpleQueue()

    def wait(self, timeout: float) -> None:
        try:
            self._rings.get(timeout=timeout)
        except Empty:
            return

    def wake(self) -> None:
        # Whoever takes a ring that is still there looks at the queues after that.
        if self._rings.empty():
            self._rings.put(None)


class _Posted:
    """A job for which nobody waits."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.started = False

    def run(self) -> None:
        self.started = True
        try:
            self._job()
        except Exception:
            log.exception("A job on the cell's thread failed; the turn continues")


class _Called(Generic[T]):
    """A function whose result somebody waits for."""

    def __init__(self, function: Callable[[], T], shelter: DeferredInterrupts) -> None:
        self._function = function
        self._shelter = shelter
        self.future: Future[T] = Future()
        self.started = False

    def run(self) -> None:
        self._shelter.check()  # or it would begin and be cut at once
        self.started = True
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            try:
                self._shelter.closed = False
                result = self._function()
            finally:
                self._shelter.closed = True
            self.future.set_result(result)
        except (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError) as exc:
            self._fail(_interrupted(exc))
            if isinstance(exc, KeyboardInterrupt):
                raise
        except StopIteration as exc:  # futures refuse it
            self._fail(_interrupted(exc))
        except BaseException as exc:
            self._fail(exc)

    def _fail(self, exc: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(exc)


def _interrupted(exc: BaseException) -> CallInterrupted:
    interrupted = CallInterrupted(f"{type(exc).__name__}: {exc}" if str(exc) else repr(exc))
    interrupted.__cause__ = exc
    return interrupted


class Timer:
    """A job for later; `cancel` is for any thread.

    Attributes:
        deadline: When it is due, by the clock of its queue.
    """

    def __init__(self, deadline: float, job: Job) -> None:
        self.deadline = deadline
        self._job: Job | None = job

    def cancel(self) -> None:
        """Forget the job if it has not run yet."""
        self._job = None

    def run(self) -> None:
        """Run the job, once."""
        job, self._job = self._job, None
        if job is not None:
            _Posted(job).run()


class _Timers:
    """Timers in the order in which they are due, by one clock. Of the cell's thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due: list[tuple[float, int, Timer]] = []
        self._sequence = itertools.count()

    def add(self, timer: Timer) -> None:
        heapq.heappush(self._due, (timer.deadline, next(self._sequence), timer))

    def seconds_left(self) -> float:
        """Return the seconds until the first one is due; infinity without any."""
        return max(0.0, self._due[0][0] - self._clock()) if self._due else inf

    def run_first_due(self) -> bool:
        """Run the first timer if it is due; return whether it was."""
        if self.seconds_left() > 0:
            return False
        heapq.heappop(self._due)[-1].run()
        return True


class CellLoop:
    """The queue between the agent and the cell's thread; implements `CellThread`.

    Jobs run in the order in which they were posted. Calls (`def` tools) run one at a time, in
    order, each once the jobs posted so far are done.

    Attributes:
        idle_s: Seconds for which the cell's thread has waited with nothing to do. This clock does
            not advance while a function or a job keeps the thread, nor while the whole process is
            stopped: messages that arrive then are read afterwards.
    """

    def __init__(self) -> None:
        self._jobs: deque[_Posted | _Called[object]] = deque()
        self._calls: deque[_Posted | _Called[object]] = deque()
        self.idle_s = 0.0
        self._timers = _Timers(lambda: monotonic())
        self._patient_timers = _Timers(lambda: self.idle_s)
        self._bell = _Bell()
        self._listener: Listener = self._bell
        self._thread: int | None = None
        self._held = False
        self._shelter = DeferredInterrupts(self.wake)

    @property
    def is_served_by_other_thread(self) -> bool:
        """True if another thread than the caller's is the one that serves."""
        return self._thread not in (None, get_ident())

    def post(self, job: Job) -> None:
        """Have `job` run on the cell's thread; from any thread. An error in it is logged."""
        self._jobs.append(_Posted(job))
        self._listener.wake()

    def wake(self) -> None:
        """Have `serve` look at its condition again; from any thread."""
        self._listener.wake()

    def call_later(self, seconds: float, job: Job) -> Timer:
        """Have `job` run on the cell's thread in `seconds`, if it serves then."""
        timer = Timer(monotonic() + seconds, job)
        self.post(lambda: self._timers.add(timer))
        return timer

    def call_after_idle(self, seconds: float, job: Job) -> Timer:
        """Have `job` run once the cell's thread has waited for `seconds` more and nothing came.

        For time that is given to the user or to a page: it counts by `waited`, and everything that
        has arrived is handled first. On the cell's thread.
        """
        timer = Timer(self.idle_s + seconds, job)
        self._patient_timers.add(timer)
        return timer

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the cell's thread and return or raise what it does.

        Cancelling the awaiting task takes a function away that has not started.

        Raises:
            CallInterrupted: If an interrupt, or an exception such as `SystemExit`, cut it short.
        """
        called = _Called(function, self._shelter)
        self._calls.append(called)  # type: ignore[arg-type]  # who reads the result knows T
        self._listener.wake()
        return await asyncio.wrap_future(called.future)

    def hold(self) -> None:
        """Start no call any more until `release`: the kernel was interrupted."""
        self._held = True

    def release(self) -> None:
        """Let calls run again; from any thread."""
        self._held = False
        self._listener.wake()

    def set_interrupt_handler(self, heard: Callable[[], None] | None) -> None:
        """Have `heard` called for each interrupt as it comes, whatever the cell's thread does.

        It runs in the signal's handler: it takes no lock. None: nobody wants to know.
        """
        self._shelter.heard = heard or _nobody_hears

    def replace_next_interrupt(self, job: Job | None) -> None:
        """Have the next interrupt post `job` instead of interrupting the turn; None: not any more.

        Only while a notice on screen says so. An interrupt of a running function still reaches
        that function.
        """
        self._shelter.instead = None if job is None else lambda: self.post(job)

    def defer_interrupts(self) -> AbstractContextManager[None]:
        """Return a block in which `KeyboardInterrupt` comes out of `serve` alone, or after it."""
        return self._shelter.close()

    def allow_interrupts(
        self, is_ours: Callable[[], bool] = _none_is_ours
    ) -> AbstractContextManager[None]:
        """Return a block within a job that an interrupt is to end at once.

        One for which `is_ours`, such as that of a deadline, is no interrupt of the turn.
        """
        return self._shelter.open(is_ours)

    def set_listener(self, listener: Listener | None) -> None:
        """Sleep with `listener` from now on, None: the usual way; on the cell's thread."""
        self._listener = listener or self._bell

    def serve(self, until: Callable[[], bool], *, tools: bool = True) -> None:
        """Run what comes in until `until()` is true and every job posted before has run.

        `until` is looked at after each job: whatever makes it true from another thread calls
        `wake` or posts a job. With `tools` false, calls stay queued: for a wait inside one.
        `KeyboardInterrupt` comes out at once, with everything that has not started still queued.
        """
        with self._shelter.close():
            self._serve(until, tools=tools)

    def _serve(self, until: Callable[[], bool], *, tools: bool) -> None:
        outer, self._thread = self._thread, get_ident()
        try:
            while True:
                self._shelter.check()
                if self._timers.run_first_due() or _run_first(self._jobs):
                    continue
                if until():
                    return
                if tools and not self._held and _run_first(self._calls):
                    continue
                self._wait()
                if not self._jobs:
                    self._patient_timers.run_first_due()
        finally:
            self._thread = outer

    def _wait(self) -> None:
        """Sleep until something comes in or a timer is due, and count the time."""
        left = min(self._timers.seconds_left(), self._patient_timers.seconds_left())
        timeout = min(SLICE, left)
        began = monotonic()
        self._listener.wait(timeout)
        self.idle_s += min(timeout, monotonic() - began)


def _run_first(jobs: deque[_Posted | _Called[object]]) -> bool:
    """Run the first job that has not started; return whether there was one.

    A job leaves the queue only after it started: an interrupt in between must not lose it.
    """
    while jobs and jobs[0].started:
        jobs.popleft()
    if not jobs:
        return False
    jobs[0].run()
    return True
