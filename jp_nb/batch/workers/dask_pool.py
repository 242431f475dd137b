"""A pool on a Dask cluster: it hands runs to the workers of other machines.

It serves the same source of runs as the pool of one machine (`worker_pool.py`), and each run is
executed by the same worker process, which a task starts on a Dask worker (`dask_task.py`).

- Runs are submitted in windows: as many as the cluster has threads, and some that wait.
- A run has effects, so it is not repeated once it has started. A task asks before it starts a run,
  and gets the answer when the source has noted the start. If its Dask worker dies later, the end of
  the run is unknown.
- The source decides about a start when it knows the ends of all runs that the cluster has ended
  before. Otherwise, a failure that is still on its way would not stop the run after it.
- Files travel with a run only if a worker does not see the folders of this machine.

Source: `docs/many-notebooks.md`, https://distributed.dask.org/en/stable/.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from jp_nb.batch.plans.run_spec import RunEnd, RunSpec
from jp_nb.batch.results.run_log import EndedLine, FailedCell, RunOutcome
from jp_nb.batch.workers.dask_address import DaskAddress
from jp_nb.batch.workers.run_parcel import RunParcel, pack, store
from jp_nb.batch.workers.worker_pool import RunSource
from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.files import format_text
from jp_nb.storage.shared_pace import RequestLimits
from jp_nb.text import one_line

if TYPE_CHECKING:
    from jp_nb.batch.workers.dask_task import RunReturn

RESOURCE: Final = "jp_nb"
"""Resource of Dask workers that limits the runs on each, if a cluster defines it."""
MAX_SUBMISSIONS: Final = 3
"""How often a run is submitted whose Dask worker dies before the run starts."""
CONNECT_S: Final = 30.0
"""Time limit of the connection to a scheduler."""
PAUSE_S: Final = 1.0
"""Seconds between two looks at the workers of the cluster, which may change."""
MIN_WAITING_RUNS: Final = 2
"""Runs that wait at the scheduler: no worker is idle, and an adaptive cluster grows."""


@dataclass(slots=True)
class _SubmittedRun:
    """A run at the cluster.

    Attributes:
        future: That of its last submission; None before the first.
        is_handled: Set when the value of `future` needs no further attention.
        is_refused: True if the source could not note the start, or lets no further run start.
    """

    spec: RunSpec
    future: Any = None
    is_handled: asyncio.Event = field(default_factory=asyncio.Event)
    submissions: int = 0
    is_started: bool = False
    is_refused: bool = False

    @property
    def has_ended(self) -> bool:
        """True if the scheduler has announced the end of the last submission."""
        return self.future is not None and self.future.status == "finished"

    def set_future(self, future: Any) -> None:
        """Note another submission."""
        self.is_handled.set()
        self.is_handled = asyncio.Event()
        self.future = future


class DaskPool:
    """Runs the specifications of a source on a Dask cluster."""

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
        self._probe = out / f".jp-nb-probe-{self._batch}"

        self._client: Any = None
        self._source: RunSource | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # one for each submitted run
        self._submitted: dict[str, _SubmittedRun] = {}  # by the id of the run
        self._checked: set[str] = set()  # addresses of the Dask workers with fitting versions
        self._numbers: dict[str, int] = {}  # of Dask workers, by their address, for the log
        self._has_resource = False
        self._ships_files = False
        self._is_stopped = False
        self._is_killed = False
        self._canceling: asyncio.Task[None] | None = None
        self._answering: set[asyncio.Task[None]] = set()  # answers to starts that are being sent

    async def run(self, source: RunSource) -> None:
        """Run until the source has no further run, and all runs have ended.

        Raises:
            UsageError: There is no such cluster, or its versions differ. Nothing was run.
        """
        self._source = source
        self._probe.write_text(self._batch, encoding="utf-8")
        try:
            async with self._connect() as client:
                self._client = client
                client.subscribe_topic(self._batch, self._note_start)
                await self._run_all(source)
                if self._canceling is not None:
                    await self._canceling
                await self._free_workers()
        finally:
            self._probe.unlink(missing_ok=True)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Any]:
        try:
            import distributed
        except ImportError as exc:
            raise UsageError("`--dask` needs Dask: `pip install 'jp-nb[dask]'`") from exc

        dask: Any = distributed  # its calls have no types

        options: dict[str, Any] = {"asynchronous": True, "set_as_default": False, "name": "jp_nb"}
        scheduler = self._address.scheduler
        if not scheduler:
            cluster = dask.LocalCluster(
                n_workers=self._worker_count,
                threads_per_worker=1,
                asynchronous=True,
                dashboard_address="127.0.0.1:0",
            )
            async with cluster, dask.Client(cluster, **options) as client:
                self._tell(f"Dask: {self._worker_count} workers, {cluster.dashboard_link}")
                yield client
            return

        where = {"scheduler_file": scheduler} if "://" not in scheduler else {"address": scheduler}
        try:
            client = await dask.Client(**where, timeout=CONNECT_S, **options)
        except (OSError, ValueError) as exc:
            raise UsageError(f"there is no Dask scheduler at {scheduler}: {exc}") from exc
        try:
            yield client
        finally:
            with suppress(Exception):  # a lost scheduler does not answer
                await client.close(timeout=2)

    async def _free_workers(self) -> None:
        """End what the batch leaves at the cluster: idle processes, and its notes."""
        from jp_nb.batch.workers.dask_task import end_idle_processes

        with suppress(OSError):
            await self._client.run(end_idle_processes, on_error="ignore")
            if not self._is_killed:  # the last tasks read there that they are to end
                await self._client.set_metadata([self._batch], {})

    async def _run_all(self, source: RunSource) -> None:
        while True:
            slots = await self._count_slots()
            while len(self._tasks) < slots and not self._is_stopped:
                spec = source.take()
                if spec is None:
                    break
                self._tasks.add(asyncio.create_task(self._run_one(spec, source)))

            if not self._tasks:
                return
            done, self._tasks = await asyncio.wait(
                self._tasks, timeout=PAUSE_S, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()

    async def _count_slots(self) -> int:
        """Return the number of runs that the cluster executes at once, and some that wait."""
        workers = await self._list_workers()
        counts = [(worker.get("resources") or {}).get(RESOURCE) for worker in workers.values()]
        self._has_resource = any(counts)

        if self._has_resource:
            slots = sum(int(count or 0) for count in counts)
        else:
            slots = sum(int(worker["nthreads"]) for worker in workers.values())
        return slots + max(MIN_WAITING_RUNS, slots // 4)

    async def _list_workers(self) -> Mapping[str, Any]:
        """Return the workers of the cluster by their address."""
        if self._is_stopped:
            return {}
        try:
            known = await self._client.scheduler.identity(n_workers=-1)
            workers: Mapping[str, Any] = known["workers"]
            if not workers.keys() <= self._checked:
                await self._check_versions()
        except OSError as exc:
            self._lose_scheduler(str(exc))
            return {}
        return workers

    async def _check_versions(self) -> None:
        """Compare the versions of the workers with those of this machine.

        Raises:
            UsageError: They differ.
        """
        found = await self._client.get_versions(packages=["jp_nb"])
        own = _read_versions(found["client"])

        for address, worker in found["workers"].items():
            theirs = _read_versions(worker)
            if theirs != own:
                raise UsageError(
                    f"the Dask worker {address} has {theirs}, and this machine {own}. Install the "
                    "same versions on both"
                )
            self._checked.add(address)

    async def _run_one(self, spec: RunSpec, source: RunSource) -> None:
        """Submit a run, and tell the source of its start and its end."""
        run = _SubmittedRun(spec)
        self._submitted[spec.run] = run

        end: RunEnd | None = None
        while end is None and not self._is_settled(run):
            run.submissions += 1
            end = await self._submit(run)
            if end is None and run.submissions == MAX_SUBMISSIONS:
                end = _fail(spec, "the Dask workers died before the run started")

        del self._submitted[spec.run]
        self._tell_end(run, end, source)
        run.is_handled.set()

    def _tell_end(self, run: _SubmittedRun, end: RunEnd | None, source: RunSource) -> None:
        spec = run.spec
        if end is None and not run.is_started:
            return  # a resumed batch runs it

        if end is None:
            end = self._make_lost_end(spec)
        if run.is_started or source.start(spec, 0):
            source.end(spec, end)

    def _is_settled(self, run: _SubmittedRun) -> bool:
        """Return True if a run is not submitted again."""
        return run.is_started or run.is_refused or self._is_stopped

    async def _submit(self, run: _SubmittedRun) -> RunEnd | None:
        """Return the end of a run; None if the cluster has lost it, or if it was canceled."""
        spec = run.spec
        parcel = RunParcel(spec, self._batch, str(self._probe), self._limits)
        if self._ships_files:
            try:
                parcel = replace(parcel, files=pack(spec))
            except UsageError as exc:
                return _fail(spec, str(exc))

        returned = await self._get_return(run, parcel)
        if returned is None:
            return None
        if returned.needs_files:
            self._begin_shipping()
            return await self._submit(run)
        if returned.end is None:
            return None

        try:
            store(returned.files, spec)
        except StorageError as exc:
            return _fail(spec, str(exc), is_fatal=True)
        return returned.end

    async def _get_return(self, run: _SubmittedRun, parcel: RunParcel) -> RunReturn | None:
        from distributed import CancelledError, KilledWorker

        from jp_nb.batch.workers.dask_task import run_parcel

        future = self._client.submit(
            run_parcel,
            parcel,
            key=f"{run.spec.run}-{uuid4().hex[:8]}",  # what the dashboard shows
            pure=False,
            retries=0,
            resources={RESOURCE: 1} if self._has_resource else None,
        )
        run.set_future(future)
        try:
            returned: RunReturn = await future.result()
        except (CancelledError, KilledWorker, OSError) as exc:
            if not self._is_stopped and self._client.status != "running":
                self._lose_scheduler(str(exc))
            return None
        return returned

    def _begin_shipping(self) -> None:
        if not self._ships_files:
            self._ships_files = True
            self._tell("the Dask workers do not share this folder: files travel with the runs")

    def _note_start(self, event: Any) -> None:
        """Answer a task that asks if its run may start."""
        message = event[1]
        answering = asyncio.create_task(self._decide_start(message["run"], message["worker"]))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)

    async def _decide_start(self, name: str, worker: str) -> None:
        """Let a run start if the source can note it."""
        from jp_nb.batch.workers.dask_task import NOTED

        # Ends are announced before later starts, but the value of an end is fetched afterwards.
        ended = [run for run in self._submitted.values() if run.has_ended]
        for event in [run.is_handled for run in ended]:
            await event.wait()

        run = self._submitted.get(name)
        if run is None or run.is_started or self._source is None:
            return

        number = self._numbers.setdefault(worker, len(self._numbers) + 1)
        run.is_started = self._source.start(run.spec, number)
        run.is_refused = not run.is_started

        with suppress(OSError):  # without a scheduler, the task ends by itself
            await self._client.set_metadata([self._batch, NOTED, run.spec.run], run.is_started)

    def _lose_scheduler(self, reason: str) -> None:
        self._is_stopped = True
        if self._source is not None:
            self._source.stop(
                f"the Dask scheduler was lost ({one_line(reason)}): no further run starts"
            )

    def _make_lost_end(self, spec: RunSpec) -> RunEnd:
        if self._is_killed:
            return _make_end(spec, "interrupted", "Ctrl+C ended the run")
        return _make_end(spec, "unknown", "the Dask worker or the scheduler was lost")

    def interrupt(self) -> None:
        """Start no further run, and wait for those that have started."""
        self._is_stopped = True
        self._cancel([run for run in self._submitted.values() if not run.is_started])

    def kill(self) -> None:
        """End all runs at once."""
        self._is_stopped = True
        self._is_killed = True
        self._cancel(list(self._submitted.values()))

    def _cancel(self, runs: list[_SubmittedRun]) -> None:
        futures = [run.future for run in runs if run.future is not None]
        if self._client is not None:
            self._canceling = asyncio.create_task(self._cancel_futures(futures))

    async def _cancel_futures(self, futures: list[Any]) -> None:
        from jp_nb.batch.workers.dask_task import STOP

        with suppress(OSError):  # without a scheduler, the tasks end by themselves
            if self._is_killed:
                await self._client.set_metadata([self._batch, STOP], True)
            await self._client.cancel(futures, force=True)


def _read_versions(machine: Mapping[str, Any]) -> str:
    packages = machine.get("packages") or {}
    python = ".".join(str(packages.get("python") or "no version").split(".")[:2])
    return f"Python {python} and jp_nb {packages.get('jp_nb') or 'not installed'}"


def _fail(spec: RunSpec, reason: str, *, is_fatal: bool = False) -> RunEnd:
    end = _make_end(spec, "failed", reason)
    return end.model_copy(update={"fatal": format_text(reason)}) if is_fatal else end


def _make_end(spec: RunSpec, outcome: RunOutcome, reason: str) -> RunEnd:
    cell = FailedCell(error=format_text(reason))
    return RunEnd(line=EndedLine(run=spec.run, outcome=outcome, failed_cells=(cell,)))
