"""The list of the workspaces in which the user signed conversations."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

import jp_nb as jp
from jp_nb.storage.file_locks import hold_file_lock
from jp_nb.storage.signed_conversations import SignedConversations

MAX_SIGNED = 200
MAX_WORKSPACES = 500


ADD: Final = """
import sys
from pathlib import Path
from jp_nb.storage.signed_conversations import SignedConversations
for number in range(20):
    SignedConversations(Path(sys.argv[1])).add(f"{sys.argv[2]}-{number}")
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def find_list(folder: Path) -> Path:
    """Return the file that lists the signed conversations."""
    return folder / "data" / "jp" / "signed-conversations.json"


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    names = ("a", "b", "c")
    running = [subprocess.Popen([sys.executable, "-c", ADD, str(tmp_path), name]) for name in names]
    assert [process.wait() for process in running] == [0, 0, 0]
    here = SignedConversations(tmp_path)
    assert all(here.covers(f"{name}-{number}") for name in names for number in range(20))


def test_oldest_conversations_and_workspaces_are_forgotten(tmp_path: Path) -> None:
    here = SignedConversations(tmp_path / "here")
    for number in range(MAX_SIGNED + 1):
        here.add(f"jp-c{number}")
    assert [here.covers(f"jp-c{number}") for number in (0, 1, MAX_SIGNED)] == [False, True, True]

    path = find_list(tmp_path)
    stored = json.loads(path.read_text())
    for number in range(MAX_WORKSPACES):
        stored["workspaces"][f"{number:032}"] = {"signed": []}
    path.write_text(json.dumps(stored))
    SignedConversations(tmp_path / "there").add("jp-c1")
    assert not here.covers("jp-c1")
    assert len(json.loads(path.read_text())["workspaces"]) == MAX_WORKSPACES


def test_longest_list_can_be_read(tmp_path: Path) -> None:
    signed = [f"{number:032}" for number in range(MAX_SIGNED)]
    stored = {f"{number:032}": {"signed": signed} for number in range(MAX_WORKSPACES)}
    path = find_list(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"version": 1, "workspaces": stored}, indent=1))
    here = SignedConversations(tmp_path / "/".join(["é" * 125] * 16))
    here.add("jp-c1")
    assert here.covers("jp-c1")


def test_locked_list_is_an_error_soon(tmp_path: Path) -> None:
    here = SignedConversations(tmp_path)
    here.add("jp-c1")
    lock = find_list(tmp_path).with_suffix(".lock")
    with hold_file_lock(lock):
        errors: list[jp.StorageError] = []

        def add() -> None:
            try:
                here.add("jp-c2")
            except jp.StorageError as exc:
                errors.append(exc)

        thread = threading.Thread(target=add)
        thread.start()
        thread.join(8)
        assert not thread.is_alive()
    assert "has locked" in str(errors[0])
    assert here.covers("jp-c1")


def test_removing_and_reading_create_no_file(tmp_path: Path) -> None:
    here = SignedConversations(tmp_path)
    assert not here.covers("jp-c1")
    here.remove("jp-c1")
    assert not find_list(tmp_path).parent.exists()
