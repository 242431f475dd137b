"""The journals that earlier kernels left behind: what they are to a notebook that is opened.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jp_nb.record.journal_text import JournalContents, read_journal
from jp_nb.record.stream import ConversationStream
from jp_nb.workspace.journal_files import JournalFile, JournalFolder

BRANCH = (
    "a kernel that ended left other entries of this conversation than the notebook has: they stay "
    "in {}"
)
GAP = (
    "a kernel that ended left later entries of this conversation, and what comes before them is in "
    "no copy: they stay in {}"
)
TAKEN = (
    "another kernel has this conversation open, too: what both add to it becomes two branches, "
    "and each kernel has a journal of its own"
)


@dataclass(frozen=True, slots=True)
class LeftJournal:
    """A journal that no process has open any more; it is locked now."""

    file: JournalFile
    contents: JournalContents


@dataclass(slots=True)
class LeftJournals:
    """The journals of one conversation that were left.

    Attributes:
        to_go_on: The one that is of the conversation as it is in the notebook, or longer.
        notices: What the person should be told once.
    """

    to_go_on: LeftJournal | None = None
    notices: list[str] = field(default_factory=list)


def find_left(folder: JournalFolder, stream: ConversationStream, *, notebook: str) -> LeftJournals:
    """Look at the journals of `stream`, which the notebook at the path `notebook` holds.

    Those that hold no more than is there already are removed.

    Raises:
        StorageError: If the folder is not the user's alone.
        OSError: If it cannot be looked at.
    """
    found = LeftJournals()
    for left in _readable(folder, stream.id, found.notices):
        if left.contents.head.id != stream.id or _is_of_another(left.contents, notebook):
            left.file.close()
            continue
        place = left.contents.place_in(stream.raw)
        if place in ("covered", "continues"):
            _choose(found, left)
            continue
        told = (BRANCH if place == "branch" else GAP).format(left.file.path)
        left.file.close()
        if told not in found.notices:
            found.notices.append(told)
    if folder.is_taken(stream.id, besides=found.to_go_on.file if found.to_go_on else None):
        found.notices.append(TAKEN)
    return found


def _choose(found: LeftJournals, left: LeftJournal) -> None:
    """Keep the longer one of two journals that fit."""
    before = found.to_go_on
    if before is not None and before.contents.length >= left.contents.length:
        left.file.close(remove=before.contents.head.base <= left.contents.head.base)
        return
    if before is not None:
        before.file.close(remove=left.contents.head.base <= before.contents.head.base)
    found.to_go_on = left


def _readable(
    folder: JournalFolder, conversation: str, notices: list[str]
) -> Iterator[LeftJournal]:
    """Yield the journals of `conversation` that begin as one; others are said, and left alone."""
    for file in folder.left(conversation):
        contents = read_journal(file.read()) if file.size else None
        if contents is None:
            if file.size:
                notices.append(f"{file.path} is no journal, or its first line is damaged")
            file.close(remove=not file.size)
            continue
        if contents.lost:
            notices.append(
                f"the end of a journal of this conversation, {contents.lost} bytes, cannot be read"
            )
        yield LeftJournal(file, contents)


def _is_of_another(contents: JournalContents, notebook: str) -> bool:
    """Return True if it is of another notebook that is still there, such as what this is a copy of.

    A notebook that is nowhere any more was renamed.
    """
    theirs = contents.head.notebook
    return bool(theirs and notebook and theirs != notebook and Path(theirs).is_file())
