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
    starting: int, outcome: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = DyingCluster(starting)

    @asynccontextmanager
    async def connect(*_: object, **__: object) -> AsyncIterator[DyingCluster]:
        yield cluster

    monkeypatch.setattr("jp_nb.batch.workers.dask_pool.connect_to_cluster", connect)
    path = write_cells(tmp_path / "walk.ipynb", "1")
    out = tmp_path / "OUT"
    assert main(["run", str(path), "-o", f"{out}/", "--dask", "tcp://nowhere:1"]) == 1

    [run] = BatchFolder(out).runs()
    assert (run.outcome, run.failed_cells[0].error) == (outcome, error)
    assert cluster.submissions == min(starting, MAX_SUBMISSIONS)
    log = (out / "runs.jsonl").read_text()
    assert log.count('"type":"started"') == 1, "a run is started once"
