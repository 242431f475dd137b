"""Reproducible runs (`SOURCE_DATE_EPOCH`, `record.reproducible`) write the same file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.cli import main
from jp_nb.headless.result_writing import join_streams
from jp_nb.headless.runner import run_notebook
from tests.headless.conftest import WIDGET_STATE, WriteNotebook
from tests.kit.notebook_record import open_document
from tests.support.notebook_runs import NOON, run

EPOCH = "1700000000"
LOAD = "%load_ext jp_nb\n%jp config assistant.model.id=scripted/talk"
TOOLS = """
import jp_nb as jp

@jp.tool(run="unattended")
def look(city: str) -> str:
    "Look at a city."
    return f"{city} is there"
"""
SCRIPT = """
[[replies]]
reasoning = "Both."
tool_calls = [
  { name = "look", arguments = { city = "Delft" } },
  { name = "look", arguments = { city = "Gouda" } },
]
[[replies]]
tool_calls = [{ name = "ask_user", arguments = { question = "Which one?" } }]
[[replies]]
text = "Delft."
[[replies]]
text = "Yes."
[[replies]]
text = "Again."
"""
ANSWER = "%jp config conversation.tools.ask_user.questions.answer.answer=Delft"
LOOK = "%jp timeline\n%jp usage"
CELLS = (
    TOOLS,
    ANSWER,
    "%%jp -t look\nGo.",
    LOOK,
    "%%jp -c assistant.name=Ada\nOn.",
    "%%jp -n\nNew.",
)


@pytest.fixture
def talk(write_notebook: WriteNotebook, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notebook with tools, a question, a change of the configuration and two conversations."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    path = write_notebook(*CELLS, setup=LOAD)
    (path.parent / "talk.toml").write_text(SCRIPT, encoding="utf-8")
    return path


def written(path: Path, **options: Any) -> bytes:
    result = run_notebook(path, **options)
    assert result.ok, result.failure
    return path.read_bytes()


@pytest.mark.runners
def test_second_run_with_source_date_epoch_writes_the_same_bytes(
    talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    assert written(talk) == written(talk)
    document = open_document(talk)
    assert "signature" not in talk.read_text(encoding="utf-8"), "it would differ for each user"
    assert len(document.others) == 1
    assert len(document.ids()) == 2
    kept = document.others[0]
    assert isinstance(kept, dict)
    entries: Any = kept["events"]
    times = [entry["timestamp"] for entry in entries]
    assert times[0] == "2023-11-14 22:13:20.0"
    assert times == sorted(set(times))
    ids = [entry["event_id"] for entry in entries]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch("[0-9a-z]{7}", each) for each in ids)
    kinds = {entry["type"] for entry in entries}
    assert {"tool_call_response", "inquiry_response", "config_delta", "chat_response"} <= kinds


SIDE_BY_SIDE = """
import asyncio, pathlib
import jp_nb as jp

ROUND = pathlib.Path("round")
LAST_FIRST = ROUND.exists()
ROUND.touch()

@jp.tool(run="unattended")
async def pick(way: int, *, ctx: jp.ToolContext) -> str:
    "Pick a way."
    print("starting", way)
    await asyncio.sleep(0.1 * (3 - way if LAST_FIRST else way))
    print("awake", way)
    if "sure" not in ctx.answers:
        return jp.NeedsInput(jp.Question.free_text("sure", f"Way {way}?"))
    return f"{way}: {ctx.answers['sure']}"
"""
PICKS = """
[[replies]]
tool_calls = [
  { name = "pick", arguments = { way = 0 } },
  { name = "pick", arguments = { way = 1 } },
  { name = "pick", arguments = { way = 2 } },
  { name = "pick", arguments = { way = 3 } },
]
[[replies]]
text = "Done."
"""


@pytest.mark.runners
def test_setting_record_reproducible_begins_at_a_fixed_time(talk: Path) -> None:
    written(talk, overrides=["record.reproducible=true"])
    document = open_document(talk)
    assert document.conversation.id.startswith("jp-c315532800")
    kept: Any = document.others[0]
    assert kept["events"][0]["timestamp"] == "1980-01-01 00:00:00.0"


@pytest.mark.runners
def test_concurrent_calls_that_ask_and_print_in_another_order_write_the_same_bytes(
    talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    made = nbformat.read(talk, as_version=4)
    sure = "%jp config conversation.tools.pick.questions.sure.answer=yes"
    cells = (LOAD, SIDE_BY_SIDE, sure, "%%jp -t pick\nGo.")
    made.cells = [nbformat.v4.new_code_cell(cell, id=f"c{n}") for n, cell in enumerate(cells)]
    nbformat.write(made, talk)
    (talk.parent / "talk.toml").write_text(PICKS, encoding="utf-8")
    assert written(talk) == written(talk)
    asked = [e for e in open_document(talk).conversation.raw if e["type"] == "inquiry_request"]
    assert [str(e["id"]).split(".")[0] for e in asked] == [f"call_1_{n}" for n in range(1, 5)]


NBCONVERT = ["-m", "nbconvert", "--to", "notebook", "--inplace", "--execute"]


@pytest.mark.deep
@pytest.mark.runners
def test_nbconvert_without_recorded_times_writes_the_same_notebook_twice(
    talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    arguments = [*NBCONVERT, "--ExecutePreprocessor.record_timing=False", talk.name]
    found = []
    for _ in range(2):
        assert run(arguments, talk.parent).returncode == 0
        made = nbformat.read(talk, as_version=4)
        join_streams(made)
        found.append(nbformat.writes(made))
    assert found[0] == found[1]
    widgets = nbformat.read(talk, as_version=4).metadata["widgets"]
    assert [len(key) for key in widgets[WIDGET_STATE]["state"]] == [32]


@pytest.mark.deep
@pytest.mark.runners
def test_record_of_fewer_cells_replaces_a_longer_one_with_the_same_beginning(
    talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    made = nbformat.read(talk, as_version=4)
    made.cells.pop()
    nbformat.write(made, talk)
    written(talk)
    made.cells.pop()
    made.metadata["jp"] = nbformat.read(talk, as_version=4).metadata["jp"]
    nbformat.write(made, talk)
    assert run([*NBCONVERT, talk.name], talk.parent).returncode == 0
    assert open_document(talk).conversation.turn_count == 1


@pytest.mark.deep
@pytest.mark.runners
def test_continued_run_has_later_times_and_writes_the_same_bytes(
    talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = written(talk)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    found = []
    for _ in range(2):
        talk.write_bytes(before)
        found.append(written(talk, continue_=True))
    assert found[0] == found[1]
    conversation = open_document(talk).others[0]
    assert isinstance(conversation, dict)
    assert "signature" not in conversation, "it would not cover the new entries"
    entries: Any = conversation["events"]
    assert [entry["timestamp"] for entry in entries] == sorted(x["timestamp"] for x in entries)


@pytest.mark.runners
def test_live_conversation_is_kept_beside_one_that_a_run_repeats(
    talk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    written(talk)
    made = nbformat.read(talk, as_version=4)
    made.metadata["jp"]["conversation"]["made"] = "live"  # as if the user had continued it
    made.metadata["jp"]["events"].append({"type": "turn_start", "timestamp": NOON})
    nbformat.write(made, talk)
    spoken = made.metadata["jp"]["conversation"]["id"]
    written(talk)
    document = open_document(talk)
    assert spoken in document.ids()
    assert len(document.ids()) == 3


def test_invalid_epoch_is_reported_before_the_run(
    talk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = talk.read_bytes()
    for epoch in ("", "yesterday"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        assert main(["run", str(talk)]) == 2
        assert f"SOURCE_DATE_EPOCH is {epoch!r}" in capsys.readouterr().err
        assert talk.read_bytes() == before
