"""A resumed batch with the answers of the inbox."""

from __future__ import annotations

from pathlib import Path
from time import process_time
from typing import Any

import pytest

import jp_nb as jp
from tests.batch.log_lines import asked_permission, asked_question, waiting_run, write_log
from tests.kit.batch_folders import BatchFolder
from tests.kit.batches import BatchBench
from tests.support.notebook_runs import write_cells


@pytest.mark.req("INBOX-6", "INBOX-14")
def test_resumed_batch_runs_only_what_waited_for_an_answered_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_cells(tmp_path / "walk.ipynb", "1")
    (tmp_path / "n.csv").write_text("n\n1\n2\n3\n4\n")
    bench = BatchBench(tmp_path)
    question = asked_question("publish", "to", "To whom?")
    decisions = [question, asked_permission("pay", {"amount": 5})]
    bench.fields = {"open_decisions": decisions}
    bench.outcomes = {"n=1": "waiting", "n=2": "waiting", "n=3": "waiting"}
    assert bench.run("walk.ipynb", "--each", "n.csv", "--workers", "1", "-o", "OUT") == 0

    with pytest.raises(jp.UsageError, match=r"`jp-nb inbox .*OUT` writes the answers"):
        bench.run("--resume", "OUT", "--answers", "OUT/answers.toml")

    out = tmp_path / "OUT"
    out.chmod(0o700)
    folder = BatchFolder(out)
    groups = folder.decisions().groups
    first, second, _, _ = bench.ran
    answers: Any = folder.answers(groups)
    answers.decide(groups[0], [first], folder.make_answer("team"))
    answers.decide(groups[1], [second], folder.make_answer())
    answers.save()

    bench.ran.clear()
    bench.outcomes = {}
    bench.fields = {"used_answers": []}
    bench.run("--resume", "OUT", "--answers", "OUT/answers.toml")
    assert bench.ran == [first, second]
    told = capsys.readouterr().err
    assert "questions.publish.to was not used: no run asked for it" in told


@pytest.mark.req("INBOX-6", "INBOX-12")
def test_answers_of_10_000_single_runs_are_found_at_once(tmp_path: Path) -> None:
    question = asked_question("publish", "to", "To whom?")
    runs = [f"walk-{number}" for number in range(10_000)]
    write_log(tmp_path, (waiting_run(run, question) for run in runs))
    for run in runs:
        (tmp_path / f"{run}.ipynb").touch()
    answered = runs[::2]
    tables = (f"[runs.{run}.questions.publish]\nto = 'team'\n" for run in answered)

    select = BatchFolder(tmp_path).select("".join(tables))
    start = process_time()
    assert select() == answered
    assert process_time() - start < 3
