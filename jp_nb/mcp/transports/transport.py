"""Exchange lines of JSON with an MCP server that is a process.

Differences from the transport of the library `mcp`: a line has a maximum size and is read in linear
time; text before the first message is skipped; the process ends in any case (`server_process.py`).

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jp_nb.mcp.transports import end_reasons
from jp_nb.mcp.transports.launches import StdioLaunch
from jp_nb.mcp.transports.server_messages import find_request_id, read_message
from jp_nb.mcp.transports.server_process import PIPE_CHUNK_BYTES, ServerProcess
from jp_nb.storable_json import encode_utf8

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

MAX_GREETING_BYTES = 64 * 1024
"""Size of other text on stdout before the first message; more is an error."""
MAX_WAITING_MESSAGES = 100
"""Messages of the client that wait until the server reads; further ones block their calls."""
_PIPE_GRACE_S: Final = 0.5
"""Seconds to read the rest of stdout after the server ended: a child may hold the pipe."""
_PARSE_ERROR: Final = -32700
"""Code of JSON-RPC for a message that cannot be read."""


class StdioTransport:
    """A server process, and the streams of messages from and to it.

    Call `spawn`, enter the context for the streams, and call `stop` in any case, also if the
    context was never entered. It implements the protocol `Transport` (`transport_interface.py`).

    Args:
        max_message_bytes: Maximum size of a line of the server.
        on_end: Called when nothing more is read, because the server ended or broke a limit. It may
            be called twice.

    Attributes:
        fault: The reason why the connection ended; "" while it works.
        discarded_lines: Number of lines on stdout that were no messages.
    """

    def __init__(
        self, launch: StdioLaunch, max_message_bytes: int, on_end: Callable[[], None]
    ) -> None:
        self._process = ServerProcess(launch)
        self._on_end = on_end
        self._max_message_bytes = max_message_bytes
        self._tasks: list[asyncio.Task[None]] = []
        self._has_received = False  # a message; text before the first one is a greeting
        self._is_refused = False  # the server broke a limit, so nothing more is read
        self._discarded_bytes = 0
        self.fault = ""
        self.discarded_lines = 0

    @property
    def pid(self) -> int | None:
        """Process id of the server; None before `spawn`."""
        return self._process.pid

    def stderr_lines(self) -> tuple[str, ...]:
        """Return the last lines of stderr, without secrets."""
        return self._process.stderr_lines()

    def mark_started(self) -> None:
        """Do nothing: only HTTP needs to know that the handshake has ended."""

    def explain(self, exc: Exception) -> str:
        """Return the reason of an error of the library."""
        return str(exc) or type(exc).__name__

    async def spawn(self) -> None:
        """Start the process.

        Raises:
            StartError: It did not start.
        """
        await self._process.spawn()

    async def stop(self) -> None:
        """End the process within three seconds, and then the streams."""
        try:
            await self._process.stop()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(
        self,
    ) -> tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ]:
        import anyio
        from mcp.shared.message import SessionMessage

        incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, outgoing = anyio.create_memory_object_stream[SessionMessage](MAX_WAITING_MESSAGES)
        reader = asyncio.create_task(self._read(incoming))
        writer = asyncio.create_task(self._write(outgoing))
        self._tasks += [reader, writer, asyncio.create_task(self._watch(reader))]
        return received, sent

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _watch(self, reader: asyncio.Task[None]) -> None:
        """End the reader after the process, because a child of it may hold stdout open."""
        await self._process.wait_until_exited()
        if not self.fault:
            self.fault = end_reasons.describe_exit(self._process.return_code)
        await asyncio.wait([reader], timeout=_PIPE_GRACE_S)
        reader.cancel()

    # --- messages of the server ----------------------------------------------------------------

    async def _read(self, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Send messages to the library, until stdout ends or the server breaks a limit."""
        import anyio

        try:
            async with incoming:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    async for line in self._read_lines():
                        message = self._parse(line)
                        if message is not None:
                            await incoming.send(message)
                        if self._is_refused:
                            break
                await self._explain_end()

            self._on_end()  # at once: to drain stdout may take until the process ends
            await self._drain()
        finally:
            self._on_end()  # also if this task is cancelled

    async def _read_lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of stdout with their ends. The last one may have none."""
        parts: list[bytes] = []  # of the line that is not complete yet
        size = 0

        while chunk := await self._process.stdout.read(PIPE_CHUNK_BYTES):
            *line_ends, line_start = chunk.split(b"\n")
            for line_end in line_ends:
                if size + len(line_end) > self._max_message_bytes:
                    self._refuse_size()
                    return
                yield b"".join([*parts, line_end, b"\n"])
                parts = []
                size = 0

            parts.append(line_start)
            size += len(line_start)
            if size > self._max_message_bytes:
                self._refuse_size()
                return

        if size:
            yield b"".join(parts)

    async def _explain_end(self) -> None:
        """Note why stdout ended: the server usually exits a moment later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PIPE_GRACE_S):
                await self._process.wait_until_exited()
        if not self.fault:
            self.fault = end_reasons.describe_exit(self._process.return_code)

    async def _drain(self) -> None:
        """Read and drop the rest of stdout.

        A server that cannot write its output does not notice the end of its stdin.
        """
        while await self._process.stdout.read(PIPE_CHUNK_BYTES):
            pass

    def _parse(self, line: bytes) -> SessionMessage | None:
        """Return the message in a line of stdout; None if it contains none.

        An answer that cannot be read becomes an error for its request.
        """
        from mcp.shared.message import SessionMessage
        from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

        text = line.decode(errors="replace").strip()
        if not text:
            return None

        greeting_size = 0
        if not self._has_received and not text.startswith("{"):
            # The first message may follow a greeting in its line.
            greeting_size = max(text.find('{"'), 0)

        try:
            value = read_message(text[greeting_size:])
            message = jsonrpc_message_adapter.validate_python(value, by_name=False)
        except ValueError:
            self._count_discarded(len(text))
            is_cut = not line.endswith(b"\n")  # the end of the server is the better reason
            request_id = find_request_id(text)
            if request_id is None or is_cut:
                return None

            # The request must not wait for an answer that cannot be read.
            data = ErrorData(code=_PARSE_ERROR, message="its answer is not valid JSON-RPC")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request_id, error=data))

        if greeting_size:
            self._count_discarded(greeting_size)
        self._has_received = True
        return SessionMessage(message)

    def _count_discarded(self, size: int) -> None:
        """Count a line that is no message. Refuse a server whose greeting does not end."""
        self.discarded_lines += 1
        self._discarded_bytes += size
        if not self._has_received and self._discarded_bytes > MAX_GREETING_BYTES:
            self._refuse(end_reasons.describe_long_greeting(MAX_GREETING_BYTES))

    def _refuse_size(self) -> None:
        self._refuse(end_reasons.describe_large_message(self._max_message_bytes))

    def _refuse(self, reason: str) -> None:
        """Read nothing more, because the server broke a limit."""
        self._is_refused = True
        self.fault = reason

    # --- messages of the client ----------------------------------------------------------------

    async def _write(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write the messages of the library to stdin, a line each."""
        stdin = self._process.stdin
        with suppress(ConnectionError, RuntimeError):  # RuntimeError: the pipe is closed
            async with outgoing:
                async for item in outgoing:
                    value = item.message.model_dump(by_alias=True, exclude_unset=True)
                    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
                    stdin.write(encode_utf8(text) + b"\n")
                    await stdin.drain()
