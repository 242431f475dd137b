"""Other people's runners replay a cassette by the setting alone: no flag, no key, no network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cassette_runs import KEY, KEYS, LOAD, WEATHER, left, run_with, write_cells
from tests.support.loopback import LoopbackServer, Reply, ToolCall

NO_NETWORK = """
import socket

def _connect(self, address, _connect=socket.socket.connect):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1"):
        raise OSError(f"no network here: {address}")
    return _connect(self, address)

def _no_names(host, *rest, _names=socket.getaddrinfo):
    if host not in ("127.0.0.1", "::1", "localhost", None, ""):
        raise OSError(f"no names here: {host}")
    return _names(host, *rest)

socket.socket.connect = _connect
socket.getaddrinfo = _no_names
"""
"""What every Python process of a run loads first."""
RUNNERS = {
    "jp-nb run": ["jp-nb", "run", "talk.ipynb"],
    "nbconvert": [
        "jupyter",
        "nbconvert",
        "--to",
        "notebook",
        "--execute",
        "--inplace",
        "talk.ipynb",
    ],
    "jupyter execute": ["jupyter", "execute", "--inplace", "talk.ipynb"],
    "papermill": ["papermill", "talk.ipynb", "talk.ipynb"],
    "papermill with our engine": ["papermill", "--engine", "jp", "talk.ipynb", "talk.ipynb"],
    "nbval": ["pytest", "--nbval-lax", "-p", "no:cacheprovider", "talk.ipynb"],
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of a notebook with its cassette, and what the run that recorded it left."""
    folder = tmp_path_factory.mktemp("recorded")
    load = LOAD.format(protocol="anthropic")
    path = write_cells(
        folder / "talk.ipynb", load, WEATHER, "%%jp\nHow will it be?", "assert 'Sun' in _jp.text"
    )
    replies = [
        Reply(status=529),
        Reply(text="Let me see.", tool_calls=(ToolCall("weather", {"city": "Bern"}),)),
        Reply(text="Sun."),
    ]
    with pytest.MonkeyPatch.context() as patch, LoopbackServer(replies) as server:
        patch.setenv(KEYS["anthropic"], KEY)
        assert run_with(path, "record", providers__llm__anthropic__base_url=server.url).ok
    return folder, left(path)


def run_offline(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(NO_NETWORK, "utf-8")
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("JP_NB_", "JP_CFG_")) and not key.endswith("_API_KEY")
    }
    bin_folder = str(Path(sys.executable).parent)
    environment |= {
        "PATH": f"{bin_folder}{os.pathsep}{environment['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
        "JP_CFG_PROVIDERS__CASSETTE__MODE": "replay",
        "JP_CFG_PROVIDERS__CASSETTE__PATH": "talk.cassette.jsonl",
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.deep
@pytest.mark.parametrize("command", RUNNERS.values(), ids=RUNNERS)
def test_a_cassette_answers_under_every_runner(
    recorded: tuple[Path, Any], tmp_path: Path, command: list[str]
) -> None:
    folder, before = recorded
    for name in ("talk.ipynb", "talk.cassette.jsonl"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    done = run_offline(command, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    if command[0] != "pytest":  # nbval writes nothing
        assert left(tmp_path / "talk.ipynb") == before


@pytest.mark.parametrize("command", [RUNNERS["jupyter execute"], RUNNERS["nbval"]])
def test_a_changed_request_fails_the_run(
    recorded: tuple[Path, Any], tmp_path: Path, command: list[str]
) -> None:
    folder, _ = recorded
    text = (folder / "talk.ipynb").read_text("utf-8")
    (tmp_path / "talk.ipynb").write_text(text.replace("How will it be?", "How was it?"), "utf-8")
    cassette = (folder / "talk.cassette.jsonl").read_bytes()
    (tmp_path / "talk.cassette.jsonl").write_bytes(cassette)
    done = run_offline(command, tmp_path)
    assert done.returncode != 0
    assert "How was it?" in done.stdout + done.stderr
    assert "UnrecordedError" in done.stdout + done.stderr
