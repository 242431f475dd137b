"""From the bytes of a response to provider events, with a limit on silence and on size.

`StreamDecoder` is the pure half; `events` reads the connection. Source: `spec/providers.md`
sections 1.4 and 4.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from time import time as wall_clock
from typing import Any, Final, Protocol, Self

from jp_nb.agent.ports import (
    Finished,
    Flush,
    KeepAlive,
    ProviderEvent,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
)
from jp_nb.errors import ProtocolError, ProviderError
from jp_nb.providers.sse import SseDecoder

WireObject = dict[str, Any]
"""A JSON object as a server sent it: anything may be missing or of another type."""

POLL_SECONDS: Final = 3.0
DRAIN_SECONDS: Final = 0.25
_RAW_DECODE: Final = json.JSONDecoder().raw_decode
_EXCERPT: Final = 200


class Decoder(Protocol):
    """Turns the messages of one response of a protocol into events."""

    def feed(self, message: WireObject) -> list[ProviderEvent]:
        """The events that `message` gives.

        Raises:
            ProviderError: If the message reports an error.
        """
        ...

    def finish(self) -> list[ProviderEvent]:
        """The last events, at the end of the body or its end mark.

        Raises:
            ProviderError: Of kind `transient`, if the response is not complete.
        """
        ...


class StreamDecoder:
    """Bytes of one response in, events out. Does no I/O.

    Attributes:
        finished: Whether the last event was given.
        open_calls: Indexes of the tool calls that have begun and are not complete.
    """

    def __init__(self, decoder: Decoder, *, provider: str, max_response_bytes: int = 0) -> None:
        self.finished = False
        self.open_calls: set[int] = set()
        self._decoder = decoder
        self._provider = provider
        self._sse = SseDecoder()
        self._comments = 0
        self._limit = max_response_bytes
        self._bytes = 0

    def feed(self, chunk: bytes) -> Iterator[ProviderEvent]:
        """Yield the events of the messages that `chunk` completes.

        Raises:
            ProviderError: If the server reports an error or the response is too large.
            ProtocolError: If a message is not what the API documents.
        """
        for data, _ in self._sse.feed(chunk):
            yield from self._decode(data)
            if self.finished:
                return
        if self._sse.comments != self._comments:
            self._comments = self._sse.comments
            yield KeepAlive()

    def finish(self) -> Iterator[ProviderEvent]:
        """Yield what the end of the body completes.

        Raises:
            ProviderError: Of kind `transient`, if the body broke off.
        """
        for data, _ in self._sse.finish():
            with suppress(ProtocolError):  # a message that was cut: `_last` says so
                yield from self._decode(data)
        if not self.finished:
            yield from self._last()

    def _decode(self, data: str) -> list[ProviderEvent]:
        if data == "[DONE]":
            return self._last()
        if not data or data.isspace():
            return []
        try:
            return self._account(self._decoder.feed(_parse(data)))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
            raise ProtocolError(
                f"{self._provider} sent a message that its API does not document: "
                f"{data[:_EXCERPT]!r}"
            ) from exc

    def _last(self) -> list[ProviderEvent]:
        events = self._account(self._decoder.finish())
        self.finished = True
        return events

    def _account(self, events: list[ProviderEvent]) -> list[ProviderEvent]:
        for event in events:
            if isinstance(event, (TextPart, ToolCallArguments)):
                text = event.text
                self._bytes += (
                    len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
                )
            else:
                self._account_rare(event)
        if 0 < self._limit < self._bytes:
            raise ProviderError(
                f"the response of {self._provider} is longer than {self._limit} bytes "
                "(assistant.request.max_response_bytes)",
                kind="output_limit",
            )
        return events

    def _account_rare(self, event: ProviderEvent) -> None:
        match event:
            case ToolCallStart():
                self.open_calls.add(event.index)
                self._bytes += len(event.name)
            case Flush():
                self.open_calls.discard(event.index)
                self._bytes += sum(len(v) for v in event.metadata.values() if isinstance(v, str))
            case Finished():
                self.finished = True


def _parse(data: str) -> Any:
    """The JSON value of `data`; a third faster than `json.loads` where nothing surrounds it."""
    try:
        value, end = _RAW_DECODE(data)
    except json.JSONDecodeError:  # leading white space, or what `loads` explains
        return json.loads(data)
    return value if end == len(data) else json.loads(data)


async def events(
    chunks: AsyncGenerator[bytes, None],
    decoder: StreamDecoder,
    *,
    provider: str,
    idle_timeout: float,
    recover: Callable[[ProviderError], ProviderEvent | None] = lambda _: None,
) -> AsyncGenerator[ProviderEvent, None]:
    """Yield the events of a response whose body is `chunks`; closes `chunks` in any case.

    Args:
        chunks: The body as it arrives. Connecting is part of the wait for its first item.
        decoder: Takes the bytes.
        provider: Whose response it is, for messages.
        idle_timeout: Seconds without any event after which the stream counts as dead; 0 is off.
        recover: May turn an error into a last event.

    Raises:
        ProviderError: If the request fails, or the stream breaks or falls silent.
    """
    last_event: ProviderEvent | None = None
    async with aclosing(chunks):
        with IdleWatch(idle_timeout, provider=provider) as idle:
            try:
                while not decoder.finished:
                    chunk = await idle.next(chunks)
                    for event in decoder.finish() if chunk is None else decoder.feed(chunk):
                        if type(event) is Finished:
                            await _drain(chunks)
                        yield event
                        idle.touch()
                    idle.paused = bool(decoder.open_calls)
            except ProviderError as exc:
                last_event = recover(exc)
                if last_event is None:
                    raise
    if last_event is not None:
        yield last_event


async def _drain(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read the little that follows the last event, so that the connection can be used again."""
    with suppress(TimeoutError, ProviderError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass


class IdleWatch:
    """Ends a read when no event came for a while; one timer for a whole stream.

    The time is the wall clock's, looked at every few seconds: a loop's own clock stands still
    while a laptop sleeps. The consumer's time between two reads does not count, and neither does
    any silence while `paused`: servers hold back the arguments of a tool call until they are
    complete.
    """

    def __init__(self, seconds: float, *, provider: str) -> None:
        self.paused = False
        self._seconds = seconds
        self._provider = provider
        self._deadline = 0.0
        self._read: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._seconds > 0:
            self.touch()
            self._look()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def touch(self) -> None:
        """An event came: the wait starts again."""
        self._deadline = wall_clock() + self._seconds

    async def next(self, chunks: AsyncGenerator[bytes, None]) -> bytes | None:
        """The next item of `chunks`; None at its end.

        Raises:
            ProviderError: Of kind `timeout`, if the wait is over.
        """
        try:
            async with asyncio.timeout(None) as self._read:
                return await anext(chunks, None)
        except TimeoutError as exc:
            raise ProviderError(
                f"{self._provider} sent nothing for {self._seconds:g} s "
                "(assistant.request.stream_idle_timeout_secs)",
                kind="timeout",
            ) from exc
        finally:
            self._read = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if self.paused:
            self.touch()
        left = self._deadline - wall_clock()
        if left <= 0 and self._read is not None:
            self._read.reschedule(loop.time())
            return
        self._timer = loop.call_later(min(left, POLL_SECONDS) if left > 0 else 0.05, self._look)
