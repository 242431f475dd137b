"""The clock by which the display of a turn is updated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from jp_nb.session.cell_loop import CellLoop, Timer

CHARS_PER_INTERVAL = 20_000
"""Longer parts are updated less often: each update sends the whole of one."""

TICK = 1.0
"""Seconds between two updates that only say how long something is waited for."""


class UpdateClock:
    """Has a display updated soon after something came, not too often, and while nothing comes.

    Args:
        cell: The cell's thread.
        update: Updates the display, and calls `begins` and `updated`.
        elsewhere: Has a job run on the agent's loop.
        update_elsewhere: Updates it from there, if the cell's thread does something else.
        interval: Shortest time between two updates, in seconds.
        ticks: Whether it is updated while nothing comes.

    Attributes:
        soonest: When it may be updated next.
    """

    def __init__(
        self,
        cell: CellLoop,
        update: Callable[[], None],
        *,
        elsewhere: Callable[[Callable[[], None]], None],
        update_elsewhere: Callable[[], None],
        interval: float,
        ticks: bool,
    ) -> None:
        self._cell = cell
        self._update = update
        self._elsewhere = elsewhere
        self._update_elsewhere = update_elsewhere
        self._interval = interval
        self._ticks = ticks
        self._ticks_elsewhere = False
        self._scheduled: float | None = None
        self._comes_early = False
        self._updated = self.soonest = self._spacing = 0.0
        self._timer: Timer | None = None
        self._ticker: Timer | None = None

    def schedule(self, patience: float, *, at_once: bool = False) -> None:
        """Update within `patience`, but not too soon after the last one; from any thread.

        `at_once`: a tool may take this thread, so its line comes one interval early.
        """
        due = monotonic() + patience
        if at_once and self._comes_early:
            return
        if self._scheduled is not None and self._scheduled <= due and not at_once:
            return
        self._scheduled, self._comes_early = due, self._comes_early or at_once
        self._cell.post(lambda: self._update_at(due, at_once=at_once))

    def _update_at(self, due: float, *, at_once: bool) -> None:
        wait = max(due, self.soonest - (self._spacing if at_once else 0.0)) - monotonic()
        if self._timer is not None:
            self._timer.cancel()
        if wait > 0:
            self._timer = self._cell.call_later(wait, self._update)
        else:
            self._update()

    def begins(self) -> None:
        """Note that an update begins: what comes from now on needs another one."""
        self._scheduled, self._comes_early = None, False

    def updated(self, size: int) -> None:
        """Note that an update is done, for which `size` characters were looked at."""
        self._updated = monotonic()
        self._spacing = self._interval * (1 + size / CHARS_PER_INTERVAL)
        self.soonest = max(self.soonest, self._updated) + self._spacing
        self._tick_later()

    def _tick(self) -> None:
        """Say how long it has taken by now, unless that was just said; and again later."""
        self._ticker = None
        if monotonic() < max(self._updated + TICK, self.soonest):
            self._tick_later()
        else:
            self._update()

    def _tick_later(self) -> None:
        if self._ticks and self._ticker is None:
            due = max(self._updated + TICK, self.soonest)
            self._ticker = self._cell.call_later(max(0.0, due - monotonic()), self._tick)

    def tick_elsewhere(self) -> None:
        """Update from the agent's loop, too, from now on: a function has the cell's thread."""
        if self._ticks and not self._ticks_elsewhere:
            self._ticks_elsewhere = True
            self._elsewhere(self._tick_elsewhere)

    def _tick_elsewhere(self) -> None:
        if not self._ticks:
            return
        if monotonic() > max(self._updated + TICK / 2, self.soonest):
            self._update_elsewhere()
        asyncio.get_running_loop().call_later(TICK, self._tick_elsewhere)

    def stop(self) -> None:
        """Update no more."""
        self._ticks = False
        for timer in (self._timer, self._ticker):
            if timer is not None:
                timer.cancel()
