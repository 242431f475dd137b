"""Read the bodies of responses in pieces of a bounded size.

The functions get the bytes of a response as they arrive (`http.py`). The bounds keep a server from
filling the memory of the kernel with one long text, or with a body that grows when it is
decompressed.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from jp_nb.providers.network.decompression import Decompressor

MAX_JSON_BYTES: Final = 16 * 2**20
"""Maximum size of a response that is not a stream, or of one of its lines if it has lines."""


def describe_json_limit() -> str:
    """Return the maximum size in words, for errors."""
    return f"{MAX_JSON_BYTES // 2**20} MiB"


class DamagedBodyError(Exception):
    """A compressed response cannot be decompressed."""


async def decompress_chunks(
    raw: AsyncGenerator[bytes, None], content_encoding: str
) -> AsyncGenerator[bytes, None]:
    """Yield the decoded body of a response with this header `content-encoding`, "" without one.

    Raises:
        DamagedBodyError: The body is not compressed as its header says.
    """
    encodings = content_encoding.lower()
    is_compressed = "gzip" in encodings or "deflate" in encodings
    decompressor = Decompressor(encodings) if is_compressed else None

    async with aclosing(raw):
        async for data in raw:
            if decompressor is None:
                yield data
                continue
            try:
                for piece in decompressor.feed(data):
                    yield piece
            except zlib.error as exc:
                raise DamagedBodyError(f"the compressed response is damaged: {exc}") from exc


async def read_limited_body(chunks: AsyncGenerator[bytes, None]) -> bytes | None:
    """Return the whole body; None if it has more than `MAX_JSON_BYTES`."""
    body = bytearray()
    async with aclosing(chunks):
        async for chunk in chunks:
            body += chunk
            if len(body) > MAX_JSON_BYTES:
                return None

    return bytes(body)


async def split_lines(
    chunks: AsyncGenerator[bytes, None],
) -> AsyncGenerator[bytes | None, None]:
    """Yield the lines of `chunks`; None in place of a line that is too long, and nothing after."""
    pieces: list[bytes] = []  # of the line that has not ended
    size = 0

    async with aclosing(chunks):
        async for chunk in chunks:
            *line_ends, next_line = chunk.split(b"\n")

            for line_end in line_ends:
                yield b"".join([*pieces, line_end])
                pieces = []
                size = 0

            pieces.append(next_line)
            size += len(next_line)
            if size > MAX_JSON_BYTES:
                yield None
                return

    yield b"".join(pieces)
