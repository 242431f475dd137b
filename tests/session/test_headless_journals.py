"""Journals that kernels left, and the stored notebooks that they belong to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jp_nb.session.journals.headless_journals import complete_document
from jp_nb.storage.journals.journal_folder import JournalFolder

HAD: list[Any] = [{"event_id": "a"}, {"event_id": "b"}]
LATER: Any = {"event_id": "c"}
DOCUMENT: Any = {
    "version": 1,
    "conversation": {"id": "jp-c1"},
    "events": [{"event_id": "x"}],
    "signature": "2:of the first",
    "others": [{"conversation": {"id": "jp-c2"}, "events": [*HAD], "signature": "2:of before"}],
}
HEAD: Any = {
    "journal": 1,
    "conversation": {"id": "jp-c2", "made": "headless"},
    "base_config": {},
    "notebook": "/nb.ipynb",
    "file": "",
    "base": 1,
    "mark": "0df64ce6cd0d82b261062104c3d5c7e0811c470497e0f8ff755997bdcc9b0bc0",
}
"""The first line of a journal: it begins with the second entry, behind the first one of `HAD`."""


def write_journal(folder: Path, made: str = "headless") -> Path:
    """Write the journal of the second conversation, and return the folder of journals."""
    head = {**HEAD, "conversation": {"id": "jp-c2", "made": made}}
    lines = [head, {"entry": HAD[1]}, {"entry": LATER}, {"signature": "2:of now"}]
    journals = folder / "journal"
    journals.mkdir(mode=0o700)
    file = journals / "jp-c2.44eea9c9.0.jsonl"
    file.touch(0o600)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return journals


@pytest.fixture
def folder(tmp_path: Path) -> JournalFolder:
    return JournalFolder(write_journal(tmp_path))


def test_journal_entries_are_appended_to_the_stored_conversation(folder: JournalFolder) -> None:
    found = complete_document(folder, DOCUMENT, notebook="/nb.ipynb")
    assert found["others"] == [
        {
            "conversation": {"id": "jp-c2", "made": "headless"},
            "events": [*HAD, LATER],
            "signature": "2:of now",
        }
    ]
    assert {**found, "others": DOCUMENT["others"]} == DOCUMENT
    assert complete_document(folder, found, notebook="/nb.ipynb") == found


def test_journal_of_other_entries_adds_nothing(
    folder: JournalFolder, subtests: pytest.Subtests
) -> None:
    rows: list[Any] = [{"event_id": "another"}, HAD[0]]
    for first in rows:
        with subtests.test(first=first):
            second: Any = HAD[1] if first != HAD[0] else {"event_id": "another"}
            document: Any = {"conversation": {"id": "jp-c2"}, "events": [first, second]}
            assert complete_document(folder, document, notebook="/nb.ipynb") == document


def test_journal_of_another_notebook_adds_nothing(folder: JournalFolder) -> None:
    assert complete_document(folder, DOCUMENT, notebook="/other.ipynb") == DOCUMENT


def test_journal_of_a_live_kernel_is_not_added_to_a_headless_run(tmp_path: Path) -> None:
    folder = JournalFolder(write_journal(tmp_path, made="live"))
    assert complete_document(folder, DOCUMENT, notebook="/nb.ipynb") == DOCUMENT
