"""A clock that waits for an idle user.

Source: `docs/prompts.md`.
"""

from __future__ import annotations

from collections.abc import Callable

from jp_nb.session.threads.cell_jobs import Timer
from jp_nb.session.threads.cell_loop import CellLoop


class IdleClock:
    """Calls back when the user has been idle for some time. Used on the cell's thread.

    The clock stops while the thread is busy, because clicks are not read then: `CellLoop.idle_s` is
    the time that the loop has only waited. With 0 `seconds`, `expired` is never called.

    A restart keeps the timer, because each click restarts the time. When the timer ends, the clock
    waits for the rest. If `busy` returns True then, the whole time begins again.
    """

    def __init__(
        self,
        loop: CellLoop,
        seconds: float,
        *,
        busy: Callable[[], bool],
        expired: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._busy = busy
        self._expired = expired
        self._deadline = 0.0  # in seconds of `CellLoop.idle_s`
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start the time."""
        self.stop()
        if self._seconds > 0:
            self._deadline = self._loop.idle_s + self._seconds
            self._timer = self._loop.call_after_idle(self._seconds, self._check)

    def restart(self) -> None:
        """Restart the time if it runs."""
        self._deadline = self._loop.idle_s + self._seconds

    def stop(self) -> None:
        """Stop the time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        """Call `expired` if the time is over, or wait for the rest. The timer calls it."""
        if self._busy():
            self.restart()

        left = self._deadline - self._loop.idle_s
        if left > 0:
            self._timer = self._loop.call_after_idle(left, self._check)
        else:
            self._timer = None
            self._expired()
