"""Batches on a Dask cluster: real schedulers, Dask workers, worker processes, and kernels."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jp_nb.cli import main
from tests.kit.batch_folders import BatchFolder
from tests.support.notebook_runs import write_cells

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.runners

EPOCH = "1773835200"
KILL_DASK_WORKER = """
import os, signal
def parent(pid):
    return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
if city == "Bad":
    os.kill(parent(os.getppid()), signal.SIGKILL)
    import time; time.sleep(600)
"""


def wait_until(condition: Callable[[], Any], what: str) -> None:
    until = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < until, f"{what}: not within 90 s"
        time.sleep(0.05)


@contextmanager
def running(*command: str, folder: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of Dask until the end of the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def running_scheduler(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a scheduler, and yield the path of its file."""
    file = folder / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file")
    module = "distributed.cli.dask_scheduler"
    with running(module, *options, str(file), folder=folder) as process:
        wait_until(file.exists, "the scheduler writes its file")
        yield str(file), process


@contextmanager
def running_worker(
    file: str, folder: Path, *, threads: int = 1, **environment: str
) -> Iterator[None]:
    """Run a Dask worker, which starts again if it is killed."""
    nthreads = ("--nthreads", str(threads))
    options = ("--host", "127.0.0.1", *nthreads, "--no-dashboard", "--scheduler-file")
    folder.mkdir(exist_ok=True)
    with running("distributed.cli.dask_worker", *options, file, folder=folder, **environment):
        yield


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The file of a scheduler with two Dask workers, which work in folders of their own."""
    folder = tmp_path_factory.mktemp("dask")
    with (
        running_scheduler(folder) as (file, _),
        running_worker(file, folder / "a", SOURCE_DATE_EPOCH=EPOCH),
        running_worker(file, folder / "b", SOURCE_DATE_EPOCH=EPOCH),
    ):
        yield file


def write_walk(folder: Path, *cells: str) -> None:
    """Write a notebook with the parameter `city`, and a table with four cities."""
    path = write_cells(folder / "walk.ipynb", "city = ''", *cells)
    text = path.read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))
    (folder / "each.csv").write_text("city\nDelft\nBad\nGouda\nEdam\n")


def run_batch(folder: Path, *options: str) -> int:
    each = ("--each", str(folder / "each.csv"))
    return main(["run", str(folder / "walk.ipynb"), *each, "-o", str(folder / "OUT"), *options])


def outcomes(folder: Path) -> dict[Any, str]:
    """Return the outcome of each run by its city."""
    return {each.parameters["city"]: each.outcome for each in BatchFolder(folder / "OUT").runs()}


@pytest.mark.req("BATCH-17", "BATCH-19", "BATCH-20", "BATCH-25")
def test_cluster_writes_the_same_notebooks_as_one_machine(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    write_walk(tmp_path, "secret = 'word-' + city", "print(secret); assert city != 'Bad'")
    assert run_batch(tmp_path, "--dask", scheduler) == 1
    assert outcomes(tmp_path) == {
        "Delft": "passed", "Bad": "failed", "Gouda": "passed", "Edam": "passed",
    }  # fmt: skip
    on_cluster = {path.name: path.read_bytes() for path in (tmp_path / "OUT").glob("*.ipynb")}
    assert {run.worker for run in BatchFolder(tmp_path / "OUT").runs()} == {1, 2}

    with distributed.Client(scheduler_file=scheduler, set_as_default=False) as client:
        logs = str(client.get_scheduler_logs()) + str(client.get_worker_logs())
        events = str(client.get_events())
    assert "word-" not in logs + events

    (tmp_path / "OUT").rename(tmp_path / "CLUSTER")
    assert run_batch(tmp_path, "--workers", "2") == 1
    here = {path.name: path.read_bytes() for path in (tmp_path / "OUT").glob("*.ipynb")}
    assert here == on_cluster


@pytest.mark.req("BATCH-20")
def test_each_run_is_one_task_that_dask_does_not_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[dict[str, Any]] = []
    submit = distributed.Client.submit

    def note(client: Any, task: Any, *arguments: Any, **given: Any) -> Any:
        if task.__name__ == "run_parcel":
            options.append(given)
        return submit(client, task, *arguments, **given)

    monkeypatch.setattr(distributed.Client, "submit", note)
    write_walk(tmp_path)
    with running_scheduler(tmp_path) as (file, _):
        resources = ("--resources", "jp_nb=2")
        worker = ("--host", "127.0.0.1", "--nthreads", "2", "--no-dashboard", "--scheduler-file")
        with running("distributed.cli.dask_worker", *worker, file, *resources, folder=tmp_path):
            with distributed.Client(scheduler_file=file, set_as_default=False) as client:
                client.wait_for_workers(1)
            assert run_batch(tmp_path, "--dask", file) == 0

    runs = [each.run for each in BatchFolder(tmp_path / "OUT").runs()]
    assert len(options) == len(runs) == 4
    keys = sorted(given.pop("key") for given in options)
    assert [key.rpartition("-")[0] for key in keys] == sorted(runs)
    assert options == [{"pure": False, "retries": 0, "resources": {"jp_nb": 1}}] * 4


NOTE_OTHERS = """
import time
from pathlib import Path
Path(f"{city}.running").touch()
time.sleep(1)
assert len(list(Path().glob("*.running"))) == 1
Path(f"{city}.running").unlink()
"""


@pytest.mark.req("BATCH-20")
def test_runs_that_wait_for_the_first_worker_use_the_resource_of_the_cluster(
    tmp_path: Path,
) -> None:
    write_walk(tmp_path, NOTE_OTHERS)
    # As with dask-jobqueue: there is no worker until a task waits.
    growing = distributed.LocalCluster(
        n_workers=0,
        threads_per_worker=2,
        resources={"jp_nb": 1},
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs=False,
    )
    with growing as cluster:
        cluster.adapt(minimum=0, maximum=1, interval="200ms")
        command = [sys.executable, "-m", "jp_nb.cli", "run", "walk.ipynb", "--each", "each.csv"]
        done = subprocess.run(
            [*command, "-o", "OUT", "--dask", cluster.scheduler_address],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "no Dask worker has joined the cluster so far" in done.stderr
    assert set(outcomes(tmp_path).values()) == {"passed"}, "one run at a time"


@pytest.mark.req("BATCH-20")
def test_run_needs_the_resource_also_while_the_worker_that_has_it_starts_again(
    tmp_path: Path,
) -> None:
    write_walk(tmp_path, "import os; assert os.environ['HAS_RESOURCE']", KILL_DASK_WORKER)
    cities = ["Delft", "Bad", *(f"town {number}" for number in range(8))]
    (tmp_path / "each.csv").write_text("\n".join(["city", *cities]))
    resource: dict[str, Any] = {
        "HAS_RESOURCE": "1",
        "DASK_DISTRIBUTED__WORKER__RESOURCES__JP_NB": "1",
    }
    with (
        running_scheduler(tmp_path) as (file, _),
        running_worker(file, tmp_path / "a", **resource),
        running_worker(file, tmp_path / "b", threads=8, HAS_RESOURCE=""),
    ):
        with distributed.Client(scheduler_file=file, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
        run_batch(tmp_path, "--dask", file)
    assert outcomes(tmp_path) == {city: "unknown" if city == "Bad" else "passed" for city in cities}


@pytest.mark.req("BATCH-24")
@pytest.mark.parametrize(("ends", "code"), [("interrupt", 130), ("lost scheduler", 1)])
def test_wait_for_the_first_worker_ends_with_an_interrupt_or_the_scheduler(
    tmp_path: Path, ends: str, code: int
) -> None:
    with running_scheduler(tmp_path) as (file, scheduler):
        batch = RunningBatch(tmp_path, file)
        try:
            assert batch.process.stderr is not None
            assert "no Dask worker has joined the cluster so far" in batch.process.stderr.readline()
            if ends == "interrupt":
                batch.process.send_signal(signal.SIGINT)
            else:
                scheduler.kill()
            ended, errors = batch.end()
        finally:
            batch.process.kill()
    assert ended == code, errors
    assert ("the Dask scheduler was lost" in errors) is (ends == "lost scheduler")
    assert outcomes(tmp_path) == {}


@pytest.mark.req("BATCH-8", "BATCH-20")
def test_runs_that_wait_at_the_cluster_do_not_start_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = distributed.Future.result

    async def fetch_slowly(future: Any) -> Any:
        value = await fetch(future)
        await asyncio.sleep(1)  # the Dask worker is asked to start the next run before this ends
        return value

    monkeypatch.setattr(distributed.Future, "result", fetch_slowly)
    write_walk(tmp_path, "open(city, 'w').close()", "assert city != 'Bad'")
    assert run_batch(tmp_path, "--dask", "local:1", "-x") == 1
    assert outcomes(tmp_path) == {"Delft": "passed", "Bad": "failed"}
    assert not (tmp_path / "Gouda").exists()
    assert not (tmp_path / "Edam").exists()

    assert main(["run", "--resume", str(tmp_path / "OUT"), "--workers", "2"]) == 1
    assert outcomes(tmp_path) == {
        "Delft": "passed", "Bad": "failed", "Gouda": "passed", "Edam": "passed",
    }  # fmt: skip


@pytest.mark.req("BATCH-21", "BATCH-28")
def test_killed_dask_worker_costs_the_run_that_it_had_started(
    tmp_path: Path, scheduler: str
) -> None:
    write_walk(tmp_path, KILL_DASK_WORKER)
    assert run_batch(tmp_path, "--dask", scheduler) == 1
    assert outcomes(tmp_path) == {
        "Delft": "passed", "Bad": "unknown", "Gouda": "passed", "Edam": "passed",
    }  # fmt: skip
    [lost] = [run for run in BatchFolder(tmp_path / "OUT").runs() if run.outcome == "unknown"]
    assert "the Dask worker" in lost.failed_cells[0].error
    log = (tmp_path / "OUT/runs.jsonl").read_text()
    assert log.count('"type":"started"') == 4, "no run is repeated"


@pytest.mark.req("BATCH-22")
def test_files_travel_to_workers_that_do_not_share_the_folder(
    tmp_path: Path,
    scheduler: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "hello.toml").write_text('[[replies]]\ntext = "Hello."\n')
    write_walk(tmp_path, "%load_ext jp_nb", "%%jp -m scripted/hello\nHello?", "print(city)")
    monkeypatch.chdir(tmp_path)
    here = Path("/proc/self/cwd")  # another folder in each process
    arguments = ["run", str(here / "walk.ipynb"), "--each", str(here / "each.csv")]
    run = [*arguments, "-o", str(here / "OUT")]

    recorded = main([*run, "--record", "--workers", "2"])
    assert recorded == 0
    (tmp_path / "OUT").rename(tmp_path / "RECORDED")
    assert (tmp_path / "walk.cassette.jsonl").exists()

    assert main([*run, "--replay", "--dask", scheduler]) == 0, capsys.readouterr().err
    assert "files travel with the runs" in capsys.readouterr().err
    assert set(outcomes(tmp_path).values()) == {"passed"}
    for path in (tmp_path / "OUT").glob("*.ipynb"):
        assert "Hello." in path.read_text()


@pytest.mark.req("BATCH-23")
def test_other_versions_of_the_workers_are_an_error_before_the_first_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "other" / "jp_nb-9.9.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: jp-nb\nVersion: 9.9\n")
    write_walk(tmp_path, "pass")
    path = os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")])

    with (
        running_scheduler(tmp_path) as (file, _),
        running_worker(file, tmp_path / "w", PYTHONPATH=path),
    ):
        with distributed.Client(scheduler_file=file, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
        assert run_batch(tmp_path, "--dask", file) == 2
    assert "has Python 3.11 and jp_nb 9.9, and this machine Python" in re.sub(
        r"3\.\d+", "3.11", capsys.readouterr().err
    )
    assert "started" not in (tmp_path / "OUT/runs.jsonl").read_text()


class RunningBatch:
    """`jp-nb run` on a cluster, in a process, whose runs wait until `released` exists."""

    def __init__(self, folder: Path, scheduler: str) -> None:
        self.folder = folder
        released = folder / "released"
        wait = (
            f"import os, time\nwhile not os.path.exists({str(released)!r}):\n    time.sleep(0.05)"
        )
        write_walk(folder, "import os, time", wait)
        command = [sys.executable, "-m", "jp_nb.cli", "run", "walk.ipynb", "--each", "each.csv"]
        self.process = subprocess.Popen(
            [*command, "-o", "OUT", "--dask", scheduler],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_starts(self, count: int) -> None:
        log = self.folder / "OUT/runs.jsonl"
        wait_until(
            lambda: log.exists() and log.read_text().count('"type":"started"') >= count,
            f"{count} runs start",
        )

    def release(self) -> None:
        (self.folder / "released").touch()

    def end(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=120)
        return self.process.returncode, errors


@pytest.mark.req("BATCH-24")
def test_interrupt_waits_for_started_runs_and_cancels_the_others(
    tmp_path: Path, scheduler: str
) -> None:
    batch = RunningBatch(tmp_path, scheduler)
    try:
        batch.wait_for_starts(2)
        batch.process.send_signal(signal.SIGINT)
        batch.release()
        code, errors = batch.end()
    finally:
        batch.process.kill()
    assert code == 130, errors
    assert outcomes(tmp_path) == {"Delft": "passed", "Bad": "passed"}
    assert main(["run", "--resume", str(tmp_path / "OUT"), "--workers", "2"]) == 0
    assert set(outcomes(tmp_path).values()) == {"passed"}
    assert len(outcomes(tmp_path)) == 4


@pytest.mark.req("BATCH-24")
def test_lost_scheduler_ends_the_batch_and_a_resumed_one_runs_the_rest(tmp_path: Path) -> None:
    with (
        running_scheduler(tmp_path) as (file, process),
        running_worker(file, tmp_path / "w"),
    ):
        batch = RunningBatch(tmp_path, file)
        try:
            batch.wait_for_starts(1)
            process.kill()
            code, errors = batch.end()
        finally:
            batch.process.kill()
    assert code == 1, errors
    assert "the Dask scheduler was lost" in errors
    assert outcomes(tmp_path) == {"Delft": "unknown"}
    batch.release()
    assert main(["run", "--resume", str(tmp_path / "OUT"), "--workers", "2"]) == 0
    assert len(outcomes(tmp_path)) == 4


@pytest.mark.req("BATCH-19")
@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("nothing", "expected `local`"),
        ("local:0", "write `local:N`"),
        ("local:many", "write `local:N`"),
        ("missing.json", "expected `local`"),
        ("tcp://127.0.0.1:1", "there is no Dask scheduler"),
    ],
)
def test_cluster_that_is_none_is_an_error_before_the_first_run(
    tmp_path: Path,
    cluster: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("jp_nb.batch.workers.dask_cluster.CONNECT_S", 1.0)
    write_walk(tmp_path, "pass")
    assert run_batch(tmp_path, "--dask", cluster) == 2
    assert message in capsys.readouterr().err


@pytest.mark.req("BATCH-19")
def test_workers_of_one_machine_are_no_option_of_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_walk(tmp_path, "pass")
    assert run_batch(tmp_path, "--dask", "local", "--workers", "3") == 2
    assert "write `--dask local:N`" in capsys.readouterr().err
