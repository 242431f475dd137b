"""Sessions with journals, and the journals in the folder of a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jp_nb.session.session import Session
from tests.session.killed_session import NOTEBOOK
from tests.support.fake_host import FakeHome, FakeHost


def journal_files(folder: Path) -> list[Path]:
    """Return the files in the journal folder."""
    return sorted((folder / "data" / "jp" / "journal").glob("*"))


def read_lines(path: Path) -> list[Any]:
    """Return the lines of a journal."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def open_session(folder: Path, stored: Any, **home: Any) -> Session:
    """Open the notebook in a new session."""
    return Session(FakeHost(home=FakeHome(folder / NOTEBOOK, stored=stored, **home)))


def other_conversations(session: Session) -> list[Any]:
    """Return the stored conversations that are not active."""
    found: Any = session.document.others
    return list(found)


def entry_types(session: Session) -> list[str]:
    """Return the types of the entries."""
    return [entry.type for entry in session.document.conversation.entries]
