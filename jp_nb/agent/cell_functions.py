"""Functions of tools on the cell's thread, and the interrupts that cut them short.

Source: `docs/turns.md`, `docs/decisions.md` D55.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, get_ident
from time import monotonic
from typing import TypeVar

from jp_nb.agent.calls import Call
from jp_nb.agent.display_events import Display, FunctionBegins, FunctionEnds
from jp_nb.tooling.base import CallInterrupted, CellThread

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
        self.running: set[CellOfRun] = set()
        self.interrupts = 0
        self.settled = Event()
        self.settled.set()

    def for_run(self, call: Call, starts: Callable[[], None]) -> CellOfRun:
        """Return the cell's thread for one run of the tool of `call`.

        `starts` is called there before each function.
        """
        return CellOfRun(self, call, starts)

    def forget_runs(self) -> None:
        """Let the next function run whatever became of the one before: its run was cut."""
        self.settled.set()


class CellOfRun:
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
