"""Faults while 50 runs are under way: what was done stays, and a resumed batch runs the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.kit.batch_folders import BatchFolder
from tests.support.loopback import LoopbackServer, Received, Reply
from tests.support.notebook_runs import KEY, LOAD, write_cells

pytestmark = pytest.mark.deep

COUNT = 50
PATIENCE_S = 600.0
LIMIT_S = 8.0
ONCE = """
import os, signal, time
with open("ran.txt", "a") as file:
    file.write(f"{n}\\n")
is_first = not os.path.exists(f"{n}.fault")
if n in faulty and is_first:
    open(f"{n}.fault", "w").close()
    fault(n)
"""
FAULTS = {
    "none": "fault = print",
    "kernel": "fault = lambda n: os.kill(os.getpid(), signal.SIGKILL)",
    "worker": "fault = lambda n: os.kill(os.getppid(), signal.SIGKILL)",
    "hang": (
        "def fault(n):\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])\n"
        "    time.sleep(3600)"
    ),
    "dask worker": (
        "def fault(n):\n"
        "    stat = open(f'/proc/{os.getppid()}/stat').read()\n"
        "    os.kill(int(stat.rpartition(')')[2].split()[1]), signal.SIGKILL)\n"
        "    time.sleep(3600)"
    ),
}
"""Code of a fault, and of a notebook without one."""
POOL = ("--workers", "2")
FORKED = ("--workers", "2", "--preload", "json")
CLUSTER = ("--dask", "local:2")


class ManyRuns:
    """50 runs of a notebook that notes each execution, and the batches that run them."""

    def __init__(self, folder: Path, fault: str = "none", *faulty: int) -> None:
        self.folder = folder
        self.out = folder / "OUT"
        self.write(f"faulty = {faulty}\n{FAULTS[fault]}", ONCE, "print('end', n)")
        numbers = "".join(f"{n}\n" for n in range(COUNT))
        (folder / "n.csv").write_text(f"n\n{numbers}")
        self.process: subprocess.Popen[bytes] | None = None

    def write(self, *cells: str) -> None:
        """Write the notebook with these cells below its parameter."""
        path = write_cells(self.folder / "walk.ipynb", "n = 0", *cells)
        text = path.read_text()
        path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a batch of all runs, or a resumed one."""
        arguments = ["walk.ipynb", "--each", "n.csv", "-o", str(self.out)]
        if "--resume" in options:
            arguments = []
        with open(self.folder / "printed.txt", "wb") as printed:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jp_nb.cli", "run", *arguments, *options],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
        return self.process

    def run(self, *options: str) -> int:
        """Run a batch to its end, and return the exit code."""
        return self.start(*options).wait(PATIENCE_S)

    def resume(self, *options: str) -> int:
        """Resume the batch to its end, and return the exit code."""
        return self.run("--resume", str(self.out), *options)

    def printed(self) -> str:
        """Return what the last batch printed."""
        return (self.folder / "printed.txt").read_text()

    def wait_for_ends(self, count: int) -> None:
        """Wait until so many runs have ended."""
        log = self.out / "runs.jsonl"
        until = time.monotonic() + PATIENCE_S
        while not log.exists() or log.read_text().count('"type":"ended"') < count:
            assert time.monotonic() < until, self.printed()
            assert self.process is not None
            assert self.process.poll() is None, self.printed()
            time.sleep(0.05)

    def executions(self) -> Counter[int]:
        """Return how often each run was executed."""
        return Counter(map(int, (self.folder / "ran.txt").read_text().split()))

    def outcomes(self) -> dict[int, str]:
        """Return the outcome of each run that is in the log."""
        found: dict[Any, str] = {
            each.parameters["n"]: each.outcome for each in BatchFolder(self.out).runs()
        }
        return found

    def numbers(self, outcome: str) -> set[int]:
        """Return the runs with this outcome."""
        return {n for n, each in self.outcomes().items() if each == outcome}

    def done(self) -> dict[int, tuple[int, bytes]]:
        """Return time and bytes of the notebook of each run that passed. All can be read."""
        found = {}
        for state in BatchFolder(self.out).runs():
            if state.outcome != "passed":
                continue
            path = self.out / state.output
            cells = nbformat.read(path, as_version=4).cells
            assert cells[-1].outputs[-1].text == f"end {state.parameters['n']}\n"
            found[state.parameters["n"]] = (path.stat().st_mtime_ns, path.read_bytes())
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose kernels have ended after the test, however it ends."""
    yield tmp_path
    wait_for_kernels(tmp_path)


def wait_for_kernels(folder: Path) -> None:
    """Wait until no process works in `folder`."""
    until = time.monotonic() + 30
    while left := list_processes(folder):
        assert time.monotonic() < until, f"processes are left: {left}"
        time.sleep(0.1)


def list_processes(folder: Path) -> list[int]:
    """Return the processes that work in `folder`."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(path / "cwd") == str(folder):
                found.append(int(path.name))
        except OSError:
            continue
    return found


def check_rest(runs: ManyRuns, before: dict[int, tuple[int, bytes]], *options: str) -> None:
    """Resume, and check that nothing was lost, and that nothing ran twice that was done."""
    wait_for_kernels(runs.folder)
    executed = runs.executions()
    assert runs.resume(*options) == 0, runs.printed()
    assert runs.outcomes() == dict.fromkeys(range(COUNT), "passed")

    after = runs.done()
    assert {n: after[n] for n in before} == before
    again = runs.executions() - executed
    assert again == Counter(set(range(COUNT)) - set(before)), "each of the rest ran once"


@pytest.mark.req("BATCH-28")
@pytest.mark.parametrize("options", [POOL, FORKED], ids=["pool", "forked"])
def test_killed_kernels_fail_their_runs_alone(folder: Path, options: tuple[str, ...]) -> None:
    runs = ManyRuns(folder, "kernel", 7, 8, 30)
    assert runs.run(*options) == 1
    assert runs.numbers("failed") == {7, 8, 30}
    before = runs.done()
    assert len(before) == COUNT - 3
    assert runs.executions() == Counter(range(COUNT))

    assert runs.resume(*options) == 1, "failed runs are done"
    assert runs.executions() == Counter(range(COUNT))
    check_rest(runs, before, "--failed", *options)


@pytest.mark.req("BATCH-21", "BATCH-28")
@pytest.mark.parametrize(
    ("fault", "options"),
    [("worker", POOL), ("dask worker", CLUSTER)],
    ids=["pool", "cluster"],
)
def test_killed_workers_leave_the_ends_of_their_runs_unknown(
    folder: Path, fault: str, options: tuple[str, ...]
) -> None:
    runs = ManyRuns(folder, fault, 7, 30)
    assert runs.run(*options) == 1
    assert runs.numbers("unknown") == {7, 30}
    before = runs.done()
    assert len(before) == COUNT - 2
    assert runs.executions() == Counter(range(COUNT)), "no run is repeated"
    check_rest(runs, before, *options)


@pytest.mark.req("BATCH-28")
@pytest.mark.parametrize("options", [POOL, FORKED, CLUSTER], ids=["pool", "forked", "cluster"])
def test_killed_batch_is_continued(folder: Path, options: tuple[str, ...]) -> None:
    runs = ManyRuns(folder)
    batch = runs.start(*options)
    runs.wait_for_ends(20)
    batch.kill()
    batch.wait()
    before = runs.done()
    assert 20 <= len(before) < COUNT
    assert runs.numbers("passed") | runs.numbers("unknown") == set(runs.outcomes())
    check_rest(runs, before, *options)


@pytest.mark.req("BATCH-9", "BATCH-24", "BATCH-28")
@pytest.mark.parametrize("options", [POOL, FORKED, CLUSTER], ids=["pool", "forked", "cluster"])
def test_two_ctrl_c_lose_no_run_that_was_done(folder: Path, options: tuple[str, ...]) -> None:
    runs = ManyRuns(folder)
    batch = runs.start(*options)
    runs.wait_for_ends(20)
    batch.send_signal(signal.SIGINT)
    batch.send_signal(signal.SIGINT)  # may be one with the first
    time.sleep(0.1)
    batch.send_signal(signal.SIGINT)
    assert batch.wait(PATIENCE_S) == 130, runs.printed()
    before = runs.done()
    assert 20 <= len(before) < COUNT
    assert set(runs.outcomes().values()) <= {"passed", "interrupted"}
    check_rest(runs, before, *options)


@pytest.mark.req("BATCH-11", "BATCH-30")
def test_notebooks_that_hang_do_not_hold_the_others(folder: Path) -> None:
    runs = ManyRuns(folder, "hang", 7, 8)
    assert runs.run(*FORKED, "--timeout", f"{LIMIT_S:g}") == 1
    assert runs.numbers("failed") == {7, 8}
    before = runs.done()
    assert len(before) == COUNT - 2
    check_rest(runs, before, "--failed", *FORKED)


@pytest.mark.req("BATCH-29")
def test_full_disk_stops_the_batch_until_there_is_space(folder: Path) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if sys.platform != "linux" or os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("no file system can be mounted")
    try:
        runs = ManyRuns(folder)
        runs.out = disk / "OUT"
        runs.start(*FORKED)
        runs.wait_for_ends(20)
        filler = disk / "filler"
        fill(filler)
        assert runs.process is not None
        assert runs.process.wait(PATIENCE_S) == 1, runs.printed()
        assert "No space left on device: no further run starts" in runs.printed()
        before = runs.done()
        assert 20 <= len(before) < COUNT

        filler.unlink()
        check_rest(runs, before, "--failed", *FORKED)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(path: Path) -> None:
    """Write to `path` until the disk is full."""
    with open(path, "wb", buffering=0) as file:
        for size in (65536, 512, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


@pytest.mark.req("BATCH-14")
def test_a_429_holds_all_runs_and_fails_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = ManyRuns(folder)
    load = LOAD.format(protocol="anthropic")
    runs.write(load, "%%jp\nRun {{n}}.", f"faulty, fault = (), print\n{ONCE}\nprint('end', n)")
    times: list[float] = []
    refused: list[float] = []

    def refuse_some(request: Received) -> Reply:
        times.append(time.monotonic())
        if len(times) in (10, 30):
            refused.append(times[-1])
            return Reply(status=429, headers={"retry-after": "5"})
        return Reply(text="Seen.")

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with LoopbackServer(refuse_some) as server:
        monkeypatch.setenv("JP_CFG_PROVIDERS__LLM__ANTHROPIC__BASE_URL", server.url)
        assert runs.run(*FORKED) == 0, runs.printed()
    assert len(times) == COUNT + 2
    for refusal in refused:
        # One request may have passed the check just before the answer arrived.
        assert sum(refusal < each < refusal + 4.5 for each in times) <= 1
    assert runs.executions() == Counter(range(COUNT))

    assert runs.resume(*FORKED) == 0
    assert runs.executions() == Counter(range(COUNT))
