"""Read streamed responses: server-sent events, decoding, idle timeout, and size limits.

`StreamDecoder` does no I/O. `stream_events` reads the connection.

Source: `docs/providers.md`, https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import asdict, replace
from time import time as wall_clock
from typing import Any, Final, Literal, NoReturn, Self

from pydantic_core import from_json

from jp_nb.agent.provider import (
    Finished,
    Flush,
    InputChange,
    KeepAlive,
    ProviderEvent,
    TextKind,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.config.secrets import RedactedStream
from jp_nb.errors import ProtocolError, ProviderError
from jp_nb.json_values import MAX_INTEGER, as_object
from jp_nb.providers.answer_fences import FENCE_MARKS, find_fence, find_fenced_answer
from jp_nb.providers.http import KeyRedactor
from jp_nb.providers.schemas import AnswerSchema

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
_UNDECODED: Final = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8
_NO_KEY: Final = KeyRedactor("")


class SseDecoder:
    """Decoder for one stream of server-sent events. Returns the data of each event.

    Only `data` is used, because the messages of the protocols contain their types. It must be
    UTF-8: a replacement would change the answer without notice. Comments are only counted. Lines
    end in LF, CR LF, or CR. The key of `redactor` is removed, which cannot contain a line end.
    """

    def __init__(self, redactor: KeyRedactor = _NO_KEY) -> None:
        self.comments = 0
        self._redactor = redactor
        self._tail = bytearray()
        self._data: list[str] = []
        self._size = 0
        self._skip_newline = False
        self._at_start = True
        self._is_utf8 = True

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the events that `chunk` completes. Exhaust the iterator before the next call.

        Raises:
            ProtocolError: The text is not UTF-8, or an event is longer than 16 MiB.
        """
        if self._skip_newline or b"\r" in chunk:
            chunk = self._normalize_line_ends(chunk)
        self._size += len(chunk)
        data = self._data
        end = chunk.rfind(b"\n")
        lines: list[str] = []

        if end >= 0:
            whole = self._tail + chunk[:end] if self._tail else chunk[:end]
            lines = self._split_lines(whole)
            self._tail.clear()
        self._tail += chunk[end + 1 :]

        for line in lines:
            if line.startswith("data: "):
                data.append(line[6:])
            elif line:
                self._process_field(line)
            elif len(data) == 1 and self._is_utf8:  # the usual event
                self._size = 0
                yield data.pop()
            elif data:
                yield self._dispatch()

        if not data:
            self._size = len(self._tail)
        if self._size > MAX_EVENT_BYTES:
            raise ProtocolError(f"an event of the stream is longer than {MAX_EVENT_BYTES} bytes")

    def finish(self) -> Iterator[str]:
        """Yield the last event if only its blank line is missing."""
        for line in self._split_lines(self._tail):
            self._process_field(line)
        if self._data:
            with suppress(ProtocolError):  # the stream ended inside a character
                yield self._dispatch()

    def _normalize_line_ends(self, chunk: bytes) -> bytes:
        if self._skip_newline and chunk:
            self._skip_newline = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            # `\r` ends the line at once. A `\n` at the start of the next chunk belongs to it.
            self._skip_newline = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _split_lines(self, lines: bytes | bytearray) -> list[str]:
        try:
            text = lines.decode()
        except UnicodeDecodeError:  # may be outside the data, or after other events
            self._is_utf8 = False
            text = lines.decode(errors="surrogateescape")
        return self._redactor.hide_in_lines(text)

    def _process_field(self, line: str) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix("\ufeff")
        name, separator, value = line.partition(":")
        if separator and not name:
            self.comments += 1
        elif name == "data":
            self._data.append(value.removeprefix(" "))

    def _dispatch(self) -> str:
        data = self._data[0] if len(self._data) == 1 else "\n".join(self._data)
        self._data.clear()
        self._size = 0
        if self._is_utf8 or _UNDECODED.search(data) is None:
            return data
        raise ProtocolError("the stream is not UTF-8")


WireObject = dict[str, Any]
"""A JSON object from a server. Members may be missing or have another type."""

POLL_SECONDS: Final = 3.0
DRAIN_SECONDS: Final = 0.25
END_SECONDS: Final = 5.0
"""Maximum wait of a complete answer for its end mark."""
IDLE_TIMEOUTS: Final = 10
"""Number of idle timeouts by which keep-alives alone can extend a wait."""
MAX_OVERHEAD: Final = 256
"""Maximum number of bytes on the wire for each byte of an answer. Three characters take 300."""
MAX_OVERHEAD_BYTES: Final = 16 * 1024 * 1024
MAX_EMPTY_BYTES: Final = 2 * MAX_EVENT_BYTES
"""Maximum number of bytes without content. It stops a fast server before the idle timeout does."""
MAX_FRAMING: Final = 8
"""Number of messages without content that a protocol needs, such as the start of a block."""
MAX_FINISH_REASON_CHARS: Final = 40
MAX_WORD_CHARS: Final = 40
"""Maximum length of data that is a word instead of a message, such as `[DONE]` or `ping`."""
_PING: Final = re.compile(r'[":]*\s*(?:ping|pong|heart-?beat|keep[-_ ]?alive)\s*"?', re.IGNORECASE)
"""Data that some servers and proxies send instead of a comment."""
_EXCERPT: Final = 200
_UNEXPECTED: Final = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError
)  # fmt: skip
"""Exceptions of decoders for a message of another shape."""


class AnswerText:
    """Text of an answer: a message, or data that fits a schema.

    With a schema, a text that does not begin like JSON is a message, for example before a tool
    call. If it contains the data in a code fence, the text around the fence is the message.

    Data is held back until it is complete if it has to be restored to the user's schema. A message
    is held back from its first code fence on.
    """

    def __init__(self, schema: AnswerSchema | None) -> None:
        self._schema = schema
        self._kind: Literal["message", "structured"] | None = None
        self._has_fence = False
        self._has_message = False  # in `out`, without the text that is held back
        self._held: list[str] = []

    def feed(self, index: int, text: str, out: EventBuffer) -> None:
        """Add a piece of text to `out`, unless it is held back."""
        if self._schema is None:
            out.add_text(index, "message", text)
            return

        if self._kind is None:
            text = self._take_held(out) + text
            leading = text.lstrip()
            if leading:
                is_data = leading[0] in self._schema.first_chars
                self._kind = "structured" if is_data else "message"

        if self._kind == "message":
            self._feed_message(index, text, out)
        elif self._kind == "structured" and self._schema.is_unchanged:
            out.add_text(index, "structured", text)
        else:
            self._hold(text, out)

    def _feed_message(self, index: int, text: str, out: EventBuffer) -> None:
        if self._has_fence:
            self._hold(text, out)
            return

        text = self._take_held(out) + text
        place = find_fence(text)
        before = text[:place]
        self._has_fence = text.startswith(FENCE_MARKS, place)
        self._hold(text[place:], out)

        if before.strip() or (before and self._has_message):
            self._has_message = True
            out.add_text(index, "message", before)

    def finish(self, index: int, out: EventBuffer) -> None:
        """Add the text that was held back to `out`. The next `feed` begins a new text."""
        kind = self._kind
        self._kind = None
        has_message = self._has_message
        self._has_message = False
        self._has_fence = False
        text = self._take_held(out)
        if not text or kind is None or self._schema is None:
            return

        if kind == "structured":
            out.add_text(index, kind, self._schema.restore(text))
            return

        answer = find_fenced_answer(text, self._schema.first_chars)
        if answer is None:
            out.add_text(index, kind, text)
            return

        if answer.before:
            out.add_text(index, "message", answer.before)
        if has_message or answer.before.strip():
            out.add(Flush(index))
        out.add_text(index, "structured", self._schema.restore(answer.json))
        if answer.after.strip():
            out.add(Flush(index))
            out.add_text(index, "message", answer.after.strip())

    def _hold(self, text: str, out: EventBuffer) -> None:
        if text:
            self._held.append(text)
            out.held_chars += len(text)

    def _take_held(self, out: EventBuffer) -> str:
        text = "".join(self._held)
        self._held = []
        out.held_chars -= len(text)
        return text


class Decoder(ABC):
    """Converts the messages of one response to events."""

    is_complete = False
    """True if `finish` can complete the response without further messages."""
    is_continued = False
    """True if the response continues in another request, whose stream follows."""

    def __init__(self, schema: AnswerSchema | None = None) -> None:
        self._answer = AnswerText(schema)

    @abstractmethod
    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message` to `out`, and count the characters that it holds back there.

        Raises:
            ProviderError: The message reports an error.
        """

    def finish(  # noqa: B027 - optional
        self, out: EventBuffer, *, has_end_mark: bool = False
    ) -> None:
        """Add `Finished` at the end of the body or its end mark, if the response is complete.

        With `has_end_mark`, the server sent `[DONE]`: content that is whole is then complete.
        """


class EventBuffer:
    """Events of one response that were decoded and not taken yet.

    It joins adjacent pieces of a text, measures the content, and removes the key. Text above
    `max_bytes` is dropped; `StreamDecoder` reports it. After `Finished`, `add` drops events.
    """

    def __init__(self, redactor: KeyRedactor = _NO_KEY, max_bytes: int = 0) -> None:
        self.finished = False
        self.open_calls: set[int] = set()  # indexes of the incomplete ones
        self.keep_alives = 0
        self.state_reports = 0
        self.held_chars = 0  # received characters that are in no event yet
        self.chars = 0  # of texts, arguments, and names of tools
        self.bytes = 0  # of texts, arguments, tool calls, and metadata
        self._events: list[ProviderEvent] = []
        self._kind: TextKind | None = None  # of the text that grows; None: arguments
        self._index = -1
        self._pieces: list[str] = []
        self._max_bytes = max_bytes
        self._redactor = redactor
        self._redacted: dict[int, tuple[RedactedStream, TextKind | None]] = {}

    def add_text(self, index: int, kind: TextKind | None, text: str) -> None:
        """Add a piece of text of item `index`; of the arguments of its call if `kind` is None."""
        size = len(text)
        self.bytes += size if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        self.chars += size
        if 0 < self._max_bytes < self.bytes:
            return

        if index != self._index or kind is not self._kind:
            self._end_text()
            self._index = index
            self._kind = kind

        self._pieces.append(text)

    def note_state(self) -> None:
        """Note that a message reported only a state, which does not extend the idle timeout."""
        self.state_reports += 1

    def add(
        self, event: ToolCallStart | Flush | KeepAlive | Usage | InputChange | Finished
    ) -> None:
        """Add an event that is not a text."""
        if self.finished:
            return

        self._end_text()
        match event:
            case ToolCallStart(index=index, id=id_, name=name):
                if not (isinstance(index, int) and isinstance(id_, str) and isinstance(name, str)):
                    raise TypeError  # `StreamDecoder` reports it
                self.open_calls.add(index)
                self.bytes += len(name) + len(id_)
                self.chars += len(name)
            case KeepAlive():
                self.keep_alives += 1
            case Flush(index=index, metadata=metadata):
                self.open_calls.discard(index)
                self.bytes += 1 + sum(len(v) for v in metadata.values() if isinstance(v, str))
                if metadata:
                    event = Flush(index, as_object(self._redactor.hide_value(dict(metadata))))
                self._end_redacted(index)
            case Finished(reason=reason, detail=detail):
                self.finished = True
                # A finish detail is shown to the user.
                word = None if detail is None else self._redactor.hide(str(detail))[:2000]
                event = Finished(reason, word)
                self._end_all_redacted()
            case InputChange(reason=reason):
                word = self._redactor.hide(reason)[:MAX_FINISH_REASON_CHARS]
                event = replace(event, reason=word)
                self.bytes += len(word)
            case Usage():  # counts are added up and stored as JSON
                counts = {
                    name: count
                    for name, count in asdict(event).items()
                    if type(count) is int and 0 <= count <= MAX_INTEGER
                }
                event = Usage(**counts)

        self._events.append(event)

    def take(self) -> list[ProviderEvent]:
        """Return the events since the last call."""
        self._end_text()
        events = self._events
        self._events = []
        return events

    def take_held_texts(self) -> list[ProviderEvent]:
        """Return the ends of texts that were held back."""
        self._end_all_redacted()
        return self.take()

    def _end_text(self) -> None:
        if not self._pieces:
            return
        text = self._pieces[0] if len(self._pieces) == 1 else "".join(self._pieces)
        self._pieces.clear()

        if self._redactor.applies_to_responses:
            known = self._redacted.get(self._index)
            stream = known[0] if known else self._redactor.stream()
            self._redacted[self._index] = stream, self._kind
            text = stream.feed(text)

        self._add_piece(self._index, self._kind, text)

    def _end_redacted(self, index: int) -> None:
        known = self._redacted.pop(index, None)
        if known and (text := known[0].finish()):
            self._add_piece(index, known[1], text)

    def _end_all_redacted(self) -> None:
        for index in [*self._redacted]:
            self._end_redacted(index)

    def _add_piece(self, index: int, kind: TextKind | None, text: str) -> None:
        if kind is None:
            self._events.append(ToolCallArguments(index, text))
        else:
            self._events.append(TextPart(index, kind, text))


class StreamDecoder:
    """Decoder for the bytes of one response, with size limits. Does no I/O.

    `decoder` is the one of the protocol, `provider` is named in messages. `max_response_bytes`
    limits the size of texts and arguments; 0 is no limit.
    """

    def __init__(
        self,
        decoder: Decoder,
        *,
        provider: str,
        max_response_bytes: int = 0,
        redactor: KeyRedactor = _NO_KEY,
    ) -> None:
        self.provider = provider
        self.events = EventBuffer(redactor, max_response_bytes)
        self._redactor = redactor
        self._wire_bytes = 0
        self._bytes_at_content = 0  # bytes on the wire at the last content
        self._framing = 0  # messages since the last content
        self._decoder = decoder
        self._sse = SseDecoder(redactor)
        self._limit = max_response_bytes

    @property
    def is_complete(self) -> bool:
        """True if the answer is complete, and only its end mark is missing."""
        return self._decoder.is_complete

    @property
    def progress(self) -> int:
        """Characters of content so far, without keep-alives, empty deltas, and usage."""
        return self.events.chars + self.events.held_chars

    def feed(self, chunk: bytes) -> Iterator[ProviderEvent]:
        """Yield the events of the messages that `chunk` completes. Pieces of one text are joined.

        Raises:
            ProviderError: The server reports an error, or the response is too large. The events
                before it are yielded first.
            ProtocolError: A message is not valid for the API.
        """
        problem: ProviderError | None = None
        try:
            self._decode_chunk(chunk)
        except ProviderError as exc:
            problem = exc

        yield from self.events.take()
        if problem is not None:
            raise problem

    def _decode_chunk(self, chunk: bytes) -> None:
        self._wire_bytes += len(chunk)
        if not self._decoder.is_complete:  # the end has its own limit
            self._check_overhead()
        events = self.events
        comments = self._sse.comments
        before = self.progress
        states = events.state_reports

        for data in self._sse.feed(chunk):
            self._decode(data)
            if events.finished:
                return
            if (progress := events.chars + events.held_chars) != before:
                before = progress
                self._bytes_at_content = self._wire_bytes
                self._framing = 0
            elif events.state_reports != states:
                states = events.state_reports
            elif self._framing < MAX_FRAMING:
                self._framing += 1
                events.keep_alives += 1

        if self._sse.comments != comments:
            events.add(KeepAlive())

    def _check_overhead(self) -> None:
        if 0 < self._limit < (self._wire_bytes - MAX_OVERHEAD_BYTES) / MAX_OVERHEAD:
            size = self.events.bytes + self.events.held_chars
            raise ProviderError(
                f"{self.provider} sent {self._wire_bytes} bytes for an answer of {size}",
                kind="output_limit",
            )

        empty = self._wire_bytes - self._bytes_at_content
        if empty > MAX_EMPTY_BYTES:
            raise ProviderError(
                f"{self.provider} sent {empty} bytes without any content", kind="timeout"
            )

    def finish(self) -> Iterator[ProviderEvent]:
        """Yield the events at the end of the body.

        Raises:
            ProviderError: The response is not complete (kind `transient`), or it is too large
                (kind `output_limit`).
        """
        for data in self._sse.finish():
            with suppress(ProtocolError):  # the response is reported as incomplete
                self._decode(data)

        problem: ProviderError | None = None
        if not self.events.finished:
            try:
                self._finish_decoder()
            except ProviderError as exc:
                problem = exc

        yield from self.events.take()
        if problem is not None:
            raise problem

    def _decode(self, data: str) -> None:
        word = data.strip() if len(data) <= MAX_WORD_CHARS else ""
        if word == "[DONE]":
            if not self._decoder.is_continued:
                self._finish_decoder(has_end_mark=True)
            return
        if _PING.fullmatch(word):
            self.events.add(KeepAlive())
            return
        if word == "null" or not data or data.isspace():
            return

        try:
            try:
                message = from_json(data)  # twice as fast as `json.loads`
            except ValueError:
                message = json.loads(data)  # accepts half surrogate pairs
            self._decoder.feed(message, self.events)
        except _UNEXPECTED:
            excerpt = self._redactor.hide(data)[:_EXCERPT]
        else:
            self._check_size()
            return

        self._raise_undocumented(excerpt)

    def _raise_undocumented(self, excerpt: str) -> NoReturn:
        # Not chained to the exception, whose text may contain the key.
        raise ProtocolError(
            f"{self.provider} sent a message that its API does not document: {excerpt!r}"
        )

    def _finish_decoder(self, *, has_end_mark: bool = False) -> None:
        try:
            self._decoder.finish(self.events, has_end_mark=has_end_mark)
        except _UNEXPECTED:
            is_valid = False
        else:
            is_valid = True
        if not is_valid:
            self._raise_undocumented("the end of the stream")

        self._check_size()
        if not self.events.finished:
            raise ProviderError(
                f"the response of {self.provider} ended before it was complete", kind="transient"
            )

    def _check_size(self) -> None:
        if 0 < self._limit < self.events.bytes + self.events.held_chars:
            raise ProviderError(
                f"the response of {self.provider} is longer than {self._limit} bytes "
                "(assistant.request.max_response_bytes)",
                kind="output_limit",
            )


def is_json_object(text: str) -> bool:
    """Return True if `text` is a complete JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class ThinkSplitter:
    """Separates reasoning that a chat template left in the text as a leading `<think>…</think>`.

    Holds back what may be the beginning of a tag, which may be split between deltas.
    """

    def __init__(self, *, has_tags: bool = True) -> None:
        self._state: Literal["start", "thinking", "answer start", "answer"]
        self._state = "start" if has_tags else "answer"
        self._held = ""

    @property
    def is_done(self) -> bool:
        """True if later text belongs to the answer."""
        return self._state == "answer"

    def feed(self, text: str) -> list[tuple[TextKind, str]]:
        """Return the pieces of `text` with their kinds."""
        if self._state == "answer":
            return [("message", text)]

        text = self._held + text
        self._held = ""
        pieces: list[tuple[TextKind, str]] = []

        if self._state == "start":
            leading = text.lstrip()
            if _OPEN.startswith(leading):  # a line break may follow a complete tag
                self._held = text
                return []
            if not leading.startswith(_OPEN):
                self._state = "answer"
                return [("message", text)]
            self._state = "thinking"
            text = leading[len(_OPEN) :].removeprefix("\n")

        if self._state == "thinking":
            thought, tag, text = text.partition(_CLOSE)
            if not tag:
                sizes = range(min(len(_CLOSE) - 1, len(thought)), 0, -1)
                held = next((size for size in sizes if _CLOSE.startswith(thought[-size:])), 0)
                cut = len(thought) - held
                self._held = thought[cut:]
                thought = thought[:cut]
            if thought:
                pieces.append(("reasoning", thought))
            if not tag:
                return pieces
            self._state = "answer start"

        if text := text.lstrip("\n"):
            self._state = "answer"
            pieces.append(("message", text))
        return pieces

    def finish(self) -> list[tuple[TextKind, str]]:
        """Return the text that was held back."""
        text = self._held
        self._held = ""
        kind: TextKind = "reasoning" if self._state == "thinking" else "message"
        return [(kind, text)] if text else []


async def stream_events(
    chunks: AsyncGenerator[bytes, None],
    decoder: StreamDecoder,
    *,
    idle_timeout: float,
    sanitize_error: Callable[[ProviderError], ProviderError] = lambda error: error,
    recover: Callable[[ProviderError], ProviderEvent | None] = lambda _: None,
    first: ProviderEvent | None = None,
) -> AsyncGenerator[ProviderEvent, None]:
    """Yield the events of a response with the body `chunks`, which is always closed.

    The wait for the first chunk includes connecting. `idle_timeout` is the maximum number of
    seconds without content or keep-alives; 0 is no limit. `sanitize_error` makes an error safe to
    show, and `recover` may return a last event instead of it. `first` is yielded before the others.

    Raises:
        ProviderError: The request fails, or the stream breaks or is idle for too long.
    """
    problem: ProviderError | None = None
    async with aclosing(chunks):
        if first is not None:
            yield first

        with IdleWatch(decoder, idle_timeout) as idle:
            try:
                while not decoder.events.finished:
                    chunk = await idle.read_next(chunks)
                    for event in decoder.finish() if chunk is None else decoder.feed(chunk):
                        if type(event) is Finished:
                            await _drain(chunks)
                        yield event
            except ProviderError as exc:
                problem = exc

    chunk = None  # a traceback must not show its content, which may contain a key
    if problem is None:
        return

    for event in decoder.events.take_held_texts():
        yield event

    last_event = recover(sanitize_error(problem))
    if last_event is None:
        raise problem
    yield last_event


async def _drain(chunks: AsyncGenerator[bytes, None]) -> None:
    # A connection can be reused only after its whole body was read.
    with suppress(TimeoutError, ProviderError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass


class IdleWatch:
    """Idle timeout of a stream: ends a read that receives no content.

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
        self._progress = self._keep_alives = 0
        self._read_ended = wall_clock()
        self._deadline = self._read_ended + self._seconds
        self._last_deadline = self._read_ended + IDLE_TIMEOUTS * self._seconds
        self._end_deadline: float | None = None  # set when only the end mark is missing
        self._reader: asyncio.Task[Any] | None = None  # waits for the next chunk
        self._has_expired = False
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._check_deadline()
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
        reader = self._reader = asyncio.current_task()
        assert reader is not None
        cancels = reader.cancelling()

        try:
            if self._find_deadline() > self._read_ended:
                # A read that never waits is never canceled.
                return await anext(chunks)
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError:
            if not self._has_expired or reader.cancelling() > cancels + 1:
                raise  # canceled by the caller
        finally:
            self._reader = None
            self._read_ended = wall_clock()
            if self._has_expired:
                reader.uncancel()

        if self._end_deadline is not None:
            return None
        setting = "assistant.request.stream_idle_timeout_secs"
        limit = IDLE_TIMEOUTS * self._seconds
        times = f"{IDLE_TIMEOUTS} times {setting}"
        if self._decoder.events.open_calls:
            silence = f"{limit:g} s within a tool call ({times})"
        elif wall_clock() < self._deadline:
            silence = f"{limit:g} s, only keep-alives ({times})"
        else:
            silence = f"{self._seconds:g} s ({setting})"

        raise ProviderError(
            f"{self._decoder.provider} sent no content for {silence}. To wait longer, increase it: "
            f"`%jp config {setting}=SECONDS`",
            kind="timeout",
        )

    def _begin_read(self, now: float) -> None:
        # Restart the timeout if content or keep-alives have arrived, and extend it by the time that
        # the consumer took.
        decoder = self._decoder
        seconds = self._seconds
        taken = now - self._read_ended
        self._read_ended = now
        progress = decoder.progress
        keep_alives = decoder.events.keep_alives

        if progress != self._progress:
            self._deadline = now + seconds
            self._last_deadline = now + IDLE_TIMEOUTS * seconds
            self._end_deadline = None  # a part of the answer may follow its finish reason
        else:
            self._last_deadline += taken
            is_alive = keep_alives != self._keep_alives
            self._deadline = now + seconds if is_alive else self._deadline + taken

        self._progress = progress
        self._keep_alives = keep_alives

        if self._end_deadline is None and decoder.is_complete:
            self._end_deadline = now + END_SECONDS

    def _find_deadline(self) -> float:
        if self._end_deadline is not None:
            return self._end_deadline
        if self._decoder.events.open_calls:
            return self._last_deadline
        return min(self._deadline, self._last_deadline)

    def _check_deadline(self) -> None:
        left = self._find_deadline() - wall_clock()
        if left <= 0 and self._reader is not None:
            self._has_expired = True
            self._reader.cancel()
            return

        pause = min(left, POLL_SECONDS) if left > 0 else 0.05
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(pause, self._check_deadline)
