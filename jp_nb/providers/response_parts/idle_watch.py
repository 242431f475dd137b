"""Limit the silence of a server within a streamed response.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from time import time as wall_clock
from typing import Any, Final, Self

from jp_nb.errors import ProviderError
from jp_nb.providers.response_parts.stream_decoder import StreamDecoder

POLL_SECONDS: Final = 3.0
END_SECONDS: Final = 5.0
"""Maximum wait of a complete answer for its end mark."""
IDLE_TIMEOUTS: Final = 10
"""Number of idle timeouts by which keep-alives alone can extend a wait."""


class IdleWatch:
    """Idle timeout of a stream: ends a read that receives no content.

    The reader feeds each chunk to `decoder`, which knows what has arrived: `progress` counts the
    characters of content, `events.keep_alives` the keep-alives, `events.open_calls` has the calls
    whose arguments are not complete, and `is_complete` says that only the end mark is missing.

    A keep-alive (a comment or a ping) restarts the timeout, but keep-alives alone extend the wait
    to at most `IDLE_TIMEOUTS` timeouts. The same limit applies within a tool call, because servers
    hold back its arguments until they are complete. A message that reports only a state is no
    keep-alive: a server can repeat it although the model no longer works.

    One timer looks at the wall clock every few seconds, because the event loop's clock stops while
    a laptop sleeps. The consumer's time between two reads does not count.
    """

    def __init__(self, decoder: StreamDecoder, seconds: float) -> None:
        self._decoder = decoder
        self._seconds = seconds if seconds > 0 else math.inf
        # What the decoder had received before the last read, and the time of its end:
        self._progress = 0
        self._keep_alives = 0
        self._read_ended = wall_clock()
        # The deadlines of the current read: after a silence, after keep-alives alone, and for the
        # end mark of an answer that is otherwise complete (None: it is not).
        self._deadline = self._read_ended + self._seconds
        self._last_deadline = self._read_ended + IDLE_TIMEOUTS * self._seconds
        self._end_deadline: float | None = None
        # The timer cancels the task that waits for the next chunk, and notes that it did so:
        self._reader: asyncio.Task[Any] | None = None
        self._has_expired = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._check_deadline()  # starts the timer
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def read_next(self, chunks: AsyncGenerator[bytes, None]) -> bytes | None:
        """Return the next item of `chunks`; None at its end, or if only an end mark is missing.

        Raises:
            ProviderError: Of kind `timeout`: the stream was idle for too long.
        """
        self._begin_read(wall_clock())
        reader = asyncio.current_task()
        assert reader is not None
        self._reader = reader
        earlier_cancellations = reader.cancelling()

        try:
            # The timer cancels only a read that waits. One that never waits is stopped here.
            if self._find_deadline() > self._read_ended:
                return await anext(chunks)
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError:
            # The timer's own cancellation is one of those that were added meanwhile.
            is_canceled_by_others = reader.cancelling() > earlier_cancellations + 1
            if not self._has_expired or is_canceled_by_others:
                raise
        finally:
            self._reader = None
            self._read_ended = wall_clock()
            if self._has_expired:
                reader.uncancel()

        # The deadline is over.
        if self._end_deadline is not None:
            return None
        raise self._make_timeout_error()

    def _make_timeout_error(self) -> ProviderError:
        """Return the error that names the silence, and the setting with its limit."""
        setting = "assistant.request.stream_idle_timeout_secs"
        limit = IDLE_TIMEOUTS * self._seconds
        times = f"{IDLE_TIMEOUTS} times {setting}"
        if self._decoder.events.open_calls:
            silence = f"{limit:g} s within a tool call ({times})"
        elif wall_clock() < self._deadline:
            silence = f"{limit:g} s, only keep-alives ({times})"
        else:
            silence = f"{self._seconds:g} s ({setting})"

        return ProviderError(
            f"{self._decoder.provider} sent no content for {silence}. To wait longer, increase it: "
            f"`%jp config {setting}=SECONDS`",
            kind="timeout",
        )

    def _begin_read(self, now: float) -> None:
        """Set the deadlines of the next read, by what has arrived since the last one.

        - Content restarts all deadlines.
        - Keep-alives restart only the deadline after a silence.
        - Otherwise, the deadlines move by the time that the consumer took.
        """
        decoder = self._decoder
        seconds = self._seconds
        consumer_time = now - self._read_ended
        self._read_ended = now
        progress = decoder.progress
        keep_alives = decoder.events.keep_alives

        if progress != self._progress:
            self._deadline = now + seconds
            self._last_deadline = now + IDLE_TIMEOUTS * seconds
            self._end_deadline = None  # a part of the answer may follow its finish reason
        else:
            self._last_deadline += consumer_time
            is_alive = keep_alives != self._keep_alives
            self._deadline = now + seconds if is_alive else self._deadline + consumer_time

        self._progress = progress
        self._keep_alives = keep_alives

        if self._end_deadline is None and decoder.is_complete:
            self._end_deadline = now + END_SECONDS

    def _find_deadline(self) -> float:
        """Return the deadline that counts. Within a call, a silence is usual."""
        if self._end_deadline is not None:
            return self._end_deadline
        if self._decoder.events.open_calls:
            return self._last_deadline
        return min(self._deadline, self._last_deadline)

    def _check_deadline(self) -> None:
        """Cancel the read if its deadline is over. The timer calls it until `__exit__`."""
        left = self._find_deadline() - wall_clock()
        if left <= 0 and self._reader is not None:
            self._has_expired = True
            self._reader.cancel()
            return

        pause = min(left, POLL_SECONDS)
        if left <= 0:
            # No read waits: the consumer is at work, and the next read moves the deadline.
            pause = 0.05
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(pause, self._check_deadline)
