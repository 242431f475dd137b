"""Kernels of front ends that keep no record: where it is, and how it comes into a notebook."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jp_nb.notebook.document.places import VS_CODE_FILE
from tests.support.cells import error
from tests.support.kernel_client import PATIENCE, FrontEnd, front_end
from tests.support.scripted_page import View, kernel

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL"),
]

LOAD = "%load_ext jp_nb"
CONSOLE = "a console or a program has no notebook"
IN_JOURNAL = "kept in your journal, not in a notebook: "
SCRIPT = '[[replies]]\ntext = "By train."\n[[replies]]\ntext = "By boat."\n'
ASK = "%%jp -m scripted/talk\nPlan a trip to Delft."
ACTIVE = "from jp_nb.session.current import current; print(current().document.conversation.id)"
WITHOUT_CELLS: dict[str, Any] = {"cell_id": None}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "talk.toml").write_text(SCRIPT)
    for variable in ("JPY_SESSION_NAME", "VSCODE_PID"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def kill(user: FrontEnd) -> None:
    provisioner: Any = user.manager.provisioner
    os.kill(provisioner.pid, signal.SIGKILL)
    provisioner.process.wait(PATIENCE)


def failure(user: FrontEnd, line: str, **how: Any) -> str:
    request = user.start(line, **how)
    user.finish(request)
    return "".join((error(user, request) or {})["traceback"])


def shown(user: FrontEnd, line: str, **how: Any) -> str:
    request = user.start(line, **how)
    user.finish(request)
    return "\n".join(each["text/plain"] for each in user.displays(request))


def test_a_conversation_of_a_console_comes_into_a_notebook(folder: Path) -> None:
    with front_end(folder) as user:
        said = user.run(LOAD, **WITHOUT_CELLS)
        assert said.endswith(f"new conversation · {IN_JOURNAL}{CONSOLE}\n")
        user.run(ASK, **WITHOUT_CELLS)
        kill(user)
    with front_end(folder) as user:
        said = user.run(LOAD, **WITHOUT_CELLS)
        assert "jp_nb: a conversation of this folder is in no notebook: jp-c" in said
        assert '"Plan a trip to Delft." (1 turn). `%jp resume` restores it' in said
        restored = user.run("%jp resume", **WITHOUT_CELLS)
        assert f"(1 turn) · {IN_JOURNAL}{CONSOLE}" in restored
        user.run("%jp export trip", **WITHOUT_CELLS)
        kill(user)
    command = [sys.executable, "-m", "jp_nb.cli", "import", "trip", "trip.ipynb"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    record = json.loads((folder / "trip.ipynb").read_text())["metadata"]["jp"]
    said_there = [entry.get("content") or entry.get("message") for entry in record["events"]]
    assert said_there[-2:] == ["Plan a trip to Delft.", "By train."]


def test_one_of_several_conversations_of_a_folder_is_restored_by_its_id(folder: Path) -> None:
    with front_end(folder) as user:
        user.run(LOAD, **WITHOUT_CELLS)
        user.run(ASK, **WITHOUT_CELLS)
        first = user.run(ACTIVE, **WITHOUT_CELLS).strip()
        user.run("%%jp -n\nPlan another one.", **WITHOUT_CELLS)
        kill(user)
    with front_end(folder) as user:
        said = user.run(LOAD, **WITHOUT_CELLS)
        assert "jp_nb: 2 conversations of this folder are in no notebook: " in said
        assert f'{first} "Plan a trip to Delft." (1 turn)' in said
        assert "`%jp resume` restores the newest, `%jp resume ID` another one" in said
        user.run(f"%jp resume {first}", **WITHOUT_CELLS)
        assert user.run(ACTIVE, **WITHOUT_CELLS).strip() == first
        unknown = failure(user, "%jp resume jp-c1x", **WITHOUT_CELLS)
        assert "no kernel left a conversation jp-c1x here" in unknown


def test_a_conversation_of_another_folder_is_not_offered(folder: Path) -> None:
    for name in ("one", "other"):
        (folder / name).mkdir()
        (folder / name / "talk.toml").write_text(SCRIPT)
    with front_end(folder / "one") as user:
        user.run(LOAD, **WITHOUT_CELLS)
        user.run(ASK, **WITHOUT_CELLS)
        kill(user)
    with front_end(folder / "other") as user:
        assert "no notebook:" not in user.run(LOAD, **WITHOUT_CELLS)


def test_without_a_journal_the_kernel_says_that_the_conversation_is_lost(folder: Path) -> None:
    (folder / ".jp").mkdir()
    (folder / ".jp" / "config.toml").write_text("[record]\njournal = false\n")
    with front_end(folder) as user:
        said = user.run(LOAD, **WITHOUT_CELLS)
        assert f"kept in memory only (`record.journal` is off): {CONSOLE}" in said


def test_save_and_doctor_tell_the_same_place(folder: Path) -> None:
    with front_end(folder) as user:
        user.run(LOAD, **WITHOUT_CELLS)
        refused = failure(user, "%jp save", **WITHOUT_CELLS)
        assert f"the record is not saved: it is {IN_JOURNAL}{CONSOLE}. `%jp export DIR`" in refused
        table = shown(user, "%jp doctor", **WITHOUT_CELLS)
        assert f"{IN_JOURNAL}{CONSOLE}" in table
        assert "a console or a program" in table


def test_a_program_that_allows_no_input_is_told_the_truth(folder: Path) -> None:
    program: dict[str, Any] = {"cell_id": None, "allow_stdin": False}
    with front_end(folder) as user:
        whole = "kept in the notebook that the program around this kernel writes, if it writes one"
        assert user.run(LOAD, **program).rstrip().endswith(whole)
        assert f"{whole}, at the end of the run" in user.run("%jp save", **program)


@pytest.mark.parametrize("how", ["VS Code", "a page without the jp-nb extension"])
def test_a_conversation_comes_into_its_notebook_once_a_page_keeps_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (folder / "talk.ipynb").write_text("{}")
    notebook = str(folder / "talk.ipynb")
    if how != "VS Code":
        monkeypatch.setenv("JPY_SESSION_NAME", notebook)
    with front_end(folder) as user:
        if how == "VS Code":
            user.run(f"{VS_CODE_FILE} = {notebook!r}")
        said = user.run(LOAD)
        assert IN_JOURNAL in said
        assert ("VS Code stores no conversations" in said) is (how == "VS Code")
        assert ("no page answered" in said) is (how != "VS Code")
        assert how in shown(user, "%jp doctor")
        user.run(ASK)
        kill(user)
    view = View()
    with kernel(folder) as front:
        front.views = [view]
        said = front.run(LOAD)
        assert "left a conversation that this notebook does not have: `%jp resume`" in said
        assert "(1 turn) · kept in this notebook" in front.run("%jp resume")
        front.until(lambda: bool(view.jp) and view.contents() == ["Plan a trip to Delft."])


def test_ipython_in_a_terminal_keeps_a_journal(folder: Path) -> None:
    def ipython(*lines: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "IPython", "--no-banner", "--quick", "--colors=NoColor"],
            cwd=folder,
            input="\n".join([*lines, "exit", ""]),
            env={**os.environ, "IPYTHONDIR": str(folder / "ipython")},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return done.stdout

    said = ipython(LOAD, "%jp config assistant.model.id=scripted/talk", "%jp q Plan a trip.")
    assert f"{IN_JOURNAL}IPython in a terminal has no notebook" in said
    assert '"Plan a trip." (1 turn). `%jp resume` restores it' in ipython(LOAD)
