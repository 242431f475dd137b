"""Commands `jp-nb show`, `jp-nb diff`, `jp-nb import` and `jp-nb export`.

Source: `docs/guide.md`, https://git-scm.com/docs/git#Documentation/git.txt-GITEXTERNALDIFF.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.files import existing_notebook, read_notebook, write_notebook
from jp_nb.interop.directories import (
    Saved,
    folder_at,
    load_directory,
    possible_path,
    save_directory,
)
from jp_nb.interop.entries import entry_text
from jp_nb.interop.files import Dialect, write_directory
from jp_nb.interop.json_text import read_value, same_json
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record import merge
from jp_nb.record.clock import utc_now
from jp_nb.record.conversations import notices
from jp_nb.record.document import (
    VERSION,
    Document,
    NewerVersionError,
    conversation_id,
    events_of,
    head_of,
    others_of,
)
from jp_nb.record.turns import read_turn
from jp_nb.rendering.prompts import line_difference
from jp_nb.rendering.record_diff import INDENT, ComparedRecord, record_difference
from jp_nb.rendering.turn import log_report
from jp_nb.text import one_line, plain

SAME: Final = 0
DIFFERENT: Final = 1
UNREADABLE: Final = 2
_OF_GIT: Final = (7, 9)
"""Arguments of an external diff: path, old file, hash, mode, new file, hash, mode; of one that
was renamed two more."""


NOTHING: Final = ComparedRecord()
"""Of a notebook without a record."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """One notebook: its record, and its cells as lines."""

    record: ComparedRecord = NOTHING
    cells: tuple[str, ...] = ()


def diff(options: argparse.Namespace) -> int:
    """Print what differs; return 0 if nothing does, 1 if something does, 2 if one cannot be read.

    As an external diff of git also the cells are compared, and 0 is what git wants.
    """
    if options.git:
        return _for_git(options.notebooks)
    if len(options.notebooks) != 2:
        raise UsageError("jp-nb diff compares two notebooks: `jp-nb diff A B`")
    before, after = options.notebooks
    try:
        lines = record_difference(_read(before).record, _read(after).record)
    except StorageError as exc:
        print(f"jp-nb: {plain(str(exc))}", file=sys.stderr)
        return UNREADABLE
    _print([f"--- {before}", f"+++ {after}"], lines)
    return DIFFERENT if lines else SAME


def _for_git(arguments: list[str]) -> int:
    if len(arguments) == 1:
        _print([f"* Unmerged path {arguments[0]}"], [""])
        return 0
    if len(arguments) not in _OF_GIT:
        raise UsageError(
            "jp-nb diff --git runs as a diff driver of git: see `git help gitattributes`"
        )
    path, old, new = arguments[0], arguments[1], arguments[4]
    heading = [f"--- a/{path}", f"+++ b/{arguments[7] if len(arguments) > 7 else path}"]
    try:
        before, after = _read(old), _read(new)
    except StorageError as exc:  # with another exit code git would show nothing of other files
        _print(heading, [f"⟨not compared: {plain(str(exc))}⟩", ""])
        return 0
    cells = [str(line) for line in line_difference(before.cells, after.cells)]
    shown = ["cells", *cells, ""] if cells else []
    _print(heading, shown + record_difference(before.record, after.record))
    return 0


def _print(heading: list[str], lines: list[str]) -> None:
    if not lines:
        return
    text = "\n".join([*map(one_line, heading), "", *lines])
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


def _read(name: str) -> _Compared:
    """Return the notebook of that name; nothing for one without a record, or without a file.

    Raises:
        StorageError: If it is no notebook, or its record is none.
    """
    if name == os.devnull:  # git's name for what is not there
        return _Compared()
    notebook = read_notebook(Path(name))
    stored = merge.read_carrier(notebook.metadata)
    try:
        found = None if stored is None else Document.load(stored, clock=utc_now, tolerant=True)
    except StorageError as exc:
        raise StorageError(f"{name}: {exc}") from exc
    return _Compared(
        NOTHING if found is None else ComparedRecord.of(found),
        tuple(_cells(notebook)),
    )


def _cells(notebook: Any) -> Iterator[str]:
    """Yield the cells as lines, without their outputs."""
    for cell in notebook.cells:
        yield f"[{cell.cell_type}] {cell.get('id', '')}".rstrip()
        yield from (f"{INDENT}{line}" if line else "" for line in cell.source.split("\n"))
        yield ""


def load_conversation(path: Path | str, *, tolerant: bool = False) -> Document:
    """Return what the notebook at `path` keeps, wherever in it that is.

    With `tolerant`, an entry that is damaged is no error: it is listed in the stream's `damage`.

    Raises:
        StorageError: If it is no notebook, holds no conversation, or a damaged one; the message
            names file and place.
    """
    stored = load_stored(path)
    try:
        return Document.load(stored, clock=utc_now, tolerant=tolerant)
    except NewerVersionError as exc:
        raise NewerVersionError(f"{path}: {exc}") from exc
    except StorageError as exc:
        raise StorageError(f"{path}: {exc}") from exc


def load_stored(path: Path | str) -> JsonValue:
    """Return the `jp` object of the notebook at `path`, whatever is in it.

    Raises:
        StorageError: If it is no notebook, or holds no such object.
    """
    metadata = read_notebook(Path(path)).metadata
    stored = merge.read_carrier(metadata)
    if stored is None:
        if merge.unreadable_carrier(metadata):
            raise StorageError(f"{path}: {merge.DAMAGED}")
        raise StorageError(f"{path} contains no conversation")
    return stored


LOAD = "%load_ext jp_nb"
"""The one cell of a notebook that is made for an imported conversation."""

_ORDINARY = re.compile(r"[A-Za-z0-9_.~-]{1,64}")


def import_directory(folder: Path, notebook: Path) -> list[str]:
    """Make the conversation in `folder` the active one of `notebook`; returns what to tell.

    A notebook that is not there is made; in one that is, the active conversation moves to the
    others. One that the directory holds too, and more of it, is replaced where it is. Nobody signs
    the imported one: until somebody trusts it, its configuration decides nothing that matters.

    Raises:
        UsageError: If there is no such folder.
        StorageError: If either cannot be read, or the notebook holds another version of the same
            conversation. Nothing was written.
    """
    jp = load_directory(folder, clock=utc_now)
    loaded = _checked(jp, folder)
    there = os.path.exists(possible_path(notebook))
    found = read_notebook(notebook) if there else _new_notebook()
    merge.lift_carrier(found.metadata)
    if merge.read_carrier(found.metadata) is None:
        merge.store_segments(found.metadata, jp)
        write_notebook(found, notebook)
        return [_said("imported", loaded, notebook), *_left_out(jp, folder)]
    document = load_conversation(notebook)  # strictly: nothing is added to a damaged record
    identifier = loaded.conversation.id
    held = _find(document, identifier)
    if held is None:
        document.archive_active()
        document.conversation = loaded.conversation
        done = "imported"
    elif write_directory(held).files == write_directory(jp).files:  # as bytes: nothing differs
        return [f"{notebook} already contains {_shown(identifier)}: nothing to import"]
    elif _goes_on(jp, held):
        _replace(document, jp, loaded)
        done = f"updated from {folder}"
    else:
        held_count, count = len(events_of(held)), len(events_of(jp))
        raise StorageError(
            f"{notebook} and {folder} contain different versions of {_shown(identifier)} "
            f"({held_count} and {count} entries). Drop the one in the notebook with "
            "`%jp drop ID`, or import into another notebook"
        )
    merge.store_segments(found.metadata, document.to_json())
    write_notebook(found, notebook)
    return [_said(done, loaded, notebook), *_left_out(jp, folder)]


def export_directory(
    notebook: Path, folder: Path, dialect: Dialect = "native", *, conversation: str | None = None
) -> Saved:
    """Write a conversation of `notebook` into `folder`.

    Args:
        notebook: The notebook's file.
        folder: The conversation directory itself.
        dialect: `native`, or `jp-head` for what JP reads today.
        conversation: Its id; the active one by default. Another one than that is written also
            if the active one is damaged.

    Raises:
        UsageError: If the notebook has no conversation of that id.
        StorageError: If the notebook cannot be read, or the folder not be written.
    """
    stored = load_stored(notebook)
    if (
        conversation is not None
        and isinstance(stored, dict)
        and conversation_id(stored) != conversation
    ):
        held = _among_others(others_of(stored), conversation)
        if held is not None and stored.get("version", VERSION) == VERSION:
            return save_directory(held, folder, dialect)
        known = load_conversation(notebook, tolerant=True).ids()
        if conversation not in known:
            raise UsageError(
                f"{notebook} has no conversation {_shown(conversation)}; it has "
                f"{', '.join(map(_shown, sorted(known)))}"
            )
    return save_directory(load_conversation(notebook).to_json(), folder, dialect)


def _checked(jp: JsonValue, folder: Path) -> Document:
    """Return the document that the directory makes: what it says would load from a notebook."""
    try:
        return Document.load(jp, clock=utc_now)
    except StorageError as exc:
        raise StorageError(f"{folder}: {exc}") from exc


def _new_notebook() -> Any:
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    cell = nbformat.v4.new_code_cell(LOAD)
    return nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})


def _find(document: Document, identifier: str) -> JsonObject | None:
    """Return the conversation of that id, the active one or another."""
    if document.conversation.id == identifier:
        return document.to_json()
    return _among_others(document.others, identifier)


def _among_others(others: list[JsonValue], identifier: str) -> JsonObject | None:
    for other in others:
        if isinstance(other, dict) and conversation_id(other) == identifier:
            return other
    return None


def _goes_on(jp: JsonObject, held: JsonObject) -> bool:
    """Return True if the entries of `jp` begin with all that are `held`."""
    ours, theirs = _entries(held), _entries(jp)
    return len(ours) <= len(theirs) and same_json(ours, theirs[: len(ours)])


def _entries(jp: JsonObject) -> list[JsonValue]:
    """Return the entries as JP stores them: how their text was written does not matter."""
    entries = map(as_object, events_of(jp))
    return [read_value(entry_text(e, i), "events").value for i, e in enumerate(entries)]


def _replace(document: Document, jp: JsonObject, loaded: Document) -> None:
    """Put the conversation in the place of the one of the same id. Nobody signed this one."""
    if document.conversation.id == loaded.conversation.id:
        document.conversation = loaded.conversation
        document.extra.pop("signature", None)
        return
    place = next(
        index
        for index, other in enumerate(document.others)
        if conversation_id(other) == loaded.conversation.id
    )
    document.others[place] = {key: item for key, item in jp.items() if key != "version"}


def _shown(identifier: str) -> str:
    """Return an id in a message: anybody's may hold what a terminal obeys."""
    return identifier if _ORDINARY.fullmatch(identifier) else ascii(identifier[:64])


def _said(done: str, loaded: Document, notebook: Path) -> str:
    stream = loaded.conversation
    turns = f"{stream.turn_count} turn{'' if stream.turn_count == 1 else 's'}"
    title = f" {stream.title!r}" if stream.title else ""
    counts = f"({turns}, {len(stream)} entries)"
    return f"{notebook}: {_shown(stream.id)}{title} {done} {counts}"


def _left_out(jp: JsonObject, folder: Path) -> list[str]:
    names = as_object(head_of(jp).get("origin")).get("left_out")
    found = [str(name) for name in names] if isinstance(names, list) else []
    why = "a link, a folder, hidden, too large, or not text"
    return [f"not imported: {folder / name} ({why})" for name in found]


MAX_LINE = 5000
"""Characters of a line about a directory: names and paths may be anybody's."""


def show(options: argparse.Namespace) -> int:
    """Print the conversation; return 1 if something of it is damaged."""
    document = load_conversation(existing_notebook(options.notebook), tolerant=True)
    stream = document.conversation
    if options.json:
        # In ASCII: what a terminal would act on is escaped, and half a character has no bytes.
        print(json.dumps(document.to_json(), indent=2))
    elif not len(stream) and not document.others:
        raise StorageError(f"{options.notebook} contains no conversation")
    else:
        title = f" · {stream.title}" if stream.title else ""
        print(one_line(f"{stream.id}{title}"))
        turns = [
            read_turn(t.number, t.entries, status="", images=stream.images) for t in stream.turns()
        ]
        print(log_report(document, turns).text)
    sys.stdout.flush()
    for line in notices(stream):
        print(f"jp-nb: {one_line(line)}", file=sys.stderr)
    return 1 if stream.damage else 0


def import_conversation(options: argparse.Namespace) -> int:
    """Put a conversation of JP into a notebook."""
    for line in import_directory(folder_at(options.folder, Path()), options.notebook):
        print(one_line(line, limit=MAX_LINE))
    return 0


def export_conversation(options: argparse.Namespace) -> int:
    """Write the conversation as a directory of JP, and say what that form has no place for."""
    notebook, folder = existing_notebook(options.notebook), folder_at(options.folder, Path())
    dropped, others = export_directory(
        notebook, folder, options.dialect, conversation=options.conversation
    )
    for line in dropped:
        print(one_line(line, limit=MAX_LINE), file=sys.stderr)
    print(one_line(f"{folder} written", limit=MAX_LINE))
    for name in others:
        print(
            one_line(
                f"{folder / name} written: not a file of JP, imported with the conversation",
                limit=MAX_LINE,
            )
        )
    return 0
