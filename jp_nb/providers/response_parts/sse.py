"""Decode server-sent events.

Source: `docs/providers.md`, https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from jp_nb.errors import ProtocolError
from jp_nb.providers.key_redactor import NO_KEY, KeyRedactor

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
_UNDECODED: Final = re.compile("[\udc80-\udcff]")  # bytes that are not UTF-8


class SseDecoder:
    """Decoder for one stream of server-sent events. Returns the data of each event.

    Only `data` is used, because the messages of the protocols contain their types. It must be
    UTF-8: a replacement would change the answer without notice. Lines end in LF, CR LF, or CR. The
    API key that `redactor` knows is removed from each line.

    Attributes:
        comments: Number of comments so far. A server that is still busy sends them, so they show
            that the connection is alive.
    """

    def __init__(self, redactor: KeyRedactor = NO_KEY) -> None:
        self.comments = 0
        self._redactor = redactor
        # The line that has not ended:
        self._tail = bytearray()
        # The event that has not ended: the values of its lines with `data`, and its approximate
        # size in bytes, for the limit:
        self._data: list[str] = []
        self._size = 0
        # About the stream so far:
        self._skip_newline = False  # True if the last chunk ended with `\r`
        self._at_start = True  # until `_process_field`: a first line may have a byte order mark
        self._is_utf8 = True  # True if all lines are UTF-8

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
            elif len(data) == 1 and self._is_utf8:  # `_dispatch`, short for the usual event
                self._size = 0
                yield data.pop()
            elif data:
                yield self._dispatch()

        if not data:
            self._size = len(self._tail)
        if self._size > MAX_EVENT_BYTES:
            raise ProtocolError(f"an event of the stream is longer than {MAX_EVENT_BYTES} bytes")

    def finish(self) -> Iterator[str]:
        """Yield the last event if only its blank line is missing.

        An event that was cut inside a character is dropped: the stream ended too early, and its
        reader reports that.
        """
        for line in self._split_lines(self._tail):
            self._process_field(line)
        if self._data:
            with suppress(ProtocolError):
                yield self._dispatch()

    def _normalize_line_ends(self, chunk: bytes) -> bytes:
        """Return `chunk` with LF at the end of each line."""
        if self._skip_newline and chunk:
            self._skip_newline = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            # `\r` ends the line at once. A `\n` at the start of the next chunk belongs to it.
            self._skip_newline = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _split_lines(self, lines: bytes | bytearray) -> list[str]:
        """Return whole lines as texts without the key. `_dispatch` reports invalid bytes."""
        try:
            text = lines.decode()
        except UnicodeDecodeError:  # may be outside the data, or after other events
            self._is_utf8 = False
            text = lines.decode(errors="surrogateescape")
        return self._redactor.hide_in_lines(text)

    def _process_field(self, line: str) -> None:
        """Process a line that is not empty: count a comment, keep `data`, ignore other fields."""
        if self._at_start:
            self._at_start = False
            line = line.removeprefix("\ufeff")
        name, separator, value = line.partition(":")
        if separator and not name:
            self.comments += 1
        elif name == "data":
            self._data.append(value.removeprefix(" "))

    def _dispatch(self) -> str:
        """Return the data of the event that has ended."""
        data = self._data[0] if len(self._data) == 1 else "\n".join(self._data)
        self._data.clear()
        self._size = 0
        if self._is_utf8 or _UNDECODED.search(data) is None:
            return data
        raise ProtocolError("the stream is not UTF-8")
