"""The process of an MCP server, from its start to its end.

Differences from the transport of the library `mcp`: stderr goes to a bounded buffer; the server
ends within three seconds; its process group ends with the kernel, however that ends
(`jp_nb/toolkit/command_tools/process_guard.py`).

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, cast

from jp_nb.mcp.errors import StartError
from jp_nb.mcp.transports import end_reasons
from jp_nb.mcp.transports.launches import StdioLaunch
from jp_nb.text import plain
from jp_nb.toolkit.command_tools.processes import SHARED_GUARD

MAX_STDERR_BYTES = 64 * 1024
"""Size of the kept end of a server's stderr."""
END_STEP_S: Final = 1.0
"""Seconds to wait after the end of stdin, after SIGTERM, and after SIGKILL."""
PIPE_CHUNK_BYTES: Final = 64 * 1024
"""Number of bytes that are read from a pipe of the server at once."""
_POLL_S: Final = 0.02
INHERITED_VARIABLES: Final = (
    (
        "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT",
        "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)  # fmt: skip
"""Variables of the kernel that each server inherits, as other MCP clients do: no API keys."""


def make_environment(configured: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: `INHERITED_VARIABLES`, and the `configured` ones."""
    inherited: dict[str, str] = {}
    for name in INHERITED_VARIABLES:
        value = os.environ.get(name, "")
        if value and not value.startswith("()"):  # a function of an old bash
            inherited[name] = value

    return {**inherited, **configured}


class _ExitReporter(asyncio.subprocess.SubprocessStreamProtocol):
    """Reports the end of the process, also while a child of it holds the pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=PIPE_CHUNK_BYTES, loop=loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class ServerProcess:
    """The process of a server, and its group. Call `spawn`, and `stop` in any case.

    Attributes:
        pid: Process id; None before `spawn`.
    """

    def __init__(self, launch: StdioLaunch) -> None:
        self._launch = launch
        self._stderr = bytearray()
        self._is_stopped = False
        self.pid: int | None = None

    def stderr_lines(self) -> tuple[str, ...]:
        """Return the last lines of stderr, without secrets."""
        text = plain(self._stderr.decode(errors="replace"), limit=MAX_STDERR_BYTES)
        return tuple(self._launch.hide(text).splitlines())

    @property
    def stdin(self) -> asyncio.StreamWriter:
        """Pipe for messages to the server."""
        return cast(asyncio.StreamWriter, self._process.stdin)

    @property
    def stdout(self) -> asyncio.StreamReader:
        """Pipe with messages of the server."""
        return cast(asyncio.StreamReader, self._process.stdout)

    @property
    def return_code(self) -> int | None:
        """Exit code, or the negative number of a signal; None while the process runs."""
        return self._process.returncode

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
                lambda: _ExitReporter(loop),
                program or self._launch.command,
                *self._launch.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environment,
                cwd=self._launch.folder,
                # An interrupt of the kernel does not reach another session.
                start_new_session=os.name == "posix",
            )
        except (OSError, ValueError, NotImplementedError) as exc:
            raise StartError(end_reasons.explain_failed_spawn(self._launch, exc)) from exc

        self._transport = transport
        self._protocol = protocol
        self.pid = transport.get_pid()
        SHARED_GUARD.add(self.pid)
        self._process = asyncio.subprocess.Process(transport, protocol, loop)
        self._stderr_reader = asyncio.create_task(self._read_stderr())

    async def wait_until_exited(self) -> None:
        """Wait for the end of the process. Its children may run longer."""
        await self._protocol.exited.wait()

    async def stop(self) -> None:
        """End the process and its group within three seconds: stdin, SIGTERM, SIGKILL.

        A cancellation kills them at once.
        """
        if self.pid is None or self._is_stopped:
            return

        # Set at once, so that no second call sends signals: the operating system may have given the
        # number of an ended group to another one by then.
        self._is_stopped = True
        try:
            await self._end_group()
        finally:
            self._stderr_reader.cancel()
            await asyncio.gather(self._stderr_reader, return_exceptions=True)
            self._transport.close()
            SHARED_GUARD.remove(self.pid)

    async def _end_group(self) -> None:
        """Close stdin, so that the server ends by itself, then send the signals if it does not."""
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
        """Wait until the process and its group have ended, but not longer than `END_STEP_S`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + END_STEP_S
        while self._is_group_alive():
            if loop.time() > until:
                return
            await asyncio.sleep(_POLL_S)

    def _is_group_alive(self) -> bool:
        if self._process.returncode is None:
            return True
        if not hasattr(os, "killpg"):  # Windows has no process groups
            return False

        try:
            os.killpg(self._transport.get_pid(), 0)  # the signal 0 only checks
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _signal(self, name: str) -> None:
        """Send a signal to the group. On Windows, kill the process."""
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._transport.get_pid(), signal.Signals[name])
            elif self._process.returncode is None:
                self._process.kill()

    async def _read_stderr(self) -> None:
        """Keep the end of stderr, until the pipe ends."""
        stderr = cast(asyncio.StreamReader, self._process.stderr)
        while chunk := await stderr.read(PIPE_CHUNK_BYTES):
            self._stderr += chunk
            del self._stderr[:-MAX_STDERR_BYTES]
