"""What headless runs leave outside of their notebook: nothing, unless their kernel was killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jp_nb.headless.runner import run_notebook
from tests.support.notebook_runs import notebook

SCRIPT = """
[[replies]]
text = "one"
[[replies]]
tool_calls = [{ name = "die", arguments = { word = "a" } }]
[[replies]]
text = "two"
"""
DIE = """
import os, signal
import jp_nb as jp

@jp.tool
def die(word: str) -> str:
    \"\"\"Die.\"\"\"
    os.kill(os.getpid(), signal.SIGKILL)
"""
LOAD, FIRST, SECOND = "%load_ext jp_nb", "%%jp -m scripted/talk\nFirst.", "%%jp\nSecond."


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "jp" / "journal"


def made(folder: Path, *cells: str) -> Path:
    path = notebook(folder, *cells)
    (path.parent / "talk.toml").write_text(SCRIPT)
    return path


def kinds(metadata: Any) -> list[str]:
    return [entry["type"] for entry in metadata.jp.events]


def test_a_run_that_was_written_leaves_no_journal(tmp_path: Path, data: Path) -> None:
    path = made(tmp_path, LOAD, FIRST)
    assert run_notebook(path).ok
    assert data.is_dir()
    assert list(data.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_call_that_was_cut_short_is_not_run_again_with_nobody_there(
    tmp_path: Path, data: Path
) -> None:
    path = made(tmp_path, LOAD, DIE, FIRST, SECOND)
    run = run_notebook(path)
    assert run.failure is not None
    assert run.failure.name == "DeadKernelError"
    assert kinds(run.notebook.metadata)[-1] == "tool_call_request"
    run.notebook.cells[3].source = "%jp resume"
    del run.notebook.cells[2]
    nbformat.write(run.notebook, path)
    resumed = run_notebook(path, continue_=True)
    assert resumed.failure is not None
    assert resumed.failure.name == "PromptUnavailable"
    assert "only a user can decide whether it runs" in resumed.failure.message
    assert "Nothing was run" in resumed.failure.message
    assert kinds(resumed.notebook.metadata) == kinds(run.notebook.metadata)
    [loaded] = resumed.notebook.cells[0].outputs
    assert "turn 1 was interrupted. " in loaded.text
