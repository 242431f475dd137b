"""Batches with real workers and kernels."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import nbformat
import pytest

from tests.kit.batch_folders import BatchFolder
from tests.support.notebook_runs import run, write_cells

pytestmark = pytest.mark.runners


def batch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `jp-nb run` in `folder`."""
    return run(["-m", "jp_nb.cli", "run", *arguments], folder)


def printed(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "".join(each.text for cell in cells for each in cell.outputs if "text" in each)


@pytest.mark.req("BATCH-2", "BATCH-4", "BATCH-5", "BATCH-6", "BATCH-8")
def test_parameter_sets_run_on_two_workers_and_a_failure_is_resumed(tmp_path: Path) -> None:
    where = "import os; print(city, days, os.getpid(), os.getppid())"
    path = write_cells(tmp_path / "walk.ipynb", "city, days = '', 0", where, "assert city != 'Bad'")
    text = path.read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))
    before = path.read_bytes()
    (tmp_path / "each.csv").write_text("city,days\nDelft,1\nBad,9\nGouda,03\nEdam,2\n")

    done = batch(tmp_path, "walk.ipynb", "--each", "each.csv", "--workers", "2", "-o", "OUT/")
    assert done.returncode == 1, done.stderr
    assert "failed walk-city=Bad-days=9-" in done.stderr

    assert path.read_bytes() == before
    states = {state.parameters["city"]: state for state in BatchFolder(tmp_path / "OUT").runs()}
    assert {city: each.outcome for city, each in states.items()} == {
        "Delft": "passed", "Bad": "failed", "Gouda": "passed", "Edam": "passed",
    }  # fmt: skip
    assert states["Bad"].failed_cells[0].error.startswith("AssertionError")

    lines = [printed(tmp_path / "OUT" / each.output).split() for each in states.values()]
    assert {(city, days) for city, days, *_ in lines} == {
        ("Delft", "1"), ("Bad", "9"), ("Gouda", "03"), ("Edam", "2"),
    }  # fmt: skip
    assert len({kernel for *_, kernel, _ in lines}) == 4, "each run has a kernel of its own"
    assert len({worker for *_, worker in lines}) == 2, "workers are used again"

    done = batch(tmp_path, "--resume", "OUT", "--failed", "-x")
    assert done.returncode == 1
    assert "3 passed" in done.stderr
    log = (tmp_path / "OUT/runs.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["type"] == "started" for line in log) == 5


@pytest.mark.req("BATCH-14")
def test_requests_and_tokens_of_a_run_are_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "hello.toml").write_text('[[replies]]\ntext = "Hello."\n')
    ask = "%%jp -m scripted/hello\nHello?"
    write_cells(tmp_path / "talk.ipynb", "%load_ext jp_nb", ask)
    done = batch(tmp_path, "talk.ipynb", "-o", "OUT/", "--max-concurrent-requests", "scripted=1")
    assert done.returncode == 0, done.stderr
    [state] = BatchFolder(tmp_path / "OUT").runs()
    assert state.requests == 1
