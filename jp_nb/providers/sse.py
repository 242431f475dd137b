"""Server-sent events out of bytes, however they were cut.

Source: `docs/providers.md`; https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from jp_nb.errors import ProtocolError

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
