"""Coordinate the tasks of tool calls: wait for other work, the screen, or the cell's thread.

Source: `docs/turns.md`, `docs/decisions.md` D55.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from threading import Event, get_ident
from time import monotonic
from typing import TypeVar

from jp_nb.agent.call import Call
from jp_nb.agent.display import Display, FunctionBegins, FunctionEnds
from jp_nb.agent.interrupts import USER_CONTINUED_VERDICT, Verdict
from jp_nb.agent.prompt_queue import PromptQueue, SafeAsk
from jp_nb.agent.prompts import Prompter
from jp_nb.toolkit.cancellation import raise_if_cancelled
from jp_nb.toolkit.cell_thread import CURRENT_RUN, CellThread, PendingResult


class Activity:
    """Counts the tasks of a batch that are not waiting.

    Replayed inquiries wait for all other work, so that their order is reproducible.
    """

    def __init__(self) -> None:
        self._busy = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    def begin(self, count: int = 1) -> None:
        """Count `count` more tasks."""
        self._busy += count

    def end(self) -> None:
        """Count one task less. If none is left, the first waiter continues."""
        self._busy -= 1
        if self._waiters and not self._busy:
            # Not at once: the work may begin something else before it waits.
            asyncio.get_running_loop().call_soon(self._wake_waiter)

    async def when_idle(self) -> None:
        """Wait until each other task is done, or waits here or for a prompt."""
        turn = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        self.end()

        try:
            await turn
        finally:
            if turn in self._waiters:  # the wait was canceled
                self._waiters.remove(turn)
                self._busy += 1

    def _wake_waiter(self) -> None:
        if self._busy == 0 and self._waiters:
            turn = self._waiters.popleft()
            self._busy += 1
            if not turn.done():
                turn.set_result(None)


class _Place:
    def __init__(self, *, first: bool) -> None:
        self.first = first
        self.granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class PromptLine:
    """The line in which calls wait for the screen: one prompt at a time, in order of request.

    A call that waits here does not count as `activity`.
    """

    def __init__(self, prompter: Prompter, activity: Activity, functions: CellFunctions) -> None:
        self._ask = SafeAsk(prompter)
        self.activity = activity
        self.functions = functions
        self._queue = PromptQueue[_Place](self._grant)

    @asynccontextmanager
    async def turn(self, *, first: bool = False, after_run: bool = False) -> AsyncIterator[SafeAsk]:
        """Wait for the screen, and keep it in the block, for one prompt or several.

        `first` goes in front of all others, and ends `hold`. Set `after_run` if the tool of the
        call has run: then the cell's thread begins its next function before the prompt.
        """
        raise_if_cancelled()
        # A prompt on stdin blocks the cell's thread. Before it opens, the other calls take their
        # next step, and the cell's thread takes the function that waits for this call's result.
        await asyncio.sleep(0)
        if after_run:
            await self.functions.wait_until_begun()

        place = _Place(first=first)
        try:
            await self._wait(place, before=lambda other: first)
            yield self._ask
        finally:
            self._queue.remove(place)
            if not place.granted.done() or place.granted.cancelled():
                self.activity.begin()
            self._queue.show_next()
            raise_if_cancelled()

    async def wait_again(self) -> None:
        """Let the menu of an interrupt use the screen, if one waits, then take the screen again.

        Call it inside `turn`. The prompts of other calls wait longer.
        """
        raise_if_cancelled()
        place = self._queue.shown
        assert place is not None
        self._queue.remove(place)
        place.granted = asyncio.get_running_loop().create_future()
        await self._wait(place, before=lambda other: not other.first)

    def hold(self) -> None:
        """Display no new prompt until `release`."""
        self._queue.held = True

    def release(self) -> None:
        """Display the next prompt."""
        self._queue.held = False
        self._queue.show_next()

    def clear(self) -> None:
        """Forget all prompts, because their calls were canceled, and end `hold`."""
        self._queue.clear()
        if self._queue.shown is not None:
            self._queue.remove(self._queue.shown)
        self.release()

    async def _wait(self, place: _Place, *, before: Callable[[_Place], bool]) -> None:
        self.activity.end()
        self._queue.add(place, before=before)
        if place.first:
            self.release()
        await place.granted

    def _grant(self, place: _Place) -> None:
        if not place.granted.done():  # else its call was just canceled
            self.activity.begin()
            place.granted.set_result(None)


T = TypeVar("T")

SETTLE_S = 1.0
"""Maximum time that a function waits until the result of the previous one is recorded.

Recording takes a few milliseconds, unless a tool blocks the agent's loop.
"""


class CellFunctions:
    """Functions of a turn's tools on the cell's thread, and interrupts that end them.

    Attributes:
        running: Runs with a function that has not returned.
        pending: Number of functions that have not returned, including those that wait.
        interrupts: Number of interrupts so far.
        is_deciding: True while the effect of an interrupt is not decided.
        settled: `CellCall.settled` of the last function that began. The next function waits for
            it, so that a function that ends the process does not destroy the earlier result.
    """

    def __init__(self, cell: CellThread, display: Display) -> None:
        self.cell = cell
        self.display = display
        self.running: set[CellCall] = set()
        self.pending = 0
        self.interrupts = 0
        self.is_deciding = False
        self.settled = Event()
        self.settled.set()
        self._last_continue = USER_CONTINUED_VERDICT
        self._changed = asyncio.Event()
        self._agent = asyncio.get_running_loop()
        self._begin_waiters = 0

    def note_interrupt(self) -> None:
        """Note an interrupt whose effect is not yet decided."""
        self.interrupts += 1
        self.is_deciding = True

    def resume(self, verdict: Verdict | None = None) -> None:
        """Let functions run again. `verdict` ends the calls with an interrupted function."""
        self.is_deciding = False
        self._last_continue = verdict or self._last_continue
        self._changed.set()
        self.cell.release()

    async def decision_about(self, interrupted: CellCall) -> Verdict:
        """Wait until the turn continues after the interrupt that ended a function of `interrupted`.

        Return the decision. The function may end before the interrupt itself arrives here, or after
        the decision.
        """
        while self.is_deciding or self.interrupts <= interrupted.interrupts:
            await self._wait_for_change()
        return self._last_continue

    async def wait_until_ended(self) -> None:
        """Wait until all functions have returned."""
        while self.running:
            await self._wait_for_change()

    async def wait_until_begun(self) -> None:
        """Wait until a function runs, or none waits."""
        self._begin_waiters += 1  # before it looks at `running`, to which another thread adds
        try:
            while self.pending and not self.running:
                await self._wait_for_change()
        finally:
            self._begin_waiters -= 1

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def on_begin(self, begun: CellCall) -> None:
        """Note that a function begins, on the cell's thread."""
        self.running.add(begun)
        if self._begin_waiters:
            self._agent.call_soon_threadsafe(self._changed.set)

    def on_end(self, ended: CellCall) -> None:
        """Note the end of a function."""
        self.running.discard(ended)
        self.pending -= 1
        self._changed.set()


class CellCall:
    """The cell's thread for one run of a tool.

    A function waits for the previous one, and for the decision about an interrupt that ended it.

    Attributes:
        interrupts: Number of interrupts when the function began.
        seconds: Duration of the functions, without the time that they waited.
        settled: Set when the result of the run is known: the next function may run.
        on_start: Called on the thread before each function.
        on_result: Called on the thread with each result. If it returns True, the result is settled.
    """

    def __init__(self, functions: CellFunctions, call: Call) -> None:
        self._all = functions
        self._call = call
        self.on_start: Callable[[], None] = lambda: None
        self.on_result: Callable[[object], bool] = lambda result: False
        self.settled = Event()
        self.interrupts = functions.interrupts
        self.seconds = 0.0
        self._pending_since: float | None = None

    @property
    def total_seconds(self) -> float:
        """`seconds`, and the time since a function returned an awaitable."""
        if self._pending_since is None:
            return self.seconds
        return self.seconds + monotonic() - self._pending_since

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` on the cell's thread, and display its beginning and its end."""
        agent = get_ident()
        run = CURRENT_RUN.get()

        def begin() -> T:
            token = CURRENT_RUN.set(run)  # on the cell's thread, for code that copies the context
            self.interrupts = self._all.interrupts
            self._all.on_begin(self)
            self._all.display(FunctionBegins(self._call.key, self._call.title))
            before = self._all.settled
            self._all.settled = self.settled
            began = monotonic()

            try:
                # On the agent's thread, waiting would block the recording.
                if before is not self.settled and get_ident() != agent:
                    before.wait(SETTLE_S)
                    began = monotonic()

                self.on_start()
                result = function()
                if isinstance(result, PendingResult):
                    self._pending_since = monotonic()
                if self.on_result(result):
                    self.settled.set()
                return result
            finally:
                CURRENT_RUN.reset(token)
                self.seconds += monotonic() - began
                self._all.display(FunctionEnds(self._call.key))

        self._all.pending += 1
        try:
            return await self._all.cell.call(begin)
        finally:
            self._all.on_end(self)

    def release(self) -> None:
        """Let waiting functions run."""
        self._all.cell.release()
