"""Bodies of a server's HTTP responses, in a bounded size, and without parts that are too deep.

A body is read before the library `mcp` reads it. A message that is too large ends its request. JSON
with too many levels would exhaust the library's parser, so such parts are replaced (`cut_deep`).
Bodies are not compressed: `http_client.py` asks for such bodies, and refuses others.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

import httpx2

from jp_nb.mcp.transports.end_reasons import describe_large_message
from jp_nb.mcp.transports.server_messages import cut_deep

_MANY_BRACKETS: Final = 100
"""JSON with at most as many is not nested too deeply (`MAX_STORED_LEVELS`): it is not searched."""


class MessageTooLargeError(httpx2.SSEError):
    """A message is larger than the limit; the library ends its request with this text.

    It is a kind of `httpx2.TransportError`, like all errors of a response.
    """


class UnreadableAnswerError(httpx2.TransportError):
    """An answer cannot be read; the message is the reason."""


class BodyLimits:
    """Reads bodies whose messages have at most `max_message_bytes`.

    A larger message raises `MessageTooLargeError`, after `on_excess` was called with the reason.
    """

    def __init__(self, max_message_bytes: int, on_excess: Callable[[str], None]) -> None:
        self.max_message_bytes = max_message_bytes
        self._on_excess = on_excess

    async def read_message(self, response: httpx2.Response) -> bytes:
        """Return the body of a response with one message, and close the response."""
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                self.check_size(len(body))
        finally:
            await response.aclose()
        return _repair_body(bytes(body))

    def limit_events(self, response: httpx2.Response) -> None:
        """Limit and repair each line of a stream of events."""
        response.stream = _EventLines(response, self)

    def check_size(self, size: int) -> None:
        """Raise `MessageTooLargeError` if a message of `size` bytes is too large."""
        if size > self.max_message_bytes:
            reason = describe_large_message(self.max_message_bytes)
            self._on_excess(reason)
            raise MessageTooLargeError(reason)


async def read_beginning(response: httpx2.Response, max_bytes: int) -> bytes:
    """Return the beginning of a body, as much as arrives, and close the response.

    It may be a little longer than `max_bytes`.
    """
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > max_bytes:
                break
    except httpx2.TransportError:  # the connection ended within the body
        pass
    await response.aclose()
    return bytes(body)


def copy_response(response: httpx2.Response, body: bytes) -> httpx2.Response:
    """Return a response like `response` with another `body`, which is not compressed."""
    headers = {
        name: value
        for name, value in response.headers.items()
        if name not in ("content-length", "transfer-encoding", "content-encoding")
    }
    return httpx2.Response(
        response.status_code, headers=headers, content=body, request=response.request
    )


class _EventLines(httpx2.AsyncByteStream):
    """Stream of events in whole lines of a bounded size.

    The size is checked at the end of each chunk, so a line may be longer by up to one chunk. A last
    line without an end passes as it is, because no event ends with it.
    """

    def __init__(self, response: httpx2.Response, limits: BodyLimits) -> None:
        self._stream = response.stream
        self._limits = limits

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []  # of the line that is not complete yet
        size = 0
        assert isinstance(self._stream, httpx2.AsyncByteStream)

        async for chunk in self._stream:
            *line_ends, line_start = chunk.split(b"\n")
            for line_end in line_ends:
                yield _repair_line(b"".join([*parts, line_end])) + b"\n"
                parts = []
                size = 0

            parts.append(line_start)
            size += len(line_start)
            self._limits.check_size(size)
        yield b"".join(parts)

    async def aclose(self) -> None:
        """Close the stream."""
        assert isinstance(self._stream, httpx2.AsyncByteStream)
        await self._stream.aclose()


def _repair_line(line: bytes) -> bytes:
    """Return a line of a stream of events, such as `data: {…}`, without parts that are too deep."""
    prefix, colon, data = line.partition(b":")
    if prefix != b"data":
        return line
    return prefix + colon + _repair_body(data)


def _repair_body(body: bytes) -> bytes:
    """Return a JSON body without parts that are too deep."""
    may_be_deep = body.count(b"[") + body.count(b"{") > _MANY_BRACKETS
    if not may_be_deep:
        return body
    return cut_deep(body.decode(errors="replace")).encode()
