"""The tutorials run with nobody there, and what they show is what is stored in them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.kernel_client import FrontEnd, front_end
from tests.support.notebook_runs import NOTEBOOKS, outputs, record, run

TUTORIALS = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS, copy, ignore=shutil.ignore_patterns("*.png"))
    return copy


def nbval(folder: Path, *names: str, option: str = "--nbval") -> subprocess.CompletedProcess[str]:
    return run(["-m", "pytest", option, "-q", "-p", "no:cacheprovider", *names], folder)


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_stored_outputs_are_what_a_run_gives(
    name: str, tutorial_run: Callable[[str], Path]
) -> None:
    assert outputs(tutorial_run(name)) == outputs(NOTEBOOKS / name)


@pytest.mark.deep  # a step of `.ci/run` does this
def test_nbval_finds_the_stored_outputs(folder: Path) -> None:
    done = nbval(folder, *TUTORIALS)
    assert done.returncode == 0, done.stdout


def test_every_output_is_compared_also_by_the_lax_run(folder: Path) -> None:
    for name in TUTORIALS:
        notebook = nbformat.read(folder / name, as_version=4)
        shown = [cell for cell in notebook.cells if cell.get("outputs")]
        assert all("nbval-check-output" in cell.metadata.get("tags", ()) for cell in shown)
        notebook.cells = notebook.cells[: notebook.cells.index(shown[0]) + 1]
        shown[0].outputs[0].text = "something else"
        nbformat.write(notebook, folder / name)
    done = nbval(folder, *TUTORIALS, option="--nbval-lax")
    assert f"{len(TUTORIALS)} failed" in done.stdout


def test_the_tools_tutorial_shows_each_way_a_question_is_answered(
    tutorial_run: Callable[[str], Path],
) -> None:
    written = json.loads(tutorial_run("02-tools.ipynb").read_text(encoding="utf-8"))
    events = written["metadata"]["jp"]["events"]
    closings = [e for e in events if e["type"] == "inquiry_response"]
    assert [e["metadata"]["channel"] for e in closings] == ["model", "configured", "model"]
    responses = [e for e in events if e["type"] == "tool_call_response"]
    assert [e["is_error"] for e in responses].count(True) == 4


# --- forms ------------------------------------------------------------------------------------

FORMS = "04-forms.ipynb"


@pytest.mark.req("RPI-2")
def test_the_forms_tutorial_shows_what_becomes_of_questions_that_nobody_is_there_for(
    tutorial_run: Callable[[str], Path],
) -> None:
    """A model is offered `ask` with nobody there where an answer is configured, and only there.

    RPI-2 hides it by whether there is a front end; here it is asked of each turn.
    """
    entries = record(tutorial_run(FORMS))
    first, *rest = [entry for entry in entries if entry["type"] == "tool_call_response"]
    assert "Tool 'ask' is not available" in first["content"]
    closings = [entry for entry in entries if entry["type"] == "inquiry_response"]
    assert [(e["answer"], e["metadata"].get("channel")) for e in closings] == [
        ("Whole day", "configured"),
        (["Tools", "Plots"], "configured"),
        ("Garden", None),
    ]
    assert [entry["metadata"].get("auto", False) for entry in closings] == [False, False, True]
    taken = "room (chosen automatically, because nobody was there to ask): Garden"
    assert taken in rest[0]["content"]
    read = json.loads(rest[1]["content"])
    assert [entry["answer"] for entry in read["entries"]] == ["Whole day", ["Tools", "Plots"]]


ANSWERS = (
    {"type": "next", "step": 0, "picks": [0], "custom": None},
    {"type": "next", "step": 1, "picks": [2, 0], "custom": "maps"},
    {"type": "submit", "step": 2, "value": "Tea."},
)
STOPPED = "You stopped the turn"
MENU = {"type": "cancel", "step": 0, "picks": [1], "custom": None}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq
@pytest.mark.parametrize(
    ("clicks", "answer"),
    [
        (ANSWERS, "A **morning** it is"),
        ((MENU, {"type": "reply", "step": 1, "value": "Not today."}), "go by what you said"),
        ((MENU, {"type": "stop", "step": 1}), STOPPED),
    ],
)
def test_the_forms_tutorial_goes_on_whatever_its_reader_does(
    clicks: Sequence[dict[str, object]], answer: str, folder: Path
) -> None:
    answered: dict[str, tuple[str, Sequence[dict[str, object]]]] = {
        "ask": ("How long should the workshop be?", clicks),
        "autumn": (
            "Which room should it be in?",
            [{"type": "submit", "step": 0, "picks": [0], "custom": None}],
        ),
        "own": ("Workshop", [{"type": "submit", "step": 0, "fields": [{}] * 5}]),
    }
    notebook = nbformat.read(folder / FORMS, as_version=4)
    shown: dict[str, str] = {}
    with front_end(folder) as reader:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                request = reader.start(cell.source, cell_id=cell.id)
                if cell.id in answered:
                    text, messages = answered[cell.id]
                    beacon = reader.form(text)
                    for message in messages:
                        reader.send(beacon, message)
                shown[cell.id] = _shown_by(reader, request)
    assert answer in shown["ask"]
    assert "→ Attic" in shown["autumn"]
    assert "a **whole day** about tools and plots" in shown["autumn"]
    assert "you decided on a **whole day**" in shown["read"]
    assert "Workshop(title='Notebooks that ask back'" in shown["own"]


def _shown_by(reader: FrontEnd, request: str) -> str:
    """Return what a cell shows in the end; it fails only if the person stopped it."""
    reader.finish(request)
    failed = [m["content"]["evalue"] for m in reader.messages if m["msg_type"] == "error"]
    assert not failed or failed == [STOPPED]
    outputs = reader.outputs(request)
    texts = [each.get("text") or each["data"].get("text/plain", "") for each in outputs]
    return "\n".join([*texts, *failed])


# --- tools that change the configuration -------------------------------------------------------

CONFIG = "03-tools-that-change-config.ipynb"


@pytest.mark.req("R078-78", "R078-81", "R078-92", "R078-128")
def test_the_config_tutorial_shows_what_becomes_of_proposals(
    tutorial_run: Callable[[str], Path],
) -> None:
    entries = record(tutorial_run(CONFIG))
    by_tools = [
        [call["tool"] for call in entry["metadata"]["proposed_by"]]
        for entry in entries
        if entry["type"] == "config_delta" and "proposed_by" in entry.get("metadata", {})
    ]
    assert by_tools == [["change_model"], ["be_careful"], ["reset_temperature"]]
    said = [entry["content"] for entry in entries if entry["type"] == "tool_call_response"]
    assert said == [
        "Still on small: confirmation_unavailable.",
        "The conversation goes on with scripted/strong.",
        "Careful, without assistant.name.",
        "Tool 'stubborn' failed to produce a valid config delta after 3 attempts.\n"
        "Last error: unknown provider 'acme' at assistant.model.id.",
        "The temperature was 0.0.",
    ]
    assert sum(entry["type"] == "turn_start" for entry in entries) == 6


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq
@pytest.mark.parametrize(
    ("button", "verdict", "answer"),
    [
        ("Apply", "applied by you (form)", "`scripted/strong` here."),
        ("Reject", "rejected by you (form)", "You want it from me, then"),
    ],
)
def test_the_config_tutorial_goes_on_whatever_its_reader_decides(
    button: str, verdict: str, answer: str, folder: Path
) -> None:
    notebook = nbformat.read(folder / CONFIG, as_version=4)
    shown: dict[str, str] = {}
    with front_end(folder) as reader:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                shown[cell.id] = _run_cell(reader, cell, button)
    assert verdict in shown["ask"]
    assert answer in shown["ask"]
    for cell in notebook.cells[notebook.cells.index(_cell(notebook, "switch")) + 1 :]:
        if cell.id.startswith("ask"):  # what follows does not depend on it
            assert shown[cell.id] == cell.outputs[0].data["text/plain"]


def _cell(notebook: Any, name: str) -> Any:
    return next(cell for cell in notebook.cells if cell.id == name)


def _run_cell(reader: FrontEnd, cell: Any, button: str) -> str:
    """Run `cell`, decide on what its form says, and return what remains of its displays."""
    request = reader.start(cell.source, cell_id=cell.id)
    if cell.id == "ask":
        reader.form("Configuration delta proposed by tool")
        reader.click(button)
    return _shown_by(reader, request)


# --- the bench for tools -----------------------------------------------------------------------

BENCH = "05-tool-bench.ipynb"


def test_the_bench_tutorial_keeps_what_is_tried_out_of_the_conversation(
    tutorial_run: Callable[[str], Path],
) -> None:
    written = json.loads(tutorial_run(BENCH).read_text(encoding="utf-8"))
    entries = written["metadata"]["jp"]["events"]
    called = [(e["name"], e["arguments"]) for e in entries if e["type"] == "tool_call_request"]
    assert called == [
        ("reading_plan", {"title": "Sanditon", "days": 0}),
        ("reading_plan", {"title": "Sanditon", "days": 1}),
        ("notebook_variables", {}),
        ("notebook_variable", {"name": "shelf"}),
    ]
    said = [e["content"] for e in entries if e["type"] == "tool_call_response"]
    assert said[:2] == ["Today counts: give at least 1 for `days`.", '{"pages a day":128.0}']
    assert "a shelf of 3 books, 851 pages in all" in said[3]
    (before,) = written["metadata"]["jp"]["others"]
    failed = [e["content"] for e in before["events"] if e["type"] == "tool_call_response"]
    assert failed == ["ZeroDivisionError: division by zero"]
