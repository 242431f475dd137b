"""`pytest --jp` runs each notebook as a test, and leaves its file unchanged."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import jp_nb as jp
from jp_nb.headless.pytest_notebooks import make_file_settings
from tests.headless.reported_notebook import ANSWER, LOAD, PLAN, SHORTER, TALK, TOOLS, write_walk
from tests.kit.kinds import make
from tests.kit.runs import RunReport
from tests.kit.texts import write_text
from tests.support.notebook_runs import NOTEBOOKS, run

MAX_PLAIN_CHARS = 20_000


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in `folder`; warnings are errors. Slow plugins of others are not loaded."""
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    without = [f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "nbval")]
    return run(["-m", "pytest", "-q", *without, *options], folder)


def test_notebook_is_one_test_and_is_not_changed(tmp_path: Path) -> None:
    path = write_walk(tmp_path, LOAD, TOOLS, ANSWER, PLAN, SHORTER)
    (tmp_path / "test_other.py").write_text("def test_it() -> None:\n    pass\n")
    before = path.read_bytes()
    done = pytest_in(tmp_path, "--jp", "--junitxml", "../report.xml")
    assert "2 passed" in done.stdout, done.stdout
    assert path.read_bytes() == before
    names = {each.name for each in tmp_path.iterdir()} - {"ipython", "__pycache__"}
    assert names == {"walk.ipynb", "walk.toml", "test_other.py", "pytest.ini"}
    report = ElementTree.parse(tmp_path.parent / "report.xml")
    list_counts = {each.get("name"): each.get("value") for each in report.iter("property")}
    assert list_counts["turns"] == "2"
    assert list_counts["unanswered_questions"] == "1"


KEY = "sk-abcdefgh1234567890123"
LEAKS = f"""print('so far')
print("key: {KEY[:5]}" "{KEY[5:]}")
raise ValueError("no such key: {KEY[:5]}" "{KEY[5:]}")
"""


@pytest.mark.runners
def test_failure_names_cell_error_and_open_questions_without_keys(tmp_path: Path) -> None:
    write_walk(tmp_path, LOAD, TOOLS, ANSWER, PLAN, LEAKS)
    (tmp_path / "broken.ipynb").write_text("{")
    done = pytest_in(tmp_path, "--jp")
    assert "2 failed" in done.stdout
    assert "broken.ipynb is not a notebook" in done.stdout
    assert "walk.ipynb: cell 6 failed: print('so far')" in done.stdout
    assert "no such key: (set, not shown)" in done.stdout
    assert "question call_1_1.place.1 of plan: 'Where do you walk?'" in done.stdout
    assert "so far\n" in done.stdout
    assert "jp_nb/headless" not in done.stdout, "no traceback of jp_nb"
    assert KEY not in done.stdout + done.stderr
    assert "\x1b" not in done.stdout, "as in the traceback of the kernel"


def asked_turn(request: str, *calls: Any) -> jp.Turn:
    return jp.Turn(0, (make("turn_text", request, by_person=True), *calls))


def reported_turn(turn: jp.Turn, *questions: Any) -> Any:
    return make("reported_turn", "jp-c1", turn, 1, questions, {})


def reported_cell(
    status: str, *turns: Any, number: int = 1, source: str = "", error: str = ""
) -> Any:
    return make("reported_cell", number, source, status, 0.0, error, "", turns)


def before_a_key(limit: int) -> str:
    """Return a text in which a key crosses the limit at which the text is cut."""
    return f"{'x' * (limit - 8)} {KEY}"


def test_no_part_of_a_key_is_left_of_a_text_that_is_cut() -> None:
    call = make("tool_call", "c1", "plan", {}, content=before_a_key(500), is_error=True)
    no_user = make("question_outcome", "unavailable")
    asked = make("reported_question", make("inquiry", "q1", before_a_key(200), no_user), "plan")
    turn = reported_turn(asked_turn(before_a_key(200), call), asked)
    cell = reported_cell("failed", turn)

    key = ("questions", "plan", "q1")
    question = jp.Question.text("q1", before_a_key(200))
    left = make("reported_decision", key, "question", before_a_key(300), question=question)
    events = make("run_events", {key: left})
    report = make("run_report", "walk.ipynb", None, (cell,), (turn,), "", events)

    shown = [
        *RunReport.text("cell_errors", cell),
        *RunReport.text("turn", turn),
        *RunReport.text("open_decisions", report),
        *RunReport.text("end_of_run", events),
        write_text("terminal", before_a_key(MAX_PLAIN_CHARS)),
    ]
    assert len(shown) > 7
    assert [line for line in shown if "sk-" in line] == []


@pytest.mark.runners
def test_strict_test_fails_for_open_decisions_and_unused_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_walk(tmp_path, LOAD, TOOLS, ANSWER, PLAN)
    answers = {
        "unused": 'dogs = true\nplace = "Wood"\nday = "Monday"',
        "skipped": "dogs = true\nplace = { skip = true }",
    }
    for name, content in answers.items():
        write_walk(tmp_path, LOAD, TOOLS, PLAN, name=f"{name}.ipynb")
        (tmp_path / f"{name}.answers.toml").write_text(f"[questions.plan]\n{content}\n")
    monkeypatch.setenv("CI", "true")  # pytest does not shorten lines in CI
    done = pytest_in(tmp_path, "--jp-strict", "--junitxml", "../report.xml")
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    lines = done.stdout.splitlines()
    unused = "unused.answers.toml, line 4: questions.plan.day was not used: "
    assert {line for line in lines if line.startswith("unused.answers.toml")} == {
        f"{unused}the notebook did not ask for it"
    }
    place = "walk.ipynb: cell 5 failed: %%jp -m scripted/walk Plan a walk."
    assert place in lines
    assert f"FAILED walk.ipynb::jp - {place}" in lines
    format_failures = ElementTree.parse(tmp_path.parent / "report.xml").findall(".//failure")
    texts = {each.get("message"): str(each.text) for each in format_failures}
    assert texts[place].startswith(f"{place}\nin turn 1 of jp-c")
    [turn] = [line for line in lines if line.startswith("in turn 1 of jp-c")]
    assert turn.endswith(": 'Plan a walk.'")
    asked = "  question call_1_1.place.1 of plan: 'Where do you walk?': no user was available"
    assert asked in lines
    file = "walk.answers.toml"
    assert f"Prepare these decisions in an answers file {file} next to the notebook." in lines


def test_answer_that_was_chosen_automatically_fails_a_strict_test() -> None:
    outcomes = {
        "automatic": make("question_outcome", "answered", marks=frozenset({"auto"})),
        "answered": make("question_outcome", "answered"),
        "declined": make("question_outcome", "declined"),
        "failed": make("question_outcome", "failed"),
    }
    asked = []
    for name, outcome in outcomes.items():
        inquiry = make("inquiry", name, f"{name}?", outcome)
        asked.append(make("reported_question", inquiry, "assistant"))

    turn = reported_turn(asked_turn("Plan it."), *asked)
    report = make("run_report", "walk.ipynb", None, (reported_cell("passed", turn),), (turn,))
    assert RunReport.text("test_failure", report, strict=False) == []
    assert RunReport.text("test_failure", report, strict=True) == [
        "walk.ipynb: cell 2, turn 1 of jp-c1: 'Plan it.'",
        "  question automatic of assistant: 'automatic?': chosen automatically",
        "Prepare these decisions in an answers file walk.answers.toml next to the notebook.",
    ]


def test_open_decisions_are_listed_once_for_several_failed_cells() -> None:
    key = ("permissions", "plan")
    left = make("reported_decision", key, "permission", "no user was available")
    events = make("run_events", {key: left})
    cells = tuple(
        reported_cell("failed", number=number, source=f"cell {number}", error="ValueError: no")
        for number in (1, 4)
    )
    report = make("run_report", "walk.ipynb", None, cells, (), "", events)
    advice = "Prepare these decisions in an answers file walk.answers.toml next to the notebook."

    assert RunReport.text("test_failure", report, strict=False) == [
        "walk.ipynb: cell 2 failed: cell 1",
        "ValueError: no",
        "walk.ipynb: cell 5 failed: cell 4",
        "ValueError: no",
        "open decision: permission to run plan: no user was available",
        advice,
    ]


@pytest.mark.runners
def test_notebook_is_not_a_test_without_the_option(tmp_path: Path) -> None:
    write_walk(tmp_path, "1 / 0")
    assert "no tests ran" in pytest_in(tmp_path).stdout


@pytest.mark.runners
def test_nbval_can_run_in_the_same_session(tmp_path: Path) -> None:
    pytest.importorskip("nbval", reason="pip install -e '.[tiers]'")
    write_walk(tmp_path, "1 + 1", "2 + 2")
    done = run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--jp", "--nbval-lax"], tmp_path)
    assert "3 passed" in done.stdout, done.stdout


@pytest.mark.runners
def test_cell_that_exceeds_the_timeout_fails_the_test(tmp_path: Path) -> None:
    write_walk(tmp_path, "import time\ntime.sleep(600)")
    done = pytest_in(tmp_path, "--jp", "--jp-timeout", "2")
    assert done.returncode == 1
    assert "walk.ipynb: cell 2 failed" in done.stdout
    assert "TimeoutError" in done.stdout


# --- files beside a notebook -----------------------------------------------------------------


@pytest.mark.runners
def test_cassette_must_have_every_request_and_strictly_no_others(tmp_path: Path) -> None:
    write_walk(tmp_path, LOAD, PLAN, SHORTER, script=TALK)
    assert pytest_in(tmp_path, "--jp-record").returncode == 0
    write_walk(tmp_path, LOAD, PLAN, name="unused.ipynb")
    write_walk(tmp_path, LOAD, PLAN.replace("walk.", "swim."), name="swim.ipynb")
    for name in ("unused", "swim"):
        shutil.copy(tmp_path / "walk.cassette.jsonl", tmp_path / f"{name}.cassette.jsonl")
    (tmp_path / "walk.toml").unlink()  # only the cassettes can answer now
    done = pytest_in(tmp_path, "--jp-strict")
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert "swim.ipynb: cell 3 failed: %%jp -m scripted/walk Plan a swim." in done.stdout
    assert ": 'Plan a swim.'\n" in done.stdout
    assert '"Plan a walk." → "Plan a swim."' in done.stdout
    assert "1 of 2 exchanges of unused.cassette.jsonl" in done.stdout
    assert pytest_in(tmp_path, "--jp", "unused.ipynb").returncode == 0


def test_cassette_is_not_recorded_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "talk.cassette.jsonl").symlink_to(tmp_path.parent / ".bash_profile")
    with pytest.raises(jp.StorageError, match="is a link to"):
        make_file_settings(tmp_path / "talk.ipynb", record=True)


def test_lines_about_a_turn_hold_no_escape_sequences() -> None:
    missing = "no\x1b[2J such tool"
    call = make("tool_call", "c1", "\x1b[2Jsweep", {}, content=missing, is_error=True)
    asked = make("reported_question", make("inquiry", "q\x1b[2J", "Which?\x1b[2J"), "a\x1b[2J")
    turn = reported_turn(asked_turn("Plan it.\x1b[2J", call), asked)
    lines = [
        *RunReport.text("cell_errors", reported_cell("failed", turn)),
        *RunReport.text("turn", turn),
    ]
    assert any("sweep: error" in line for line in lines)
    assert "\x1b" not in "".join(lines)


def test_files_beside_a_notebook_become_settings(tmp_path: Path) -> None:
    replayed = {"mode": "replay", "path": "walk.cassette.jsonl"}
    recorded = {"mode": "record", "path": "walk.cassette.jsonl"}
    rows: list[tuple[bool, str, dict[str, str]]] = [
        (False, "", {}),
        (False, "walk.cassette.jsonl", replayed),
        (False, "walk.answers.toml", {"answers": "walk.answers.toml"}),
        (True, "", recorded),
        (True, "walk.cassette.jsonl", recorded),
    ]
    for number, (record, name, settings) in enumerate(rows):
        folder = tmp_path / str(number)
        folder.mkdir()
        for file in filter(None, (name, "other.cassette.jsonl", "other.answers.toml")):
            (folder / file).touch()
        found = make_file_settings(folder / "walk.ipynb", record=record)
        names = {path.rpartition(".")[2]: Path(text).name for path, text in found.items()}
        assert names == settings


def test_plugin_loads_no_library_before_the_option_is_given() -> None:
    code = "import jp_nb.headless.pytest_plugin, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not set(done.stdout.split()) & {"nbclient", "nbformat", "pydantic", "IPython"}


@pytest.mark.deep  # a step of `.ci/run` does this
def test_tutorials_pass_as_tests(tmp_path: Path) -> None:
    folder = tmp_path / "notebooks"
    shutil.copytree(NOTEBOOKS, folder, ignore=shutil.ignore_patterns("*.png"))
    done = pytest_in(folder, "--jp")
    count = len(list(NOTEBOOKS.glob("*.ipynb")))
    assert f"{count} passed" in done.stdout, done.stdout
