"""Subprocesses: run, stop, log.

Transports and protocols report the exit of a process at once. `asyncio.subprocess` also waits for
the end of the pipes, which a grandchild may hold open. It can replace them once every supported
Python has the fix of https://github.com/python/cpython/issues/119710.

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
"""Limit for stdout and stderr together."""
PIPE_GRACE: Final = 1.0
"""Seconds to wait for the pipes of a process that exited: its descendants may hold them open."""
MAX_RUNNING: Final = 16
"""Limit for concurrent processes, each of which has three pipes. Further ones wait in a queue."""
STOP_GRACE: Final = 1.0
"""Seconds to wait at most after SIGTERM, and once more after SIGKILL.

The agent waits two seconds for cancelled tools, as long as both waits together (`STOP_GRACE` in
`jp_nb/agent/tasks.py`). The constants are independent: change them together.
"""


class SpawnError(Exception):
    """The process did not start. The message is the reason, or "". It contains no arguments."""


class OutputError(Exception):
    """The process printed more than `MAX_OUTPUT_BYTES` and was killed."""


@dataclass(frozen=True, slots=True)
class FinishedProcess:
    """A process that exited. Bytes that are not UTF-8 are replaced in its output."""

    exit_code: int
    stdout: str
    stderr: str


async def run(argv: Sequence[str], *, stdin: bytes, cwd: str) -> FinishedProcess:
    """Run `argv` in the folder `cwd` ("" for the current one) until it exits.

    The process inherits the environment and gets a new process group. Cancellation sends SIGTERM
    to the group, then SIGKILL. Background processes continue, unless they hold the pipes open.

    Raises:
        SpawnError: The process did not start.
        OutputError: The process printed too much.
    """
    loop = asyncio.get_running_loop()
    if loop not in _SLOTS:
        _SLOTS[loop] = asyncio.Semaphore(MAX_RUNNING)
    async with _SLOTS[loop]:
        output = _ProcessOutput()
        supervisor = asyncio.create_task(_supervise(argv, stdin, cwd, output))
        _SUPERVISORS.add(supervisor)
        supervisor.add_done_callback(_forget_supervisor)
        try:
            await asyncio.wait([supervisor])
        except asyncio.CancelledError:
            output.must_end.set()
            await asyncio.wait([supervisor])
            raise
        return supervisor.result()


_SLOTS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_SUPERVISORS: set[asyncio.Task[FinishedProcess]] = set()
"""A task for each process. These tasks are never cancelled, so each process is reaped."""


def _forget_supervisor(supervisor: asyncio.Task[FinishedProcess]) -> None:
    _SUPERVISORS.discard(supervisor)
    if not supervisor.cancelled():
        supervisor.exception()  # asyncio logs an exception that is never retrieved


async def _supervise(
    argv: Sequence[str], stdin: bytes, cwd: str, output: _ProcessOutput
) -> FinishedProcess:
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: output,
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd or None,
            start_new_session=os.name == "posix",
        )
    except (OSError, ValueError, NotImplementedError) as exc:  # ValueError: a NUL, half a surrogate
        raise SpawnError(_explain_spawn_error(exc, argv[0], cwd)) from exc
    pipe = cast(asyncio.WriteTransport, transport.get_pipe_transport(STDIN))
    try:
        pipe.write(stdin)
        pipe.close()
        await output.must_end.wait()
        if output.exited.is_set():
            await _wait_for(PIPE_GRACE, output.drained)
    finally:
        try:
            if not (output.exited.is_set() and output.drained.is_set()):
                await _end_group(transport, output)
        finally:
            if pipe.get_write_buffer_size():  # the process did not read all of stdin
                pipe.abort()
            transport.close()
    if output.overflowed:
        raise OutputError
    code = transport.get_returncode()
    return FinishedProcess(-1 if code is None else code, output.text(STDOUT), output.text(STDERR))


def _explain_spawn_error(exc: Exception, program: str, cwd: str) -> str:
    if isinstance(exc, FileNotFoundError | NotADirectoryError) and cwd and not os.path.isdir(cwd):
        return "its working directory does not exist"
    if isinstance(exc, FileNotFoundError):
        path = os.path.join(cwd, program) if os.sep in program else shutil.which(program)
        if path is not None and os.path.exists(path):
            return "the interpreter in its first line does not exist"
        return "there is no such program"
    if isinstance(exc, PermissionError):
        return "it is not executable"
    code = exc.errno if isinstance(exc, OSError) else None
    return os.strerror(code) if code else ""


class _ProcessOutput(asyncio.SubprocessProtocol):
    """Output and state of a process.

    Attributes:
        exited: The process exited and was reaped.
        drained: All processes that had stdout and stderr closed them.
        must_end: The process exited, printed too much, or was cancelled.
    """

    def __init__(self) -> None:
        self.exited, self.drained, self.must_end = (asyncio.Event() for _ in range(3))
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
            self.must_end.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.must_end.set()

    def text(self, fd: int) -> str:
        return self._read[fd].decode("utf-8", "replace")


async def _end_group(transport: asyncio.SubprocessTransport, output: _ProcessOutput) -> None:
    _signal_group(transport, "SIGTERM")
    try:
        # Nothing reports the end of a group, so the end of the pipes has to do.
        await _wait_for(STOP_GRACE, output.exited, output.drained)
    finally:
        _signal_group(transport, "SIGKILL")
    await _wait_for(STOP_GRACE, output.exited)


async def _wait_for(seconds: float, *events: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for event in events:
                await event.wait()


def _signal_group(transport: asyncio.SubprocessTransport, name: str) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(transport.get_pid(), signal.Signals[name])
        else:  # Windows has no process groups
            transport.terminate()


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """Log entry for a process that exited.

    Attributes:
        stdin: The complete input, usually one line of JSON.
        exit_code: The exit status. A negative number is a signal.
        formats: True if the process only formatted the arguments of a call for the user.
    """

    stdin: str
    stdout: str
    stderr: str
    exit_code: int
    formats: bool = False


PROCESS_LOG: ContextVar[list[ProcessRun] | None] = ContextVar("jp_nb_process_log", default=None)
"""Log of the processes of commands, in the order in which they exited. None: no log."""


def log_process(stdin: bytes, done: FinishedProcess, *, formats: bool) -> None:
    """Append the process to `PROCESS_LOG`, if there is a log."""
    log = PROCESS_LOG.get()
    if log is not None:
        text = stdin.decode(errors="replace")
        log.append(ProcessRun(text, done.stdout, done.stderr, done.exit_code, formats))
