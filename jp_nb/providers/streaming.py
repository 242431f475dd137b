"""Read streamed responses: server-sent events, decoding, limits on silence and size.

`StreamDecoder` is pure, and `events` reads the connection.

Source: `docs/providers.md`, https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import fields, replace
from time import time as wall_clock
from typing import Any, Final, NamedTuple, Protocol, Self

from jp_nb.agent.provider import (
    Finished,
    Flush,
    KeepAlive,
    ProviderEvent,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.errors import ProtocolError, ProviderError
from jp_nb.providers.http import Redaction, StreamedText

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One dispatched event; `event` is "" where the stream named none."""

    data: str
    event: str = ""


class SseDecoder:
    """Decodes one stream. Lines may end in LF, CR LF or CR; comments are only counted.

    Lines are cut as bytes and decoded when complete: no byte of a UTF-8 sequence looks like a
    line end, so a character that two chunks share needs no further care.
    """

    def __init__(self) -> None:
        self.comments = 0
        self._tail = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._event = b""
        self._skip_newline = False
        self._at_start = True

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that `chunk` completes. To be exhausted before the next call.

        Raises:
            ProtocolError: If the text is not UTF-8, or an event is longer than 16 MiB.
        """
        if self._skip_newline and chunk:
            self._skip_newline = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            # A `\r` ends its line at once; the `\n` that may open the next chunk belongs to it.
            self._skip_newline = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._size += len(chunk)
        data = self._data
        for line in self._lines(chunk):
            if line.startswith(b"data: "):
                data.append(line[6:])
            elif line:
                self._other_line(line)
            elif data:
                yield self._dispatch()
            else:
                self._event = b""
        if not data:
            self._size = len(self._tail)
        if self._size > MAX_EVENT_BYTES:
            raise ProtocolError(f"an event of the stream is longer than {MAX_EVENT_BYTES} bytes")

    def _lines(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes; what is left waits, and is looked through once."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._tail += chunk
            return []
        lines = (bytes(self._tail) + chunk[:end]).split(b"\n")
        self._tail = bytearray(chunk[end + 1 :])
        return lines

    def finish(self) -> Iterator[ServerSentEvent]:
        """Yield the event that the body ended in, if all it lacks is its blank line."""
        line, self._tail = bytes(self._tail), bytearray()
        if line:
            self._other_line(line)
        if self._data:
            try:
                yield self._dispatch()
            except ProtocolError:
                self._data.clear()  # cut inside a character

    def _other_line(self, line: bytes) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        name, _, value = line.partition(b":")
        if not name:
            self.comments += 1
        elif name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.removeprefix(b" ")

    def _dispatch(self) -> ServerSentEvent:
        data, event = b"\n".join(self._data), self._event
        self._data.clear()
        self._event = b""
        self._size = 0
        with suppress(UnicodeDecodeError):  # which holds what came, and that may hold a key
            return ServerSentEvent(data.decode(), event.decode())
        raise ProtocolError("the stream is not UTF-8")


WireObject = dict[str, Any]
"""A JSON object as a server sent it: anything may be missing or of another type."""

POLL_SECONDS: Final = 3.0
DRAIN_SECONDS: Final = 0.25
END_SECONDS: Final = 5.0
"""How long a complete answer waits for its end mark."""
PATIENCE: Final = 10
"""Idle time-outs that keep-alives alone can extend a wait by."""
MAX_OVERHEAD: Final = 256
"""Bytes on the wire for each byte of an answer: a piece of three characters takes 300."""
MAX_OVERHEAD_BYTES: Final = 16 * 1024 * 1024
MAX_EMPTY_BYTES: Final = 2 * MAX_EVENT_BYTES
"""Longest run of bytes without content: a fast server must not fill the idle time-out."""
MAX_FRAMING: Final = 8
"""Messages without content that belong to a protocol, such as the start of a message or block."""
MAX_TOKENS: Final = 2**53
_NO_KEY: Final = Redaction("")
_RAW_DECODE: Final = json.JSONDecoder().raw_decode
_EXCERPT: Final = 200
MAX_DETAIL: Final = 2000
"""Characters of why a response ended."""


class Decoder(Protocol):
    """Turns the messages of one response of a protocol into events."""

    @property
    def held(self) -> int:
        """Characters that were taken and are in no event yet."""
        ...

    @property
    def complete(self) -> bool:
        """Return True if `finish` gives what is missing, should nothing more come."""
        ...

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
        keep_alives: Number of comments, pings and framing messages so far.

    Args:
        decoder: Of the protocol.
        provider: Whose response it is, for messages.
        max_response_bytes: Of texts and arguments; 0 is off.
        redaction: Takes the key out of what comes.
    """

    def __init__(
        self,
        decoder: Decoder,
        *,
        provider: str,
        max_response_bytes: int = 0,
        redaction: Redaction = _NO_KEY,
    ) -> None:
        self.finished = False
        self.open_calls: set[int] = set()
        self.keep_alives = 0
        self._redaction = redaction
        self._texts: dict[int, tuple[StreamedText, TextPart | ToolCallArguments]] = {}
        self._on_the_wire = 0
        self._before_empty = 0  # bytes on the wire when the last content came
        self._framing = 0  # messages since then
        self._decoder = decoder
        self._provider = provider
        self._sse = SseDecoder()
        self._comments = 0
        self._limit = max_response_bytes
        self._bytes = 0
        self._content = 0

    def feed(self, chunk: bytes) -> Iterator[ProviderEvent]:
        """Yield the events of the messages that `chunk` completes.

        Raises:
            ProviderError: If the server reports an error or the response is too large.
            ProtocolError: If a message is not what the API documents.
        """
        self._on_the_wire += len(chunk)
        if not self.complete:  # then the end of the response has a time limit of its own
            self._check_overhead()
        progress = self.progress
        for data, _ in self._sse.feed(chunk):
            yield from self._decode(data)
            if self.finished:
                return
            if self.progress != progress:
                progress = self.progress
                self._before_empty, self._framing = self._on_the_wire, 0
            elif self._framing < MAX_FRAMING:
                self._framing += 1
                self.keep_alives += 1
        if self._sse.comments != self._comments:
            self._comments = self._sse.comments
            self.keep_alives += 1
            yield KeepAlive()

    def _check_overhead(self) -> None:
        if 0 < self._limit < (self._on_the_wire - MAX_OVERHEAD_BYTES) / MAX_OVERHEAD:
            raise ProviderError(
                f"{self._provider} sent {self._on_the_wire} bytes for an answer of {self._size}",
                kind="output_limit",
            )
        empty = self._on_the_wire - self._before_empty
        if empty > MAX_EMPTY_BYTES:
            raise ProviderError(
                f"{self._provider} sent {empty} bytes without any content", kind="timeout"
            )

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

    @property
    def complete(self) -> bool:
        """Return True if all of the answer came, and only its end is missing."""
        return self._decoder.complete

    @property
    def progress(self) -> int:
        """Characters of content so far; keep-alives, empty deltas and usage add nothing."""
        return self._content + self._decoder.held

    @property
    def _size(self) -> int:
        return self._bytes + self._decoder.held

    def rest(self) -> list[ProviderEvent]:
        """The ends of texts that were held back, as far as the answer came."""
        return [event for index in [*self._texts] for event in self._end_of_text(index)]

    def _decode(self, data: str) -> list[ProviderEvent]:
        if data == "[DONE]":
            return self._last()
        if not data or data.isspace():
            return []
        if self._redaction.in_answers:
            data = self._redaction(data)
        with suppress(
            ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError
        ):
            return self._account(self._decoder.feed(_parse(data)))
        # Not from what was caught: it may hold the message, and that the key.
        raise ProtocolError(
            f"{self._provider} sent a message that its API does not document: "
            f"{self._redaction(data)[:_EXCERPT]!r}"
        )

    def _last(self) -> list[ProviderEvent]:
        events = self._account(self._decoder.finish())
        self.finished = True
        return events

    def _account(self, events: list[ProviderEvent]) -> list[ProviderEvent]:
        """`events`, counted, as they are given on."""
        given: list[ProviderEvent] = []
        for event in events:
            if isinstance(event, (TextPart, ToolCallArguments)):
                text = event.text
                self._content += len(text)
                self._bytes += (
                    len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
                )
                given.append(self._text(event) if self._redaction.in_answers else event)
            else:
                given += self._rare(event)
        if 0 < self._limit < self._size:
            raise ProviderError(
                f"the response of {self._provider} is longer than {self._limit} bytes "
                "(assistant.request.max_response_bytes)",
                kind="output_limit",
            )
        return given

    def _text(self, event: TextPart | ToolCallArguments) -> ProviderEvent:
        """`event` without what may be the beginning of the key."""
        known = self._texts.get(event.index)
        text = known[0] if known else StreamedText(self._redaction)
        self._texts[event.index] = (text, event)
        return replace(event, text=text.feed(event.text))

    def _end_of_text(self, index: int) -> list[ProviderEvent]:
        known = self._texts.pop(index, None)
        text = known[0].rest() if known else ""
        return [replace(known[1], text=text)] if known and text else []

    def _rare(self, event: ProviderEvent) -> list[ProviderEvent]:
        """`event` with what has to come before it.

        Raises:
            TypeError: If it holds something else than it should.
        """
        match event:
            case ToolCallStart(index=index, id=id_, name=name):
                if not (isinstance(index, int) and isinstance(id_, str) and isinstance(name, str)):
                    raise TypeError
                self.open_calls.add(index)
                self._bytes += len(name) + len(id_)
                self._content += len(name)
            case KeepAlive():
                self.keep_alives += 1
            case Flush(index=index, metadata=metadata):
                self.open_calls.discard(index)
                self._bytes += 1 + sum(len(v) for v in metadata.values() if isinstance(v, str))
                if metadata:
                    event = Flush(index, self._redaction.in_mapping(metadata))
                return [*self._end_of_text(index), event]
            case Finished(reason=reason, detail=detail):
                self.finished = True
                word = None if detail is None else self._redaction(str(detail))[:MAX_DETAIL]
                return [*self.rest(), Finished(reason, word)]
            case Usage():
                return [_plausible(event)]
        return [event]


def _plausible(usage: Usage) -> Usage:
    """`usage` without what is no number of tokens: it is added up, and stored as JSON."""
    counts = {field.name: getattr(usage, field.name) for field in fields(usage)}
    return Usage(
        **{
            name: count
            for name, count in counts.items()
            if type(count) is int and 0 <= count < MAX_TOKENS
        }
    )


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
    told: Callable[[ProviderError], ProviderError] = lambda error: error,
    recover: Callable[[ProviderError], ProviderEvent | None] = lambda _: None,
) -> AsyncGenerator[ProviderEvent, None]:
    """Yield the events of a response whose body is `chunks`; closes `chunks` in any case.

    Args:
        chunks: The body as it arrives. Connecting is part of the wait for its first item.
        decoder: Takes the bytes.
        provider: Whose response it is, for messages.
        idle_timeout: Seconds without content or keep-alives after which the stream is ended; 0 is
            off.
        told: Makes of an error what may be shown.
        recover: May turn an error into a last event.

    Raises:
        ProviderError: If the request fails, or the stream breaks or falls silent.
    """
    problem: ProviderError | None = None
    async with aclosing(chunks):
        with IdleWatch(idle_timeout, provider=provider) as idle:
            try:
                while not decoder.finished:
                    chunk = await idle.next(chunks, complete=decoder.complete)
                    for event in decoder.finish() if chunk is None else decoder.feed(chunk):
                        if type(event) is Finished:
                            await _drain(chunks)
                        given = wall_clock()
                        yield event
                        idle.exclude(wall_clock() - given)
                    idle.touch(decoder.progress, decoder.keep_alives)
                    idle.paused = bool(decoder.open_calls)
            except ProviderError as exc:
                problem = exc
    chunk = None  # what came may hold a key, and a traceback show it
    if problem is None:
        return
    for event in decoder.rest():
        yield event
    last_event = recover(told(problem))
    if last_event is None:
        raise problem
    yield last_event


async def _drain(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read the little that follows the last event, so that the connection can be used again."""
    with suppress(TimeoutError, ProviderError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass


class IdleWatch:
    """Idle time-out of a stream: ends a read when no content came for a while.

    A keep-alive restarts the wait, too, but keep-alives alone extend it to at most `PATIENCE`
    time-outs. The same bound applies while `paused`: servers hold back the arguments of a tool
    call until they are complete. Other messages without content extend nothing, except the few
    that frame an answer (`MAX_FRAMING`).

    The time is the wall clock's, read every few seconds: a loop's own clock stops while a laptop
    sleeps. The consumer's time between two reads does not count.
    """

    def __init__(self, seconds: float, *, provider: str) -> None:
        self.paused = False
        self._seconds = seconds
        self._provider = provider
        self._progress = self._keep_alives = 0
        self._deadline = self._last_deadline = 0.0
        self._ends: float | None = None
        self._read: asyncio.Timeout | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._seconds > 0:
            self._deadline = wall_clock() + self._seconds
            self._last_deadline = wall_clock() + PATIENCE * self._seconds
            self._look()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def touch(self, progress: int, keep_alives: int) -> None:
        """Restart the wait if `progress` or the number of `keep_alives` has changed."""
        now = wall_clock()
        if progress != self._progress:
            self._last_deadline = now + PATIENCE * self._seconds
        elif keep_alives == self._keep_alives:
            return
        self._progress, self._keep_alives = progress, keep_alives
        self._deadline = now + self._seconds

    def exclude(self, seconds: float) -> None:
        """Extend the wait by the `seconds` that the consumer took."""
        self._deadline += seconds
        self._last_deadline += seconds

    async def next(
        self, chunks: AsyncGenerator[bytes, None], *, complete: bool = False
    ) -> bytes | None:
        """The next item of `chunks`; None at its end.

        An answer that is `complete` ends, too, when its end does not come soon.

        Raises:
            ProviderError: Of kind `timeout`, if the wait is over.
        """
        if complete:
            return await self._end(chunks)
        with suppress(TimeoutError):
            if self._seconds > 0 and self._left() <= 0:
                raise TimeoutError  # what comes fast enough never waits to be cancelled
            try:
                async with asyncio.timeout(None) as self._read:
                    return await anext(chunks, None)
            finally:
                self._read = None
        raise ProviderError(self._why(), kind="timeout")

    async def _end(self, chunks: AsyncGenerator[bytes, None]) -> bytes | None:
        if self._ends is None:
            self._ends = asyncio.get_running_loop().time() + END_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._ends):
                return await anext(chunks, None)
        return None

    def _why(self) -> str:
        setting = "assistant.request.stream_idle_timeout_secs"
        if wall_clock() < self._deadline or self.paused:
            return (
                f"{self._provider} sent no content for {PATIENCE * self._seconds:g} s, "
                f"only keep-alives or an unfinished tool call ({PATIENCE} times {setting})"
            )
        return f"{self._provider} sent no content for {self._seconds:g} s ({setting})"

    def _left(self) -> float:
        """Seconds until the wait is over."""
        last = self._last_deadline
        return (last if self.paused else min(self._deadline, last)) - wall_clock()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._left()
        if left <= 0 and self._read is not None:
            self._read.reschedule(loop.time())
            return
        self._timer = loop.call_later(min(left, POLL_SECONDS) if left > 0 else 0.05, self._look)
