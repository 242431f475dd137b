"""Reports of runs, as JSON and JUnit XML."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest

from jp_nb.headless.runner import run_notebook
from tests.headless import reported_notebook
from tests.headless.conftest import LIVE
from tests.headless.reported_notebook import CELLS, LOAD, PLAN, SHORTER, TALK, TOOLS
from tests.kit.kinds import make
from tests.kit.runs import RunReport

SKIPPED_BY_USER = "Tool skipped by user."
INCOMPLETE_RECORD = (
    "the notebook did not receive the whole record of this run; metadata.widgets keeps"
    " the part that arrived. Run the notebook again, with fewer tool calls in one cell"
)


HOSTILE = "raise ValueError('\\x1b[31m]]> <b>\\x00\\ufffe & \\x0b' + 'sk-' + 'a1' * 20)"


def reported(result: Any) -> Any:
    return RunReport.of(result, "walk.ipynb")


def in_json(result: Any) -> Any:
    """Return the JSON report of a run."""
    return json.loads(json.dumps(RunReport.text("json", reported(result))))


def list_turns(result: Any) -> list[tuple[int, int]]:
    """Return the number and the cell of each turn in the report of a run."""
    return [(turn["turn"], turn["cell"]) for turn in in_json(result)["turns"]]


@pytest.fixture(scope="module")
def failed_run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run with tools, questions, and changes, whose last cell but one fails."""
    folder = tmp_path_factory.mktemp("reported")
    return run_notebook(reported_notebook.write_walk(folder, *CELLS, HOSTILE, "print(3)"))


@pytest.fixture(scope="module")
def report(failed_run: Any) -> dict[str, Any]:
    found: dict[str, Any] = in_json(failed_run)
    return found


def test_cells_have_their_number_status_and_time(report: dict[str, Any]) -> None:
    ends = [(cell["cell"], cell["status"]) for cell in report["cells"]]
    passed = [(number, "passed") for number in range(1, 6)]
    assert ends == [*passed, (6, "failed"), (7, "not run")]
    assert report["cells"][3]["source"] == PLAN.replace("\n", " ")
    assert all(cell["seconds"] > 0 for cell in report["cells"][:6])
    assert report["ok"] is False
    assert report["failure"]["cell"] == 6


def test_turns_have_their_cell_calls_and_status(report: dict[str, Any]) -> None:
    first, second = report["turns"]
    assert (first["cell"], first["turn"], first["request"]) == (4, 0, "Plan a walk.")
    assert (second["cell"], second["turn"], second["text"]) == (5, 1, "Shorter it is.")
    assert first["status"] == second["status"] == "answered"
    [call] = first["tool_calls"]
    assert (call["name"], call["arguments"], call["is_error"]) == ("plan", {"days": 2}, True)


def test_questions_have_their_outcome(report: dict[str, Any]) -> None:
    ends = {each["id"].split(".")[1]: each for each in report["turns"][0]["questions"]}
    assert (ends["place"]["end"], ends["place"]["tool"]) == ("unavailable", "plan")
    assert (ends["dogs"]["end"], ends["dogs"]["answer"]) == ("answered", True)
    assert ends["dogs"]["channel"] == "configured"
    assert report["unanswered"] == 1


def test_configuration_changes_name_the_tool(report: dict[str, Any]) -> None:
    [change] = report["turns"][1]["config_changes"]
    assert change["set"] == {"assistant": {"name": "Shorter"}}
    assert change["proposed_by"] == ["shorter"]


def test_tokens_are_counted_by_turn_and_in_total(report: dict[str, Any]) -> None:
    taken = [turn["tokens"]["scripted/walk"] for turn in report["turns"]]
    assert taken == [{"input_tokens": 220, "output_tokens": 10}, {"input_tokens": 130}]
    assert report["tokens"] == {"scripted/walk": {"input_tokens": 350, "output_tokens": 10}}


# --- JUnit -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def suite(failed_run: Any) -> ElementTree.Element:
    return ElementTree.fromstring(RunReport.text("junit", reported(failed_run)))[0]


def test_each_cell_is_a_test_case(suite: ElementTree.Element) -> None:
    cases = suite.findall("testcase")
    assert [case.get("name", "").split(":")[0] for case in cases] == [
        f"cell {number}" for number in range(2, 9)
    ]
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "7", "failures": "1", "errors": "0", "skipped": "1"}
    assert {case.get("classname") for case in cases} == {"walk.ipynb"}


def test_error_text_is_valid_xml_without_keys(suite: ElementTree.Element) -> None:
    failure = suite.find("testcase/failure")
    assert failure is not None
    output = failure.get("message", "") + (failure.text or "")
    assert "]]> <b>" in output
    assert "\x1b" not in output
    assert "a1a1" not in output


def test_test_case_lists_its_turns_calls_and_questions(suite: ElementTree.Element) -> None:
    output = suite.findall("testcase")[3].findtext("system-out", "")
    assert "'Plan a walk.': answered" in output
    assert "call plan: error" in output
    assert "'Where do you walk?': no user was available" in output


def test_declined_call_is_reported_as_skipped(failed_run: Any) -> None:
    walk = reported(failed_run).turns[0]
    [call] = walk.turn.tool_calls
    skipped = replace(call, content=SKIPPED_BY_USER, is_error=False, skipped=True)
    lines = RunReport.text("turn", replace(walk, turn=replace(walk.turn, parts=(skipped,))))
    assert "  call plan: skipped" in lines


def test_counts_are_properties_of_the_suite(suite: ElementTree.Element) -> None:
    list_counts = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert list_counts["turns"] == "2"
    assert list_counts["unanswered_questions"] == "1"
    assert list_counts["input_tokens scripted/walk"] == "350"


# --- other ends of a run ---------------------------------------------------------------------


@pytest.mark.runners
def test_kernel_that_dies_fails_the_running_cell(tmp_path: Path) -> None:
    path = reported_notebook.write_walk(tmp_path, *CELLS[:4], "import os; os._exit(1)", SHORTER)
    found = in_json(run_notebook(path))
    cells = found["cells"]
    assert [cell["status"] for cell in cells][-3:] == ["passed", "failed", "not run"]
    assert cells[4]["error"] == "DeadKernelError: Kernel died"
    assert [turn["cell"] for turn in found["turns"]] == [4]
    stored = nbformat.read(path, as_version=4).metadata.jp.events
    assert stored[-1]["message"] == "Planned.", "the record is written"


@pytest.mark.runners
def test_notebook_without_a_conversation_has_a_report_and_no_record(tmp_path: Path) -> None:
    """The first cell is allowed to fail. The second one fails with an error that has no output."""
    path = reported_notebook.write_walk(tmp_path, "1 / 0", "raise ValueError('\\ud800')")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].metadata["tags"] = ["raises-exception"]
    nbformat.write(notebook, path)
    found = reported(run_notebook(path))
    assert [cell.status for cell in found.cells] == ["passed", "failed"]
    assert found.cells[1].error.startswith("UnicodeEncodeError: ")
    assert found.turns == ()
    assert found.record_error == ""
    assert "jp" not in nbformat.read(path, as_version=4).metadata


def test_incomplete_record_is_an_error_of_the_run(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook()
    failure = make("run_failure", None, "StorageError", INCOMPLETE_RECORD)
    lost = make("run_result", tmp_path / "a.ipynb", notebook, failure)
    root = ElementTree.fromstring(RunReport.text("junit", reported(lost)))
    [error] = root.iter("error")
    assert "did not receive the whole record" in error.get("message", "")


# --- turns of the run -------------------------------------------------------------------------


@pytest.mark.runners
def test_turns_of_earlier_runs_are_omitted(tmp_path: Path) -> None:
    """A reproducible run has the id of the earlier one, and still reports all its turns."""
    path = reported_notebook.write_walk(tmp_path, LOAD, PLAN, SHORTER, script=TALK)
    for _ in range(2):
        found = reported(run_notebook(path, settings={"record.reproducible": "true"}))
        assert [(turn.turn.number, turn.cell) for turn in found.turns] == [(0, 2), (1, 3)]
    more = reported(run_notebook(path, continue_=True))
    assert [(turn.turn.number, turn.cell) for turn in more.turns] == [(2, 2), (3, 3)]


@pytest.mark.runners
def test_each_conversation_of_a_run_is_reported_without_secrets(tmp_path: Path) -> None:
    secret = "%jp config conversation.tools.plan.options.password=Sesame-4711"
    cells = [LOAD, TOOLS, secret, PLAN, "%jp new", PLAN, PLAN]
    path = reported_notebook.write_walk(tmp_path, *cells)
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata["jp"] = {"version": 1, **LIVE}
    nbformat.write(notebook, path)
    found = reported(run_notebook(path))
    assert [(turn.turn.number, turn.cell) for turn in found.turns] == [(0, 4), (0, 6), (1, 7)]
    assert len({turn.conversation for turn in found.turns}) == 2
    assert found.turns[0].turn.config_changes
    assert "Sesame" not in f"{RunReport.text('json', found)}{RunReport.text('junit', found)}"


@pytest.mark.runners
def test_turns_that_branches_share_are_reported_once(tmp_path: Path) -> None:
    cells = [LOAD, PLAN, SHORTER, "%jp fork 1", SHORTER]
    found = reported(run_notebook(reported_notebook.write_walk(tmp_path, *cells, script=TALK)))
    assert [(turn.turn.number, turn.cell) for turn in found.turns] == [(0, 2), (1, 3), (1, 5)]
