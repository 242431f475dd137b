"""A batch with workers that run nothing: log, skipped runs, reasons to stop, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

import jp_nb as jp
from tests.kit.batches import BatchBench
from tests.support.notebook_runs import write_cells


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchBench:
    monkeypatch.chdir(tmp_path)
    write_cells(tmp_path / "walk.ipynb", "1")
    (tmp_path / "n.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(1, 6)))
    return BatchBench(tmp_path)


START = ("walk.ipynb", "--each", "n.csv", "--workers", "1", "-o", "OUT")


def numbers(runs: list[str]) -> list[int]:
    """Return the parameter `n` of each run."""
    return [int(run.split("n=")[1].split("-")[0]) for run in runs]


@pytest.mark.req("BATCH-4")
def test_each_run_has_a_notebook_and_a_state(bench: BatchBench) -> None:
    assert bench.run(*START) == 0
    assert numbers(bench.ran) == [1, 2, 3, 4, 5]
    assert bench.states() == dict.fromkeys(bench.ran, "passed")
    outputs = {path.stem for path in (bench.folder / "OUT").glob("*.ipynb")}
    assert outputs == {*bench.ran}


@pytest.mark.req("BATCH-8")
@pytest.mark.parametrize(
    ("options", "started"), [(["-x"], 2), (["--max-failures", "2"], 3), ([], 5)]
)
def test_failures_stop_the_start_of_further_runs(
    bench: BatchBench, options: list[str], started: int
) -> None:
    bench.outcomes = {"n=2": "failed", "n=3": "failed"}
    assert bench.run(*START, *options) == 1
    assert len(bench.ran) == started


@pytest.mark.req("BATCH-8", "INBOX-7")
def test_exit_code_of_waiting_runs(bench: BatchBench) -> None:
    bench.outcomes = {"n=2": "waiting"}
    assert bench.run(*START) == 0
    assert bench.run("--resume", "OUT") == 0
    assert bench.run("--resume", "OUT", "--strict") == 1
    assert len(bench.ran) == 5


@pytest.mark.req("BATCH-10")
def test_resume_runs_what_is_not_done(bench: BatchBench) -> None:
    bench.outcomes = {"n=1": "failed", "n=2": "waiting", "n=3": "interrupted"}
    bench.died = {"n=4"}
    assert bench.run(*START) == 1
    assert [*bench.states().values()] == ["failed", "waiting", "interrupted", "unknown", "passed"]

    bench.ran.clear()
    bench.outcomes = {}
    bench.died = set()
    assert bench.run("--resume", "OUT", "--workers", "1") == 1, "one run is still failed"
    assert numbers(bench.ran) == [3, 4]

    bench.ran.clear()
    assert bench.run("--resume", "OUT", "--failed", "--workers", "1") == 0
    assert numbers(bench.ran) == [1]


@pytest.mark.req("BATCH-10")
def test_resume_runs_again_what_lost_its_notebook_or_is_named(bench: BatchBench) -> None:
    bench.run(*START)
    [lost] = (bench.folder / "OUT").glob("*n=4*")
    lost.unlink()
    bench.ran.clear()
    assert bench.run("--resume", "OUT", "--workers", "1", "--rerun", "*n=[12]*") == 0
    assert numbers(bench.ran) == [1, 2, 4]


@pytest.mark.req("BATCH-10")
def test_resume_repeats_the_options_of_the_batch(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.outcomes = {"n=": "interrupted"}
    bench.run(*START, "--models", "a/b", "-p", "m", "1")
    first = [*bench.ran]
    bench.ran.clear()
    bench.outcomes = {}
    monkeypatch.chdir("/")
    bench.run("--resume", bench.folder / "OUT", "--workers", "1")
    assert bench.ran == first


@pytest.mark.req("BATCH-3", "BATCH-15")
def test_recording_does_not_change_the_ids_of_runs(bench: BatchBench) -> None:
    bench.run(*START)
    (bench.folder / "walk.cassette.jsonl").write_text("recorded")
    bench.ran.clear()
    assert bench.run("--resume", "OUT") == 0
    assert bench.ran == []


def test_changed_notebook_runs_again(bench: BatchBench) -> None:
    bench.run(*START)
    write_cells(bench.folder / "walk.ipynb", "2")
    bench.ran.clear()
    bench.run("--resume", "OUT")
    assert len(bench.ran) == 5


def test_repeated_set_runs_once(bench: BatchBench, capsys: pytest.CaptureFixture[str]) -> None:
    (bench.folder / "n.csv").write_text("n\n1\n1\n2\n1\n")
    bench.run(*START)
    assert numbers(bench.ran) == [1, 2]
    assert "2 repeated sets of parameters ran once" in capsys.readouterr().err


@pytest.mark.req("BATCH-14")
def test_reached_token_budget_starts_no_further_run(
    bench: BatchBench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.fields = {"tokens": {"input": 90, "output": 20}}
    assert bench.run(*START, "--max-total-tokens", "200") == 1
    assert numbers(bench.ran) == [1, 2]
    assert [*bench.states().values()] == ["passed"] * 2 + ["over_budget"] * 3
    assert "the batch has used 220 tokens, its budget" in capsys.readouterr().err

    bench.ran.clear()
    assert bench.run("--resume", "OUT", "--workers", "1") == 0
    assert numbers(bench.ran) == [3, 4, 5]


@pytest.mark.req("BATCH-29")
def test_full_disk_stops_the_batch(bench: BatchBench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.outcomes = {"n=": "failed"}
    bench.fatal = "OUT/x.ipynb cannot be written: No space left on device"
    assert bench.run(*START) == 1
    assert len(bench.ran) == 1
    assert "No space left on device: no further run starts" in capsys.readouterr().err


@pytest.mark.req("BATCH-4")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["walk.ipynb", "-p", "n", "1"], "-o OUT/"),
        (["walk.ipynb", "-p", "n", "1", "-o", "x.ipynb"], "no folder"),
        (["walk.ipynb", "-o", "OUT", "--failed"], "--resume"),
        (["--resume", "none"], "no folder"),
        (["-o", "OUT", "--workers", "2"], "name a notebook"),
        (["walk.ipynb", "-p", "n", "1", "-o", "OUT", "--json", "x.json"], "report.json"),
        (["walk.ipynb", "--models", "a,,b", "-o", "OUT"], "--models"),
    ],
)
def test_wrong_options_run_nothing(bench: BatchBench, arguments: list[str], message: str) -> None:
    with pytest.raises(jp.UsageError, match=message):
        bench.run(*arguments)
    assert bench.ran == []
