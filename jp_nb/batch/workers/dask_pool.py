"""A pool on a Dask cluster: it hands runs to the workers of other machines.

It serves the same source of runs as the pool of one machine (`worker_pool.py`), and each run is
executed by the same worker process, which a task starts on a Dask worker (`dask_task.py`).

- Without a run to start, the pool ends at once, and needs no Dask worker.
- No run is submitted before a first Dask worker has joined: only workers tell if the cluster has
  the resource that limits the runs on each.
- Runs are submitted in windows: as many as the cluster has threads, and some that wait.
- A task asks before it starts a run (`dask_starts.py`). The answer is a note in the scheduler's
  metadata, under a number that later runs use again. If the Dask worker dies before, the run is
  submitted again. If it dies later, the end of the run is unknown, because a run is not repeated.
- Files travel with a run only if a worker does not see the folders of this machine.

Source: `docs/many-notebooks.md`, https://distributed.dask.org/en/stable/.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.results.run_log_lines import EndedLine, FailedCell, RunOutcome
from jp_nb.batch.workers.dask_address import DaskAddress
from jp_nb.batch.workers.dask_cluster import (
    DaskCluster,
    SchedulerLostError,
    connect_to_cluster,
)
from jp_nb.batch.workers.dask_starts import StartDesk, SubmittedRun
from jp_nb.batch.workers.run_parcel import RunParcel, pack, store
from jp_nb.batch.workers.worker_pool import RunSource
from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.terminal_text import format_text
from jp_nb.storage.shared_pace import RequestLimits
from jp_nb.text import one_line

if TYPE_CHECKING:
    from jp_nb.batch.workers.dask_task import RunReturn

MAX_SUBMISSIONS: Final = 3
"""How often a run is submitted whose Dask worker dies before the run starts."""
PAUSE_S: Final = 1.0
"""Seconds between two looks at the workers of the cluster, which may change."""


class DaskPool:
    """Runs the specifications of a source on a Dask cluster.

    The pool stops in two ways. After `interrupt`, and if the scheduler is lost, no further run
    starts (`_is_stopped`). After `kill`, the started runs end as well (`_is_killed`).
    """

    def __init__(
        self,
        address: DaskAddress,
        *,
        out: Path,
        workers: int,
        limits: RequestLimits,
        tell: Callable[[str], None],
    ) -> None:
        """Prepare the pool. `workers` is the number of workers of a local cluster."""
        self._address = address
        self._worker_count = address.workers or workers
        self._limits = limits
        self._tell = tell
        self._batch = uuid4().hex
        self._probe = out / f".jp-nb-probe-{self._batch}"  # a worker that sees it sees our folders

        self._cluster: DaskCluster | None = None  # None: not connected so far
        self._source: RunSource | None = None
        self._submitted: dict[str, SubmittedRun] = {}  # the runs at the cluster, by their id
        self._ships_files = False  # True once a worker did not see our folders
        self._is_stopped = False
        self._is_killed = False
        self._canceling: asyncio.Task[None] | None = None  # cancels tasks of a stopped pool

    async def run(self, source: RunSource) -> None:
        """Run until the source has no further run, and all runs have ended.

        Raises:
            UsageError: There is no such cluster, or its versions differ. Nothing was run.
        """
        self._source = source
        self._probe.write_text(self._batch, encoding="utf-8")
        connection = connect_to_cluster(
            self._address, batch=self._batch, worker_count=self._worker_count, tell=self._tell
        )
        try:
            async with connection as cluster:
                self._cluster = cluster
                StartDesk(cluster, source, self._submitted).listen()

                # A batch without a run to start needs no worker.
                first = source.take()
                if first is not None:
                    await self._wait_for_worker(cluster)
                    await self._run_all(cluster, source, first)

                if self._canceling is not None:
                    await self._canceling
                # The last tasks of a killed batch still read in the notes that they have to end.
                await cluster.free_workers(keeps_notes=self._is_killed)
        finally:
            self._probe.unlink(missing_ok=True)

    async def _wait_for_worker(self, cluster: DaskCluster) -> None:
        """Wait until a Dask worker has joined, or the pool is stopped.

        There is no time limit: the jobs of a batch system may be queued for hours.
        """
        if await self._is_wait_over(cluster):
            return

        self._tell(
            "no Dask worker has joined the cluster so far: the runs start when one does. Ctrl+C "
            "ends the wait"
        )
        async with cluster.requesting_worker():
            while not await self._is_wait_over(cluster):  # noqa: ASYNC110 - other processes
                await asyncio.sleep(PAUSE_S)

    async def _is_wait_over(self, cluster: DaskCluster) -> bool:
        """Return True if the cluster has a worker, or if no run starts anyway."""
        if self._is_stopped:
            return True
        try:
            return await cluster.has_workers()
        except SchedulerLostError as exc:
            self._lose_scheduler(str(exc))
            return True

    async def _run_all(self, cluster: DaskCluster, source: RunSource, first: RunSpec) -> None:
        """Run `first` and all further runs of the source, as many at once as there are slots.

        If the pool is stopped before `first` starts, a resumed batch runs it.
        """
        waiting: RunSpec | None = first
        tasks: set[asyncio.Task[None]] = set()
        slots = 0
        counted_at = -PAUSE_S
        while True:
            if monotonic() - counted_at >= PAUSE_S:
                slots = await self._count_slots(cluster)
                counted_at = monotonic()

            while len(tasks) < slots and not self._is_stopped:
                spec = waiting or source.take()
                waiting = None
                if spec is None:
                    break
                tasks.add(asyncio.create_task(self._run_one(cluster, spec, source)))

            if not tasks:
                return
            done, tasks = await asyncio.wait(
                tasks, timeout=PAUSE_S, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()

    async def _count_slots(self, cluster: DaskCluster) -> int:
        """Return how many runs may be at the cluster; 0 if no further run starts."""
        if self._is_stopped:
            return 0
        try:
            return await cluster.count_slots()
        except SchedulerLostError as exc:
            self._lose_scheduler(str(exc))
            return 0

    # --- one run ---------------------------------------------------------------------------------

    async def _run_one(self, cluster: DaskCluster, spec: RunSpec, source: RunSource) -> None:
        """Submit a run until it has ended or is not submitted again, and tell the source its end.

        The source learns of the start from `StartDesk`.
        """
        run = SubmittedRun(spec, self._find_answer_number())
        self._submitted[spec.run] = run

        end: RunEnd | None = None
        while end is None and not self._is_settled(run):
            if run.submissions == MAX_SUBMISSIONS:
                end = _fail(spec, "the Dask workers died before the run started")
                break
            run.submissions += 1
            end = await self._execute(cluster, run)

        del self._submitted[spec.run]
        self._tell_end(run, end, source)
        run.is_handled.set()

    def _find_answer_number(self) -> int:
        """Return the first unused number for the answer to a task, so that few notes are kept."""
        used = {run.answer_number for run in self._submitted.values()}
        return next(number for number in itertools.count() if number not in used)

    def _is_settled(self, run: SubmittedRun) -> bool:
        """Return True if a run is not submitted again: it is lost if it has no end."""
        return run.is_started or run.is_refused or self._is_stopped

    def _tell_end(self, run: SubmittedRun, end: RunEnd | None, source: RunSource) -> None:
        """Tell the source how a run ended; `end` is None if the cluster did not return its end."""
        spec = run.spec
        if end is None and not run.is_started:
            return  # it has no end: a resumed batch runs it

        if end is None:
            end = self._make_lost_end(spec)
        # A run that failed before its task asked for a start gets its start now.
        if run.is_started or source.start(spec, 0):
            source.end(spec, end)

    def _make_lost_end(self, spec: RunSpec) -> RunEnd:
        """Return the end of a run that has started, and whose end the cluster did not return."""
        if self._is_killed:
            return _make_end(spec, "interrupted", "Ctrl+C ended the run")
        if self._is_stopped:
            return _make_end(spec, "unknown", "the Dask worker or the scheduler was lost")
        return _make_end(spec, "unknown", "the Dask worker died")

    async def _execute(self, cluster: DaskCluster, run: SubmittedRun) -> RunEnd | None:
        """Submit a run, and return its end; None if the cluster lost it, or if it did not start."""
        spec = run.spec
        parcel = RunParcel(
            spec,
            batch=self._batch,
            probe=str(self._probe),
            answer_number=run.answer_number,
            limits=self._limits,
        )
        if self._ships_files:
            try:
                parcel = replace(parcel, files=pack(spec))
            except UsageError as exc:
                return _fail(spec, str(exc))

        returned = await self._get_return(cluster, run, parcel)
        if returned is None:
            return None
        if returned.needs_files:  # the run did not start: submit it again with its files
            self._begin_shipping()
            return await self._execute(cluster, run)
        if returned.end is None:
            return None

        try:
            store(returned.files, spec)
        except StorageError as exc:
            return _fail(spec, str(exc), is_fatal=True)
        return returned.end

    async def _get_return(
        self, cluster: DaskCluster, run: SubmittedRun, parcel: RunParcel
    ) -> RunReturn | None:
        """Submit a task for a run, and return its value; None if the cluster has lost the task."""
        future = cluster.submit(parcel)
        run.set_future(future)
        try:
            return await cluster.fetch(future)
        except SchedulerLostError as exc:
            if not self._is_stopped:
                self._lose_scheduler(str(exc))
            return None

    def _begin_shipping(self) -> None:
        if not self._ships_files:
            self._ships_files = True
            self._tell("the Dask workers do not share this folder: files travel with the runs")

    # --- stopping --------------------------------------------------------------------------------

    def _lose_scheduler(self, reason: str) -> None:
        """Start no further run, because the scheduler does not answer any more."""
        self._is_stopped = True
        if self._source is not None:
            self._source.stop(
                f"the Dask scheduler was lost ({one_line(reason)}): no further run starts"
            )

    def interrupt(self) -> None:
        """Start no further run, and wait for those that have started."""
        self._is_stopped = True
        self._cancel(run for run in self._submitted.values() if not run.is_started)

    def kill(self) -> None:
        """End all runs at once."""
        self._is_stopped = True
        self._is_killed = True
        self._cancel(self._submitted.values())

    def _cancel(self, runs: Iterable[SubmittedRun]) -> None:
        """Cancel the tasks of `runs`. Started runs end only if the pool is killed."""
        if self._cluster is None:  # nothing was submitted
            return
        futures = [run.future for run in runs if run.future is not None]
        canceling = self._cluster.cancel(futures, kills_runs=self._is_killed)
        self._canceling = asyncio.create_task(canceling)


def _fail(spec: RunSpec, reason: str, *, is_fatal: bool = False) -> RunEnd:
    """Return the end of a run that failed. After a fatal one, no further run should start."""
    end = _make_end(spec, "failed", reason)
    if not is_fatal:
        return end
    return end.model_copy(update={"fatal": format_text(reason)})


def _make_end(spec: RunSpec, outcome: RunOutcome, reason: str) -> RunEnd:
    cell = FailedCell(error=format_text(reason))
    return RunEnd(line=EndedLine(run=spec.run, outcome=outcome, failed_cells=(cell,)))
