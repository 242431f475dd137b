"""Between a notebook that is not open and a conversation directory of JP.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.files import read_notebook, write_notebook
from jp_nb.headless.show import load_conversation, load_stored
from jp_nb.interop.jp_directories import Saved, load_directory, possible_path, save_directory
from jp_nb.interop.jp_entries import entry_text
from jp_nb.interop.jp_files import Dialect, write_directory
from jp_nb.interop.jp_json import read_value, same_json
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record import carrier, segments
from jp_nb.record.document import Document
from jp_nb.record.jp_object import VERSION, conversation_id, events_of, head_of, others_of
from jp_nb.record.timestamps import utc_now

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
    carrier.lift(found.metadata)
    if carrier.read(found.metadata) is None:
        segments.store(found.metadata, jp)
        write_notebook(found, notebook)
        return [_said("imported", loaded, notebook), *_left_out(jp, folder)]
    document = load_conversation(notebook)  # strictly: nothing is added to a damaged record
    identifier = loaded.conversation.id
    held = _find(document, identifier)
    if held is None:
        document.shelve()
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
    segments.store(found.metadata, document.to_json())
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
