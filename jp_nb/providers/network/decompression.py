"""Decompress the body of a response in bounded pieces.

httpx would decode each piece of the network as a whole, which can be 1,000 times as large.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

MAX_DECODED_BYTES: Final = 65_536
"""Size of the pieces in which a compressed response is read."""


class Decompressor:
    """Decompresses a body that is compressed with gzip or deflate, in bounded pieces.

    `encodings` is the response's header `content-encoding`. A damaged body raises `zlib.error`.
    """

    def __init__(self, encodings: str) -> None:
        wbits = 16 + zlib.MAX_WBITS if "gzip" in encodings else zlib.MAX_WBITS
        self._decoder = zlib.decompressobj(wbits)
        self._may_be_raw = "gzip" not in encodings  # some servers send deflate without its header
        self._first_byte = b""  # if the first piece of a body that may be raw has only one

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` decompresses to, without bytes after the end."""
        if self._may_be_raw:
            data = self._first_byte + data
            if len(data) < 2:  # the header, if there is one, has two bytes
                self._first_byte = data
                return

        piece = b""

        # After a piece of the maximum size, the decoder may have more, even without further data.
        while (data or len(piece) == MAX_DECODED_BYTES) and not self._decoder.eof:
            try:
                piece = self._decoder.decompress(data, MAX_DECODED_BYTES)
            except zlib.error:
                if not self._may_be_raw:
                    raise
                self._decoder = zlib.decompressobj(-zlib.MAX_WBITS)  # deflate without a header
                piece = self._decoder.decompress(data, MAX_DECODED_BYTES)

            self._may_be_raw = False  # the first two bytes have decided it
            data = self._decoder.unconsumed_tail
            if piece:
                yield piece
