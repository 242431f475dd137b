"""Clock of one call to a server.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Self

HARD_LIMIT_FACTOR: Final = 10
"""A call with progress ends after so many times its limit."""


class CallClock:
    """Ends a call whose server does not answer in time, with a `TimeoutError`.

    It counts only the time in which the server works: it is paused while the user answers a
    question of the server, or a model does. Progress of the server restarts it, but not
    beyond `HARD_LIMIT_FACTOR` times the limit in all. A limit of 0 is none.
    """

    # Two times are counted, up to the time `_counted_until` of the loop: `_left_s` until the limit,
    # which progress begins again, and `_used_s` since the start.

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._left_s = limit_s
        self._used_s = 0.0
        self._counted_until = 0.0
        self._pause_count = 0  # pauses that overlap now
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._counted_until = asyncio.get_running_loop().time()
        self._schedule()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._timeout.__aexit__(exc_type, exc, traceback)

    def restart(self) -> None:
        """Count from the beginning, because the server reported progress."""
        self._count()
        self._left_s = self._limit_s
        self._schedule()

    def pause(self) -> None:
        """Stand still until `resume`; several pauses may overlap."""
        self._count()
        self._pause_count += 1
        self._schedule()

    def resume(self) -> None:
        """End one pause."""
        self._count()
        self._pause_count -= 1
        self._schedule()

    def _count(self) -> None:
        """Count the time since the last call, unless the clock stood still."""
        now = asyncio.get_running_loop().time()
        if not self._pause_count:
            self._used_s += now - self._counted_until
            self._left_s -= now - self._counted_until
        self._counted_until = now

    def _schedule(self) -> None:
        """Set the time at which the call ends."""
        if self._timeout.expired() or not self._limit_s:
            return
        if self._pause_count:
            self._timeout.reschedule(None)
            return

        hard_left_s = HARD_LIMIT_FACTOR * self._limit_s - self._used_s
        self._timeout.reschedule(self._counted_until + min(self._left_s, hard_left_s))
