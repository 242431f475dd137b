"""Faults while a batch runs: nothing that was done is lost, and nothing outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.cli import main
from tests.kit.batch_folders import BatchFolder
from tests.kit.batches import BatchBench
from tests.support.notebook_runs import write_cells

pytestmark = pytest.mark.runners

WAIT = "import os, time; open(f'{pid}.pid', 'w').write(str(os.getpid())); time.sleep(600)"
PATIENCE_S = 90.0


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.05)
    pytest.fail(f"{what} did not happen in {seconds} s")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def get_parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


class RunningBatch:
    """`jp-nb run` of `walk.ipynb` in a process, with two runs that wait and two that follow."""

    def __init__(self, folder: Path, *, is_written: bool = False) -> None:
        """Start it; `is_written` if the notebook and its parameters are there already."""
        self.folder = folder
        if not is_written:
            self._write()
        self.process = self.start("walk.ipynb", "--each", "pids.csv", "-o", "OUT")

    def _write(self) -> None:
        folder = self.folder
        cells = ["pid = 0", "print('begun')", f"if pid < 3:\n    {WAIT}"]
        path = write_cells(folder / "walk.ipynb", *cells)
        text = path.read_text()
        path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))
        (folder / "pids.csv").write_text("pid\n3\n1\n2\n4\n")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "jp_nb.cli", "run", *arguments, "--workers", "2"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def wait_until_two_run(self) -> list[int]:
        """Return the process ids of the two kernels that wait."""
        paths = [self.folder / "1.pid", self.folder / "2.pid"]
        wait_for(lambda: all(path.exists() and path.read_text() for path in paths), "two runs")
        return [int(path.read_text()) for path in paths]

    def end(self) -> str:
        """Wait for the end of the batch, and return what it printed."""
        _, printed = self.process.communicate(timeout=PATIENCE_S)
        return printed.decode()

    def close(self) -> None:
        """Kill the batch if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def outcomes(self) -> dict[int, str]:
        """Return the outcome of each run by its parameter."""
        states = BatchFolder(self.folder / "OUT").runs()
        found: dict[Any, str] = {each.parameters["pid"]: each.outcome for each in states}
        return found


@pytest.fixture
def batch(tmp_path: Path) -> Iterator[RunningBatch]:
    running = RunningBatch(tmp_path)
    yield running
    running.close()


@pytest.mark.req("BATCH-28", "BATCH-31")
def test_killed_batch_leaves_no_kernel_and_is_resumed(
    batch: RunningBatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = batch.wait_until_two_run()
    assert main(["run", "--resume", str(batch.folder / "OUT")]) == 2
    assert f"(process {batch.process.pid} on " in capsys.readouterr().err

    batch.process.kill()
    batch.end()
    wait_for(lambda: not any(map(is_running, kernels)), "the end of the kernels", 30)
    assert batch.outcomes() == {3: "passed", 1: "unknown", 2: "unknown"}
    finished = (batch.folder / "OUT").glob("walk-pid=3-*.ipynb")
    [before] = [path.stat().st_mtime_ns for path in finished]

    cells = nbformat.read(batch.folder / "walk.ipynb", as_version=4).cells
    assert len(cells) == 3
    batch.process = batch.start("--resume", "OUT", "--timeout", "4")
    printed = batch.end()
    assert batch.process.returncode == 1, printed
    assert batch.outcomes() == {3: "passed", 1: "failed", 2: "failed", 4: "passed"}
    finished = (batch.folder / "OUT").glob("walk-pid=3-*.ipynb")
    assert [path.stat().st_mtime_ns for path in finished] == [before], "it did not run again"


@pytest.mark.req("BATCH-28", "BATCH-5")
def test_killed_kernel_or_worker_costs_one_run(batch: RunningBatch) -> None:
    one, two = batch.wait_until_two_run()
    os.kill(one, signal.SIGKILL)
    os.kill(get_parent(two), signal.SIGKILL)

    printed = batch.end()
    assert batch.process.returncode == 1
    assert batch.outcomes() == {3: "passed", 1: "failed", 2: "unknown", 4: "passed"}
    assert "DeadKernelError" in printed
    assert "the worker process ended (signal SIGKILL)" in printed
    wait_for(lambda: not is_running(two), "the end of the worker's kernel", 30)


@pytest.mark.req("BATCH-9")
def test_ctrl_c_ends_the_batch_with_partial_notebooks(batch: RunningBatch) -> None:
    kernels = batch.wait_until_two_run()
    batch.process.send_signal(signal.SIGINT)
    printed = batch.end()
    assert batch.process.returncode == 130, printed
    assert batch.outcomes() == {3: "passed", 1: "interrupted", 2: "interrupted"}
    for state in BatchFolder(batch.folder / "OUT").runs():
        outputs = nbformat.read(batch.folder / "OUT" / state.output, as_version=4).cells[2].outputs
        assert [each.text for each in outputs] == ["begun\n"]
    assert not any(map(is_running, kernels))


@pytest.mark.req("BATCH-9")
def test_sigterm_ends_the_batch_as_ctrl_c_does(batch: RunningBatch) -> None:
    kernels = batch.wait_until_two_run()
    batch.process.send_signal(signal.SIGTERM)
    printed = batch.end()
    assert batch.process.returncode == 128 + signal.SIGTERM, printed
    assert "SIGTERM again kills them" in printed
    assert batch.outcomes() == {3: "passed", 1: "interrupted", 2: "interrupted"}
    for state in BatchFolder(batch.folder / "OUT").runs():
        outputs = nbformat.read(batch.folder / "OUT" / state.output, as_version=4).cells[2].outputs
        assert [each.text for each in outputs] == ["begun\n"]
    assert (batch.folder / "OUT/report.html").is_file()
    assert not any(map(is_running, kernels))


IGNORE = """
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
if pid == 2:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(f'{pid}.pid', 'w').write(str(os.getpid()))
time.sleep(600)
"""


@pytest.mark.req("BATCH-9")
def test_kernel_that_ignores_signals_gets_sigterm_after_5_s_and_is_killed_after_10_s(
    tmp_path: Path,
) -> None:
    path = write_cells(tmp_path / "walk.ipynb", "pid = 0", "print('begun')", IGNORE)
    text = path.read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))
    (tmp_path / "pids.csv").write_text("pid\n1\n2\n")
    batch = RunningBatch(tmp_path, is_written=True)
    try:
        one, two = batch.wait_until_two_run()
        start = time.monotonic()
        batch.process.send_signal(signal.SIGINT)
        wait_for(lambda: not is_running(one), "the end of the kernel that ignores SIGINT", 30)
        after_sigterm = time.monotonic() - start
        wait_for(lambda: not is_running(two), "the end of the kernel that ignores SIGTERM", 30)
        after_kill = time.monotonic() - start
        printed = batch.end()
    finally:
        batch.close()
    assert 4.5 < after_sigterm < 9
    assert 9.5 < after_kill < 16
    assert batch.process.returncode == 130, printed
    assert batch.outcomes() == {1: "interrupted", 2: "interrupted"}


@pytest.mark.req("BATCH-9")
def test_worker_that_does_not_answer_is_killed_12_s_after_ctrl_c(batch: RunningBatch) -> None:
    one, two = batch.wait_until_two_run()
    worker = get_parent(two)
    os.kill(worker, signal.SIGSTOP)
    try:
        start = time.monotonic()
        batch.process.send_signal(signal.SIGINT)
        wait_for(lambda: not is_running(worker), "the end of the worker", 30)
        after_kill = time.monotonic() - start
    finally:
        if is_running(worker):
            os.kill(worker, signal.SIGCONT)

    printed = batch.end()
    assert 11.5 < after_kill < 18
    assert batch.process.returncode == 130, printed
    assert batch.outcomes() == {3: "passed", 1: "interrupted", 2: "interrupted"}
    wait_for(lambda: not any(map(is_running, (one, two))), "the end of the kernels", 30)


INTERRUPTED_IMPORT = """
import os, signal, sys, time
from jp_nb.cli import main

class Finder:
    def find_spec(self, name, *_):
        if name == "jp_nb.batch.batch_command":
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
            except KeyboardInterrupt:  # as the import system may lose it
                print("lost", file=sys.stderr)

sys.meta_path.insert(0, Finder())
sys.exit(main(["run", "none.ipynb", "-p", "x", "1", "-o", "OUT"]))
"""


@pytest.mark.req("BATCH-9")
def test_ctrl_c_while_modules_load_ends_the_command_without_a_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "jp-nb: interrupted\n")


@pytest.mark.req("BATCH-9")
def test_ctrl_c_before_a_run_begins_interrupts_it(tmp_path: Path) -> None:
    write_cells(tmp_path / "walk.ipynb", "open('ran', 'w')")
    [spec] = BatchBench(tmp_path).plan(tmp_path / "walk.ipynb")
    with subprocess.Popen(
        [sys.executable, "-m", "jp_nb.batch.workers.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(f"{json.dumps(spec)}\ninterrupt\n")
        worker.stdin.flush()
        assert '"outcome":"interrupted"' in worker.stdout.readline()

        _, printed = worker.communicate(timeout=PATIENCE_S)
    assert (worker.returncode, printed) == (0, "")
    assert not (tmp_path / "ran").exists()


@pytest.mark.req("BATCH-9")
def test_second_ctrl_c_ends_the_batch_at_once(tmp_path: Path, batch: RunningBatch) -> None:
    kernels = batch.wait_until_two_run()
    for kernel in kernels:
        os.kill(kernel, signal.SIGSTOP)  # it cannot end by itself
    batch.process.send_signal(signal.SIGINT)
    assert batch.process.stderr is not None
    line = b""
    while b"interrupted" not in line:
        line = batch.process.stderr.readline()
    start = time.monotonic()
    batch.process.send_signal(signal.SIGINT)
    batch.end()
    assert batch.process.returncode == 130
    assert time.monotonic() - start < 5
    wait_for(lambda: not any(map(is_running, kernels)), "the end of the kernels", 30)
    assert batch.outcomes() == {3: "passed", 1: "interrupted", 2: "interrupted"}


@pytest.mark.req("BATCH-11", "BATCH-30")
def test_notebooks_without_manners_are_bounded_ended_and_named(tmp_path: Path) -> None:
    stay = "import sys; from subprocess import Popen; wait = 'import time; time.sleep(600)'"
    forks = "[Popen([sys.executable, '-c', wait], start_new_session=new).pid for new in (0, 1)]"
    write_cells(tmp_path / "forks.ipynb", stay, f"print(*{forks})")
    write_cells(tmp_path / "prints.ipynb", "for _ in range(40): print('x' * 1_000_000)", "1 / 0")
    write_cells(tmp_path / "changes.ipynb", "open('changes.ipynb', 'a').write(' ')")
    deaf = "import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])"
    write_cells(tmp_path / "hangs.ipynb", f"{deaf}\ntime.sleep(600)")

    arguments = [str(tmp_path), "-o", str(tmp_path / "OUT"), "--timeout", "20", "--workers", "2"]
    assert main(["run", *arguments]) == 1
    states = {each.notebook: each for each in BatchFolder(tmp_path / "OUT").runs()}

    [warning] = states["forks.ipynb"].warnings
    assert "that had to be ended: python" in warning
    notebook = nbformat.read(tmp_path / "OUT" / states["forks.ipynb"].output, as_version=4)
    assert not any(is_running(int(pid)) for pid in notebook.cells[1].outputs[0].text.split())

    assert "cell 1 has more than 20,000,000 characters" in states["prints.ipynb"].warnings[0]
    assert (tmp_path / "OUT" / states["prints.ipynb"].output).stat().st_size < 25_000_000
    assert "ZeroDivisionError" in states["prints.ipynb"].failed_cells[0].error

    assert "file changed during the run" in states["changes.ipynb"].warnings[0]
    assert "limit of each cell" in states["hangs.ipynb"].failed_cells[0].error


@pytest.mark.req("BATCH-30")
def test_changed_notebook_does_not_run_with_the_old_id(tmp_path: Path) -> None:
    write_cells(tmp_path / "a.ipynb", "open('b.ipynb', 'a').write(' ')")
    write_cells(tmp_path / "b.ipynb", "1")
    assert main(["run", str(tmp_path), "-o", str(tmp_path / "OUT"), "--workers", "1"]) == 1
    states = {each.notebook: each for each in BatchFolder(tmp_path / "OUT").runs()}
    assert "has changed since the batch began" in states["b.ipynb"].failed_cells[0].error


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with 600 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)]
    if (
        sys.platform != "linux"
        or os.geteuid() != 0
        or subprocess.run(mount, check=False).returncode
    ):
        pytest.skip("no file system can be mounted")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.req("BATCH-29")
def test_full_disk_fails_the_run_and_starts_no_further_one(
    tmp_path: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_cells(tmp_path / "walk.ipynb", "n = 0", "print('x' * n)")
    text = path.read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))
    (tmp_path / "n.csv").write_text("n\n1\n900000\n3\n")
    out = small_disk / "OUT"
    arguments = [str(path), "--each", str(tmp_path / "n.csv"), "-o", str(out), "--workers", "1"]
    assert main(["run", *arguments]) == 1
    assert "No space left on device: no further run starts" in capsys.readouterr().err

    states = BatchFolder(out).runs()
    assert [(each.parameters["n"], each.outcome) for each in states] == [
        (1, "passed"),
        (900000, "failed"),
    ]
    assert "No space left on device" in states[1].failed_cells[0].error
    assert len(nbformat.read(out / states[0].output, as_version=4).cells) == 3
    assert [path.name for path in out.glob("*.ipynb")] == [states[0].output]
