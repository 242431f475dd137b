"""Writes a cassette while models are asked: each exchange is in the file when it has ended.

What was written stays as it is, with one exception: inquiries, which run at the same time, stand
in the order of their digests, however they ended. Those since the last other request are written
again once, with the next one, so that the work is linear in what is recorded.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from jp_nb.agent.asked_request import RequestPart
from jp_nb.agent.exchange import Exchange
from jp_nb.errors import StorageError
from jp_nb.file_writing import open_file, replace_file
from jp_nb.workspace.cassette_file import (
    HEADER,
    MAX_BYTES,
    CassetteContent,
    exchange_lines,
    line_bytes,
    part_line,
)


class CassetteWriter:
    """Adds exchanges to a file.

    Args:
        path: The file.
        known: What is in it, and stays. None: it begins anew, once there is an exchange.
        folder: The notebook's folder, which a file in it may not leave through a link.
    """

    def __init__(
        self, path: Path, known: CassetteContent | None = None, *, folder: Path | None = None
    ) -> None:
        self.path = path
        self._folder = folder
        self.written = 0
        self._began = known is not None
        self._settled_parts = set(known.parts) if known is not None else set()
        self._settled_bytes = self._bytes = self._size() if known is not None else 0
        self._inode = self._stat().st_ino if known is not None else 0
        self._front = b"" if known is None or _ends_its_line(path) else b"\n"
        self._last: list[Exchange] = []
        self._last_parts: set[tuple[str, str]] = set()

    def add(self, exchange: Exchange) -> None:
        """Have `exchange` in the file.

        Raises:
            StorageError: If it cannot be written, or somebody else has written to it meanwhile.
        """
        try:
            self._add(exchange)
        except OSError as exc:
            why = exc.strerror or type(exc).__name__
            raise StorageError(f"the cassette {self.path} cannot be written: {why}") from exc
        self.written += 1

    def _add(self, exchange: Exchange) -> None:
        if not self._began:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path, line_bytes(HEADER), folder=self._folder)
            self._settled_bytes = self._bytes = self._size()
            self._inode = self._stat().st_ino
            self._began = True
        if not (exchange.asked.is_inquiry and self._last and self._last[0].asked.is_inquiry):
            self._settle()
        block, parts = _block([exchange], self._settled_parts, self._last_parts)
        self._write(self._front + block, self._bytes)
        self._settled_bytes += len(self._front)
        self._front = b""
        self._last.append(exchange)
        self._last_parts |= parts

    def _settle(self) -> None:
        """Bring what was asked at the same time into its order; it is not written again."""
        in_order = sorted(self._last, key=lambda each: each.asked.id)
        if in_order != self._last:
            block, _ = _block(in_order, self._settled_parts)
            self._write(block, self._settled_bytes)
        self._settled_parts |= self._last_parts
        self._settled_bytes = self._bytes
        self._last, self._last_parts = [], set()

    def _write(self, block: bytes, place: int) -> None:
        """Have `block` at `place`, a number of bytes, and nothing behind it."""
        if place + len(block) > MAX_BYTES:
            raise StorageError(
                f"the cassette {self.path} is full: the limit is "
                f"{MAX_BYTES // 10**6} MB. Record the rest of the conversation on "
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
                file.seek(place)
                while block:
                    block = block[file.write(block) :]
            except OSError:
                self._bytes = file.truncate(place)  # no half of an exchange
                raise
            self._bytes = file.truncate()

    def _stat(self) -> os.stat_result:
        return self.path.stat()

    def _size(self) -> int:
        return self._stat().st_size


def _ends_its_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _block(
    exchanges: Sequence[Exchange], *known: set[tuple[str, str]]
) -> tuple[bytes, set[tuple[str, str]]]:
    """Return the lines of `exchanges`, each with its parts that are in no line before, and these.

    `known` are those that are in the file already.
    """
    lines, added = list[bytes](), set[tuple[str, str]]()
    for exchange in exchanges:
        for part in _new(exchange, *known, added):
            added.add(_key(part))
            lines.append(line_bytes(part_line(part)))
        lines += map(line_bytes, exchange_lines(exchange))
    return b"".join(lines), added


def _new(exchange: Exchange, *known: set[tuple[str, str]]) -> list[RequestPart]:
    """Return the parts of `exchange` that are in none of `known`, in their order, each once."""

    def is_new(part: RequestPart) -> bool:
        return not any(_key(part) in each for each in known)

    asked = exchange.asked
    found = filter(is_new, (*asked.system, *asked.attachments, *asked.tools))
    rest = takewhile(is_new, reversed(asked.messages))  # who has a message has those before it
    unique = {_key(part): part for part in [*found, *reversed(list(rest))]}
    return list(unique.values())


def _key(part: RequestPart) -> tuple[str, str]:
    return part.kind, part.id
