"""Subprocesses: run, stop, log.

They use transports and protocols, in which a process ends with its exit. `asyncio.subprocess`
waits, in some releases, for the end of the pipes, which a grandchild may hold.

Source: https://docs.python.org/3/library/asyncio-protocol.html#subprocess-transports,
`docs/guide.md`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, cast
from weakref import WeakKeyDictionary

STDIN, STDOUT, STDERR = range(3)
MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024
"""How much a process may print, on stdout and stderr together."""
PIPE_GRACE: Final = 1.0
"""Seconds that the pipes of a process that exited have to end: descendants may hold them."""
MAX_RUNNING: Final = 16
"""So many processes run at once, each with three pipes; the next ones wait in line."""
STOP_GRACE: Final = 1.0
"""Seconds between SIGTERM and SIGKILL; the coordinator waits for twice as long."""


class SpawnError(Exception):
    """The process could not be started: its text, maybe "", holds nothing of what was asked."""


class OutputError(Exception):
    """The process printed more than `MAX_OUTPUT_BYTES`; it was killed."""


@dataclass(frozen=True, slots=True)
class FinishedProcess:
    """A process that exited. Bytes that are not UTF-8 are replaced in its output."""

    exit_code: int
    stdout: str
    stderr: str


async def run(argv: Sequence[str], *, stdin: bytes, cwd: str) -> FinishedProcess:
    """Run `argv` with this process's environment in `cwd` ("": here) until it exits.

    It waits in line while `MAX_RUNNING` others run. It has a process group of its own; cancelling
    ends the group: SIGTERM, a grace, SIGKILL.
    What the process leaves behind goes on, unless it holds on to the pipes.

    Raises:
        SpawnError: If it cannot be started.
        OutputError: If it prints too much.
    """
    async with _places():
        return await _run(argv, stdin, cwd)


_PLACES: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _places() -> asyncio.Semaphore:
    """Return the places of the running loop: first come, first served."""
    loop = asyncio.get_running_loop()
    if loop not in _PLACES:
        _PLACES[loop] = asyncio.Semaphore(MAX_RUNNING)
    return _PLACES[loop]


async def _run(argv: Sequence[str], stdin: bytes, cwd: str) -> FinishedProcess:
    output = _ProcessOutput()
    keeper = asyncio.create_task(_keep(argv, stdin, cwd, output))
    _KEEPERS.add(keeper)
    keeper.add_done_callback(_forget)
    try:
        await asyncio.wait([keeper])
    except asyncio.CancelledError:
        output.settled.set()
        await asyncio.wait([keeper])
        raise
    return keeper.result()


_KEEPERS: set[asyncio.Task[FinishedProcess]] = set()
"""One for each process; nobody cancels them, so that each process is ended and reaped."""


def _forget(keeper: asyncio.Task[FinishedProcess]) -> None:
    _KEEPERS.discard(keeper)
    if not keeper.cancelled():
        keeper.exception()  # that nobody awaits it any more is no fault


async def _keep(
    argv: Sequence[str], stdin: bytes, cwd: str, output: _ProcessOutput
) -> FinishedProcess:
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.subprocess_exec(
            lambda: output,
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd or None,
            start_new_session=os.name == "posix",
        )
    except (OSError, ValueError, NotImplementedError) as exc:  # ValueError: a NUL, half a surrogate
        raise SpawnError(_why(exc, argv[0], cwd)) from exc
    try:
        _feed(transport, stdin)
        await output.settled.wait()
        if output.exited.is_set():
            await _within(PIPE_GRACE, output.drained)
    finally:
        await _end(transport, output)
    if output.overflowed:
        raise OutputError
    code = transport.get_returncode()
    return FinishedProcess(-1 if code is None else code, output.text(STDOUT), output.text(STDERR))


def _why(exc: Exception, program: str, cwd: str) -> str:
    if isinstance(exc, FileNotFoundError | NotADirectoryError) and cwd and not os.path.isdir(cwd):
        return "its working directory does not exist"
    if isinstance(exc, FileNotFoundError):
        place = os.path.join(cwd, program) if os.sep in program else shutil.which(program)
        if place is not None and os.path.exists(place):
            return "the interpreter in its first line does not exist"
        return "there is no such program"
    if isinstance(exc, PermissionError):
        return "it is not executable"
    code = exc.errno if isinstance(exc, OSError) else None
    return os.strerror(code) if code else ""


class _ProcessOutput(asyncio.SubprocessProtocol):
    """Collects what a process prints.

    Attributes:
        exited: It exited and was reaped.
        drained: Its stdout and stderr were closed, by every process that had them.
        settled: It exited, printed too much, or was cancelled: it is to end.
    """

    def __init__(self) -> None:
        self.exited, self.drained, self.settled = (asyncio.Event() for _ in range(3))
        self.overflowed = False
        self._read = {STDOUT: bytearray(), STDERR: bytearray()}
        self._open = {STDOUT, STDERR}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self.overflowed:
            return
        self._read[fd] += data
        if sum(map(len, self._read.values())) > MAX_OUTPUT_BYTES:
            self.overflowed = True
            self._read.clear()
            self.settled.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.settled.set()

    def text(self, fd: int) -> str:
        return self._read[fd].decode("utf-8", "replace")


def _feed(transport: asyncio.SubprocessTransport, stdin: bytes) -> None:
    """Write `stdin` and close it. It is not an error if nobody reads it."""
    pipe = cast(asyncio.WriteTransport, transport.get_pipe_transport(STDIN))
    pipe.write(stdin)
    pipe.close()


async def _end(transport: asyncio.SubprocessTransport, output: _ProcessOutput) -> None:
    """End what is left of the process and of its group, and close the pipes."""
    try:
        if not (output.exited.is_set() and output.drained.is_set()):
            await _end_group(transport, output)
    finally:
        _close(transport)


async def _end_group(transport: asyncio.SubprocessTransport, output: _ProcessOutput) -> None:
    _signal(transport, "SIGTERM")
    try:
        # The end of the pipes stands for that of the group, of which nothing else tells.
        await _within(STOP_GRACE, output.exited, output.drained)
    finally:
        _signal(transport, "SIGKILL")
    await _within(STOP_GRACE, output.exited)


async def _within(seconds: float, *events: asyncio.Event) -> None:
    """Wait for `events`, but not for longer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for event in events:
                await event.wait()


def _signal(transport: asyncio.SubprocessTransport, name: str) -> None:
    """Send a signal to the group; where there are no groups, end the process."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(transport.get_pid(), signal.Signals[name])
        else:
            transport.terminate()


def _close(transport: asyncio.SubprocessTransport) -> None:
    """Close our ends of the pipes, also one of which nobody reads the rest."""
    pipe = cast(asyncio.WriteTransport, transport.get_pipe_transport(STDIN))
    if pipe.get_write_buffer_size():
        pipe.abort()
    transport.close()


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """One process that ran to its end.

    Attributes:
        stdin: All that it was given: one line of JSON as a rule.
        stdout: What it printed.
        stderr: What it printed beside that.
        exit_code: Its status; below zero the number of the signal that ended it.
        formats: True if it only wrote the arguments of a call for the person.
    """

    stdin: str
    stdout: str
    stderr: str
    exit_code: int
    formats: bool = False


PROCESS_LOG: ContextVar[list[ProcessRun] | None] = ContextVar("jp_nb_process_log", default=None)
"""Takes the processes of commands, in the order of their ends; None: nobody looks."""


def log_process(stdin: bytes, done: FinishedProcess, *, formats: bool) -> None:
    """Keep what a process got and printed, if somebody looks."""
    seen = PROCESS_LOG.get()
    if seen is not None:
        text = stdin.decode(errors="replace")
        seen.append(ProcessRun(text, done.stdout, done.stderr, done.exit_code, formats))
