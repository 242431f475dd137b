"""The pace of concurrent requests to one provider: a pause after a 429 holds all of them.

Source: `docs/rows.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from time import monotonic
from typing import Final

MIN_RUNNING: Final = 1.0
"""Requests that may run at once, however often a server has refused some."""


class RequestPace:
    """Lets a number of requests to one provider run at once. Use it on one event loop.

    The server tells with a 429 that there were too many. All requests then wait for the time that
    it names, and half as many run at once. Each later request that gets no 429 allows more again,
    also if it fails for another reason. `SharedPace` does the same for the runs of a batch.

    Attributes:
        resume_at: Time (`time.monotonic`) until which no request begins.
    """

    def __init__(self) -> None:
        self.resume_at = 0.0
        self._limit = inf  # requests that may run at once; no limit before the first 429
        self._running = 0
        self._held_at = 0.0  # the time of the last 429
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def running(self, at_most: float = inf) -> AsyncIterator[None]:
        """Wait until the request in the `with` block may run.

        At most `at_most` requests run at once, those of other callers included.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._running < min(at_most, self._limit))
            self._running += 1

        began = 0.0
        try:
            while (pause := self.resume_at - monotonic()) > 0:  # noqa: ASYNC110 - may be extended
                await asyncio.sleep(pause)
            began = monotonic()
            yield
        finally:
            self._running -= 1
            # A request that began after the last 429 had room. As in TCP, the limit grows slowly:
            # by one request for each round of requests.
            if self._limit < inf and began > self._held_at:
                self._limit += 1 / self._limit
            async with self._changed:
                self._changed.notify_all()

    def hold(self, seconds: float) -> None:
        """Let no request begin for `seconds`: the server refused one because of its rate."""
        now = monotonic()
        if now >= self.resume_at:  # other requests that it refused at once count as one
            self._limit = max(MIN_RUNNING, self._running / 2)
        self._held_at = now
        self.resume_at = max(self.resume_at, now + seconds)
