"""Schedule the updates of a turn's display: soon after an event, but not too often.

After an update, the next one is allowed after the *spacing*, which is longer for long outputs.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from time import monotonic

from jp_nb.session.threads.cell_jobs import Timer
from jp_nb.session.threads.cell_loop import CellLoop

CHARS_PER_INTERVAL = 20_000
"""Longer parts are updated less often, because each update sends a part completely."""

TICK_S = 1.0
"""Time between two updates of the elapsed time in the status line."""


@dataclass(slots=True, eq=False)
class UpdateClock:
    """Timer of updates: soon after an event, limited in rate, and with `ticks` without events.

    Attributes:
        cell: The loop of the cell's thread, on which `update` is called.
        update: Updates the display. It calls `begin_update` and `end_update`.
        update_in_agent_loop: Updates the display from the agent's event loop, while a function
            occupies the cell's thread.
        run_in_agent_loop: Runs a function on the agent's event loop.
        interval: Shortest time between two updates, in seconds.
        ticks: True to update the elapsed time each second, without an event.
        ticks_in_agent_loop: True once the agent's loop also updates the elapsed time.
        next_allowed: Monotonic time before which the rate limit allows only an early update.
    """

    cell: CellLoop
    update: Callable[[], None]
    _: KW_ONLY
    run_in_agent_loop: Callable[[Callable[[], None]], None]
    update_in_agent_loop: Callable[[], None]
    interval: float
    ticks: bool
    ticks_in_agent_loop: bool = False
    next_allowed: float = 0.0
    _due_at: float | None = None  # monotonic time of the scheduled update; None without one
    _is_early: bool = False  # True if an early update is scheduled
    _updated_at: float = 0.0  # monotonic time at which the last update ended
    _spacing: float = 0.0  # seconds
    _timer: Timer | None = None  # of the scheduled update
    _ticker: Timer | None = None  # of the next tick

    def schedule(self, delay: float, *, early: bool = False) -> None:
        """Schedule an update in `delay` seconds, or when the rate limit allows it. Thread-safe.

        With `early`, the limit allows it one spacing earlier, so that the line of a tool is
        visible before the tool occupies the cell's thread.
        """
        due = monotonic() + delay

        # A scheduled update that comes in time also shows this event. For an early event, only an
        # early update does.
        is_due_before = self._due_at is not None and self._due_at <= due
        is_scheduled_in_time = self._is_early if early else is_due_before
        if is_scheduled_in_time:
            return

        self._due_at = due
        self._is_early = self._is_early or early

        # On the cell's thread. The timer of a later update is replaced.
        def update_at_due() -> None:
            if self._timer is not None:
                self._timer.cancel()

            allowed = self.next_allowed
            if early:
                allowed -= self._spacing

            wait = max(due, allowed) - monotonic()
            if wait > 0:
                self._timer = self.cell.call_later(wait, self.update)
            else:
                self.update()

        self.cell.post(update_at_due)

    def begin_update(self) -> None:
        """Note that an update begins. Later events need another update."""
        self._due_at = None
        self._is_early = False

    def end_update(self, size: int) -> None:
        """Note that an update has ended, which rendered `size` characters."""
        self._updated_at = monotonic()
        self._spacing = self.interval * (1 + size / CHARS_PER_INTERVAL)
        # After an early update, `next_allowed` is still ahead, so that the next one waits longer.
        self.next_allowed = max(self.next_allowed, self._updated_at) + self._spacing

        if self.ticks and self._ticker is None:
            self._tick()

    def _tick(self) -> None:
        """Update if there was none for a second, else wait for the rest of it.

        It runs on the cell's thread. The update calls `end_update`, which starts the next tick.
        """
        wait = max(self._updated_at + TICK_S, self.next_allowed) - monotonic()
        if wait > 0:
            self._ticker = self.cell.call_later(wait, self._tick)
        else:
            self._ticker = None
            self.update()

    def start_ticks_in_agent_loop(self) -> None:
        """Update from the agent's loop as well, because a function occupies the cell's thread."""
        if self.ticks and not self.ticks_in_agent_loop:
            self.ticks_in_agent_loop = True
            self.run_in_agent_loop(self._tick_in_agent_loop)

    def _tick_in_agent_loop(self) -> None:
        """Update if `_tick` did not, because a function occupies the cell's thread."""
        if not self.ticks:
            return
        if monotonic() > max(self._updated_at + TICK_S / 2, self.next_allowed):
            self.update_in_agent_loop()
        asyncio.get_running_loop().call_later(TICK_S, self._tick_in_agent_loop)

    def stop(self) -> None:
        """Cancel all updates."""
        self.ticks = False
        for timer in (self._timer, self._ticker):
            if timer is not None:
                timer.cancel()
