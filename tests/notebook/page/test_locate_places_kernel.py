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

from tests.support.kernel_client import PATIENCE, FrontEnd, front_end
from tests.support.scripted_page import View, kernel

VS_CODE_FILE = "__vsc_ipynb_file__"


pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL"),
]

LOAD = "%load_ext jp_nb"
CONSOLE = "a console or program has no notebook"
IN_JOURNAL = "kept in your journal, not in a notebook: "
SCRIPT = '[[replies]]\ntext = "By train."\n[[replies]]\ntext = "By boat."\n'
ASK = "%%jp -m scripted/talk\nPlan a trip to Delft."
ACTIVE = "from jp_nb.session import get_session; print(get_session().document.conversation.id)"
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


def shown(user: FrontEnd, line: str, **how: Any) -> str:
    request = user.start(line, **how)
    user.finish(request)
    return "\n".join(each["text/plain"] for each in user.displays(request))


@pytest.mark.deep
def test_conversation_of_a_console_is_imported_into_a_notebook(folder: Path) -> None:
    with front_end(folder) as user:
        said = user.run(LOAD, **WITHOUT_CELLS)
        assert said.endswith(f"new conversation · {IN_JOURNAL}{CONSOLE}\n")
        user.run(ASK, **WITHOUT_CELLS)
        kill(user)
    with front_end(folder) as user:
        said = user.run(LOAD, **WITHOUT_CELLS)
        assert "jp_nb: a conversation of this folder is stored only in the journal: jp-c" in said
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


@pytest.mark.kernel
@pytest.mark.parametrize("how", ["VS Code"])
def test_conversation_is_restored_into_its_notebook_by_a_page(
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
        assert ("VS Code does not store conversations" in said) is (how == "VS Code")
        assert ("no page answered" in said) is (how != "VS Code")
        assert how in shown(user, "%jp doctor")
        user.run(ASK)
        kill(user)
    view = View()
    with kernel(folder) as front:
        front.views = [view]
        said = front.run(LOAD)
        assert "has a conversation that is missing from this notebook: `%jp resume`" in said
        assert "(1 turn) · kept in this notebook" in front.run("%jp resume")
        front.until(lambda: bool(view.jp) and view.contents() == ["Plan a trip to Delft."])


@pytest.mark.deep
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
