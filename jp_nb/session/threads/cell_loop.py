"""The loop of the cell's thread, which runs the work of the agent's thread while a turn runs.

The user's code runs in the cell's thread, and so must displays, prompts, and `def` tools. The
agent's thread puts them into queues (`cell_jobs.py`). The cell's thread runs `CellLoop.serve` until
the turn ends. An interrupt of the kernel reaches it there (`deferred_interrupts.py`).

Source: `docs/architecture.md` (two threads).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import get_ident
from time import monotonic
from typing import Protocol, TypeVar

from jp_nb.session.threads.cell_jobs import (
    Job,
    PostedJob,
    QueuedCall,
    QueuedWork,
    Timer,
    run_first,
    run_first_due,
)
from jp_nb.session.threads.deferred_interrupts import DeferredInterrupts

T = TypeVar("T")

MAX_WAIT_S = 0.1  # limit of a single wait, for systems on which a wait cannot be interrupted


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


class CellLoop:
    """The queues between the agent and the cell's thread.

    It implements `CellThread` (`toolkit/cell_thread.py`), with which tools use the cell's thread.
    Jobs run in the order in which they were posted. Calls (`def` tools) run one at a time, in
    order, each after the jobs posted so far. After an interrupt, `agent_runner.py` *holds* the
    calls: jobs still run, but no call starts until `release`.

    Attributes:
        interrupts: Interrupts of the kernel. While `serve` runs, they are deferred: `serve` raises
            them between two jobs.
        idle_s: Seconds that the cell's thread has waited without work. A job or a function that
            runs does not count. The time in which the process was stopped does not count either,
            because messages of that time are read only afterwards.
        running_call: A new object for each call; None between the calls. It tells a tool from later
            ones for `TurnLine`, which looks for tools that wait for a thread.
    """

    def __init__(self) -> None:
        self.interrupts = DeferredInterrupts(self.wake)
        self.idle_s = 0.0
        self.running_call: object | None = None
        # Any thread appends to the queues, and the cell's thread takes from them.
        self._jobs: deque[QueuedWork] = deque()
        self._calls: deque[QueuedWork] = deque()
        self._is_held = False  # True after an interrupt: no call starts
        # Only the cell's thread uses the timers.
        self._timers: list[Timer] = []  # each deadline is a time of `monotonic`
        self._idle_timers: list[Timer] = []  # each deadline is a value of `idle_s`
        self._job_listener = _JobListener()
        self._listener: Listener = self._job_listener
        self._thread: int | None = None

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
        self._jobs.append(PostedJob(job))
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
        queued_call = QueuedCall(function, self.interrupts)
        self._calls.append(queued_call)  # type: ignore[arg-type]  # the future knows T
        self._listener.wake()
        return await queued_call.result

    def hold(self) -> None:
        """Start no call until `release`, because the kernel was interrupted. Jobs still run."""
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
        self.interrupts.receive()

    def set_listener(self, listener: Listener | None) -> None:
        """Wait with `listener` from now on; None: the default one. Call it on the cell's thread."""
        self._listener = listener or self._job_listener

    def serve(self, until: Callable[[], bool], *, tools: bool = True) -> None:
        """Run jobs and calls until `until()` is true and every job posted before has run.

        `until` is checked after each job: code that makes it true on another thread calls `wake` or
        posts a job. An interrupt raises `KeyboardInterrupt` before the next job or call starts,
        and unstarted work stays queued.

        A `def` tool that waits, for example for an answer in a form, serves the queues meanwhile.
        It passes `tools=False`, so that no other tool starts inside of it.
        """
        with self.interrupts.defer():
            outer_thread = self._thread  # a job may serve the queue too
            self._thread = get_ident()
            try:
                is_finished = False
                while not is_finished:
                    is_finished = self._run_next(until, tools=tools)
            finally:
                self._thread = outer_thread

    def _run_next(self, until: Callable[[], bool], *, tools: bool) -> bool:
        """Run a job or a call, or wait; return True if `serve` ends.

        The order is: a due timer or a job, the condition of `serve`, a call, a wait.
        """
        self.interrupts.check()  # raises `KeyboardInterrupt` for a deferred interrupt
        if run_first_due(self._timers, monotonic()) or run_first(self._jobs):
            return False

        if until():
            return True

        if tools and not self._is_held and self._run_first_call():
            return False

        self._wait()
        if not self._jobs:  # messages that have arrived come before a time limit
            run_first_due(self._idle_timers, self.idle_s)
        return False

    def _wait(self) -> None:
        """Wait for work, at most until a timer is due. Count the time as idle.

        If the process was stopped meanwhile (Ctrl+Z, a sleeping laptop), only `timeout` counts.
        """
        began = monotonic()
        remaining = [timer.deadline - began for timer in self._timers]
        remaining += [timer.deadline - self.idle_s for timer in self._idle_timers]
        timeout = max(0.0, min([MAX_WAIT_S, *remaining]))

        self._listener.wait(timeout)
        self.idle_s += min(timeout, monotonic() - began)

    def _run_first_call(self) -> bool:
        outer_call = self.running_call  # a tool may serve the queue while it waits
        self.running_call = object()
        try:
            return run_first(self._calls)
        finally:
            self.running_call = outer_call
