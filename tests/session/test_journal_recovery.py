"""Journals that kernels left, and the stored notebooks that they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jp_nb.session.journal import complete_document
from jp_nb.storage.journal_file import (
    EntriesDigest,
    JournalFolder,
    JournalHead,
    format_entry_lines,
    format_journal_line,
)

HAD: list[Any] = [{"event_id": "a"}, {"event_id": "b"}]
LATER: Any = {"event_id": "c"}
DOCUMENT: Any = {
    "version": 1,
    "conversation": {"id": "jp-c1"},
    "events": [{"event_id": "x"}],
    "signature": "2:of the first",
    "others": [{"conversation": {"id": "jp-c2"}, "events": [*HAD], "signature": "2:of before"}],
}


@pytest.fixture
def made() -> str:
    return "headless"


@pytest.fixture
def folder(tmp_path: Path, made: str) -> JournalFolder:
    """A folder with a journal of the second conversation, from its second entry on."""
    folder = JournalFolder(tmp_path / "journal")
    file = folder.create("jp-c2", "/nb.ipynb")
    mark = EntriesDigest().at(HAD, 1)
    head = JournalHead({"id": "jp-c2", "made": made}, {}, "/nb.ipynb", "", 1, mark)
    file.append(
        head.line()
        + format_entry_lines([HAD[1], LATER])
        + format_journal_line(signature="2:of now")
    )
    file.close()
    return folder


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


@pytest.mark.parametrize("made", ["live"])
def test_journal_of_a_live_kernel_is_not_added_to_a_headless_run(folder: JournalFolder) -> None:
    assert complete_document(folder, DOCUMENT, notebook="/nb.ipynb") == DOCUMENT
