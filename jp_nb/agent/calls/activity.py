"""Count the tasks of a batch that do work, so that replayed inquiries can wait for all others.

An *inquiry* is a question of a tool that a model answers. In a replay, recorded answers come at
once, so the order of the inquiries of several calls would depend on chance. Therefore a replayed
inquiry first calls `when_idle`. Whoever starts a task of the batch, or lets it wait for a prompt,
calls `begin` and `end`.

Source: `docs/cassettes.md`, `docs/decisions.md` D55.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Activity:
    """Counts the tasks of a batch that are not waiting."""

    def __init__(self) -> None:
        self._busy_count = 0
        self._waiters: deque[asyncio.Future[None]] = deque()  # in `when_idle`; they are not busy

    def begin(self, count: int = 1) -> None:
        """Count `count` more tasks."""
        self._busy_count += count

    def end(self) -> None:
        """Count one task less. If none is left, the first waiter continues."""
        self._busy_count -= 1
        if self._waiters and not self._busy_count:
            # Not at once: the task that calls this may begin other work in the same step.
            asyncio.get_running_loop().call_soon(self._wake_waiter)

    async def when_idle(self) -> None:
        """Wait until each other task is done, or waits here or for a prompt.

        If several tasks wait, they continue one after the other, in order.
        """
        wake = asyncio.get_running_loop().create_future()
        self._waiters.append(wake)
        self.end()

        try:
            await wake
        finally:
            if wake in self._waiters:  # the wait was canceled: `_wake_waiter` did not count it
                self._waiters.remove(wake)
                self._busy_count += 1

    def _wake_waiter(self) -> None:
        if self._busy_count == 0 and self._waiters:
            wake = self._waiters.popleft()
            self._busy_count += 1
            if not wake.done():  # else it was canceled, and `when_idle` ends with the exception
                wake.set_result(None)
