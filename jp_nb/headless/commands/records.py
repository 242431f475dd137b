"""Commands `jp-nb show`, `jp-nb diff`, `jp-nb import` and `jp-nb export`.

Source: `docs/guide.md`, https://git-scm.com/docs/git#Documentation/git.txt-GITEXTERNALDIFF.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import nbformat
from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.files import read_notebook, require_notebook, write_notebook
from jp_nb.interop.directories import (
    SavedDirectory,
    find_folder,
    load_directory,
    make_possible_path,
    save_directory,
)
from jp_nb.interop.directory_writer import Dialect, write_directory
from jp_nb.interop.jp_entries import format_jp_entry
from jp_nb.interop.json_text import read_value, same_json
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.documents import carrier, segments
from jp_nb.record.documents.document import (
    RECORD_VERSION,
    Document,
    get_conversation_id,
    get_events,
    get_others,
    get_properties,
    list_notices,
)
from jp_nb.record.entries.clock import utc_now
from jp_nb.record.reading.turn_reader import read_turns
from jp_nb.rendering.text_diff import diff_lines
from jp_nb.rendering.transcripts.log import render_log
from jp_nb.rendering.transcripts.record_diff import INDENT, ComparedRecord, diff_records
from jp_nb.text import MAX_PATH_LINE_CHARS, one_line, plain
from jp_nb.toolkit.builtin.notebook import NOTEBOOK_TOOLS, TOOLSET

_GIT_ARGUMENT_COUNTS: Final = (7, 9)
"""Numbers of arguments of git's external diff: path, old file, hash, mode, new file, hash, mode,
and two more for a renamed file.
"""


def diff_notebooks(options: argparse.Namespace) -> int:
    """Print the differences. Return 0 if there are none, 1 if there are some, 2 for invalid files.

    As an external diff of git, it also compares cells, and returns 0 as git expects.
    """
    if options.git:
        return _diff_for_git(options.notebooks)

    if len(options.notebooks) != 2:
        raise UsageError("jp-nb diff compares two notebooks: `jp-nb diff A B`")

    before, after = options.notebooks
    try:
        lines = diff_records(_read_compared(before)[0], _read_compared(after)[0])
    except StorageError as exc:
        print(f"jp-nb: {plain(str(exc))}", file=sys.stderr)
        return 2

    _print_diff([f"--- {before}", f"+++ {after}"], lines)
    return 1 if lines else 0


def _diff_for_git(arguments: list[str]) -> int:
    if len(arguments) == 1:
        _print_diff([f"* Unmerged path {arguments[0]}"], [""])
        return 0

    if len(arguments) not in _GIT_ARGUMENT_COUNTS:
        raise UsageError(
            "jp-nb diff --git runs as a diff driver of git: see `git help gitattributes`"
        )

    path = arguments[0]
    old = arguments[1]
    new = arguments[4]
    new_path = arguments[7] if len(arguments) > 7 else path
    heading = [f"--- a/{path}", f"+++ b/{new_path}"]

    try:
        before, old_cells = _read_compared(old)
        after, new_cells = _read_compared(new)
    except StorageError as exc:  # git stops after another exit code
        _print_diff(heading, [f"⟨not compared: {plain(str(exc))}⟩", ""])
        return 0

    cells = [str(line) for line in diff_lines(old_cells, new_cells)]
    lines = ["cells", *cells, ""] if cells else []
    _print_diff(heading, lines + diff_records(before, after))
    return 0


def _print_diff(heading: list[str], lines: list[str]) -> None:
    if not lines:
        return

    text = "\n".join([*map(one_line, heading), "", *lines])
    if not text.endswith("\n"):
        text += "\n"
    sys.stdout.write(text)
    sys.stdout.flush()


def _read_compared(name: str) -> tuple[ComparedRecord, list[str]]:
    """Read the record and the lines of cells of a notebook. One without a file is empty."""
    if name == os.devnull:  # git's name for a missing file
        return ComparedRecord(), []

    notebook = read_notebook(Path(name))
    stored = carrier.read_carrier(notebook.metadata)
    record = ComparedRecord()
    if stored is not None:
        record = ComparedRecord.of(_load_document(stored, name, tolerant=True))

    lines: list[str] = []
    for cell in notebook.cells:
        lines.append(f"[{cell.cell_type}] {cell.get('id', '')}".rstrip())
        lines += [_indent(line) for line in cell.source.split("\n")]
        lines.append("")

    return record, lines


def _indent(line: str) -> str:
    return f"{INDENT}{line}" if line else ""


def load_conversation(path: Path | str, *, tolerant: bool = False) -> Document:
    """Return the record of the notebook at `path`."""
    return _load_document(load_stored(path), path, tolerant=tolerant)


def _load_document(stored: JsonValue, source: Path | str, *, tolerant: bool = False) -> Document:
    try:
        return Document.load(stored, clock=utc_now, tolerant=tolerant)
    except StorageError as exc:  # also a `NewerVersionError`
        raise type(exc)(f"{source}: {exc}") from exc


def load_stored(path: Path | str) -> JsonValue:
    """Return the unchecked `jp` object of the notebook at `path`.

    Raises:
        StorageError: The notebook cannot be read, or contains no conversation.
    """
    metadata = read_notebook(Path(path)).metadata
    stored = carrier.read_carrier(metadata)
    if stored is None:
        if carrier.find_unreadable_carriers(metadata):
            raise StorageError(f"{path}: {carrier.DAMAGED}")
        raise StorageError(f"{path} contains no conversation")
    return stored


LOAD = "%load_ext jp_nb"  # the only cell of a notebook that an import creates
_PLAIN_ID = re.compile(r"[A-Za-z0-9_.~-]{1,64}")


def import_into_notebook(folder: Path, notebook: Path) -> list[str]:
    """Make the conversation in `folder` the active one of `notebook`, and return lines to print.

    A missing notebook is created. In an existing one, the active conversation moves to `others`. An
    older version of the same conversation is replaced. The imported conversation is not signed, so
    its settings with authority are ignored until the user trusts it.

    Raises:
        UsageError: The folder does not exist.
        StorageError: A file cannot be read, or the notebook has a different version of the
            conversation. Nothing was written.
    """
    jp = load_directory(folder, clock=utc_now)
    loaded = _load_document(jp, folder)

    exists = os.path.exists(make_possible_path(notebook))
    if exists:
        target = read_notebook(notebook)
    else:
        kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
        cells = [nbformat.v4.new_code_cell(LOAD)]
        target = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})

    carrier.lift_carrier(target.metadata)
    done = "imported"
    stored = jp

    if carrier.read_carrier(target.metadata) is not None:
        document = load_conversation(notebook)  # a damaged record is an error
        identifier = loaded.conversation.id
        is_active = document.conversation.id == identifier
        held = document.to_json() if is_active else _find_other(document.others, identifier)
        if held is None:
            document.archive_active()
            document.conversation = loaded.conversation
        elif write_directory(held).files == write_directory(jp).files:  # byte for byte
            return [f"{notebook} already contains {_format_id(identifier)}: nothing to import"]
        elif _is_continuation(jp, held):
            _replace_conversation(document, jp, loaded)
            done = f"updated from {folder}"
        else:
            held_count = len(get_events(held))
            count = len(get_events(jp))
            raise StorageError(
                f"{notebook} and {folder} contain different versions of {_format_id(identifier)} "
                f"({held_count} and {count} entries). Drop the one in the notebook with "
                "`%jp drop ID`, or import into another notebook"
            )
        stored = document.to_json()

    segments.store_segments(target.metadata, stored)
    write_notebook(target, notebook)

    names = as_object(get_properties(jp).get("origin")).get("left_out")
    skipped = [str(name) for name in names] if isinstance(names, list) else []
    why = "it is a link, a folder, a hidden or large file, or not text"

    return [
        _format_import(done, loaded, notebook),
        *(f"not imported: {folder / name} ({why})" for name in skipped),
    ]


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
    stored = load_stored(notebook)
    wanted = conversation

    if wanted is not None and isinstance(stored, dict) and get_conversation_id(stored) != wanted:
        held = _find_other(get_others(stored), wanted)
        if held is not None and stored.get("version", RECORD_VERSION) == RECORD_VERSION:
            return save_directory(held, folder, dialect)
        identifiers = load_conversation(notebook, tolerant=True).ids()
        if wanted not in identifiers:
            has = ", ".join(map(_format_id, sorted(identifiers)))
            raise UsageError(f"{notebook} has no conversation {_format_id(wanted)}; it has {has}")
    return save_directory(load_conversation(notebook).to_json(), folder, dialect)


def _find_other(others: list[JsonValue], identifier: str) -> JsonObject | None:
    found = (x for x in others if isinstance(x, dict) and get_conversation_id(x) == identifier)
    return next(found, None)


def _normalize_events(events: Sequence[JsonValue]) -> list[JsonValue]:
    """Return `events` as a directory of JP would store them."""
    return [
        read_value(format_jp_entry(as_object(event), index), "events").value
        for index, event in enumerate(events)
    ]


def _is_continuation(jp: JsonObject, held: JsonObject) -> bool:
    ours = _normalize_events(get_events(held))
    theirs = _normalize_events(get_events(jp))
    return len(ours) <= len(theirs) and same_json(ours, theirs[: len(ours)])


def _replace_conversation(document: Document, jp: JsonObject, loaded: Document) -> None:
    if document.conversation.id == loaded.conversation.id:
        document.conversation = loaded.conversation
        document.extra.pop("signature", None)
        return

    place = [*map(get_conversation_id, document.others)].index(loaded.conversation.id)
    document.others[place] = {key: item for key, item in jp.items() if key != "version"}


def _format_id(identifier: str) -> str:
    return identifier if _PLAIN_ID.fullmatch(identifier) else ascii(identifier[:64])


def _format_import(done: str, loaded: Document, notebook: Path) -> str:
    stream = loaded.conversation
    turns = "1 turn" if stream.turn_count == 1 else f"{stream.turn_count} turns"
    title = f" {stream.title!r}" if stream.title else ""
    counts = f"({turns}, {len(stream)} entries)"
    return f"{notebook}: {_format_id(stream.id)}{title} {done} {counts}"


def show(options: argparse.Namespace) -> int:
    """Print the conversation, and return 1 if it is damaged."""
    document = load_conversation(require_notebook(options.notebook), tolerant=True)
    stream = document.conversation

    if options.json:
        # ASCII escapes control characters and unpaired surrogates.
        print(json.dumps(document.to_json(), indent=2))
    elif not len(stream) and not document.others:
        raise StorageError(f"{options.notebook} contains no conversation")
    else:
        title = f" · {stream.title}" if stream.title else ""
        print(one_line(f"{stream.id}{title}"))
        toolsets = {TOOLSET: tuple(NOTEBOOK_TOOLS)}
        print(render_log(document, read_turns(stream), toolsets=toolsets).text)

    sys.stdout.flush()
    for line in list_notices(stream):
        print(f"jp-nb: {one_line(line)}", file=sys.stderr)
    return 1 if stream.damage else 0


def import_conversation(options: argparse.Namespace) -> int:
    """Import a conversation of JP into a notebook."""
    for line in import_into_notebook(find_folder(options.folder, Path()), options.notebook):
        print(one_line(line, limit=MAX_PATH_LINE_CHARS))
    return 0


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
