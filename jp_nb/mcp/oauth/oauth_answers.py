"""Read an answer of an authorization server, in a bounded size.

Source: `docs/mcp.md`, Sign in.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from jp_nb.mcp.transports.http_bodies import UnreadableAnswerError
from jp_nb.mcp.transports.limits import MAX_OAUTH_BYTES


async def read_bounded(response: httpx2.Response) -> bytes:
    """Read the body of an answer during a sign-in, of at most `MAX_OAUTH_BYTES`, and return it.

    Raises:
        UnreadableAnswerError: It is larger, or compressed.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        await response.aclose()
        raise UnreadableAnswerError("its authorization server compressed its answer")

    if not response.is_stream_consumed:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream)
    return await response.aread()


class _BoundedStream(httpx2.AsyncByteStream):
    """Stream of a body that raises `UnreadableAnswerError` beyond `MAX_OAUTH_BYTES`."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_OAUTH_BYTES:
                raise UnreadableAnswerError("its authorization server sent too much")
            yield chunk

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()
