"""A pool of workers: it hands each specification to the next idle worker.

The pool knows nothing of files, budgets, or exit codes. It asks a `RunSource` for the next run,
tells it of each start and end, and ends when the source has none. `notebook_batch.py` is
the source of `jp-nb run`. `dask_pool.py` serves the same source on other machines.

Source: `docs/many-notebooks.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.results.run_log_lines import EndedLine, FailedCell, RunOutcome
from jp_nb.batch.workers.worker_process import Worker, WorkerDiedError

KILL_AFTER_S: Final = 12.0
"""Seconds after an interrupt at which a worker is killed whose run has not ended."""


class RunSource(Protocol):
    """Gives runs to a pool. All methods are called on the pool's event loop."""

    def take(self) -> RunSpec | None:
        """Return the next run; None if no further run starts."""

    def start(self, spec: RunSpec, worker: int) -> bool:
        """Note that a run starts on the worker with this number.

        Return False if it must not start, such as after an error of the log. Then `end` is not
        called for it.
        """

    def end(self, spec: RunSpec, end: RunEnd) -> None:
        """Note the end of a run."""

    def stop(self, reason: str) -> None:
        """Give no further run: the pool cannot run any."""


class WorkerPool:
    """Runs the specifications of a source on a number of workers.

    Each worker has a task of the event loop, which takes one run after another from the source.
    """

    def __init__(self, count: int, make_worker: Callable[[], Worker]) -> None:
        self._workers: Sequence[Worker] = [make_worker() for _ in range(count)]
        self._is_interrupted = False
        self._kill_timer: asyncio.TimerHandle | None = None

    async def run(self, source: RunSource) -> None:
        """Run until the source has no further run, and all runs have ended."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number, worker in enumerate(self._workers, 1):
                    tasks.create_task(self._serve(worker, number, source))
        except BaseException:
            self.kill()
            raise
        finally:
            if self._kill_timer is not None:
                self._kill_timer.cancel()

    async def _serve(self, worker: Worker, number: int, source: RunSource) -> None:
        """Execute runs on `worker` until the source has none."""
        while not self._is_interrupted and (spec := source.take()) is not None:
            if source.start(spec, number):
                source.end(spec, await self._execute(worker, spec))
        await worker.close()

    async def _execute(self, worker: Worker, spec: RunSpec) -> RunEnd:
        """Execute a run, and return its end, also if the worker dies."""
        try:
            return await worker.execute(spec)
        except WorkerDiedError as exc:
            outcome: RunOutcome = "interrupted" if self._is_interrupted else "unknown"
            cell = FailedCell(error=str(exc))
            return RunEnd(line=EndedLine(run=spec.run, outcome=outcome, failed_cells=(cell,)))

    def interrupt(self) -> None:
        """Start no further run, and end the running ones. A run that does not end is killed."""
        self._is_interrupted = True
        for worker in self._workers:
            worker.interrupt()
        loop = asyncio.get_running_loop()
        self._kill_timer = loop.call_later(KILL_AFTER_S, self.kill)

    def kill(self) -> None:
        """End all workers and their kernels at once."""
        self._is_interrupted = True
        for worker in self._workers:
            worker.kill()
