"""Run an MCP server as a process, and exchange lines of JSON with it.

Differences from the transport of the library `mcp`: a line has a maximum size and is read in linear
time; stderr goes to a bounded buffer; the server ends within three seconds; its process group ends
with the kernel, however that ends (`jp_nb/toolkit/command_tools/process_guard.py`).

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from jp_nb.json_values import encode_utf8
from jp_nb.mcp.errors import StartError
from jp_nb.mcp.transports import end_reasons
from jp_nb.mcp.transports.launches import StdioLaunch
from jp_nb.mcp.transports.server_messages import find_request_id, read_message
from jp_nb.text import plain
from jp_nb.toolkit.command_tools.processes import SHARED_GUARD

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

MAX_STDERR_BYTES = 64 * 1024
"""Size of the kept end of a server's stderr."""
MAX_GREETING_BYTES = 64 * 1024
"""Size of other text on stdout before the first message; more is an error."""
MAX_WAITING_MESSAGES = 100
"""Messages of the client that wait until the server reads; further ones block their calls."""
END_STEP_S: Final = 1.0
"""Seconds to wait after the end of stdin, after SIGTERM, and after SIGKILL."""
_POLL_S: Final = 0.02
_CHUNK_BYTES: Final = 64 * 1024
_PIPE_GRACE_S: Final = 0.5
"""Seconds to read the rest of stdout after the server ended: a child may hold the pipe."""
_PARSE_ERROR: Final = -32700
INHERITED_VARIABLES: Final = (
    (
        "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT",
        "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)  # fmt: skip
"""Variables of the kernel that each server inherits, as other MCP clients do. No key is one."""


def make_environment(configured: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: the short list, and the `configured` variables."""
    inherited: dict[str, str] = {}
    for name in INHERITED_VARIABLES:
        value = os.environ.get(name, "")
        if value and not value.startswith("()"):  # a function of an old bash
            inherited[name] = value

    return {**inherited, **configured}


class _ServerProcess(asyncio.subprocess.SubprocessStreamProtocol):
    """Reports the end of the process, also while a child of it holds the pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=_CHUNK_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class StdioTransport:
    """A server process, and the streams of messages from and to it.

    Call `spawn`, enter the context for the streams, and call `stop` in any case.

    Attributes:
        fault: The reason why the connection ended; "" while it works.
        discarded_lines: Number of lines on stdout that were no messages.
    """

    def __init__(
        self, launch: StdioLaunch, max_message_bytes: int, on_end: Callable[[], None]
    ) -> None:
        self._launch = launch
        self._on_end = on_end
        self._max_message_bytes = max_message_bytes
        self._stderr = bytearray()
        self._tasks: list[asyncio.Task[None]] = []
        self._has_received = False  # a message; text before the first one is a greeting
        self._is_refused = False  # the server broke a limit, so nothing more is read
        self._is_stopped = False
        self._discarded_bytes = 0
        self.fault = ""
        self.discarded_lines = 0
        self.pid: int | None = None

    def stderr_lines(self) -> tuple[str, ...]:
        """Return the last lines of stderr, without secrets."""
        text = plain(self._stderr.decode(errors="replace"), limit=MAX_STDERR_BYTES)
        return tuple(self._launch.hide(text).splitlines())

    # --- the process -----------------------------------------------------------------------

    async def spawn(self) -> None:
        """Start the process.

        Raises:
            StartError: It did not start.
        """
        SHARED_GUARD.start()
        loop = asyncio.get_running_loop()
        environment = make_environment(self._launch.environment)
        program = shutil.which(self._launch.command, path=environment.get("PATH"))

        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: _ServerProcess(loop),
                program or self._launch.command,
                *self._launch.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                cwd=self._launch.folder,
                start_new_session=os.name == "posix",  # an interrupt of the kernel is none for it
            )
        except (OSError, ValueError, NotImplementedError) as exc:
            raise StartError(end_reasons.explain_failed_spawn(self._launch, exc)) from exc

        self._transport = transport
        self._protocol = protocol
        self.pid = transport.get_pid()
        SHARED_GUARD.add(self.pid)
        self._process = asyncio.subprocess.Process(transport, protocol, loop)
        self._tasks.append(asyncio.create_task(self._read_stderr()))

    async def stop(self) -> None:
        """End the process and its group within three seconds: stdin, SIGTERM, SIGKILL.

        A cancellation kills them at once.
        """
        if self.pid is None or self._is_stopped:
            return

        # Also if this task is cancelled: the number of the group may later be that of another one.
        self._is_stopped = True
        try:
            await self._end_process()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._transport.close()
            SHARED_GUARD.remove(self.pid)

    async def _end_process(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await self._wait_for_end()
            self._signal("SIGTERM")
            await self._wait_for_end()
        finally:  # also if this task is cancelled
            self._signal("SIGKILL")
            await self._reap()
        await self._wait_for_end()

    async def _reap(self) -> None:
        """Wait for the exit status. A loop that closes without it leaves a zombie."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_STEP_S):
                await self._process.wait()

    async def _wait_for_end(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + END_STEP_S
        while self._is_alive():
            if loop.time() > until:
                return
            await asyncio.sleep(_POLL_S)

    def _is_alive(self) -> bool:
        if self._process.returncode is None:
            return True
        if not hasattr(os, "killpg"):
            return False

        try:
            os.killpg(self._transport.get_pid(), 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _signal(self, name: str) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._transport.get_pid(), signal.Signals[name])
            elif self._process.returncode is None:  # Windows has no process groups
                self._process.kill()

    # --- messages --------------------------------------------------------------------------

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

            self._on_end()
            await self._drain()
        finally:
            self._on_end()  # also if this task is cancelled

    async def _drain(self) -> None:
        # A server that cannot write its output does not notice the end of its stdin.
        stdout = cast(asyncio.StreamReader, self._process.stdout)
        while await stdout.read(_CHUNK_BYTES):
            pass

    async def _read_lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of stdout with their ends. The last one may have none."""
        stdout = cast(asyncio.StreamReader, self._process.stdout)
        parts: list[bytes] = []  # of the line that is not complete yet
        size = 0

        while chunk := await stdout.read(_CHUNK_BYTES):
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

    def _refuse_size(self) -> None:
        self._refuse(end_reasons.describe_large_message(self._max_message_bytes))

    def _refuse(self, reason: str) -> None:
        self._is_refused = True
        self.fault = reason

    async def _explain_end(self) -> None:
        """Note why stdout ended: the server usually exits a moment later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PIPE_GRACE_S):
                await self._protocol.exited.wait()
        if not self.fault:
            self.fault = end_reasons.describe_exit(self._process.returncode)

    async def _watch(self, reader: asyncio.Task[None]) -> None:
        """End the reader after the process, because a child of it may hold stdout open."""
        await self._protocol.exited.wait()
        if not self.fault:
            self.fault = end_reasons.describe_exit(self._process.returncode)
        await asyncio.wait([reader], timeout=_PIPE_GRACE_S)
        reader.cancel()

    def _parse(self, line: bytes) -> SessionMessage | None:
        """Return the message in a line of stdout; None if it contains none."""
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
            identifier = find_request_id(text)
            if identifier is None or is_cut:
                return None

            # The request must not wait for an answer that cannot be read.
            data = ErrorData(code=_PARSE_ERROR, message="its answer is not valid JSON-RPC")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=identifier, error=data))

        if greeting_size:
            self._count_discarded(greeting_size)
        self._has_received = True
        return SessionMessage(message)

    def _count_discarded(self, size: int) -> None:
        self.discarded_lines += 1
        self._discarded_bytes += size
        if not self._has_received and self._discarded_bytes > MAX_GREETING_BYTES:
            self._refuse(end_reasons.describe_long_greeting(MAX_GREETING_BYTES))

    async def _write(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        stdin = cast(asyncio.StreamWriter, self._process.stdin)
        with suppress(ConnectionError, RuntimeError):  # RuntimeError: the pipe is closed
            async with outgoing:
                async for item in outgoing:
                    value = item.message.model_dump(by_alias=True, exclude_unset=True)
                    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
                    stdin.write(encode_utf8(text) + b"\n")
                    await stdin.drain()

    async def _read_stderr(self) -> None:
        stderr = cast(asyncio.StreamReader, self._process.stderr)
        while chunk := await stderr.read(_CHUNK_BYTES):
            self._stderr += chunk
            del self._stderr[:-MAX_STDERR_BYTES]
