"""The worker processes of a Dask worker, which execute the runs of its tasks.

`WorkerProcess` has a coroutine for a run. But Dask executes tasks in threads, so an event loop in
another thread runs the coroutines, and a task waits for a future of its run. A process stays for
later runs until the batch or the Dask worker ends.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.workers.worker_process import WorkerProcess


@dataclass(frozen=True, slots=True)
class ExecutingRun:
    """A run that a process executes.

    Attributes:
        process: The process, by which the task can end the run.
        end: The end of the run. Any thread can wait for it.
    """

    process: WorkerProcess
    end: Future[RunEnd]


class WorkerProcesses:
    """The worker processes of this Dask worker. The tasks call it in several threads.

    `_lock` guards all other attributes while tasks run. `_idle` are those of `_all` that execute no
    run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # None: no run has started so far
        self._idle: list[WorkerProcess] = []
        self._all: list[WorkerProcess] = []

    def start(self, spec: RunSpec) -> ExecutingRun:
        """Start a run on an idle process, or on a new one."""
        with self._lock:
            if self._loop is None:
                self._loop = self._start_loop()
            if self._idle:
                process = self._idle.pop()
            else:
                process = WorkerProcess()
                self._all.append(process)

        work = self._run(process, spec)
        return ExecutingRun(process, asyncio.run_coroutine_threadsafe(work, self._loop))

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        """Run an event loop for the processes in its own thread."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="jp-nb-workers", daemon=True)
        thread.start()
        atexit.register(self.kill)
        return loop

    async def _run(self, process: WorkerProcess, spec: RunSpec) -> RunEnd:
        """Execute a run on the event loop of the processes. The process is idle afterwards."""
        try:
            return await process.execute(spec)
        finally:
            with self._lock:
                self._idle.append(process)

    def kill(self) -> None:
        """End all processes, because the Dask worker ends.

        The exit handler calls it. It takes no lock, which a thread that was stopped might hold.
        """
        for process in self._all:
            process.kill()

    def end_idle(self) -> None:
        """End the processes that execute no run, at the end of a batch.

        A process that still executes a run stays for another batch.
        """
        with self._lock:
            idle = self._idle
            self._idle = []
            self._all = [process for process in self._all if process not in idle]
        for process in idle:
            process.kill()


PROCESSES: Final = WorkerProcesses()
"""The processes of this Dask worker, for all of its tasks."""
