"""The tutorial about CI: offline and without a key it comes out the same under every runner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.headless.runner import join_streams
from jp_nb.headless.show import load_conversation
from tests.support.notebook_runs import NOTEBOOKS, PATIENCE_S, outputs

NAME = "06-in-ci.ipynb"
RUNNERS: dict[str, list[str]] = {
    "jp-nb run": ["jp-nb", "run", NAME],
    "nbconvert": ["jupyter", "nbconvert", "--to", "notebook", "--execute", "--inplace", NAME],
    "jupyter execute": ["jupyter", "execute", "--inplace", NAME],
    "papermill": ["papermill", NAME, NAME],
    "papermill --engine jp": ["papermill", "--engine", "jp", NAME, NAME],
}
TESTERS: dict[str, list[str]] = {
    "nbval": ["pytest", "--nbval", "-p", "no:cacheprovider", NAME],
    "pytest --jp": ["pytest", "--jp", "-p", "no:cacheprovider", NAME],
}
NO_NETWORK = """
import socket

def refused(connect):
    def checked(self, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "localhost", "::1"):
            raise OSError(f"no network here: {address}")
        return connect(self, address)
    return checked

socket.socket.connect = refused(socket.socket.connect)
socket.socket.connect_ex = refused(socket.socket.connect_ex)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "notebooks"
    copy.mkdir()
    for file in NOTEBOOKS.glob("06-in-ci.*"):
        shutil.copy(file, copy)
    (tmp_path / "offline").mkdir()
    (tmp_path / "offline" / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    return copy


def execute(folder: Path, command: list[str]) -> None:
    """Run `command` without a key, and without a network but that of this machine."""
    kept = {name: text for name, text in os.environ.items() if "KEY" not in name.upper()}
    programs = os.path.dirname(sys.executable)
    paths = [str(folder.parent / "offline"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        command,
        cwd=folder,
        env=kept
        | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONWARNINGS": "ignore",
            "SOURCE_DATE_EPOCH": "1700000000",
            "XDG_DATA_HOME": str(folder.parent / "data"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_network_is_closed(folder: Path) -> None:
    ask = "import socket; socket.create_connection(('192.0.2.1', 80))"
    with pytest.raises(AssertionError, match="no network here"):
        execute(folder, [sys.executable, "-c", ask])


def recorded(path: Path) -> tuple[dict[str, Any], list[Any]]:
    conversation = load_conversation(path).conversation
    return dict(conversation.head), list(conversation.raw)


def without_times(path: Path, runner: str) -> str:
    """Return the file without the times that stock runners write, adjacent streams joined."""
    if runner == "jp-nb run":
        return path.read_text("utf-8")
    notebook = nbformat.read(path, as_version=4)
    if runner != "papermill --engine jp":
        join_streams(notebook)
    for each in (notebook, *notebook.cells):
        each.metadata.pop("papermill", None)
        each.metadata.pop("execution", None)
    return json.dumps(notebook)


@pytest.mark.parametrize("runner", RUNNERS)
def test_each_runner_writes_the_same_record_twice(folder: Path, runner: str) -> None:
    path = folder / NAME
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file != path}
    stored = outputs(path)
    execute(folder, RUNNERS[runner])
    assert outputs(path) == stored
    once, written = recorded(path), without_times(path, runner)
    execute(folder, RUNNERS[runner])
    assert recorded(path) == once
    assert without_times(path, runner) == written
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file != path} == before
    ends = [x["metadata"] for x in once[1] if x["type"] == "inquiry_response"]
    assert ends == [{"end": "answered", "channel": "answers"}, {"end": "unavailable"}]
    shared = folder.parent.parent / f"{NAME}.{os.getpid()}.json"
    if shared.exists():  # of the runner before
        assert json.loads(shared.read_text()) == json.loads(json.dumps(once[1]))
    shared.write_text(json.dumps(once[1]))


@pytest.mark.parametrize("tester", TESTERS)
def test_as_a_test_it_passes_and_is_left_as_it_is(folder: Path, tester: str) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    execute(folder, TESTERS[tester])
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before
