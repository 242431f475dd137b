"""Move the entries of killed headless kernels from their journals into the notebook.

The runner of a headless run (`jp-nb run`) calls both functions: first it completes the record that
it got, then it writes the notebook, and then it removes the journals that are not needed any more.

A journal has the entries of one conversation from entry number `base` on. In comparison with a
copy of the conversation, it is `covered` (the copy has all entries), or `continues` it, or differs.

Source: `docs/record.md` (the journal).
"""

from __future__ import annotations

from pydantic import JsonValue

from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.documents.record_shape import (
    get_conversation_id,
    get_conversations,
    get_events,
    get_others,
)
from jp_nb.record.documents.signing import SIGNATURE_KEY
from jp_nb.session.journals.journal_matching import (
    collect_copies,
    find_best_relation,
    iter_journals_of,
    read_entries,
)
from jp_nb.storage.journals.journal_folder import JournalFolder
from jp_nb.storage.journals.journal_format import JournalContents, read_journal


def complete_document(folder: JournalFolder, document: JsonObject, *, notebook: str) -> JsonObject:
    """Return `document` of a headless run of `notebook`, with entries that a killed kernel wrote.

    Only journals of headless runs are read. The next interactive kernel recovers the others.

    Raises:
        StorageError: Other users can access the folder of journals.
        OSError: The folder cannot be read.
    """
    for file, header in iter_journals_of(notebook, folder):
        if header.made != "headless":
            continue
        contents = read_journal(file.read())
        if contents is None:
            continue

        others = [_append_entries(other, contents) for other in get_others(document)]
        document = as_object(_append_entries(document, contents))
        if others:
            document = {**document, "others": others}

    return document


def _append_entries(conversation: JsonValue, contents: JournalContents) -> JsonValue:
    """Return `conversation` with the later entries of its journal, and the journal's signature.

    It is unchanged if the journal is of another conversation, or does not continue it.
    """
    if get_conversation_id(conversation) != contents.header.id:
        return conversation
    raw = read_entries(conversation)
    if contents.compare_with(raw) != "continues":
        return conversation

    missing = contents.entries[len(raw) - contents.header.base :]
    completed = dict(as_object(conversation))
    completed.pop(SIGNATURE_KEY, None)
    completed["conversation"] = contents.header.conversation
    completed["events"] = [*get_events(conversation), *missing]
    if contents.signature:
        completed[SIGNATURE_KEY] = contents.signature
    return completed


def remove_written(folder: JournalFolder, document: JsonObject, *, notebook: str) -> None:
    """Remove the journals of `notebook` whose entries are all in `document`, which is saved.

    Raises:
        StorageError: Other users can access the folder of journals.
        OSError: The folder cannot be read.
    """
    copies = collect_copies(get_conversations(document), active=None)
    for file, header in iter_journals_of(notebook, folder):
        if header.id not in copies:
            continue

        contents = read_journal(file.read())
        # Only the journal knows how far its tool calls without a response came.
        if contents is not None and not contents.calls:
            relation = find_best_relation(contents, copies[header.id])
            file.close(remove=relation == "covered")
