"""The connection to a Dask cluster: its workers, its tasks, and the notes that tasks read.

`connect_to_cluster` starts a local cluster, or connects to the scheduler of another one. A
`DaskCluster` knows what is specific to Dask. `dask_pool.py` decides which runs it executes.

A task (`dask_task.py`) asks before it starts its run, because a run has effects, and Dask may start
a task twice. The two sides talk through the scheduler:

1. The task logs an event with a `StartRequest`, which `listen` receives.
2. `answer_start_request` writes the answer as a *note*: an entry of the scheduler's metadata.
3. The task reads the notes of its batch until it finds the answer, or the order to end (`cancel`).

Source: https://distributed.dask.org/en/stable/.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from jp_nb.batch.workers.dask_address import DaskAddress
from jp_nb.batch.workers.run_parcel import RunParcel
from jp_nb.errors import UsageError

if TYPE_CHECKING:
    from jp_nb.batch.workers.dask_task import RunReturn

RESOURCE: Final = "jp_nb"
"""Resource of Dask workers that limits the runs on each, if a cluster defines it."""
CONNECT_S: Final = 30.0
"""Time limit of the connection to a scheduler."""
MESSAGE_LOG: Final = "distributed.admin.low-level-log-length"
"""Setting of Dask for the number of messages that it keeps."""
MAX_KEPT_MESSAGES: Final = 100
"""Messages of which Dask keeps a copy for debugging, on each connection. They contain the runs."""
MIN_WAITING_RUNS: Final = 2
"""Runs that wait at the scheduler: no worker is idle, and an adaptive cluster grows."""
CLIENT_OPTIONS: Final[Mapping[str, Any]] = {
    "asynchronous": True,
    "set_as_default": False,
    "name": "jp_nb",
}


@dataclass(frozen=True, slots=True)
class StartRequest:
    """The question of a task if its run may start.

    Attributes:
        run: The id of the run.
        worker: The address of the Dask worker.
        number: The number of the answer, which later runs use again: the scheduler keeps few.
        token: A random text of the task, by which it knows its own answer.
    """

    run: str
    worker: str
    number: int
    token: str


class SchedulerLostError(Exception):
    """The scheduler does not answer any more. The message has the reason."""


class DaskCluster:
    """A cluster that executes the runs of a batch.

    `client` is a `distributed.Client` on the running event loop. `batch` is a random text, under
    which the scheduler keeps the notes that the tasks of this batch read (`dask_task.py`).
    """

    def __init__(self, client: Any, batch: str) -> None:
        self._client = client
        self._batch = batch
        self._checked: set[str] = set()  # addresses of the Dask workers with fitting versions
        self._has_resource = False  # True once a Dask worker has defined `RESOURCE`

    async def has_workers(self) -> bool:
        """Return True if a Dask worker has joined the cluster.

        Raises:
            UsageError: The versions of a worker differ from those of this machine.
            SchedulerLostError: The scheduler does not answer.
        """
        return bool(await self._list_workers())

    @asynccontextmanager
    async def requesting_worker(self) -> AsyncIterator[None]:
        """Keep a task at the scheduler during the block, so that an adaptive cluster grows.

        Such a cluster may have no worker while no task waits. The task is Python's `int`, which any
        worker can call, also one that lacks jp_nb.
        """
        future = self._client.submit(int, key=f"first-worker-{uuid4().hex[:8]}", pure=False)
        try:
            yield
        finally:
            with suppress(OSError):  # a lost scheduler has also lost the task
                await self._client.cancel([future], force=True)

    async def count_slots(self) -> int:
        """Return the number of runs that may be at the cluster: those that it executes, and a few.

        The others wait at the scheduler, so that no worker is idle between two runs.

        Raises:
            UsageError: The versions of a worker differ from those of this machine.
            SchedulerLostError: The scheduler does not answer.
        """
        workers = await self._list_workers()
        counts = [(worker.get("resources") or {}).get(RESOURCE) for worker in workers.values()]
        # The resource stays needed without a worker that has it, such as while one starts again.
        self._has_resource = self._has_resource or any(counts)

        if self._has_resource:
            slots = sum(int(count or 0) for count in counts)
        else:
            slots = sum(int(worker["nthreads"]) for worker in workers.values())
        return slots + max(MIN_WAITING_RUNS, slots // 4)

    async def _list_workers(self) -> Mapping[str, Any]:
        """Return the workers by their address, after a check of the versions of new ones."""
        try:
            cluster = await self._client.scheduler.identity(n_workers=-1)
            workers: Mapping[str, Any] = cluster["workers"]
            if not workers.keys() <= self._checked:
                await self._check_versions()
        except OSError as exc:
            raise SchedulerLostError(str(exc)) from exc
        return workers

    async def _check_versions(self) -> None:
        """Compare the versions of the workers with those of this machine."""
        versions = await self._client.get_versions(packages=["jp_nb"])
        own = _describe_versions(versions["client"])

        for address, worker in versions["workers"].items():
            theirs = _describe_versions(worker)
            if theirs != own:
                raise UsageError(
                    f"the Dask worker {address} has {theirs}, and this machine {own}. Install the "
                    "same versions on both"
                )
            self._checked.add(address)

    def submit(self, parcel: RunParcel) -> Any:
        """Submit a task that executes a run, and return its future.

        It needs the resource `RESOURCE` once `count_slots` has found a worker that defines it.
        """
        from jp_nb.batch.workers.dask_task import run_parcel

        resources = None
        if self._has_resource:
            resources = {RESOURCE: 1}
        return self._client.submit(
            run_parcel,
            parcel,
            key=f"{parcel.spec.run}-{uuid4().hex[:8]}",  # what the dashboard shows
            pure=False,
            retries=0,
            resources=resources,
        )

    async def fetch(self, future: Any) -> RunReturn | None:
        """Wait for a task, and return its value; None if it was canceled, or its worker died.

        Raises:
            SchedulerLostError: The scheduler does not answer.
        """
        from distributed import CancelledError, KilledWorker

        try:
            returned: RunReturn = await future.result()
        except (CancelledError, KilledWorker, OSError) as exc:
            if self._client.status != "running":
                raise SchedulerLostError(str(exc)) from exc
            return None
        return returned

    def listen(self, on_start_request: Callable[[StartRequest], None]) -> None:
        """Call `on_start_request` when a task asks if its run may start.

        The task waits then for `answer_start_request`.
        """

        def on_event(event: Any) -> None:
            _, message = event  # its time, and what `dask_task.py` has logged
            on_start_request(StartRequest(**message))

        self._client.subscribe_topic(self._batch, on_event)

    async def answer_start_request(self, request: StartRequest, may_start: bool) -> None:
        """Tell a task if its run may start."""
        from jp_nb.batch.workers.dask_task import NOTED

        with suppress(OSError):  # without a scheduler, the task ends by itself
            key = [self._batch, NOTED, request.number]
            await self._client.set_metadata(key, [request.token, may_start])

    async def cancel(self, futures: Iterable[Any], *, kills_runs: bool) -> None:
        """Cancel tasks. `kills_runs` also ends the runs of the batch that have started."""
        from jp_nb.batch.workers.dask_task import STOP

        with suppress(OSError):  # without a scheduler, the tasks end by themselves
            if kills_runs:
                await self._client.set_metadata([self._batch, STOP], True)
            await self._client.cancel(list(futures), force=True)

    async def free_workers(self, *, keeps_notes: bool) -> None:
        """End what the batch leaves at the cluster: idle processes, and its notes.

        With `keeps_notes`, the notes stay: tasks of a killed batch still have to read in them that
        they end.
        """
        from jp_nb.batch.workers.dask_task import end_idle_processes

        with suppress(OSError):
            await self._client.run(end_idle_processes, on_error="ignore")
            if not keeps_notes:
                await self._client.set_metadata([self._batch], {})


@asynccontextmanager
async def connect_to_cluster(
    address: DaskAddress, *, batch: str, worker_count: int, tell: Callable[[str], None]
) -> AsyncIterator[DaskCluster]:
    """Connect to the scheduler at `address`, or start a local cluster with `worker_count` workers.

    Raises:
        UsageError: There is no such scheduler, or Dask is not installed.
    """
    try:
        import distributed
        from dask import config
    except ImportError as exc:
        raise UsageError("`--dask` needs Dask: `pip install 'jp-nb[dask]'`") from exc

    # The user may have configured fewer messages, or none.
    kept_messages = config.get(MESSAGE_LOG)
    if kept_messages is None or kept_messages > MAX_KEPT_MESSAGES:
        kept_messages = MAX_KEPT_MESSAGES

    with config.set({MESSAGE_LOG: kept_messages}):
        opening = _open_cluster(
            distributed, address, batch=batch, worker_count=worker_count, tell=tell
        )
        async with opening as cluster:
            yield cluster


@asynccontextmanager
async def _open_cluster(
    dask: Any,
    address: DaskAddress,
    *,
    batch: str,
    worker_count: int,
    tell: Callable[[str], None],
) -> AsyncIterator[DaskCluster]:
    """Open the cluster with the module `distributed`, which is passed as `dask`."""
    if address.scheduler:
        client = await _connect_client(dask, address.scheduler)
        try:
            yield DaskCluster(client, batch)
        finally:
            with suppress(Exception):  # a lost scheduler does not answer
                await client.close(timeout=2)
        return

    local_cluster = dask.LocalCluster(
        n_workers=worker_count,
        threads_per_worker=1,
        asynchronous=True,
        dashboard_address="127.0.0.1:0",
    )
    async with local_cluster, dask.Client(local_cluster, **CLIENT_OPTIONS) as client:
        tell(f"Dask: {worker_count} workers, {local_cluster.dashboard_link}")
        yield DaskCluster(client, batch)


async def _connect_client(dask: Any, scheduler: str) -> Any:
    """Connect to an address such as `tcp://scheduler:8786`, or to that in a scheduler file."""
    options = {"address": scheduler}
    if "://" not in scheduler:
        options = {"scheduler_file": scheduler}

    try:
        return await dask.Client(**options, timeout=CONNECT_S, **CLIENT_OPTIONS)
    except (OSError, ValueError) as exc:
        raise UsageError(f"there is no Dask scheduler at {scheduler}: {exc}") from exc


def _describe_versions(machine: Mapping[str, Any]) -> str:
    packages = machine.get("packages") or {}
    python = ".".join(str(packages.get("python") or "no version").split(".")[:2])
    return f"Python {python} and jp_nb {packages.get('jp_nb') or 'not installed'}"
