"""Command `jp-nb import`: make a conversation of JP the active one of a notebook.

JP stores a conversation in a directory. `load_directory` returns it as a `jp` object, the JSON of a
record in a notebook, and `build_directory` makes the files of a directory in memory.

If the notebook has a conversation with the same id, both are compared as the files of a directory
of JP. Without a difference, there is nothing to import. With further entries at the end, the
imported one replaces the other. Any other difference is an error.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.headless.commands.stored_records import (
    find_other_record,
    format_conversation_id,
    parse_record,
)
from jp_nb.headless.files import read_notebook, write_notebook
from jp_nb.interop.directories import load_directory
from jp_nb.interop.directory_writer import build_directory
from jp_nb.interop.folder_paths import find_folder, make_possible_path
from jp_nb.interop.jp_entries import format_jp_entry
from jp_nb.interop.json_comparison import same_json
from jp_nb.interop.json_text import read_value
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.documents import carrier, segments
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import get_conversation_id, get_events, get_properties
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.text import MAX_PATH_LINE_CHARS, one_line

LOAD = "%load_ext jp_nb"  # the only cell of a notebook that an import creates


def import_into_notebook(folder: Path, notebook: Path) -> list[str]:
    """Make the conversation in `folder` the active one of `notebook`, and return lines to print.

    A missing notebook is created. In an existing one, the active conversation moves to `others`. An
    older version of the same conversation is replaced. The imported conversation is not signed, so
    its settings that could run code or reach hosts are ignored until the user trusts it.

    Raises:
        UsageError: The folder does not exist.
        StorageError: A file cannot be read, or the notebook has a different version of the
            conversation. Nothing was written.
    """
    jp = load_directory(folder, clock=utc_now)
    loaded = parse_record(jp, folder)

    if os.path.exists(make_possible_path(notebook)):
        target = read_notebook(notebook)
    else:
        target = _make_notebook()

    # Another runner may have left the record in the state of a widget: it moves to the key `jp`.
    carrier.lift_carrier(target.metadata)
    action = "imported"
    record = jp

    stored = carrier.read_carrier(target.metadata)
    if stored is not None:
        document = parse_record(stored, notebook)  # a damaged record is an error
        stored_version = _find_stored_version(document, loaded.conversation.id)

        if stored_version is None:
            document.archive_active()
            document.conversation = loaded.conversation
        elif build_directory(stored_version).files == build_directory(jp).files:  # byte for byte
            name = format_conversation_id(loaded.conversation.id)
            return [f"{notebook} already contains {name}: nothing to import"]
        else:
            _check_continuation(jp, stored_version, folder, notebook)
            _replace_conversation(document, jp, loaded)
            action = f"updated from {folder}"

        record = document.to_json()

    # It is stored as a whole in the key `jp`. The segments of an earlier version are removed.
    segments.store_segments(target.metadata, record)
    write_notebook(target, notebook)

    return [_format_import(action, loaded, notebook), *_list_skipped_files(jp, folder)]


def _list_skipped_files(jp: JsonObject, folder: Path) -> list[str]:
    """Return a line for each file of the directory that the conversation does not contain."""
    # `load_directory` has noted their names in the properties of the conversation.
    names = as_object(get_properties(jp).get("origin")).get("left_out")
    skipped = [str(name) for name in names] if isinstance(names, list) else []
    why = "it is a link, a folder, a hidden or large file, or not text"
    return [f"not imported: {folder / name} ({why})" for name in skipped]


def _make_notebook() -> Any:
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    cells = [nbformat.v4.new_code_cell(LOAD)]
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _find_stored_version(document: Document, identifier: str) -> JsonObject | None:
    """Return the conversation with this id in the notebook as `jp` object; None without one."""
    if document.conversation.id == identifier:
        return document.to_json()
    return find_other_record(document.others, identifier)


def _check_continuation(jp: JsonObject, stored: JsonObject, folder: Path, notebook: Path) -> None:
    """Raise a `StorageError` unless `jp` is the `stored` conversation with further entries."""
    stored_events = _normalize_events(get_events(stored))
    events = _normalize_events(get_events(jp))
    beginning = events[: len(stored_events)]
    if len(stored_events) <= len(events) and same_json(stored_events, beginning):
        return

    name = format_conversation_id(get_conversation_id(stored))
    raise StorageError(
        f"{notebook} and {folder} contain different versions of {name} "
        f"({len(stored_events)} and {len(events)} entries). Drop the one in the notebook with "
        "`%jp drop ID`, or import into another notebook"
    )


def _normalize_events(events: Sequence[JsonValue]) -> list[JsonValue]:
    """Return `events` as a directory of JP would store them."""
    return [
        read_value(format_jp_entry(as_object(event), index), "events").value
        for index, event in enumerate(events)
    ]


def _replace_conversation(document: Document, jp: JsonObject, loaded: Document) -> None:
    """Put the `loaded` conversation, whose `jp` object is given, in place of its older version.

    It stays active, or at its place among the inactive ones.
    """
    if document.conversation.id == loaded.conversation.id:
        document.conversation = loaded.conversation
        document.extra.pop("signature", None)  # it signs the older version
        return

    # The version of the format is stored once, in the record.
    index = [*map(get_conversation_id, document.others)].index(loaded.conversation.id)
    document.others[index] = {key: item for key, item in jp.items() if key != "version"}


def _format_import(action: str, loaded: Document, notebook: Path) -> str:
    """Return the line about the imported conversation; `action` is the verb of the sentence."""
    stream = loaded.conversation
    turns = "1 turn" if stream.turn_count == 1 else f"{stream.turn_count} turns"
    title = f" {stream.title!r}" if stream.title else ""
    counts = f"({turns}, {len(stream)} entries)"
    return f"{notebook}: {format_conversation_id(stream.id)}{title} {action} {counts}"


def import_conversation(options: argparse.Namespace) -> int:
    """Import a conversation of JP into a notebook."""
    for line in import_into_notebook(find_folder(options.folder, Path()), options.notebook):
        print(one_line(line, limit=MAX_PATH_LINE_CHARS))
    return 0
