"""Reports of runs: what is in them, and that they are there however a run ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest

from jp_nb import cli
from jp_nb.agent.decisions import SKIPPED
from jp_nb.headless.junit import junit_xml
from jp_nb.headless.report_json import json_report, to_json
from jp_nb.headless.report_lines import turn_lines
from jp_nb.headless.run_report import RunReport, report_of
from jp_nb.headless.runner import RunResult, run_notebook
from jp_nb.record.carrier import MODULE
from tests.headless.conftest import WriteNotebook
from tests.support import reported_notebook
from tests.support.reported_notebook import ANSWER, CELLS, LOAD, PLAN, SHORTER, TALK, TOOLS

HOSTILE = "raise ValueError('\\x1b[31m]]> <b>\\x00\\ufffe & \\x0b' + 'sk-' + 'a1' * 20)"


def reported(result: RunResult) -> RunReport:
    return report_of(result, "walk.ipynb")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run in which something of everything happens, and that fails in its last cell but one."""
    folder = tmp_path_factory.mktemp("reported")
    return run_notebook(reported_notebook.written(folder, *CELLS, HOSTILE, "print(3)"))


@pytest.fixture(scope="module")
def report(whole: RunResult) -> dict[str, Any]:
    return json.loads(json_report(reported(whole)))  # type: ignore[no-any-return]


def test_cells_are_told_with_their_ends_and_their_numbers(report: dict[str, Any]) -> None:
    ends = [(cell["cell"], cell["status"]) for cell in report["cells"]]
    passed = [(number, "passed") for number in range(1, 6)]
    assert ends == [*passed, (6, "failed"), (7, "not run")]
    assert report["cells"][3]["source"] == PLAN.replace("\n", " ")
    assert all(cell["seconds"] > 0 for cell in report["cells"][:6])
    assert report["ok"] is False
    assert report["failure"]["cell"] == 6


def test_turns_are_told_with_their_cells_calls_and_status(report: dict[str, Any]) -> None:
    first, second = report["turns"]
    assert (first["cell"], first["turn"], first["request"]) == (4, 0, "Plan a walk.")
    assert (second["cell"], second["turn"], second["text"]) == (5, 1, "Shorter it is.")
    assert first["status"] == second["status"] == "answered"
    [call] = first["tool_calls"]
    assert (call["name"], call["arguments"], call["is_error"]) == ("plan", {"days": 2}, True)


def test_questions_are_told_with_their_ends(report: dict[str, Any]) -> None:
    ends = {each["id"].split(".")[1]: each for each in report["turns"][0]["questions"]}
    assert (ends["place"]["end"], ends["place"]["tool"]) == ("unavailable", "plan")
    assert (ends["dogs"]["end"], ends["dogs"]["answer"]) == ("answered", True)
    assert ends["dogs"]["channel"] == "configured"
    assert report["unanswered"] == 1


def test_changes_of_the_configuration_name_the_tool(report: dict[str, Any]) -> None:
    [change] = report["turns"][1]["config_changes"]
    assert change["set"] == {"assistant": {"name": "Shorter"}}
    assert change["proposed_by"] == ["shorter"]


def test_tokens_are_told_by_turn_and_in_all(report: dict[str, Any]) -> None:
    taken = [turn["tokens"]["scripted/walk"] for turn in report["turns"]]
    assert taken == [{"input_tokens": 220, "output_tokens": 10}, {"input_tokens": 130}]
    assert report["tokens"] == {"scripted/walk": {"input_tokens": 350, "output_tokens": 10}}


def test_a_secret_setting_is_in_no_report(tmp_path: Path) -> None:
    secret = "conversation.tools.plan.options.password=Sesame-4711"
    path = reported_notebook.written(tmp_path, LOAD, TOOLS, f"%jp config {secret}", PLAN)
    found = reported(run_notebook(path))
    assert found.turns[0].turn.config_changes
    assert "Sesame" not in json_report(found) + junit_xml([found]).decode()


# --- JUnit -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def suite(whole: RunResult) -> ElementTree.Element:
    return ElementTree.fromstring(junit_xml([reported(whole)]))[0]


def test_each_cell_is_a_test_case(suite: ElementTree.Element) -> None:
    cases = suite.findall("testcase")
    assert [case.get("name", "").split(":")[0] for case in cases] == [
        f"cell {number}" for number in range(2, 9)
    ]
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "7", "failures": "1", "errors": "0", "skipped": "1"}
    assert {case.get("classname") for case in cases} == {"walk.ipynb"}


def test_whatever_a_cell_says_is_xml_and_holds_no_key(suite: ElementTree.Element) -> None:
    failure = suite.find("testcase/failure")
    assert failure is not None
    said = failure.get("message", "") + (failure.text or "")
    assert "]]> <b>" in said
    assert "\x1b" not in said
    assert "a1a1" not in said


def test_a_case_says_what_its_turns_did(suite: ElementTree.Element) -> None:
    said = suite.findall("testcase")[3].findtext("system-out", "")
    assert "'Plan a walk.': answered" in said
    assert "call plan: error" in said
    assert "'Where do you walk?': nobody was there to answer" in said


def test_a_call_that_somebody_did_not_want_counts_as_skipped(whole: RunResult) -> None:
    walk = reported(whole).turns[0]
    [call] = walk.turn.tool_calls
    skipped = replace(call, content=SKIPPED, is_error=False)
    lines = turn_lines(replace(walk, turn=replace(walk.turn, tool_calls=(skipped,))))
    assert "  call plan: skipped" in list(lines)


def test_counts_are_properties_of_the_suite(suite: ElementTree.Element) -> None:
    facts = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert facts["turns"] == "2"
    assert facts["unanswered_questions"] == "1"
    assert facts["input_tokens scripted/walk"] == "350"


def test_a_cell_that_fails_for_want_of_a_person_names_turn_and_question(tmp_path: Path) -> None:
    path = reported_notebook.written(tmp_path, LOAD, TOOLS, ANSWER, PLAN)
    root = ElementTree.fromstring(junit_xml([reported(run_notebook(path, strict=True))]))
    said = root.findtext("testsuite/testcase/failure", "")
    assert "in turn 0 of jp-c" in said
    assert "question call_1_1.place.1 of plan: 'Where do you walk?'" in said


# --- runs that end otherwise -----------------------------------------------------------------


def test_a_kernel_that_dies_fails_the_cell_it_died_in(tmp_path: Path) -> None:
    path = reported_notebook.written(tmp_path, *CELLS[:4], "import os; os._exit(1)", SHORTER)
    found = to_json(reported(run_notebook(path)))
    cells: Any = found["cells"]
    assert [cell["status"] for cell in cells][-3:] == ["passed", "failed", "not run"]
    assert cells[4]["error"] == "DeadKernelError: Kernel died"
    turns: Any = found["turns"]
    assert [turn["cell"] for turn in turns] == [4]


def test_a_cell_that_may_fail_passes(tmp_path: Path) -> None:
    path = reported_notebook.written(tmp_path, "1 / 0", "1 / 0")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].metadata["tags"] = ["raises-exception"]
    nbformat.write(notebook, path)
    found = reported(run_notebook(path))
    assert [cell.status for cell in found.cells] == ["passed", "failed"]


def test_a_failure_that_no_output_can_show_is_told(tmp_path: Path) -> None:
    path = reported_notebook.written(tmp_path, "raise ValueError('\\ud800')")
    [cell] = reported(run_notebook(path)).cells
    assert cell.status == "failed"
    assert cell.error.startswith("UnicodeEncodeError: ")


def test_a_notebook_without_a_conversation_has_a_report(tmp_path: Path) -> None:
    path = reported_notebook.written(tmp_path, "print(1)")
    found = reported(run_notebook(path))
    assert [cell.status for cell in found.cells] == ["passed"]
    assert found.turns == ()
    assert found.record_error == ""


LOSES = f"""
from jp_nb.notebook.document.carrier_store import CarrierStore
publish = CarrierStore._publish

def lossy(self, touched):
    assert {MODULE!r}
    touched.pop("events.0", None)
    publish(self, touched)

CarrierStore._publish = lossy
"""


def test_a_record_that_is_not_whole_is_an_error_of_the_run(tmp_path: Path) -> None:
    path = reported_notebook.written(tmp_path, LOAD, TOOLS, PLAN, LOSES, SHORTER)
    root = ElementTree.fromstring(junit_xml([reported(run_notebook(path))]))
    [error] = root.iter("error")
    assert "did not reach the notebook whole" in error.get("message", "")


# --- which turns are of the run ---------------------------------------------------------------


def test_turns_of_earlier_runs_are_not_told(tmp_path: Path) -> None:
    path = reported_notebook.written(tmp_path, LOAD, PLAN, SHORTER, script=TALK)
    run_notebook(path)
    again = reported(run_notebook(path))
    assert [(turn.turn.number, turn.cell) for turn in again.turns] == [(0, 2), (1, 3)]
    more = reported(run_notebook(path, continue_=True))
    assert [(turn.turn.number, turn.cell) for turn in more.turns] == [(2, 2), (3, 3)]


def test_a_reproducible_run_tells_its_turns_each_time(tmp_path: Path) -> None:
    path = reported_notebook.written(tmp_path, LOAD, PLAN, script=TALK)
    for _ in range(2):
        found = reported(run_notebook(path, settings={"record.reproducible": "true"}))
        assert [(turn.turn.number, turn.cell) for turn in found.turns] == [(0, 2)]


def test_each_conversation_of_a_run_is_told(tmp_path: Path) -> None:
    cells = [LOAD, TOOLS, PLAN, "%jp new", PLAN, PLAN]
    found = reported(run_notebook(reported_notebook.written(tmp_path, *cells)))
    assert [(turn.turn.number, turn.cell) for turn in found.turns] == [(0, 3), (0, 5), (1, 6)]
    assert len({turn.conversation for turn in found.turns}) == 2


def test_turns_that_branches_share_are_told_once(tmp_path: Path) -> None:
    cells = [LOAD, PLAN, SHORTER, "%jp fork 0", SHORTER]
    found = reported(run_notebook(reported_notebook.written(tmp_path, *cells, script=TALK)))
    assert [(turn.turn.number, turn.cell) for turn in found.turns] == [(0, 2), (1, 3), (1, 5)]


def test_a_live_conversation_beside_it_is_not_told(write_notebook: WriteNotebook) -> None:
    events = [{"type": "chat_request", "timestamp": "2025-01-31 09:00:00.0", "content": "live"}]
    live = {"conversation": {"id": "jp-c1", "made": "live"}, "base_config": {}, "events": events}
    path = write_notebook("say('one')", jp={"version": 1, **live})
    found = reported(run_notebook(path))
    assert [turn.turn.request for turn in found.turns] == ["one"]


# --- the command -----------------------------------------------------------------------------


Outcome = tuple[int, str]


@pytest.fixture
def command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    """Run `jp-nb` in the test's folder; returns its status and what it said."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Outcome:
        status = cli.main(arguments)
        return status, capsys.readouterr().err

    return call


@pytest.mark.parametrize(("end", "status"), [("1 + 1", 0), ("1 / 0", 1)])
def test_both_reports_are_written_and_the_status_is_as_without_them(
    command: Callable[..., Outcome], tmp_path: Path, end: str, status: int
) -> None:
    reported_notebook.written(tmp_path, end)
    said = command("run", "walk.ipynb", "--junit", "reports/walk.xml", "--json", "walk.json")
    assert said[0] == status
    suite = ElementTree.parse(tmp_path / "reports" / "walk.xml").getroot()[0]
    assert suite.get("name") == "walk.ipynb"
    assert suite.get("failures") == str(status)
    assert json.loads((tmp_path / "walk.json").read_text())["ok"] is (status == 0)


def test_what_nobody_decided_is_told_in_both(
    command: Callable[..., Outcome], tmp_path: Path
) -> None:
    reported_notebook.written(tmp_path, LOAD, TOOLS, ANSWER, PLAN)
    command("run", "walk.ipynb", "--junit", "walk.xml", "--json", "walk.json")
    [open_] = json.loads((tmp_path / "walk.json").read_text())["undecided"]
    assert (open_["kind"], open_["times"]) == ("question", 1)
    assert open_["what"] == "question place of plan: Where do you walk?"
    said = ElementTree.parse(tmp_path / "walk.xml").getroot()[0].findtext("system-out", "")
    assert said.startswith(f"nobody decided {open_['what']}: ")


def test_a_report_that_cannot_be_written_is_said_besides_what_failed(
    command: Callable[..., Outcome], tmp_path: Path
) -> None:
    reported_notebook.written(tmp_path, "1 / 0")
    (tmp_path / "walk.xml").mkdir()
    status, said = command("run", "walk.ipynb", "--junit", "walk.xml")
    assert status == 1
    assert "ZeroDivisionError in cell 2" in said
    assert "walk.xml cannot be written" in said


@pytest.mark.parametrize("option", ["--junit", "--json"])
def test_a_report_is_written_over_no_notebook(
    command: Callable[..., Outcome], tmp_path: Path, option: str
) -> None:
    before = reported_notebook.written(tmp_path, "1").read_bytes()
    status, said = command("run", "walk.ipynb", option, "walk.ipynb")
    assert status == 2
    assert "walk.ipynb is the name of a notebook" in said
    assert (tmp_path / "walk.ipynb").read_bytes() == before
