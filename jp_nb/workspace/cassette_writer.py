"""Writes a cassette while models are asked: each exchange is in the file when it has ended.

What was written stays as it is, with one exception: inquiries, which run at the same time, stand
in the order of their digests, however they ended. Only those since the last other request are
written again, so that the work is linear in what is recorded.

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
from jp_nb.workspace.cassette_file import (
    HEADER,
    CassetteContent,
    exchange_lines,
    line_bytes,
    part_line,
)
from jp_nb.workspace.replacing import replace_file


class CassetteWriter:
    """Adds exchanges to a file.

    Args:
        path: The file.
        known: What is in it, and stays. None: it begins anew, once there is an exchange.
    """

    def __init__(self, path: Path, known: CassetteContent | None = None) -> None:
        self.path = path
        self.written = 0
        self._began = known is not None
        self._settled_parts = set(known.parts) if known is not None else set()
        self._settled_bytes = self._bytes = self._size() if known is not None else 0
        self._front = b"" if known is None or _ends_its_line(path) else b"\n"
        self._last: list[Exchange] = []

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
            replace_file(self.path, line_bytes(HEADER))
            self._settled_bytes = self._bytes = self._size()
            self._began = True
        if not (exchange.asked.is_inquiry and self._last and self._last[0].asked.is_inquiry):
            self._settle()
        together = sorted([*self._last, exchange], key=lambda each: each.asked.id)
        self._write(self._front + _block(together, self._settled_parts))
        self._last = together

    def _settle(self) -> None:
        """What was written so far is not written again."""
        for exchange in self._last:
            self._settled_parts.update(_key(part) for part in _new(exchange, self._settled_parts))
        if self._last:
            self._front = b""
        self._settled_bytes = self._bytes
        self._last = []

    def _write(self, block: bytes) -> None:
        """Put `block` behind what is settled."""
        if self._size() != self._bytes:
            raise StorageError(
                f"another program has written to the cassette {self.path} while it is recorded: "
                "one kernel at a time records on a cassette"
            )
        with self.path.open("r+b", buffering=0) as file:
            try:
                file.seek(self._settled_bytes)
                while block:
                    block = block[file.write(block) :]
            except OSError:
                self._bytes = file.truncate(self._settled_bytes)  # no half of an exchange
                raise
            self._bytes = file.truncate()

    def _size(self) -> int:
        return os.stat(self.path).st_size


def _ends_its_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _block(exchanges: Sequence[Exchange], settled: set[tuple[str, str]]) -> bytes:
    """Return the lines of `exchanges`, each with its parts that are in no line before."""
    lines, added = list[bytes](), set[tuple[str, str]]()
    for exchange in exchanges:
        for part in _new(exchange, settled, added):
            added.add(_key(part))
            lines.append(line_bytes(part_line(part)))
        lines += map(line_bytes, exchange_lines(exchange))
    return b"".join(lines)


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
