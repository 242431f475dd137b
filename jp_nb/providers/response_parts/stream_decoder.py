"""Decode the bytes of a response to events, within its size limits. No I/O.

Bytes pass three stages: `SseDecoder` (`sse.py`) splits them into messages, the `Decoder` of the
protocol finds the events of each message, and an `EventBuffer` collects these. `StreamDecoder`
joins the stages, and checks the limits.

The buffer counts. Its `chars` and `bytes` are those of the content in events, and `held_chars` are
those that a decoder keeps for a later event. `keep_alives` and `state_reports` count the messages
that show only that the server is there. A reader's idle timeout (`IdleWatch`) depends on them.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NoReturn

from pydantic_core import from_json

from jp_nb.agent.provider_events import KeepAlive, ProviderEvent
from jp_nb.errors import ProtocolError, ProviderError
from jp_nb.providers.key_redactor import NO_KEY, KeyRedactor
from jp_nb.providers.response_parts.answer_text import AnswerText
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.response_parts.sse import MAX_EVENT_BYTES, SseDecoder
from jp_nb.providers.schemas.answer_schemas import AnswerSchema

WireObject = dict[str, Any]
"""A JSON object from a server. Members may be missing or have another type."""

MAX_OVERHEAD: Final = 256
"""Maximum number of bytes on the wire for each byte of an answer.

A message with three characters takes about 300.
"""
MAX_OVERHEAD_BYTES: Final = 16 * 1024 * 1024
"""Further bytes on the wire that every response may have."""
MAX_EMPTY_BYTES: Final = 2 * MAX_EVENT_BYTES
"""Maximum number of bytes without content. It stops a fast server before the idle timeout does."""
MAX_FRAMING: Final = 8
"""Number of messages of framing that count as keep-alives between two contents."""
MAX_WORD_CHARS: Final = 40
"""Maximum length of data that is a word instead of a message, such as `[DONE]` or `ping`."""
_PING: Final = re.compile(r'[":]*\s*(?:ping|pong|heart-?beat|keep[-_ ]?alive)\s*"?', re.IGNORECASE)
"""Data that some servers and proxies send instead of a comment."""
_EXCERPT: Final = 200
_UNEXPECTED: Final = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError
)  # fmt: skip
"""Exceptions of decoders for a message of another shape."""


class Decoder(ABC):
    """Converts the messages of one response to events. Each protocol has a subclass.

    `StreamDecoder` calls `feed` for each message, and `finish` at the end. An exception in
    `_UNEXPECTED`, such as `KeyError`, means that the message is not valid for the API.

    Attributes:
        is_complete: True if `finish` can complete the response without further messages.
        is_continued: True if the response continues in another request, whose stream follows.
    """

    is_complete = False
    is_continued = False

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


class StreamDecoder:
    """Decoder for the bytes of one response, with size limits. Does no I/O.

    There are three limits, because a server can send anything. The answer has a maximum size, which
    the user sets. It may not need many more bytes on the wire than it has. And there may not be
    many bytes without any content.

    `decoder` is the one of the protocol, `provider` is named in messages. `max_response_bytes`
    limits the size of texts and arguments; 0 is no limit.
    """

    def __init__(
        self,
        decoder: Decoder,
        *,
        provider: str,
        max_response_bytes: int = 0,
        redactor: KeyRedactor = NO_KEY,
    ) -> None:
        self.provider = provider
        self.events = EventBuffer(redactor, max_response_bytes)
        self._redactor = redactor
        self._decoder = decoder
        self._sse = SseDecoder(redactor)
        self._limit = max_response_bytes
        # The size of the response on the wire, and its size at the last content:
        self._wire_bytes = 0
        self._bytes_at_content = 0
        # The number of messages since the last content, up to `MAX_FRAMING`:
        self._framing = 0

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
        """Decode the messages that `chunk` completes, and count their keep-alives.

        A message has content, or reports a state, or is framing, such as the start of a block. A
        few messages of framing count as keep-alives, because content follows them.
        """
        self._wire_bytes += len(chunk)
        # After a complete answer, only an end mark is missing, for which `IdleWatch` waits briefly.
        if not self._decoder.is_complete:
            self._check_overhead()

        events = self.events
        earlier_comments = self._sse.comments
        earlier_progress = self.progress
        earlier_states = events.state_reports

        for data in self._sse.feed(chunk):
            self._decode(data)
            if events.finished:
                return

            if self.progress != earlier_progress:
                earlier_progress = self.progress
                self._bytes_at_content = self._wire_bytes
                self._framing = 0
            elif events.state_reports != earlier_states:  # neither content nor a keep-alive
                earlier_states = events.state_reports
            elif self._framing < MAX_FRAMING:
                self._framing += 1
                events.keep_alives += 1

        if self._sse.comments != earlier_comments:
            events.add(KeepAlive())

    def _check_overhead(self) -> None:
        """Raise if the response has too many bytes on the wire for its content."""
        max_wire_bytes = MAX_OVERHEAD_BYTES + MAX_OVERHEAD * self._limit
        if self._limit > 0 and self._wire_bytes > max_wire_bytes:
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
        """Decode the data of one event: a message, or a word such as `[DONE]`."""
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
        """Raise the error for a message that is not valid. Call it outside of an `except`."""
        # Not chained to the exception, whose text may contain the key.
        raise ProtocolError(
            f"{self.provider} sent a message that its API does not document: {excerpt!r}"
        )

    def _finish_decoder(self, *, has_end_mark: bool = False) -> None:
        """Let the decoder add the last events, and raise if the response is not complete."""
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
        """Raise if the answer is larger than the user's limit."""
        if 0 < self._limit < self.events.bytes + self.events.held_chars:
            raise ProviderError(
                f"the response of {self.provider} is longer than {self._limit} bytes "
                "(assistant.request.max_response_bytes)",
                kind="output_limit",
            )
