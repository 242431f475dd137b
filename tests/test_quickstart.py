"""The quickstart under every runner with nobody there, and from the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from jp_nb.headless.show import load_conversation
from tests.support.notebook_runs import NOTEBOOKS, outputs, record, run

QUICKSTART = NOTEBOOKS / "01-quickstart.ipynb"
REFUSAL = (
    "ask_user cannot run because no interactive terminal is available. Do not retry this tool "
    "call in this turn; continue without user input or explain what information is missing."
)

RUNNERS = {
    "nbconvert": ["-m", "nbconvert", "--to", "notebook", "--execute", "in.ipynb", "--output=out"],
    "jupyter execute": ["-m", "jupyter", "execute", "--output=out", "in.ipynb"],
    "papermill": ["-m", "papermill", "in.ipynb", "out.ipynb", "--no-progress-bar"],
    "papermill --engine jp": [
        *("-m", "papermill", "in.ipynb", "out.ipynb", "--no-progress-bar", "--engine", "jp"),
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(QUICKSTART, tmp_path / "in.ipynb")
    return tmp_path


@pytest.mark.parametrize("runner", ["jp-nb run", *RUNNERS])
@pytest.mark.req("R083-75", "R083-76")
def test_every_runner_gives_the_stored_outputs_and_the_record(
    runner: str, folder: Path, tutorial_run: Callable[[str], Path]
) -> None:
    if runner == "jp-nb run":
        out = tutorial_run(QUICKSTART.name)
    else:
        done = run(RUNNERS[runner], folder)
        assert done.returncode == 0, done.stderr
        out = folder / "out.ipynb"
    assert outputs(out) == outputs(QUICKSTART)
    entries = record(out)
    refused = [e for e in entries if e["type"] == "tool_call_response" and e["is_error"]]
    assert [e["content"] for e in refused] == [REFUSAL]
    (closing,) = [e for e in entries if e["type"] == "inquiry_response"]
    assert (closing["outcome"], closing["reason"]) == ("cancelled", "no_prompt_backend")
    assert sum(e["type"] == "turn_start" for e in entries) == 5


def test_running_twice_gives_the_same_outputs_and_record(
    tmp_path: Path, tutorial_run: Callable[[str], Path]
) -> None:
    first = tutorial_run(QUICKSTART.name)
    again = tmp_path / "in.ipynb"
    shutil.copy(first, again)
    assert run(["-m", "jp_nb.cli", "run", "in.ipynb"], tmp_path).returncode == 0
    assert (outputs(again), record(again)) == (outputs(first), record(first))
    assert not load_conversation(again).others


def test_strict_fails_where_a_person_is_needed_and_keeps_the_record(folder: Path) -> None:
    done = run(["-m", "jp_nb.cli", "run", "--strict", "in.ipynb"], folder)
    assert done.returncode == 1
    assert "PromptUnavailable" in done.stderr
    assert record(folder / "in.ipynb")[-1]["content"] == REFUSAL


def test_continue_appends_to_the_conversation(folder: Path) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(code) for code in ("%load_ext jp_nb", "%jp q Umbrella?")]
    )
    nbformat.write(notebook, folder / "go.ipynb")
    (folder / "many.toml").write_text('[[replies]]\ntext = "a"\n[[replies]]\ntext = "b"\n')
    model = ["-c", "assistant.model.id=scripted/many"]
    for _ in range(2):
        done = run(["-m", "jp_nb.cli", "run", "--continue", *model, "go.ipynb"], folder)
        assert done.returncode == 0, done.stderr
    said = [e["message"] for e in record(folder / "go.ipynb") if e["type"] == "chat_response"]
    assert said == ["a", "b"]


def test_show_prints_the_conversation(tutorial_run: Callable[[str], Path]) -> None:
    out = tutorial_run(QUICKSTART.name)
    shown = run(["-m", "jp_nb.cli", "show", out.name], out.parent)
    assert shown.returncode == 0
    assert "Do I need an umbrella in Delft tomorrow?" in shown.stdout
    whole = json.loads(run(["-m", "jp_nb.cli", "show", "--json", out.name], out.parent).stdout)
    assert whole["version"] == 1
    assert whole["conversation"]["made"] == "headless"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "missing.ipynb"], 2, "there is no notebook missing.ipynb"),
        (["show", "in.ipynb"], 1, "no conversation"),
        (["show", "broken.ipynb"], 1, "broken.ipynb"),
        (["dance"], 2, "dance"),
    ],
)
def test_a_mistake_on_the_command_line_says_what_it_is(
    folder: Path, arguments: list[str], code: int, words: str
) -> None:
    (folder / "broken.ipynb").write_text("{")
    done = run(["-m", "jp_nb.cli", *arguments], folder)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_doctor_says_what_works(folder: Path) -> None:
    done = run(["-m", "jp_nb.cli", "doctor"], folder)
    assert done.returncode == 0, done.stdout
    assert "lab extension in" in done.stdout
    (folder / ".jp").mkdir()
    (folder / ".jp" / "config.toml").write_text('[assistant]\nnmae = "x"\n')
    broken = run(["-m", "jp_nb.cli", "doctor"], folder)
    assert broken.returncode == 1
    assert "did you mean 'assistant.name'?" in broken.stdout
