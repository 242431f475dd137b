"""Serve an MCP server to one client over stdin and stdout, which nothing else may use meanwhile.

Source: `docs/mcp.md` (our tools for others), `docs/decisions.md` D231.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

MAX_WAITING_LINES: Final = 100
"""Number of messages of the client that are read before the first of them is handled."""
STDIN_CHUNK_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Wire:
    """The streams of the protocol, which nothing else can reach. `stdin` is a descriptor."""

    stdin: int
    stdout: TextIOWrapper


def take_wire() -> Wire:
    """Return stdin and stdout, and put others in their place, also for child processes.

    What tools print goes to stderr. They read an empty stdin.
    """
    sys.stdout.flush()
    wire_in = os.dup(0)
    wire_out = os.dup(1)

    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    return Wire(wire_in, TextIOWrapper(os.fdopen(wire_out, "wb"), encoding="utf-8"))


class Lines:
    """The lines of a descriptor. Unlike a file, it does not keep a program from ending."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(MAX_WAITING_LINES)
        threading.Thread(target=self._read, name="jp-nb mcp stdin", daemon=True).start()

    def _read(self) -> None:
        """Read the descriptor to its end, in the thread."""
        parts: list[bytes] = []  # of the line that is not complete yet
        with suppress(RuntimeError, OSError):  # the loop has ended, or no read is possible
            while chunk := os.read(self._descriptor, STDIN_CHUNK_BYTES):
                *line_ends, line_start = chunk.split(b"\n")
                for line_end in line_ends:
                    line = b"".join([*parts, line_end])
                    parts.clear()
                    self._put(line.decode("utf-8", errors="replace"))
                parts.append(line_start)
            self._put(None)  # the end of the lines

    def _put(self, line: str | None) -> None:
        """Put a line into the queue, and wait while the queue is full."""
        asyncio.run_coroutine_threadsafe(self._queue.put(line), self._loop).result()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the lines, without their ends."""
        while (line := await self._queue.get()) is not None:
            yield line


async def serve_stdio(server: Server[Any], wire: Wire) -> None:
    """Serve one client over stdin and stdout, until stdin ends."""
    import anyio
    from mcp.server.stdio import stdio_server

    stdin: Any = Lines(wire.stdin)
    stdout = anyio.wrap_file(wire.stdout)
    async with stdio_server(stdin, stdout) as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())
