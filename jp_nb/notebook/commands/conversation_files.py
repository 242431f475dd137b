"""Subcommands of `%jp` for the conversation in files: save the record, export it, and import one.

Export and import use directories of JP, the program for terminals.

Source: `docs/guide.md`, `docs/record.md`.
"""

from __future__ import annotations

from jp_nb.errors import StorageError
from jp_nb.interop.directories import load_directory
from jp_nb.interop.directory_saving import save_directory
from jp_nb.interop.directory_writer import Dialect
from jp_nb.interop.folder_paths import find_folder
from jp_nb.notebook.commands import Invocation
from jp_nb.notebook.commands.conversation_commands import (
    describe_conversation,
    get_active,
    print_change,
)
from jp_nb.record.documents.document import Document
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.text import one_line, plain


def save_record(call: Invocation) -> None:
    """Run `%jp save`: save the record now."""
    store = call.session.store
    where = call.session.active.journal_use.location
    if store.unsaved_reason is not None:
        raise StorageError(
            f"The record cannot be saved here. It is {where}. `%jp export DIR` writes the "
            "conversation to a directory. `jp-nb import DIR NOTEBOOK` adds it to a notebook."
        )

    print(f"jp_nb: {plain(store.save())}")


def export_to_directory(call: Invocation) -> None:
    """Run `%jp export`: write the active conversation to a JP directory."""
    session = call.session
    dialect: Dialect = call.options.dialect or "native"
    folder = find_folder(call.options.words[0], session.files.folder)
    saved = save_directory(session.document.to_json(), folder, dialect)

    for line in saved.dropped:
        print(f"jp_nb: Omitted: {one_line(line, limit=1000)}")

    for name in saved.others:
        print(f"jp_nb: Also written, unchanged from the import: {one_line(name)}")

    print(f"jp_nb: Written to {plain(str(folder))}")


def import_from_directory(call: Invocation) -> None:
    """Run `%jp import`: continue with a conversation from a JP directory."""
    previous = get_active(call)
    folder = find_folder(call.options.words[0], call.session.files.folder)
    loaded = Document.load(load_directory(folder, clock=utc_now), clock=utc_now)
    call.session.conversations.adopt_imported(loaded)
    print_change(call, f"Imported {describe_conversation(get_active(call))}", previous)
