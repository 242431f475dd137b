"""Run the functions of a batch's tools in the cell's thread, through interrupts of the cell.

A *function* is the part of a run that needs the cell's thread: all of a `def` tool. The thread runs
one at a time. `CellFunctions` knows the functions of the whole batch. The tool of a call gets a
`CellCall`, by which it runs its functions, one or several.

An interrupt *holds* the queue of the thread (`cell_loop.py`): no function begins after it until
`CellFunctions.resume`. Functions that wait in the queue keep their places.

A run is *settled* when the end of the process would not lose its result: the result is kept for the
journal, or the function returned an awaitable instead.

Source: `docs/turns.md`, `docs/architecture.md` (two threads).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event, get_ident
from time import monotonic
from typing import TypeVar

from jp_nb.agent.calls.call import Call
from jp_nb.agent.display import Display, FunctionBegins, FunctionEnds
from jp_nb.agent.interrupts import USER_CONTINUED_VERDICT, Verdict
from jp_nb.toolkit.cell_thread import CellThread, PendingResult
from jp_nb.toolkit.current_run import CURRENT_RUN

T = TypeVar("T")
SETTLE_S = 1.0
"""Maximum time that a function waits until the result of the previous one is recorded.

Recording takes a few milliseconds, unless a tool blocks the agent's loop.
"""


class CellFunctions:
    """Functions of a batch's tools on the cell's thread, and interrupts that end them.

    An interrupt of the cell ends the running function with `KeyboardInterrupt` in its own thread,
    and holds the others. The agent learns of it separately: it calls `note_interrupt`, decides
    about the effect, for example by a menu, and calls `resume`, unless the turn ends.

    The agent's thread uses it, except for `on_begin`, `running`, and `settled`: the cell's thread
    changes them when a function begins. One function runs at a time, so no lock is needed.

    Attributes:
        running: Runs with a function that has not returned.
        pending_count: Number of functions that have not returned, including those that wait.
        interrupt_count: Number of interrupts so far.
        is_deciding: True while the effect of an interrupt is not decided.
        settled: `CellCall.settled` of the last function that began. The next function waits for
            it, so that a function that ends the process does not destroy the earlier result.
    """

    def __init__(self, cell: CellThread, display: Display) -> None:
        self.cell = cell
        self.display = display
        self.running: set[CellCall] = set()
        self.pending_count = 0
        self.interrupt_count = 0
        self.is_deciding = False
        self.settled = Event()
        self.settled.set()
        self._last_continue = USER_CONTINUED_VERDICT  # the last verdict that let functions run
        self._changed = asyncio.Event()  # a function began or ended, or an interrupt was decided
        self._agent_loop = asyncio.get_running_loop()
        # Tasks in `wait_until_begun`. Without one, the begin of a function wakes no task.
        self._begin_waiter_count = 0

    def note_interrupt(self) -> None:
        """Note an interrupt whose effect is not yet decided."""
        self.interrupt_count += 1
        self.is_deciding = True

    def settle_canceled(self) -> None:
        """Let the next function begin after all calls were canceled: no result is recorded."""
        self.settled.set()

    def resume(self, verdict: Verdict | None = None) -> None:
        """Let functions begin again, after the decision about an interrupt.

        `verdict` is that decision. The responses to the calls whose function was interrupted
        depend on it.
        """
        self.is_deciding = False
        self._last_continue = verdict or self._last_continue
        self._changed.set()
        self.cell.release()

    async def wait_for_decision(self, interrupted: CellCall) -> Verdict:
        """Wait for the decision about the interrupt that ended a function of `interrupted`.

        The function may end before the agent learns of the interrupt, or after the decision.
        """
        # While the counts are equal, `note_interrupt` has not been called for this interrupt.
        while self.is_deciding or self.interrupt_count <= interrupted.interrupts_at_begin:
            await self._wait_for_change()
        return self._last_continue

    async def wait_until_ended(self) -> None:
        """Wait until all functions have returned."""
        while self.running:
            await self._wait_for_change()

    async def wait_until_begun(self) -> None:
        """Wait until a function runs, or none waits."""
        # This comes before the look at `running`, because the cell's thread adds to `running` first
        # and then reads this number: otherwise, a function could begin unnoticed in between.
        self._begin_waiter_count += 1
        try:
            while self.pending_count and not self.running:
                await self._wait_for_change()
        finally:
            self._begin_waiter_count -= 1

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def on_begin(self, begun: CellCall) -> None:
        """Note that a function begins, on the cell's thread."""
        self.running.add(begun)
        if self._begin_waiter_count:
            self._agent_loop.call_soon_threadsafe(self._changed.set)

    def on_end(self, ended: CellCall) -> None:
        """Note the end of a function, on the agent's thread."""
        self.running.discard(ended)
        self.pending_count -= 1
        self._changed.set()


class CellCall:
    """The cell's thread for one run of a tool. It implements `CellThread` for the tool.

    A function waits until the previous one, of any run, is settled.

    Attributes:
        interrupts_at_begin: `CellFunctions.interrupt_count` when the last function of the run
            began. It tells an interrupt of this function from earlier ones.
        seconds: Duration of the functions, without the time that they waited.
        settled: Set when the run is settled, or after its end (`tool_runs.py`), for example by an
            error: functions of other runs may begin.
        on_start: Called on the thread before each function, to note the start in the journal.
        on_result: Called on the thread with each result. It returns True if the run is settled.
    """

    def __init__(self, functions: CellFunctions, call: Call) -> None:
        self._functions = functions
        self._call = call
        self.on_start: Callable[[], None] = lambda: None
        self.on_result: Callable[[object], bool] = lambda result: False
        self.settled = Event()
        self.interrupts_at_begin = functions.interrupt_count
        self.seconds = 0.0
        self._pending_since: float | None = None  # when a function returned an awaitable

    @property
    def total_seconds(self) -> float:
        """`seconds`, and the time since a function returned an awaitable."""
        if self._pending_since is None:
            return self.seconds
        return self.seconds + monotonic() - self._pending_since

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the cell's thread, and display its beginning and its end."""
        agent_thread = get_ident()
        run = CURRENT_RUN.get()

        def run_on_cell_thread() -> T:
            """Run `function` after the previous one, and note its times and its result."""
            token = CURRENT_RUN.set(run)  # on the cell's thread, for code that copies the context
            self.interrupts_at_begin = self._functions.interrupt_count
            self._functions.on_begin(self)
            self._functions.display(FunctionBegins(self._call.key, self._call.title))
            previous_settled = self._functions.settled
            self._functions.settled = self.settled
            began = monotonic()

            try:
                # Wait until the previous run is settled: this function may end the process, and the
                # result would be lost. If the agent runs in the cell's own thread, it records the
                # result itself, so it cannot wait for it.
                is_other_run = previous_settled is not self.settled
                if is_other_run and get_ident() != agent_thread:
                    previous_settled.wait(SETTLE_S)
                    began = monotonic()

                self.on_start()
                result = function()
                if isinstance(result, PendingResult):  # an awaitable, for the agent's loop
                    self._pending_since = monotonic()
                if self.on_result(result):
                    self.settled.set()
                return result
            finally:
                CURRENT_RUN.reset(token)
                self.seconds += monotonic() - began
                self._functions.display(FunctionEnds(self._call.key))

        self._functions.pending_count += 1
        try:
            return await self._functions.cell.call(run_on_cell_thread)
        finally:
            self._functions.on_end(self)

    def release(self) -> None:
        """Let waiting functions run."""
        self._functions.cell.release()
