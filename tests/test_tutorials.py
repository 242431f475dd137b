"""The tutorials run without a user, and give the outputs that are stored in them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.cli import main
from tests.support.kernel_client import FrontEnd, front_end
from tests.support.notebook_runs import NOTEBOOKS, outputs, record, run
from tools.record_tutorial import MCP_RECORDING, cassette_of, record_cassette

TRUST_FOLDERS_VARIABLE = "JP_NB_TRUST_FOLDERS"


TUTORIALS = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
QUICKSTART, TOOLS = TUTORIALS[:2]
IN_CI = next(name for name in TUTORIALS if name.endswith("-ci.ipynb"))
REFUSAL = (
    "ask_user cannot run because no interactive terminal is available. Do not retry this tool "
    "call in this turn; continue without user input or explain what information is missing."
)
TutorialRun = Callable[[str], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the folder of the tutorials."""
    copy = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS, copy, ignore=shutil.ignore_patterns("*.png"))
    return copy


def nbval(folder: Path, *names: str, option: str = "--nbval") -> subprocess.CompletedProcess[str]:
    pytest.importorskip("nbval", reason="pip install -e '.[tiers]'")
    return run(["-m", "pytest", option, "-q", "-p", "no:cacheprovider", *names], folder)


@pytest.mark.parametrize("name", [QUICKSTART, IN_CI])
def test_stored_outputs_are_those_of_a_run(name: str, tutorial_run: TutorialRun) -> None:
    assert outputs(tutorial_run(name)) == outputs(NOTEBOOKS / name)


@pytest.mark.req("MAP-19")
def test_tutorial_about_rows_has_the_plot_of_200_answers() -> None:
    notebook = nbformat.read(NOTEBOOKS / "08-rows.ipynb", as_version=4)
    shown = {cell.id: str(cell.get("outputs")) for cell in notebook.cells}
    assert "200 answers, 0 failures" in shown["count"]
    assert "image/png" in shown["plot"]


@pytest.mark.req("BATCH-2", "INBOX-6")
def test_tutorial_about_a_batch_shows_the_runs_that_waited_and_those_that_passed() -> None:
    notebook = nbformat.read(NOTEBOOKS / "09-many-notebooks.ipynb", as_version=4)
    shown = {cell.id: str(cell.get("outputs")) for cell in notebook.cells}
    outcomes = [shown[each].count("waiting") for each in ("report", "resume")]
    assert outcomes[0] == 2 * outcomes[1] > 0
    assert "passed" in shown["resume"]
    assert "3 open decisions in 6 runs" in shown["list"]
    assert "1 open decision in 3 runs" in shown["left"]
    assert "image/png" in shown["plot"]


@pytest.mark.req("CELL-29", "CELL-35")
def test_tutorial_about_edits_shows_refused_and_applied_ones() -> None:
    notebook = nbformat.read(NOTEBOOKS / "10-edit-cells.ipynb", as_version=4)
    shown = {cell.id: str(cell.get("outputs")) for cell in notebook.cells}
    assert "unchanged: True" in shown["refused"]
    assert "4 open decisions" in shown["refused"]
    assert "+ average = mean(" in shown["show"]
    assert "from statistics import mean" in shown["clean"]
    assert "# print(mean(rows))" in shown["clean"], "the answers file keeps this cell"


@pytest.mark.runners
@pytest.mark.deep  # a step of `.ci/run` compares the same outputs with nbval
@pytest.mark.parametrize("name", sorted({*TUTORIALS} - {QUICKSTART, IN_CI}))
def test_stored_outputs_of_the_other_tutorials_are_those_of_a_run(
    name: str, tutorial_run: TutorialRun
) -> None:
    assert outputs(tutorial_run(name)) == outputs(NOTEBOOKS / name)


@pytest.mark.deep  # a step of `.ci/run` does this
def test_nbval_finds_the_stored_outputs(folder: Path) -> None:
    done = nbval(folder, *TUTORIALS)
    assert done.returncode == 0, done.stdout


def test_every_cell_with_outputs_is_tagged_for_nbval_lax() -> None:
    for name in TUTORIALS:
        notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
        shown = [cell for cell in notebook.cells if cell.get("outputs")]
        assert shown
        assert all("nbval-check-output" in cell.metadata.get("tags", ()) for cell in shown)


@pytest.mark.runners
def test_nbval_lax_compares_tagged_outputs(folder: Path) -> None:
    notebook = nbformat.read(folder / QUICKSTART, as_version=4)
    first = next(number for number, cell in enumerate(notebook.cells) if cell.get("outputs"))
    notebook.cells = notebook.cells[: first + 1]
    notebook.cells[first].outputs[0].text = "something else"
    nbformat.write(notebook, folder / QUICKSTART)
    assert "1 failed" in nbval(folder, QUICKSTART, option="--nbval-lax").stdout


# --- quickstart ------------------------------------------------------------------------------


@pytest.mark.req("R083-75", "R083-76")
def test_quickstart_refuses_a_question_with_a_reason(tutorial_run: TutorialRun) -> None:
    entries = record(tutorial_run(QUICKSTART))
    refused = [e for e in entries if e["type"] == "tool_call_response" and e["is_error"]]
    assert [e["content"] for e in refused] == [REFUSAL]
    (closing,) = [e for e in entries if e["type"] == "inquiry_response"]
    assert (closing["outcome"], closing["reason"]) == ("cancelled", "no_prompt_backend")
    assert sum(e["type"] == "turn_start" for e in entries) == 5


def test_show_prints_the_conversation_of_the_quickstart(
    tutorial_run: TutorialRun, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tutorial_run(QUICKSTART))
    capsys.readouterr()
    assert main(["show", path]) == 0
    assert "Do I need an umbrella in Delft tomorrow?" in capsys.readouterr().out
    assert main(["show", "--json", path]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["version"] == 1
    assert whole["conversation"]["made"] == "headless"


# --- tools -----------------------------------------------------------------------------------


@pytest.mark.runners
def test_tools_tutorial_shows_each_way_to_answer_a_question(
    tutorial_run: TutorialRun,
) -> None:
    written = json.loads(tutorial_run(TOOLS).read_text(encoding="utf-8"))
    events = written["metadata"]["jp"]["events"]
    closings = [e for e in events if e["type"] == "inquiry_response"]
    assert [e["metadata"]["channel"] for e in closings] == ["model", "configured", "model"]
    responses = [e for e in events if e["type"] == "tool_call_response"]
    assert [e["is_error"] for e in responses].count(True) == 4


# --- forms ------------------------------------------------------------------------------------

FORMS = "04-forms.ipynb"


@pytest.mark.runners
@pytest.mark.req("RPI-2")
def test_forms_tutorial_shows_the_ends_of_questions_without_a_user(
    tutorial_run: TutorialRun,
) -> None:
    """Without a user, a model is offered `ask` only if an answer is configured.

    RPI-2 decides that once for a front end; here it is decided for each turn.
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
    taken = "room (chosen automatically, because no user was available): Garden"
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


@pytest.mark.runners
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq
@pytest.mark.parametrize(
    ("clicks", "answer"),
    [
        (ANSWERS, "A **morning** it is"),
        ((MENU, {"type": "stop", "step": 1}), STOPPED),
    ],
)
def test_forms_tutorial_works_with_any_decision_of_its_reader(
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
    """Return the final outputs of a cell; it fails only if the reader stopped it."""
    reader.finish(request)
    failed = [m["content"]["evalue"] for m in reader.messages if m["msg_type"] == "error"]
    assert not failed or failed == [STOPPED]
    outputs = reader.outputs(request)
    texts = [each.get("text") or each["data"].get("text/plain", "") for each in outputs]
    return "\n".join([*texts, *failed])


# --- tools that change the configuration -------------------------------------------------------

CONFIG = "03-tools-that-change-config.ipynb"


@pytest.mark.runners
@pytest.mark.req("R078-78", "R078-81", "R078-92", "R078-128")
def test_config_tutorial_shows_the_ends_of_proposals(
    tutorial_run: TutorialRun,
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
        "The conversation continues with scripted/strong.",
        "Careful, without assistant.name.",
        "Tool 'stubborn' failed to produce a valid config delta after 3 attempts.\n"
        "Last error: unknown provider 'acme' at assistant.model.id.",
        "The temperature was 0.0.",
    ]
    assert sum(entry["type"] == "turn_start" for entry in entries) == 6


@pytest.mark.runners
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq
@pytest.mark.parametrize(
    ("button", "verdict", "answer"),
    [
        ("Apply changes", "applied by you (form)", "`scripted/strong` here."),
        ("Reject changes", "rejected by you (form)", "You want my answer, then"),
    ],
)
def test_config_tutorial_works_with_any_decision_of_its_reader(
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
        if cell.id.startswith("ask"):  # the further turns do not depend on it
            assert shown[cell.id] == cell.outputs[0].data["text/plain"]


def _cell(notebook: Any, name: str) -> Any:
    return next(cell for cell in notebook.cells if cell.id == name)


def _run_cell(reader: FrontEnd, cell: Any, button: str) -> str:
    """Run `cell`, click `button` in its form, and return its final outputs."""
    request = reader.start(cell.source, cell_id=cell.id)
    if cell.id == "ask":
        reader.form("Configuration delta proposed by tool")
        reader.click(button)
    return _shown_by(reader, request)


# --- the bench for tools -----------------------------------------------------------------------

BENCH = "05-tool-bench.ipynb"


@pytest.mark.runners
def test_bench_tutorial_keeps_trials_out_of_the_conversation(
    tutorial_run: TutorialRun,
) -> None:
    written = json.loads(tutorial_run(BENCH).read_text(encoding="utf-8"))
    entries = written["metadata"]["jp"]["events"]
    called = [(e["name"], e["arguments"]) for e in entries if e["type"] == "tool_call_request"]
    assert called == [
        ("reading_plan", {"title": "Sanditon", "days": 0}),
        ("reading_plan", {"title": "Sanditon", "days": 1}),
        ("notebook_variable", {"name": "books"}),
        ("notebook_variable", {"name": "shelf"}),
    ]
    said = [e["content"] for e in entries if e["type"] == "tool_call_response"]
    assert said[:2] == ["Today counts: pass at least 1 for `days`.", '{"pages a day":128.0}']
    assert "a shelf of 3 books, 851 pages in all" in said[3]
    (before,) = written["metadata"]["jp"]["others"]
    failed = [e["content"] for e in before["events"] if e["type"] == "tool_call_response"]
    assert failed == ["ZeroDivisionError: division by zero"]


# --- notebooks in CI ---------------------------------------------------------------------------


@pytest.mark.runners
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq
def test_ci_tutorial_replays_on_a_page_and_then_asks_its_reader(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TRUST_FOLDERS_VARIABLE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    notebook = nbformat.read(folder / IN_CI, as_version=4)
    shown: dict[str, str] = {}
    with front_end(folder) as reader:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                reader.forget()
                request = reader.start(cell.source, cell_id=cell.id)
                if cell.id == "ci-trust":
                    reader.form("Trust")
                    reader.click("Yes")
                elif cell.id == "ci-call":
                    reader.form("Run the tool `publish`?")
                    reader.click("Run publish")
                    beacon = reader.form("Who reads it?")
                    reader.send(beacon, {"type": "submit", "index": 1})
                shown[cell.id] = _shown_by(reader, request)
    for cell in notebook.cells:
        if cell.id in ("ci-09", "ci-14", "ci-18"):
            assert shown[cell.id] == cell.outputs[0].data["text/plain"]
    assert "Published for everyone: Reports show the right dates." in shown["ci-call"]


# --- the tools of a server -----------------------------------------------------------------------


@pytest.mark.runners
@pytest.mark.req("R-MCP-75")
def test_server_tutorial_records_the_same_cassette_with_its_server() -> None:
    pytest.importorskip("mcp", reason="pip install -e '.[mcp]'")
    stored = cassette_of(MCP_RECORDING).read_bytes()
    assert record_cassette(MCP_RECORDING) == stored
