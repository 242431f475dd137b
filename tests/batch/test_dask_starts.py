"""The pool on a Dask cluster decides which runs start, and how lost ones end, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jp_nb.cli import main
from tests.kit.batch_folders import BatchFolder
from tests.support.notebook_runs import write_cells

MAX_SUBMISSIONS = 3


class DyingCluster:
    """A cluster whose Dask workers die: in submission number `starting` after the run has begun."""

    def __init__(self, starting: int) -> None:
        self.starting = starting
        self.submissions = 0
        self._answered = asyncio.Event()
        self._ask: Callable[[Any], None] = lambda _request: None

    async def has_workers(self) -> bool:
        return True

    async def count_slots(self) -> int:
        return 1

    def listen(self, on_start_request: Callable[[Any], None]) -> None:
        self._ask = on_start_request

    def submit(self, parcel: Any) -> Any:
        self.submissions += 1
        if self.submissions == self.starting:
            self._ask(SimpleNamespace(run=parcel.spec.run, worker="tcp://worker:1"))
        else:
            self._answered.set()
        return SimpleNamespace(status="lost")

    async def fetch(self, _future: Any) -> None:
        await self._answered.wait()
        self._answered.clear()

    async def answer_start_request(self, _request: object, _may_start: bool) -> None:
        self._answered.set()

    async def free_workers(self, *, keeps_notes: bool) -> None:
        assert not keeps_notes


class OtherMachine(DyingCluster):
    """A cluster that does not see the folders of this machine, and whose workers then die."""

    def __init__(self) -> None:
        super().__init__(starting=0)
        self.parcels: list[Any] = []

    def submit(self, parcel: Any) -> Any:
        self.parcels.append(parcel)
        return SimpleNamespace(status="lost")

    async def fetch(self, _future: Any) -> Any:
        if self.parcels[-1].files is None:
            return SimpleNamespace(needs_files=True)
        return None


class EmptyCluster(DyingCluster):
    """A cluster without a Dask worker, and without need for one."""

    async def has_workers(self) -> bool:
        return False

    def requesting_worker(self) -> None:
        pytest.fail("the pool asks the cluster for a Dask worker")


@pytest.mark.req("BATCH-22")
@pytest.mark.parametrize(("size", "travels"), [(19_900_000, True), (20_000_001, False)])
def test_at_most_20_mb_travel_with_a_run(
    tmp_path: Path, use_cluster: Callable[[Any], None], size: int, travels: bool
) -> None:
    cluster = OtherMachine()
    use_cluster(cluster)
    path = write_cells(tmp_path / "walk.ipynb", "1")
    cassette = tmp_path / "walk.cassette.jsonl"
    with open(cassette, "wb") as file:
        file.truncate(size)
    out = tmp_path / "OUT"
    assert main(["run", str(path), "-o", f"{out}/", "--replay", "--dask", "tcp://nowhere:1"]) == 1

    [run] = BatchFolder(out).runs()
    assert (cluster.parcels[-1].files is not None) is travels
    error = run.failed_cells[0].error
    if travels:
        assert error == "the Dask workers died before the run started"
    else:
        assert f"{cassette} cannot travel to the workers" in error
        assert "At most 20,000,000 bytes travel with a run: put notebooks and output on" in error
        assert len(cluster.parcels) == 1


@pytest.fixture
def use_cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Connect the batches of the test to a cluster without a scheduler."""

    def use(cluster: Any) -> None:
        @asynccontextmanager
        async def connect(*_: object, **__: object) -> AsyncIterator[Any]:
            yield cluster

        monkeypatch.setattr("jp_nb.batch.workers.dask_pool.connect_to_cluster", connect)

    return use


@pytest.mark.req("BATCH-21", "BATCH-28")
@pytest.mark.parametrize(
    ("starting", "outcome", "error"),
    [
        (1, "unknown", "the Dask worker died"),
        (MAX_SUBMISSIONS, "unknown", "the Dask worker died"),
        (MAX_SUBMISSIONS + 1, "failed", "the Dask workers died before the run started"),
    ],
)
def test_run_whose_dask_worker_died_is_lost_only_if_it_had_started(
    starting: int,
    outcome: str,
    error: str,
    tmp_path: Path,
    use_cluster: Callable[[Any], None],
) -> None:
    cluster = DyingCluster(starting)
    use_cluster(cluster)
    path = write_cells(tmp_path / "walk.ipynb", "1")
    out = tmp_path / "OUT"
    assert main(["run", str(path), "-o", f"{out}/", "--dask", "tcp://nowhere:1"]) == 1

    [run] = BatchFolder(out).runs()
    assert (run.outcome, run.failed_cells[0].error) == (outcome, error)
    assert cluster.submissions == min(starting, MAX_SUBMISSIONS)
    log = (out / "runs.jsonl").read_text()
    assert log.count('"type":"started"') == 1, "a run is started once"


@pytest.mark.req("BATCH-28")
def test_resumed_batch_with_nothing_to_run_ends_without_a_dask_worker(
    tmp_path: Path, use_cluster: Callable[[Any], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_cells(tmp_path / "walk.ipynb", "1")
    out = tmp_path / "OUT"
    use_cluster(DyingCluster(starting=MAX_SUBMISSIONS + 1))
    assert main(["run", str(path), "-o", f"{out}/", "--dask", "tcp://nowhere:1"]) == 1
    capsys.readouterr()

    use_cluster(EmptyCluster(starting=0))
    main(["run", "--resume", f"{out}/", "--dask", "tcp://nowhere:1"])
    assert "no Dask worker" not in capsys.readouterr().err
    assert [run.outcome for run in BatchFolder(out).runs()] == ["failed"]
