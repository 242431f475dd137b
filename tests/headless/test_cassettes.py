"""Messages of `jp-nb run` about the exchanges of its cassette that were used, added or unused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jp_nb.agent.provider import Finished
from jp_nb.agent.recording import Exchange
from jp_nb.headless.options import (
    format_fully_used,
    format_recorded,
    format_unused,
    log_cassette_use,
    read_cassette_use,
)
from jp_nb.session.cassettes import CassetteChoice, OpenCassette
from jp_nb.storage.cassette import CassetteWriter
from tests.support.asked_requests import SPEC, asked, changed
from tests.support.notebook_runs import KEY


@pytest.mark.parametrize("name", ["one\u2028two.jsonl", os.fsdecode(b"b\xffd.jsonl")])
def test_unused_exchanges_are_counted_for_any_name_of_the_cassette(
    tmp_path: Path, name: str
) -> None:
    exchange = Exchange(asked(SPEC), (), Finished())
    CassetteWriter(tmp_path / name).add(exchange)
    with log_cassette_use() as noted:
        tape = OpenCassette(CassetteChoice("replay", tmp_path / name))
        assert "1 of 1 exchange" in format_unused(read_cassette_use(noted))[0]
        tape.replay(exchange.request)
        assert format_unused(read_cassette_use(noted)) == []
        assert format_fully_used(read_cassette_use(noted)) == [f"1 of 1 exchange of {name} used"]


def test_no_part_of_a_key_is_in_the_line_about_an_exchange(tmp_path: Path) -> None:
    last = max(index for index, each in enumerate(SPEC["message"]) if "user" in each)
    spec = changed(SPEC, ("message", last, "user"), f"{'x' * 52} {KEY}")
    spec["message"] = spec["message"][: last + 1]
    CassetteWriter(tmp_path / "talk.jsonl").add(Exchange(asked(spec), (), Finished()))
    with log_cassette_use() as noted:
        OpenCassette(CassetteChoice("replay", tmp_path / "talk.jsonl"))
        [_, line] = format_unused(read_cassette_use(noted))
    assert "x" * 52 in line
    assert "sk-" not in line


def test_recording_without_a_request_is_reported(tmp_path: Path) -> None:
    path, noted = tmp_path / "talk.jsonl", tmp_path / "used"
    settings = {"providers.cassette.path": str(path), "providers.cassette.mode": "record"}
    [line] = format_recorded(read_cassette_use(noted, settings))
    assert line == f"no model answered: nothing was recorded in {path}"
    path.touch()
    assert format_recorded(read_cassette_use(noted, settings)) == [f"{line}; the file is unchanged"]


def test_added_exchange_is_counted_and_not_reported_as_unused(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    settings = {"providers.cassette.path": str(path), "providers.cassette.mode": "replay-or-record"}
    exchanges = [
        Exchange(asked(changed(SPEC, ("model",), name)), (), Finished()) for name in ("a", "b")
    ]
    for number, exchange in enumerate(exchanges):
        with log_cassette_use() as noted:
            tape = OpenCassette(CassetteChoice("replay-or-record", path))
            for before in exchanges[:number]:
                tape.replay(before.request)
            tape.keep(exchange)
            uses = read_cassette_use(noted, settings)
        assert format_recorded(uses) == [f"1 exchange added to {path}"]
        assert format_fully_used(uses) == ["1 of 1 exchange of talk.jsonl used"] * number
        assert format_unused(uses) == []


def test_question_of_a_recorded_tool_is_not_reported_as_unused(tmp_path: Path) -> None:
    file = tmp_path / "talk.cassette.jsonl"
    question = changed(SPEC, ("message", 8), {"user": "Which size?", "inquiry": "pack.size"})
    CassetteWriter(file).add(Exchange(asked(question), (), Finished()))
    for tools, lines in (("run", 2), ("recorded", 0)):
        with log_cassette_use() as noted:
            tape = OpenCassette(CassetteChoice("replay", file, tools))
            assert len(format_unused(read_cassette_use(noted))) == lines
        assert len(tape.unused()) == lines // 2
