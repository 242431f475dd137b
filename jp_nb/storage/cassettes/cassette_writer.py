"""`CassetteWriter`: append exchanges to a cassette while a conversation is recorded.

Written lines do not change, with one exception. Inquiries run concurrently, and are sorted by their
ids for a reproducible file. The writer sorts successive inquiries once, when another request
follows (it *settles* them), so the total work is linear in the length of the file.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from jp_nb.agent.model_requests.exchange_json import event_to_json
from jp_nb.agent.model_requests.normalized_request import RequestPart, make_digest
from jp_nb.agent.model_requests.recorded_exchange import Exchange
from jp_nb.errors import StorageError
from jp_nb.file_reading import open_regular
from jp_nb.file_writing import open_file, replace_file
from jp_nb.json_values import JsonObject
from jp_nb.json_writing import compact_json
from jp_nb.storable_json import encode_utf8
from jp_nb.storage.cassettes.cassette_content import CASSETTE_HEADER, CassetteContent
from jp_nb.storage.cassettes.cassette_file import MAX_CASSETTE_BYTES


class CassetteWriter:
    """Append exchanges to a cassette.

    The `known` content is kept; if it is None, the first exchange replaces the file. A link may not
    lead out of `folder`, the notebook's.

    The file has two parts. The *settled* one does not change any more. The exchanges after it are
    concurrent inquiries, which may be sorted again, or one other request.

    Attributes:
        written: Number of written exchanges.
    """

    def __init__(
        self, path: Path, known: CassetteContent | None = None, *, folder: Path | None = None
    ) -> None:
        self.path = path
        self._folder = folder
        self.written = 0

        # False until this writer has replaced the file. Known content is not replaced.
        self._began = known is not None

        # The size and the inode of the file as this writer left it. If they differ, another program
        # has written.
        self._bytes = 0
        self._inode = 0
        self._separator = b""  # a line break if the file ends within a line

        # Each of the two parts has the keys (kind and id) of its lines with parts of requests.
        self._settled_bytes = 0
        self._settled_parts: set[tuple[str, str]] = set()
        self._last: list[Exchange] = []
        self._last_parts: set[tuple[str, str]] = set()

        if known is not None:
            self._settled_parts = set(known.parts)
            self._note_file()
            if not _ends_its_line(path):
                self._separator = b"\n"

    def _note_file(self) -> None:
        status = self.path.stat()
        self._bytes = status.st_size
        self._settled_bytes = status.st_size
        self._inode = status.st_ino

    def add(self, exchange: Exchange) -> None:
        """Write `exchange` to the file.

        Raises:
            StorageError: The file cannot be written, or another program has changed it.
        """
        try:
            self._add(exchange)
        except OSError as exc:
            why = exc.strerror or type(exc).__name__
            raise StorageError(f"the cassette {self.path} cannot be written: {why}") from exc

        self.written += 1

    def _add(self, exchange: Exchange) -> None:
        """Write `exchange` after the last one. Successive inquiries stay open for another order."""
        if not self._began:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, _format_line(CASSETTE_HEADER), folder=self._folder)
            self._note_file()
            self._began = True

        follows_inquiry = bool(self._last) and self._last[0].request.is_inquiry
        if not (exchange.request.is_inquiry and follows_inquiry):
            self._settle()

        block, parts = _format_exchanges([exchange], self._settled_parts, self._last_parts)
        # The line break before the first block belongs to the settled part.
        self._write(self._separator + block, self._bytes)
        self._settled_bytes += len(self._separator)
        self._separator = b""

        self._last.append(exchange)
        self._last_parts |= parts

    def _settle(self) -> None:
        """Write concurrent inquiries in their final order."""
        in_order = sorted(self._last, key=lambda exchange: exchange.request.id)

        if in_order != self._last:
            block, _ = _format_exchanges(in_order, self._settled_parts)
            self._write(block, self._settled_bytes)

        self._settled_parts |= self._last_parts
        self._settled_bytes = self._bytes
        self._last = []
        self._last_parts = set()

    def _write(self, block: bytes, offset: int) -> None:
        """Write `block` at the byte `offset`, and truncate the file after it."""
        if offset + len(block) > MAX_CASSETTE_BYTES:
            raise StorageError(
                f"the cassette {self.path} is full: the limit is "
                f"{MAX_CASSETTE_BYTES // 10**6} MB. Record the rest of the conversation on "
                "another cassette"
            )

        descriptor = open_file(self.path, os.O_RDWR, folder=self._folder)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            status = os.fstat(descriptor)
            if (status.st_ino, status.st_size) != (self._inode, self._bytes):
                raise StorageError(
                    f"another program wrote to the cassette {self.path} during the "
                    "recording. Only one kernel at a time can record on a cassette"
                )

            try:
                file.seek(offset)
                while block:
                    written = file.write(block)  # perhaps not all of it
                    block = block[written:]
            except OSError:
                self._bytes = file.truncate(offset)  # remove the incomplete exchange
                raise

            self._bytes = file.truncate()


def _ends_its_line(path: Path) -> bool:
    with os.fdopen(open_regular(path), "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _format_exchanges(
    exchanges: Sequence[Exchange], *known: set[tuple[str, str]]
) -> tuple[bytes, set[tuple[str, str]]]:
    """Return the lines of `exchanges` with their new parts, and the keys of these parts.

    `known` are the parts that the file already contains.
    """
    added: set[tuple[str, str]] = set()

    def is_new(part: RequestPart) -> bool:
        return not any((part.kind, part.id) in keys for keys in (*known, added))

    lines: list[JsonObject] = []

    for exchange in exchanges:
        request = exchange.request

        # A known message implies all before it.
        messages = reversed(list(takewhile(is_new, reversed(request.messages))))
        for part in (*request.system, *request.attachments, *request.tools, *messages):
            if is_new(part):
                added.add((part.kind, part.id))
                chain: JsonObject = {"after": part.after} if part.kind == "message" else {}
                lines.append({part.kind: part.id, **chain, **part.value})

        response = [event_to_json(event) for event in (*exchange.events, exchange.end)]
        sealed_end = {**response[-1], "seal": make_digest([request.id, *response])}
        lines += [{"request": request.id, **request.summary}, *response[:-1], sealed_end]

    return b"".join(map(_format_line, lines)), added


def _format_line(value: JsonObject) -> bytes:
    return encode_utf8(compact_json(value)) + b"\n"
