"""Run the processes of commands: start them, pass their input, limit their output, and end them.

Each process gets a new process group, so that cancellation also ends its children. A task of its
own, the *supervisor*, waits for it and ends it.

The module uses transports and protocols of asyncio, because they report the exit of a process at
once. `asyncio.subprocess` also waits for the end of the pipes, which a grandchild may hold open. It
can replace them once every supported Python has the fix of
https://github.com/python/cpython/issues/119710.

Source: `docs/turns.md`,
https://docs.python.org/3/library/asyncio-protocol.html#subprocess-transports.
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

from jp_nb.toolkit.command_tools.process_guard import ProcessGuard

STDIN, STDOUT, STDERR = range(3)
MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024  # limit for stdout and stderr together
PIPE_GRACE: Final = 1.0
"""Seconds to wait for the pipes of a process that exited: its descendants may hold them open."""
MAX_RUNNING_PROCESSES: Final = 16
"""Limit for concurrent processes, each of which has three pipes. Further ones wait in a queue."""
SIGTERM_GRACE: Final = 1.0
"""Seconds to wait at most after SIGTERM, and once more after SIGKILL.

The agent waits two seconds for cancelled tools (`CLEANUP_GRACE_S` in `agent/call_steps/batch.py`),
as long as both waits together: change the constants together.
"""
SHARED_GUARD: Final = ProcessGuard()
"""Ends the processes of commands and of MCP servers with the kernel."""
_SLOTS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""Limits the concurrent processes of each event loop."""
_SUPERVISORS: set[asyncio.Task[int]] = set()
"""A task for each process. These tasks are never cancelled, so each process is reaped."""


class SpawnError(Exception):
    """The process did not start. The message is the reason, or "". It contains no arguments."""


class OutputError(Exception):
    """The process printed too much, and was killed. The message is the limit, such as `16 MiB`."""


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """A process that exited. Bytes that are not UTF-8 are replaced in input and output.

    Attributes:
        stdin: The input that it was given.
        stdout: The text that it printed.
        stderr: The text that it printed as errors.
        exit_code: The exit code; negative for a signal that ended the process.
        formats: True if the process only formatted the arguments of a call for the user.
    """

    stdin: str
    stdout: str
    stderr: str
    exit_code: int
    formats: bool = False


PROCESS_LOG: ContextVar[list[ProcessRun] | None] = ContextVar("jp_nb_process_log", default=None)
"""Log of the processes of a bench run, in the order in which they exited. None: no log."""


async def run_process(
    argv: Sequence[str], *, stdin: bytes, cwd: str, formats: bool = False
) -> ProcessRun:
    """Run `argv` in the folder `cwd` ("" for the current one) until it exits, and log it.

    The process inherits the environment and gets a new process group. Cancellation sends SIGTERM
    to the group, then SIGKILL. So does the end of the kernel, however it ends. After the process
    exited, its background processes continue, unless they hold the pipes open.

    Raises:
        SpawnError: The process did not start.
        OutputError: The process printed too much.
    """
    loop = asyncio.get_running_loop()
    if loop not in _SLOTS:
        _SLOTS[loop] = asyncio.Semaphore(MAX_RUNNING_PROCESSES)

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
        exit_code = supervisor.result()

    process_run = ProcessRun(
        stdin=stdin.decode(errors="replace"),
        stdout=output.take_text(STDOUT),
        stderr=output.take_text(STDERR),
        exit_code=exit_code,
        formats=formats,
    )
    log = PROCESS_LOG.get()
    if log is not None:
        log.append(process_run)
    return process_run


def _forget_supervisor(supervisor: asyncio.Task[int]) -> None:
    _SUPERVISORS.discard(supervisor)
    if not supervisor.cancelled():
        supervisor.exception()  # asyncio logs an exception that is never retrieved


async def _supervise(argv: Sequence[str], stdin: bytes, cwd: str, output: _ProcessOutput) -> int:
    """Run a process until it exited or `output.must_end` is set; return its exit code."""
    SHARED_GUARD.start()

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
    group = transport.get_pid()

    try:
        SHARED_GUARD.add(group)
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
            SHARED_GUARD.remove(group)
            if pipe.get_write_buffer_size():
                pipe.abort()  # the process did not read all of stdin: `close` would wait for it
            transport.close()

    if output.overflowed:
        raise OutputError(f"{MAX_OUTPUT_BYTES // 2**20} MiB")
    exit_code = transport.get_returncode()
    return -1 if exit_code is None else exit_code  # None: not even SIGKILL has ended it in time


def _explain_spawn_error(exc: Exception, program: str, cwd: str) -> str:
    """Return why a process did not start; "" if it is not known."""
    if isinstance(exc, FileNotFoundError | NotADirectoryError) and cwd and not os.path.isdir(cwd):
        return "its working directory does not exist"

    # "File not found" is also the error if the file is a script without its interpreter.
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
    """Output and state of a process. asyncio calls the methods of the protocol.

    Attributes:
        exited: Set when the process exited and was reaped.
        drained: Set when all processes that had stdout and stderr closed them.
        must_end: Set when the process exited, printed too much, or was cancelled.
        overflowed: True if the process printed too much.
    """

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        self.must_end = asyncio.Event()
        self.overflowed = False
        self._read = {STDOUT: bytearray(), STDERR: bytearray()}
        self._open = {STDOUT, STDERR}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep the output; or end the process if it is too much."""
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

    def take_text(self, fd: int) -> str:
        """Return the output, and free its bytes."""
        return self._read.pop(fd).decode("utf-8", "replace")


async def _end_group(transport: asyncio.SubprocessTransport, output: _ProcessOutput) -> None:
    """Send SIGTERM to the process group, and SIGKILL after a while."""
    _signal_group(transport, "SIGTERM")
    try:
        # Nothing reports the end of a group. Its processes have ended, or at least print no more,
        # when the pipes are closed.
        await _wait_for(SIGTERM_GRACE, output.exited, output.drained)
    finally:
        _signal_group(transport, "SIGKILL")
    await _wait_for(SIGTERM_GRACE, output.exited)


async def _wait_for(seconds: float, *events: asyncio.Event) -> None:
    """Wait until all `events` are set, at most this time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for event in events:
                await event.wait()


def _signal_group(transport: asyncio.SubprocessTransport, name: str) -> None:
    """Send the signal of this name to the process group, if it still exists."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(transport.get_pid(), signal.Signals[name])
        else:  # Windows has no process groups and signals
            transport.terminate()
