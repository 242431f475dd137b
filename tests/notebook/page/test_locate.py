"""Which notebook this is, and which conversation a headless run begins with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kit.front_ends import find_notebook
from tests.kit.notebook_record import open_document


class Runner:
    """A kernel that a runner started: its cells cannot ask a user."""

    _allow_stdin = False


def find(**parameters: Any) -> Any:
    """Return the notebook that a runner executes."""
    return find_notebook(Runner(), **parameters)


OpenNotebook = Callable[..., Any]


@pytest.fixture
def open_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenNotebook:
    """Return a function that opens a notebook with the record `jp`, or a text, as a runner does."""

    def open_as_runner(jp: Any = None, *, text: str | None = None, **options: Any) -> Any:
        if text is None:
            text = json.dumps({"cells": [], "metadata": {"jp": jp}})
        path = tmp_path / "n.ipynb"
        path.write_text(text, encoding="utf-8")
        monkeypatch.setenv("JP_NB_PATH", str(path))
        return find().open(**options)

    return open_as_runner


READS_PARENT = "jp_nb.notebook.page.notebook_path._read_parent_process"
COMMAND_LINES: list[tuple[str, str | None]] = [
    ("python jupyter-nbconvert --to notebook --execute a.ipynb", "a.ipynb"),
    ("python jupyter-nbconvert --execute a.ipynb --output b.ipynb", "a.ipynb"),
    ("python jupyter-execute a.ipynb", "a.ipynb"),
    ("python jupyter-execute a", "a.ipynb"),
    ("python jupyter-execute --inplace sub/c.ipynb", "sub/c.ipynb"),
    ("python papermill a.ipynb b.ipynb -p x 1", "a.ipynb"),
    ("python -m papermill a.ipynb b.ipynb", "a.ipynb"),
    ("python jupyter-execute a.ipynb b.ipynb", None),
    ("python jupyter-execute missing.ipynb", None),
    ("python -m jupyterlab", None),
    ("", None),
]


def test_command_line_of_a_runner_names_the_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JP_NB_PATH", raising=False)
    (tmp_path / "sub").mkdir()
    for name in ("a.ipynb", "b.ipynb", "sub/c.ipynb"):
        (tmp_path / name).touch()
    for arguments, expected in COMMAND_LINES:
        parent = arguments.split(), tmp_path
        monkeypatch.setattr(READS_PARENT, lambda parent=parent: parent)
        assert find().path == (expected and (tmp_path / expected).resolve()), arguments


def test_explicit_path_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.ipynb").touch()
    (tmp_path / "b.ipynb").touch()
    parameters = {"PAPERMILL_INPUT_PATH": str(tmp_path / "b.ipynb")}
    monkeypatch.delenv("JP_NB_PATH", raising=False)
    assert find(**parameters).path == tmp_path / "b.ipynb"
    monkeypatch.setenv("JP_NB_PATH", str(tmp_path / "a.ipynb"))
    assert find(**parameters).path == tmp_path / "a.ipynb"
    monkeypatch.setenv("JP_NB_PATH", str(tmp_path / "gone.ipynb"))
    assert find(**parameters).path is None


def test_without_psutil_the_path_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.delenv("JP_NB_PATH", raising=False)
    assert find().path is None


def conversation(identifier: str, made: str = "live", **more: Any) -> dict[str, Any]:
    events = [{"type": "chat_request", "timestamp": "2025-01-31 09:00:00.0", "content": "x"}]
    head = {"id": identifier, "made": made}
    return {"conversation": head, "base_config": {}, "events": events, **more}


def ids(document: Any) -> list[str]:
    return [other["conversation"]["id"] for other in document.others]


def test_headless_run_replaces_headless_conversations_and_keeps_all_others(
    open_notebook: OpenNotebook,
) -> None:
    others = [
        conversation("live-2"),
        conversation("old", "headless"),
        conversation("b", "imported"),
    ]
    jp = {"version": 1, **conversation("top", "headless"), "others": others, "signature": "s"}
    opened = open_notebook(jp)
    assert opened.document.conversation.properties["made"] == "headless"
    assert len(opened.document.conversation) == 0
    assert ids(opened.document) == ["live-2", "b"]
    assert not opened.document.extra
    assert (opened.store.location, opened.restored) == ("kept in this notebook", False)


def test_live_conversation_at_the_top_is_kept(open_notebook: OpenNotebook) -> None:
    jp = {"version": 1, **conversation("top", signature="s"), "future": 1}
    opened = open_notebook(jp)
    assert opened.document.others == [conversation("top", signature="s")]
    assert opened.document.extra == {"future": 1}


def test_run_can_continue_the_conversation(
    open_notebook: OpenNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = conversation("top", "headless")
    opened = open_notebook(stored, continues=True)
    assert (opened.document.conversation.id, opened.restored) == ("top", True)
    monkeypatch.setenv("JP_NB_CONTINUE", "1")
    assert open_notebook(stored).document.conversation.id == "top"


def test_run_of_an_unknown_notebook_continues_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JP_NB_PATH", raising=False)
    monkeypatch.setattr(READS_PARENT, lambda: ([], Path.cwd()))
    opened = find().open(continues=True)
    assert not opened.restored
    assert "No conversation is continued" in opened.notices[0]


@pytest.mark.parametrize("damaged", [7, {"conversation": {"id": "x"}, "events": [7]}], ids=str)
def test_damaged_record_is_kept_and_reported(open_notebook: OpenNotebook, damaged: Any) -> None:
    opened = open_notebook(damaged)
    assert opened.document.others == [damaged]
    assert "It is kept, and a new conversation starts" in opened.notices[0]
    assert opened.store.location == "kept in this notebook"


def test_run_with_a_newer_record_is_kept_in_memory(open_notebook: OpenNotebook) -> None:
    opened = open_notebook({"version": 2})
    assert opened.store.location.startswith(
        "kept in memory only: jp.version: this record has version 2"
    )
    assert opened.document.others == []
    assert not opened.store.flush(0)


def test_unreadable_notebook_is_reported(open_notebook: OpenNotebook) -> None:
    assert "cannot be read" in open_notebook(text="{").notices[0]


def test_without_a_kernel_the_record_is_in_memory() -> None:
    opened = find_notebook(None).open()
    assert opened.store.location == "kept in memory only: IPython in a terminal has no notebook"


def test_conversations_begun_at_the_same_moment_have_different_ids(
    open_notebook: OpenNotebook,
) -> None:
    def clock() -> datetime:
        return datetime(2025, 1, 31, 9, tzinfo=UTC)

    first = open_document(clock=clock).to_json()
    second = open_notebook(first, clock=clock).document
    assert second.conversation.id != first["conversation"]["id"]


def test_modules_import_nothing_heavy() -> None:
    code = (
        "import sys, jp_nb.notebook.page.page_storage, jp_nb.headless.pytest_plugin;"
        "print([m for m in ('httpx','ipywidgets','nbclient','IPython','zmq','psutil','nbformat')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        check=True,
    )
    assert done.stdout.strip() == "[]"
