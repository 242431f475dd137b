"""Match a journal to its notebook, and to copies of its conversation.

An earlier kernel may have left a journal in the user's folder of journals. These functions tell
whether it is of this notebook, and whether a notebook already has its entries. A copy is the list
of entries of a conversation in a notebook: a notebook can have several copies with one id.

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

from pydantic import JsonValue

from jp_nb.json_values import as_object
from jp_nb.record.documents.record_shape import get_conversation_id, get_events
from jp_nb.record.entries.events import RawEntry
from jp_nb.record.stream import ConversationStream
from jp_nb.storage.journals.journal_file import JournalFile
from jp_nb.storage.journals.journal_folder import JournalFolder, get_file_identity
from jp_nb.storage.journals.journal_format import JournalContents, JournalHeader, JournalRelation

Copies = dict[str, list[list[RawEntry]]]
"""Entries of conversations by id; several copies of one conversation can differ."""


def iter_journals_of(
    notebook: str, folder: JournalFolder
) -> Iterator[tuple[JournalFile, JournalHeader]]:
    """Yield the journals of `notebook` that no kernel uses, each open until the next one.

    A caller has to read them all: the last one is closed at the end.
    """
    for file in folder.take_abandoned():
        header = file.read_header()
        if header is not None and header.notebook == notebook:
            yield file, header
        file.close()


def is_of_place(header: JournalHeader, notebook: str, kernel_folder: str) -> bool:
    """Return True if a journal's notebook has the path or the file of `notebook`.

    Without a notebook, return True if the journal has none either, and is of `kernel_folder`.
    """
    if not notebook:
        return not header.notebook and kernel_folder != "" and header.folder == kernel_folder
    if header.notebook == notebook:
        return True
    return header.file != "" and header.file == get_file_identity(notebook)


def collect_copies(conversations: Iterable[JsonValue], active: ConversationStream | None) -> Copies:
    """Return the entries of stored `conversations` and of the `active` one, by their ids."""
    copies: Copies = {}
    if active is not None:
        copies[active.id] = [active.raw]
    for stored in conversations:
        copies.setdefault(get_conversation_id(stored), []).append(read_entries(stored))
    return copies


def read_entries(conversation: JsonValue) -> list[RawEntry]:
    """Return the entries of a stored `conversation`."""
    return [as_object(entry) for entry in get_events(conversation)]


def find_best_relation(
    contents: JournalContents, copies: Iterable[list[RawEntry]]
) -> JournalRelation | None:
    """Return the relation of a journal to the copy that has most of it; None without copies.

    `JournalRelation` (`journal_format.py`) lists the relations from the best one on: `covered` (a
    copy has all entries), `continues` (the journal has more), `branch` (entries differ), and `gap`
    (entries before the journal are missing).
    """
    best_first: tuple[JournalRelation, ...] = get_args(JournalRelation)
    relations = {contents.compare_with(raw) for raw in copies}
    for relation in best_first:
        if relation in relations:
            return relation
    return None
