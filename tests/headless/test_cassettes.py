"""Messages of `jp-nb run` about the exchanges of its cassette that were used, added or unused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.kit.cassettes import CassetteFile
from tests.kit.kinds import make
from tests.kit.models import model_event
from tests.kit.runs import RunReport
from tests.support.asked_requests import SPEC, asked, changed
from tests.support.notebook_runs import KEY


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file to which sessions append their events."""
    path = tmp_path / "events.jsonl"
    monkeypatch.setenv("JP_NB_EVENTS", str(path))
    return path


def lines(found: Any, failure: Any = None) -> list[str]:
    report = make("run_report", "walk.ipynb", failure, (), (), "", found)
    shown: list[str] = RunReport.text("cassettes", report)
    return shown


def answered(request: Any) -> Any:
    """Return an exchange in which the model answered without a text."""
    return make("exchange", request, (), model_event("finished"))


@pytest.mark.parametrize("name", ["one\u2028two.jsonl", os.fsdecode(b"b\xffd.jsonl")])
def test_unused_exchanges_are_counted_for_any_name_of_the_cassette(
    tmp_path: Path, events: Path, name: str
) -> None:
    exchange = answered(asked(SPEC))
    CassetteFile(tmp_path / name).writer().add(exchange)
    tape = CassetteFile(tmp_path / name).open()
    assert "1 of 1 exchange" in lines(RunReport.read_events(events))[0]
    tape.replay(exchange.request)
    assert lines(RunReport.read_events(events)) == [f"1 of 1 exchange of {name} used"]


def test_no_part_of_a_key_is_in_the_line_about_an_exchange(tmp_path: Path, events: Path) -> None:
    last = max(index for index, each in enumerate(SPEC["message"]) if "user" in each)
    spec = changed(SPEC, ("message", last, "user"), f"{'x' * 52} {KEY}")
    spec["message"] = spec["message"][: last + 1]
    CassetteFile(tmp_path / "talk.jsonl").writer().add(answered(asked(spec)))
    CassetteFile(tmp_path / "talk.jsonl").open()
    [_, line] = lines(RunReport.read_events(events))
    assert "x" * 52 in line
    assert "sk-" not in line


def test_recording_without_a_request_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    noted = tmp_path / "used"
    settings = {"providers.cassette.path": str(path), "providers.cassette.mode": "record"}
    [line] = lines(RunReport.read_events(noted, settings))
    assert line == f"no model answered: nothing was recorded in {path}"
    path.touch()
    assert lines(RunReport.read_events(noted, settings)) == [f"{line}; the file is unchanged"]


def test_added_exchange_is_counted_and_not_reported_as_unused(tmp_path: Path, events: Path) -> None:
    path = tmp_path / "talk.jsonl"
    settings = {"providers.cassette.path": str(path), "providers.cassette.mode": "replay-or-record"}
    exchanges = [answered(asked(changed(SPEC, ("model",), name))) for name in ("a", "b")]
    for number, exchange in enumerate(exchanges):
        events.unlink(missing_ok=True)
        tape = CassetteFile(path).open("replay-or-record")
        for before in exchanges[:number]:
            tape.replay(before.request)
        tape.keep(exchange)
        found = RunReport.read_events(events, settings)
        used = "1 of 1 exchange of talk.jsonl used"
        assert lines(found) == [f"1 exchange added to {path}", *[used] * number]


def test_unused_exchanges_of_a_failed_run_are_not_reported(tmp_path: Path, events: Path) -> None:
    CassetteFile(tmp_path / "talk.jsonl").writer().add(answered(asked(SPEC)))
    CassetteFile(tmp_path / "talk.jsonl").open()
    assert lines(RunReport.read_events(events))
    failure = make("run_failure", 0, "ValueError", "no")
    assert lines(RunReport.read_events(events), failure) == []


def test_question_of_a_recorded_tool_is_not_reported_as_unused(
    tmp_path: Path, events: Path
) -> None:
    file = tmp_path / "talk.cassette.jsonl"
    question = changed(SPEC, ("message", 8), {"user": "Which size?", "inquiry": "pack.size"})
    CassetteFile(file).writer().add(answered(asked(question)))
    for tools, shown in (("run", 2), ("recorded", 0)):
        events.unlink(missing_ok=True)
        tape = CassetteFile(file).open(tools=tools)
        found = [
            line for line in lines(RunReport.read_events(events)) if not line.endswith(" used")
        ]
        assert len(found) == shown
        assert len(tape.list_unused()) == shown // 2


def test_events_that_a_dying_kernel_cut_are_skipped_and_a_full_disk_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"answer": ["results", "peek"]}\n{"cassette": "/a.jsonl", "us')
    used = make("run_events", used_answers={("results", "peek")})
    assert RunReport.read_events(path) == used
    monkeypatch.setenv("JP_NB_EVENTS", str(tmp_path / "missing" / "events.jsonl"))
    cassette = tmp_path / "talk.jsonl"
    CassetteFile(cassette).writer().add(answered(asked(SPEC)))
    for _ in range(2):
        CassetteFile(cassette).open().replay(asked(SPEC))
    [logged] = caplog.records
    assert "Cannot write the events of this run" in logged.getMessage()
