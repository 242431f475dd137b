"""A worker process, as the pool sees it: it gets a specification, and returns the end of its run.

The process executes `jp_nb/batch/workers/worker.py`. It starts with its first run, is used
for further ones, and starts again if it has died. A worker that dies costs the run that it
executed.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.workers.worker import INTERRUPT
from jp_nb.text import plain

WORKER_PROGRAM: Final = "jp_nb.batch.workers.worker"
MAX_RESULT_BYTES: Final = 60_000_000
"""Longest line that a worker sends: the end of a run, with its open decisions."""
MAX_KEPT_STDERR_BYTES: Final = 4_000
"""Bytes of a worker's last output that are kept, to explain its death."""
DEATH_GRACE_S: Final = 1.0
"""Seconds in which a worker ends that has closed its stdout."""
LAST_OUTPUT_S: Final = 0.2
"""Seconds in which the last output of a dead worker is read. Its kernel may hold stderr open."""
CLOSE_GRACE_S: Final = 10.0
"""Seconds in which an idle worker ends after its stdin has ended."""


class WorkerDiedError(Exception):
    """The worker ended before it reported the end of its run. The message has the reason."""


class Worker(Protocol):
    """Executes runs, one at a time."""

    async def execute(self, spec: RunSpec) -> RunEnd:
        """Execute a run.

        Raises:
            WorkerDiedError: The worker ended before the run did.
        """

    def interrupt(self) -> None:
        """End the current run, if there is one, as Ctrl+C does."""

    def kill(self) -> None:
        """End the worker and its kernel at once."""

    async def close(self) -> None:
        """End the idle worker."""


class WorkerProcess:
    """A `Worker` in a subprocess, whose kernels have imported the modules `preloaded`.

    The subprocess executes the module `program`, which a benchmark replaces.
    """

    def __init__(self, preloaded: Sequence[str] = (), *, program: str = WORKER_PROGRAM) -> None:
        self._preloaded = preloaded
        self._program = program
        self._process: asyncio.subprocess.Process | None = None
        self._output: _LastOutput | None = None
        self._is_killed = False

    async def execute(self, spec: RunSpec) -> RunEnd:
        """Execute a run; see `Worker`."""
        process = await self._start()
        assert process.stdin is not None
        assert process.stdout is not None

        line = b""
        with suppress(OSError):  # it has died: its exit code says more
            process.stdin.write(spec.model_dump_json().encode() + b"\n")
            await process.stdin.drain()
            line = await process.stdout.readline()

        if not line.endswith(b"\n"):
            raise WorkerDiedError(await self._describe_death(process))
        return RunEnd.model_validate_json(line)

    async def _start(self) -> asyncio.subprocess.Process:
        """Return the process that runs, or start one."""
        if self._process is not None and self._process.returncode is None:
            return self._process

        self._is_killed = False
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._program,
            *self._preloaded,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=MAX_RESULT_BYTES,
            start_new_session=True,  # Ctrl+C reaches it only by way of the pool
        )
        assert self._process.stderr is not None
        self._output = _LastOutput(self._process.stderr)
        return self._process

    async def _describe_death(self, process: asyncio.subprocess.Process) -> str:
        """Wait for the end of the process, and return its reason with the last output."""
        # The reason is known for a worker that jp_nb has killed.
        last_output = ""
        if self._output is not None and not self._is_killed:
            last_output = plain((await self._output.read_rest()).decode(errors="replace").strip())
        _close_stderr(process)

        try:
            async with asyncio.timeout(DEATH_GRACE_S):
                await process.wait()
        except TimeoutError:  # it has closed its stdout, and is of no use
            _kill(process)

        code = await process.wait()
        reason = f"exit code {code}"
        if code < 0:
            reason = f"signal {_name_signal(-code)}"

        text = f"the worker process ended ({reason})"
        if last_output:
            text += f"; its last output: {last_output.splitlines()[-1]}"
        return text

    def interrupt(self) -> None:
        """End the current run; see `Worker`."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(f"{INTERRUPT}\n".encode())

    def kill(self) -> None:
        """End the worker at once. Its guard ends the kernel."""
        if self._process is not None:
            self._is_killed = True
            _kill(self._process)

    async def close(self) -> None:
        """End the idle worker; see `Worker`."""
        process = self._process
        if process is None or process.stdin is None:
            return

        process.stdin.close()
        _close_stderr(process)
        try:
            async with asyncio.timeout(CLOSE_GRACE_S):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()


def _close_stderr(process: asyncio.subprocess.Process) -> None:
    """Read no more of a worker that ends. `wait` waits for the pipe, which its kernel may hold.

    Python 3.13 waits only for the process: https://github.com/python/cpython/issues/119710
    """
    transport: Any = process._transport  # type: ignore[attr-defined]  # there is no public way
    transport.get_pipe_transport(2).close()


def _kill(process: asyncio.subprocess.Process) -> None:
    # `process.kill` polls the process before, and asyncio then misses its exit code.
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


class _LastOutput:
    """Reads a stream, and keeps its last bytes."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._kept = b""
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while chunk := await self._stream.read(65536):
            self._kept = (self._kept + chunk)[-MAX_KEPT_STDERR_BYTES:]

    async def read_rest(self) -> bytes:
        """Return the last bytes of a process that has ended, also if others hold the stream."""
        await asyncio.wait([self._task], timeout=LAST_OUTPUT_S)
        return self._kept
