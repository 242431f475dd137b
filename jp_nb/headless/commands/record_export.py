"""Command `jp-nb export`: write a conversation of a notebook to a directory of JP.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from jp_nb.errors import UsageError
from jp_nb.headless.commands.stored_records import (
    find_other_record,
    format_conversation_id,
    read_record,
    read_stored_record,
)
from jp_nb.headless.files import require_notebook
from jp_nb.interop.directory_saving import SavedDirectory, save_directory
from jp_nb.interop.directory_writer import Dialect
from jp_nb.interop.folder_paths import find_folder
from jp_nb.record.documents.record_shape import RECORD_VERSION, get_conversation_id, get_others
from jp_nb.text import MAX_PATH_LINE_CHARS, one_line


def export_notebook(
    notebook: Path, folder: Path, dialect: Dialect = "native", *, conversation: str | None = None
) -> SavedDirectory:
    """Write the active conversation of `notebook`, or the one with the id `conversation`.

    `jp-head` is the format of the current JP. A damaged active conversation does not prevent the
    export of another one.

    Raises:
        UsageError: The notebook has no such conversation.
        StorageError: The notebook cannot be read, or the folder cannot be written.
    """
    if conversation is None:
        return _export_active(notebook, folder, dialect)

    stored = read_stored_record(notebook)
    if not isinstance(stored, dict) or get_conversation_id(stored) == conversation:
        return _export_active(notebook, folder, dialect)

    other = find_other_record(get_others(stored), conversation)
    is_readable = stored.get("version", RECORD_VERSION) == RECORD_VERSION
    if other is not None and is_readable:
        return save_directory(other, folder, dialect)

    # Raises its own error if the record is of a newer version.
    identifiers = read_record(notebook, tolerant=True).ids()
    present = ", ".join(map(format_conversation_id, sorted(identifiers)))
    missing = format_conversation_id(conversation)
    raise UsageError(f"{notebook} has no conversation {missing}; it has {present}")


def _export_active(notebook: Path, folder: Path, dialect: Dialect) -> SavedDirectory:
    return save_directory(read_record(notebook).to_json(), folder, dialect)


def export_conversation(options: argparse.Namespace) -> int:
    """Export a conversation to a directory of JP, and print omitted values."""
    notebook = require_notebook(options.notebook)
    folder = find_folder(options.folder, Path())
    dropped, others = export_notebook(
        notebook, folder, options.dialect, conversation=options.conversation
    )

    for line in dropped:
        print(one_line(line, limit=MAX_PATH_LINE_CHARS), file=sys.stderr)
    print(one_line(f"{folder} written", limit=MAX_PATH_LINE_CHARS))
    for name in others:
        text = f"{folder / name} written: not a file of JP, imported with the conversation"
        print(one_line(text, limit=MAX_PATH_LINE_CHARS))
    return 0
