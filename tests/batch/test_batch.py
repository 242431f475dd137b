"""A batch with workers that run nothing: log, skipped runs, reasons to stop, exit codes."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import jp_nb as jp
from jp_nb.cli import main
from tests.batch.log_lines import asked_question
from tests.kit.batch_folders import BatchFolder
from tests.kit.batches import BatchBench
from tests.support.notebook_runs import write_cells


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchBench:
    monkeypatch.chdir(tmp_path)
    path = write_cells(tmp_path / "walk.ipynb", "n = 0")
    text = path.read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}', 1))
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


def report(bench: BatchBench) -> dict[str, int]:
    """Return the number of runs of each outcome in the report of the last batch."""
    content = json.loads((bench.folder / "OUT/report.json").read_text())
    outcomes: dict[str, int] = content["totals"]["outcomes"]
    return outcomes


@pytest.mark.req("BATCH-4", "BATCH-10", "INBOX-7")
def test_runs_of_an_earlier_version_of_a_notebook_no_longer_count(
    bench: BatchBench, capsys: pytest.CaptureFixture[str]
) -> None:
    question = asked_question("publish", "to", "To whom?")
    bench.outcomes = {"n=1": "failed", "n=2": "waiting"}
    bench.fields = {"open_decisions": [question]}
    junit = bench.folder / "far/junit.xml"
    assert bench.run(*START, "--junit", junit) == 1
    first = [*bench.ran]
    suite = ElementTree.parse(junit).getroot()[0]
    assert [len(suite.findall(f"*/{tag}")) for tag in ("failure", "skipped")] == [1, 1]
    assert report(bench) == {"failed": 1, "passed": 3, "waiting": 1}

    path = bench.folder / "walk.ipynb"
    before = path.read_text()
    path.write_text(before.replace("n = 0", "n = 3"))
    bench.outcomes, bench.fields = {}, {}
    capsys.readouterr()
    assert bench.run("--resume", "OUT", "--junit", junit) == 0
    assert "5 runs of changed notebooks or removed parameters" in capsys.readouterr().err
    assert report(bench) == {"passed": 5}
    suite = ElementTree.parse(junit).getroot()[0]
    assert len(suite) == 5
    assert not suite.findall("*/failure")
    bench.folder.joinpath("OUT").chmod(0o700)
    assert not BatchFolder(bench.folder / "OUT").inbox().groups
    assert not {*first} & {*bench.states()}

    path.write_text(before)
    bench.ran.clear()
    assert bench.run("--resume", "OUT") == 1, "the earlier version is back, with its results"
    assert bench.ran == []
    assert report(bench) == {"failed": 1, "passed": 3, "waiting": 1}


@pytest.mark.req("BATCH-10")
def test_new_batch_in_the_folder_replaces_runs_of_the_same_parameters(bench: BatchBench) -> None:
    bench.outcomes = {"n=": "failed"}
    bench.run(*START)
    path = bench.folder / "walk.ipynb"
    path.write_text(path.read_text().replace("n = 0", "n = 3"))
    (bench.folder / "n.csv").write_text("n\n1\n2\n")
    bench.outcomes = {}
    assert bench.run(*START) == 0
    assert report(bench) == {"failed": 3, "passed": 2}, "the other three were not replaced"


@pytest.mark.req("BATCH-10")
def test_sets_that_a_resumed_batch_does_not_have_no_longer_count(bench: BatchBench) -> None:
    bench.outcomes = {"n=1": "failed", "n=5": "waiting"}
    bench.run(*START)
    (bench.folder / "n.csv").write_text("n\n2\n3\n4\n6\n")
    bench.ran.clear()
    assert bench.run("--resume", "OUT") == 0
    assert numbers(bench.ran) == [6]
    assert report(bench) == {"passed": 4}


@pytest.mark.req("BATCH-4")
def test_other_batches_in_one_folder_keep_their_runs(bench: BatchBench) -> None:
    for number in ("1", "2"):
        bench.run("walk.ipynb", "-p", "n", number, "-o", "OUT")
    for place in ("near", "far"):
        write_cells(bench.folder / place / "talk.ipynb", place)
        bench.run(f"{place}/talk.ipynb", "--order", "given", "-o", "OUT")
    assert report(bench) == {"passed": 4}

    bench.run("--resume", "OUT")
    assert report(bench) == {"passed": 4}


@pytest.mark.req("BATCH-10", "INBOX-14")
def test_patterns_and_answers_that_fit_no_run_are_named(
    bench: BatchBench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.outcomes = {"n=1": "waiting"}
    bench.fields = {"open_decisions": [asked_question("publish", "to", "To whom?")]}
    bench.run(*START)
    capsys.readouterr()
    bench.ran.clear()
    answers = '[questions.publsh]\nto = "a"\n[runs.walk-nope.questions.publish]\nto = "a"\n'
    (bench.folder / "typo.toml").write_text(answers)

    patterns = ("--rerun", "zzz*", "--rerun", "*n=5-*")
    bench.run("--resume", "OUT", "--answers", "typo.toml", *patterns)
    assert numbers(bench.ran) == [5]
    told = capsys.readouterr().err
    assert "--rerun zzz*: no run has such an id" in told
    assert "*n=5-*: no run" not in told
    assert "the answers file has answers for walk-nope: no such run" in told

    assert bench.run("--resume", "OUT", "--answers", "typo.toml") == 0
    told = capsys.readouterr().err
    assert "typo.toml, line 2: questions.publsh.to was not used: no run asked for it" in told


@pytest.mark.req("INBOX-14")
def test_answer_that_an_earlier_run_has_used_is_not_named(
    bench: BatchBench, capsys: pytest.CaptureFixture[str]
) -> None:
    (bench.folder / "a.toml").write_text('[questions.publish]\nto = "a"\n')
    bench.fields = {"used_answers": [["questions", "publish", "to"]]}
    bench.run(*START, "--answers", "a.toml")
    bench.run("--resume", "OUT")
    assert "was not used" not in capsys.readouterr().err


@pytest.mark.req("BATCH-12", "INBOX-3")
def test_answer_that_does_not_fit_is_explained_at_once(
    bench: BatchBench, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "a.toml, line 2: the answer to 'to' is none of the options"
    bench.outcomes = {"n=": "waiting"}
    asked = {**asked_question("publish", "to", "To whom?"), "why": why}
    bench.fields = {"open_decisions": [asked], "used_answers": [["questions", "publish", "to"]]}
    bench.run(*START)
    lines = capsys.readouterr().err.splitlines()
    assert lines.count(f"jp-nb:   {why}") == 5

    assert main(["inbox", str(bench.folder / "OUT"), "--list"]) == 0
    assert f"the last answer did not fit: {why}" in capsys.readouterr().out


@pytest.mark.req("INBOX-6")
def test_answer_that_did_not_fit_is_not_tried_again_until_it_changes(
    bench: BatchBench, capsys: pytest.CaptureFixture[str]
) -> None:
    file = bench.folder / "a.toml"
    file.write_text('[questions.publish]\nto = "nobody"\n')
    [answer] = bench.read_answers(file)
    bench.outcomes = {"n=2": "waiting", "n=4": "waiting"}
    bench.fields = {
        "open_decisions": [asked_question("publish", "to", "To whom?")],
        "used_answers": [answer.identity],
        "tried_answers": [answer.digest],
    }
    bench.run(*START, "--answers", "a.toml")
    first, second = bench.ran[1], bench.ran[3]
    told = capsys.readouterr().err
    assert "did not run again" not in told

    bench.ran.clear()
    resumed = ("--resume", "OUT", "--answers", "a.toml", "--workers", "1")
    assert bench.run(*resumed) == 0
    assert bench.ran == []
    told = capsys.readouterr().err
    assert "2 waiting runs did not run again, because the answers did not fit and have" in told
    assert f"{first} and 1 more. `jp-nb inbox " in told

    bench.run(*resumed, "--rerun", first)
    assert bench.ran == [first], "the user asks for it"

    bench.ran.clear()
    file.write_text(f'{file.read_text()}[runs."{second}".questions.publish]\nto = "team"\n')
    bench.run(*resumed)
    assert bench.ran == [second], "it has an answer of its own"

    bench.ran.clear()
    file.write_text('[questions.publish]\nto = "all"\n')
    bench.run(*resumed)
    assert bench.ran == [first, second], "the answer has changed"


@pytest.mark.req("INBOX-6", "INBOX-8")
@pytest.mark.parametrize(
    "text", ['{ env = "TO" }', '{ team = "a", token = { env = "TO" } }'], ids=["answer", "field"]
)
def test_answer_in_a_variable_is_always_tried_again(bench: BatchBench, text: str) -> None:
    file = bench.folder / "a.toml"
    file.write_text(f"[questions.publish]\nto = {text}\n")
    [answer] = bench.read_answers(file)
    assert answer.digest == ""
    bench.outcomes = {"n=2": "waiting"}
    bench.fields = {
        "open_decisions": [asked_question("publish", "to", "To whom?")],
        "used_answers": [["questions", "publish", "to"]],
    }
    bench.run(*START, "--answers", "a.toml")
    bench.ran.clear()
    bench.run("--resume", "OUT", "--answers", "a.toml")
    assert numbers(bench.ran) == [2]


@pytest.mark.req("BATCH-12", "INBOX-7")
def test_failed_cells_of_runs_that_wait_are_named_and_counted(
    bench: BatchBench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.outcomes = {"n=2": "waiting", "n=4": "waiting"}
    bench.fields = {"failed_cells": [{"cell": "a", "index": 1, "error": "ValueError: no"}]}
    assert bench.run(*START) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[2].startswith("jp-nb: [2/5] waiting walk-n=2-")
    assert lines[3] == "jp-nb:   cell 2: ValueError: no"
    assert lines[-1] == "jp-nb: 3 passed, 2 waiting; 2 waiting runs with a failed cell"

    assert bench.run("--resume", "OUT") == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith("(5 of them before); 2 waiting runs with a failed cell")


@pytest.mark.req("BATCH-29", "BATCH-30")
def test_removed_output_folder_stops_the_batch(
    bench: BatchBench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.on_end = lambda: shutil.rmtree(bench.folder / "OUT")
    assert bench.run(*START) == 1
    assert numbers(bench.ran) == [1]
    told = capsys.readouterr().err
    assert "OUT/runs.jsonl was removed or replaced while the batch ran" in told
    assert "no further run starts" in told


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
    assert "the batch has used 220 of 200 tokens: no further run" in capsys.readouterr().err

    bench.ran.clear()
    resumed = ("--resume", "OUT", "--workers", "1")
    assert bench.run(*resumed, "--max-total-tokens", "300") == 1
    assert numbers(bench.ran) == [3], "tokens of the earlier batch count"
    assert "the batch has used 330 of 300 tokens" in capsys.readouterr().err

    bench.ran.clear()
    assert bench.run(*resumed) == 0
    assert numbers(bench.ran) == [4, 5]


@pytest.mark.req("BATCH-14")
def test_token_budget_of_a_new_batch_starts_at_zero(bench: BatchBench) -> None:
    bench.fields = {"tokens": {"input": 90, "output": 20}}
    bench.run(*START)
    bench.ran.clear()
    assert bench.run(*START, "--max-total-tokens", "200") == 1
    assert numbers(bench.ran) == [1, 2]


@pytest.mark.req("BATCH-29")
def test_full_disk_stops_the_batch(bench: BatchBench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.outcomes = {"n=": "failed"}
    bench.fatal = "OUT/x.ipynb cannot be written: No space left on device"
    assert bench.run(*START) == 1
    assert len(bench.ran) == 1
    assert "No space left on device: no further run starts" in capsys.readouterr().err


@pytest.mark.req("BATCH-29")
@pytest.mark.parametrize(
    ("number", "started"),
    [(errno.ENOSPC, 1), (errno.EDQUOT, 1), (errno.EROFS, 1), (errno.EACCES, 5)],
    ids=["ENOSPC", "EDQUOT", "EROFS", "EACCES"],
)
def test_disk_that_no_run_can_write_to_stops_the_batch(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch, number: int, started: int
) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "unlink", refuse)  # an earlier recording is removed first
    assert bench.execute(*START, "--record") == 1
    monkeypatch.undo()
    monkeypatch.chdir(bench.folder)
    states = BatchFolder(bench.folder / "OUT").runs()
    assert [each.outcome for each in states] == ["failed"] * started
    assert os.strerror(number) in states[0].failed_cells[0].error


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
        (["walk.ipynb", "-p", "n", "1", "-o", "OUT", "--run-inserted"], "is for one run"),
        (["walk.ipynb", "--models", "a,,b", "-o", "OUT"], "--models"),
        (["none.ipynb", "-o", "OUT/"], "no notebook none"),
        ([".", "-o", "."], "choose another folder"),
        (["walk.ipynb", "-p", "m", "1", "--strict", "-o", "OUT"], "no parameter m"),
        (["walk.ipynb", "--answers", "none.toml", "-o", "OUT/"], "no answers file"),
        (["walk.ipynb", "--dask", "nowhere", "-o", "OUT/"], "--dask"),
        (["walk.ipynb", "--dask", "local", "--workers", "2", "-o", "OUT/"], "--workers"),
        (["walk.ipynb", "--max-concurrent-requests", "x=2", "-o", "OUT/"], "no such provider"),
    ],
)
def test_wrong_options_run_nothing(bench: BatchBench, arguments: list[str], message: str) -> None:
    with pytest.raises(jp.UsageError, match=message):
        bench.run(*arguments)
    assert bench.ran == []
    assert {path.name for path in bench.folder.iterdir()} == {"walk.ipynb", "n.csv"}


@pytest.mark.req("BATCH-14")
def test_limits_of_the_command_line_reach_each_run(bench: BatchBench) -> None:
    rates = ("--max-requests-per-minute", "openai=60", "--max-requests-per-minute", "google=7")
    bench.run(*START, *rates, "--max-concurrent-requests", "openai=3")
    assert bench.limits == {"per_minute": {"openai": 60, "google": 7}, "concurrent": {"openai": 3}}


@pytest.mark.req("BATCH-14")
def test_limit_of_an_unknown_provider_is_an_error(bench: BatchBench) -> None:
    for option in ("--max-requests-per-minute", "--max-concurrent-requests"):
        with pytest.raises(jp.UsageError, match="did you mean anthropic"):
            bench.run(*START, option, "anthropc=1")
    assert bench.ran == []

    arguments = (*START, "--max-requests-per-minute")
    assert bench.run(*arguments, "scripted=1") == 0
    address = "providers.llm.servers.desk.base_url=http://127.0.0.1:1"
    assert bench.run(*arguments, "desk=1", "-c", address) == 0
    table = '[providers.llm.servers.shelf]\nbase_url = "http://127.0.0.1:1"\n'
    (bench.folder / ".jp").mkdir()
    (bench.folder / ".jp/config.toml").write_text(table)
    assert bench.run(*arguments, "shelf=1") == 0


@pytest.mark.req("BATCH-7")
def test_longest_run_of_an_earlier_batch_starts_first(bench: BatchBench) -> None:
    seconds = {1: 2.0, 2: 9.0, 3: 1.0, 4: 5.0}
    bench.seconds = {f"n={n}-": each for n, each in seconds.items()}
    (bench.folder / "n.csv").write_text("n\n1\n2\n3\n4\n")
    bench.run(*START)
    bench.ran.clear()

    (bench.folder / "n.csv").write_text("n\n1\n2\n3\n4\n5\n")
    write_cells(bench.folder / "new.ipynb", "1")
    bench.run(*START, "new.ipynb", "--order", "longest-first")
    assert [run.split("-n=")[0] for run in bench.ran[:5]] == ["new"] * 5
    assert numbers(bench.ran[5:]) == [2, 4, 5, 1, 3], "the new run takes the average time"


@pytest.mark.req("BATCH-12")
def test_lines_in_a_log_have_number_outcome_and_cause(
    bench: BatchBench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.outcomes = {"n=2": "failed"}
    bench.fields = {"failed_cells": [{"cell": "a", "index": 1, "error": "ValueError: \x1b[2Jno"}]}
    bench.run(*START)
    lines = capsys.readouterr().err.splitlines()
    assert lines[2].startswith("jp-nb: [2/5] failed walk-n=2-")
    assert lines[3].startswith("jp-nb:   cell 2: ValueError: ")
    assert "\x1b" not in "".join(lines)
    assert lines[-1] == "jp-nb: 1 failed, 4 passed"


@pytest.mark.req("BATCH-12")
def test_bar_on_a_terminal_has_the_counts_and_the_present_runs(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    bench.outcomes = {"n=2": "failed", "n=3": "waiting"}
    bench.fields = {"requests": 300, "tokens": {"input": 900, "output": 100}}
    bench.run(*START)
    text = screen.getvalue()
    assert "5/5" in text
    assert "1 failed, 1 waiting, 1,500 requests, 5,000 tokens" in text
    assert "now: walk-n=4-" in text
    assert re.search(r"5/5 \[\d\d:\d\d<\d\d:\d\d\], 1 failed", text), "time so far, and left"
    assert "jp-nb: failed walk-n=2-" in text


@pytest.mark.req("BATCH-29")
def test_log_that_cannot_be_written_stops_the_batch(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = os.write

    def write_until_full(descriptor: int, data: bytes) -> int:
        if b'"n":3' in bytes(data):
            write(descriptor, bytes(data)[:20])  # a torn line
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_until_full)
    assert bench.run(*START) == 1
    assert "runs.jsonl cannot be written: No space left on device" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(bench.folder)
    assert [*bench.states().values()] == ["passed", "passed"], "earlier lines are whole"

    bench.ran.clear()
    assert bench.run("--resume", "OUT", "--workers", "1") == 0
    assert numbers(bench.ran) == [3, 4, 5]
