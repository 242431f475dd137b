"""The tutorial about CI gives the same record under every runner, offline and without a key."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import QUICK_PYTHON
from tests.kit.notebook_record import open_document
from tests.support.notebook_runs import NOTEBOOKS, PATIENCE_S, outputs

pytestmark = pytest.mark.runners
TIERS = "pip install -e '.[tiers]'"

NAME = "06-in-ci.ipynb"
RUNNERS: dict[str, list[str]] = {
    "jp-nb run": ["jp-nb", "run", NAME],
    "nbconvert": ["jupyter", "nbconvert", "--to", "notebook", "--execute", "--inplace", NAME],
    "jupyter execute": ["jupyter", "execute", "--inplace", NAME],
    "papermill": ["papermill", NAME, NAME],
    "papermill --engine jp": ["papermill", "--engine", "jp", NAME, NAME],
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
    quick = (QUICK_PYTHON / "sitecustomize.py").read_text("utf-8")
    (tmp_path / "offline" / "sitecustomize.py").write_text(quick + NO_NETWORK, encoding="utf-8")
    return copy


def execute(folder: Path, command: list[str]) -> None:
    """Run `command` without keys, and without a network beyond this machine."""
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


def test_these_runs_have_no_network(folder: Path) -> None:
    ask = "import socket; socket.create_connection(('192.0.2.1', 80))"
    with pytest.raises(AssertionError, match="no network here"):
        execute(folder, [sys.executable, "-c", ask])


@pytest.fixture(scope="module")
def entries_by_runner() -> dict[str, Any]:
    """The entries that each runner so far has written."""
    return {}


@pytest.mark.req("R083-75", "R083-76")
@pytest.mark.parametrize("runner", RUNNERS)
def test_each_runner_writes_the_stored_outputs_and_the_same_record(
    folder: Path, runner: str, entries_by_runner: dict[str, Any]
) -> None:
    if runner.startswith("papermill"):
        pytest.importorskip("papermill", reason=TIERS)
    path = folder / NAME
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file != path}
    stored = outputs(path)
    execute(folder, RUNNERS[runner])
    assert outputs(path) == stored
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file != path} == before
    entries = entries_by_runner[runner] = list(open_document(path).conversation.raw)
    for other in entries_by_runner.values():
        assert entries == other
    ends = [x for x in entries if x["type"] == "inquiry_response"]
    assert [end["metadata"] for end in ends] == [
        {"end": "answered", "channel": "answers"},
        {"end": "unavailable"},
    ]
    assert ends[1]["reason"] == "no_prompt_backend"
    if runner == "jp-nb run":
        written = path.read_bytes()
        execute(folder, RUNNERS[runner])
        assert path.read_bytes() == written
