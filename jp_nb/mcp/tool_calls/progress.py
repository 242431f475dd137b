"""Progress reports of a server as one line of text, at most four times a second.

Source: `docs/mcp.md`, Progress.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

from jp_nb.mcp.exchange import Progress
from jp_nb.text import one_line

PROGRESS_INTERVAL_S: Final = 0.25
"""Minimum time between two updates of the line."""
MAX_PROGRESS_CHARS: Final = 120
"""Maximum length of the message of a progress report."""


def format_server_progress(progress: Progress) -> str:
    """Return a report as text: `3 of 10, 30 %: reading`."""
    message = one_line(progress.message or "", limit=MAX_PROGRESS_CHARS)
    numbers = _format_share(progress.done, progress.total)
    return ": ".join(filter(None, [numbers, message]))


def _format_share(done: float, total: float | None) -> str:
    """Return `3 of 10, 30 %`, or `3` without a total. A server may send any numbers."""
    if not math.isfinite(done):
        return ""
    if total is None or not math.isfinite(total) or total <= 0:
        return _format_number(done)
    share = max(0.0, min(1.0, done / total))
    return f"{_format_number(done)} of {_format_number(total)}, {share:.0%}"


def _format_number(number: float) -> str:
    """Return a number without an exponent if it has at most 15 digits, such as a size in bytes."""
    return f"{number:.0f}" if 1e5 <= abs(number) < 1e15 else f"{number:g}"


class ProgressLine:
    """The line of one call. Reports that come too fast replace each other.

    Attributes:
        show: Shows the line; None drops it.
    """

    def __init__(self) -> None:
        self.show: Callable[[str], None] | None = None
        self._next_at = -math.inf  # earliest time of the loop for the next update
        self._latest: Progress | None = None  # the last report, perhaps not shown yet
        self._timer: asyncio.TimerHandle | None = None

    def report(self, progress: Progress) -> None:
        """Show `progress` now, or when the time since the last update is over."""
        self._latest = progress
        if self._timer is not None:
            return

        loop = asyncio.get_running_loop()
        wait = self._next_at - loop.time()
        if wait <= 0:
            self._update()
        else:
            self._timer = loop.call_later(wait, self._update)

    def stop(self) -> None:
        """Show nothing more."""
        self.show = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _update(self) -> None:
        """Show the last report."""
        self._timer = None
        self._next_at = asyncio.get_running_loop().time() + PROGRESS_INTERVAL_S
        if self._latest is not None and self.show is not None:
            self.show(format_server_progress(self._latest))
