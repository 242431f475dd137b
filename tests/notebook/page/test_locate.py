"""Which notebook this is, and which conversation a headless run begins with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jp_nb.notebook.page.notebook_storage import HeadlessStorage, begin_headless, find_storage
from jp_nb.notebook.page.surroundings import find_executed_path, find_path_in_arguments
from jp_nb.record.clock import utc_now
from jp_nb.record.document import Document, get_conversation_id

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


def test_command_line_of_a_runner_names_the_notebook(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.ipynb", "b.ipynb", "sub/c.ipynb"):
        (tmp_path / name).touch()
    for arguments, expected in COMMAND_LINES:
        found = find_path_in_arguments(arguments.split(), tmp_path)
        assert found == (expected and (tmp_path / expected).resolve()), arguments


def test_explicit_path_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.ipynb").touch()
    (tmp_path / "b.ipynb").touch()
    parameters = {"PAPERMILL_INPUT_PATH": str(tmp_path / "b.ipynb")}
    monkeypatch.delenv("JP_NB_PATH", raising=False)
    assert find_executed_path(parameters) == tmp_path / "b.ipynb"
    monkeypatch.setenv("JP_NB_PATH", str(tmp_path / "a.ipynb"))
    assert find_executed_path(parameters) == tmp_path / "a.ipynb"
    monkeypatch.setenv("JP_NB_PATH", str(tmp_path / "gone.ipynb"))
    assert find_executed_path(parameters) is None


def test_without_psutil_the_path_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.delenv("JP_NB_PATH", raising=False)
    assert find_executed_path() is None


def notebook(path: Path, jp: Any) -> Path:
    path.write_text(json.dumps({"cells": [], "metadata": {"jp": jp}}), encoding="utf-8")
    return path


def conversation(identifier: str, made: str = "live", **more: Any) -> dict[str, Any]:
    events = [{"type": "chat_request", "timestamp": "2025-01-31 09:00:00.0", "content": "x"}]
    head = {"id": identifier, "made": made}
    return {"conversation": head, "base_config": {}, "events": events, **more}


def ids(document: Document) -> list[str]:
    return [get_conversation_id(other) for other in document.others]


def test_headless_run_replaces_headless_conversations_and_keeps_all_others(
    tmp_path: Path,
) -> None:
    others = [
        conversation("live-2"),
        conversation("old", "headless"),
        conversation("b", "imported"),
    ]
    jp = {"version": 1, **conversation("top", "headless"), "others": others, "signature": "s"}
    opened = HeadlessStorage(notebook(tmp_path / "n.ipynb", jp)).open()
    assert opened.document.conversation.head["made"] == "headless"
    assert len(opened.document.conversation) == 0
    assert ids(opened.document) == ["live-2", "b"]
    assert not opened.document.extra
    assert (opened.store.location, opened.restored) == ("kept in this notebook", False)


def test_live_conversation_at_the_top_is_kept(tmp_path: Path) -> None:
    jp = {"version": 1, **conversation("top", signature="s"), "future": 1}
    opened = HeadlessStorage(notebook(tmp_path / "n.ipynb", jp)).open()
    assert opened.document.others == [conversation("top", signature="s")]
    assert opened.document.extra == {"future": 1}


def test_run_can_continue_the_conversation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = HeadlessStorage(notebook(tmp_path / "n.ipynb", conversation("top", "headless")))
    assert home.open(continues=True).document.conversation.id == "top"
    assert home.open(continues=True).restored
    monkeypatch.setenv("JP_NB_CONTINUE", "1")
    assert home.open().document.conversation.id == "top"
    nowhere = HeadlessStorage(None).open(continues=True)
    assert not nowhere.restored
    assert "No conversation is continued" in nowhere.notices[0]


@pytest.mark.parametrize("damaged", [7, {"conversation": {"id": "x"}, "events": [7]}], ids=str)
def test_damaged_record_is_kept_and_reported(tmp_path: Path, damaged: Any) -> None:
    opened = HeadlessStorage(notebook(tmp_path / "n.ipynb", damaged)).open()
    assert opened.document.others == [damaged]
    assert "It is kept, and a new conversation starts" in opened.notices[0]
    assert opened.store.location == "kept in this notebook"


def test_run_with_a_newer_record_is_kept_in_memory(tmp_path: Path) -> None:
    opened = HeadlessStorage(notebook(tmp_path / "n.ipynb", {"version": 2})).open()
    assert opened.store.location.startswith(
        "kept in memory only: jp.version: this record has version 2"
    )
    assert opened.document.others == []
    assert not opened.store.flush(0)


def test_unreadable_notebook_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text("{")
    assert "cannot be read" in HeadlessStorage(path).open().notices[0]


def test_without_a_kernel_the_record_is_in_memory() -> None:
    opened = find_storage(object()).open()
    assert opened.store.location == "kept in memory only: IPython in a terminal has no notebook"


def test_conversations_begun_at_the_same_moment_have_different_ids() -> None:
    moment = utc_now()
    first = begin_headless(None, clock=lambda: moment)
    assert begin_headless(first, clock=lambda: moment).conversation.id != first.conversation.id


def test_modules_import_nothing_heavy() -> None:
    code = (
        "import sys, jp_nb.notebook.page.notebook_storage, jp_nb.headless.pytest_plugin;"
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
