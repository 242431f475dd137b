"""Between a notebook that is not open and a conversation directory of JP.

Source: `design/interface.md` section 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from pydantic import JsonValue

from jp_nb.errors import StorageError, UsageError
from jp_nb.headless.files import read_notebook, write_notebook
from jp_nb.headless.show import load_conversation
from jp_nb.notebook.document import carrier
from jp_nb.notebook.document.jp_directories import load_directory, save_directory
from jp_nb.record.document import KEY, Document
from jp_nb.record.jp_files import Dialect, write_directory
from jp_nb.record.timestamps import utc_now

LOAD = "%load_ext jp_nb"
"""The one cell of a notebook that is made for an imported conversation."""


def import_directory(folder: Path, notebook: Path) -> list[str]:
    """Make the conversation in `folder` the active one of `notebook`; returns what to tell.

    A notebook that is not there is made; in one that is, the active conversation moves to the
    others. Nobody signs the imported one: until somebody trusts it, its configuration decides
    nothing that matters.

    Raises:
        UsageError: If there is no such folder.
        StorageError: If either cannot be read, or the notebook holds another version of the same
            conversation. Nothing was written.
    """
    jp = load_directory(folder, clock=utc_now)
    loaded = _checked(jp, folder)
    if not notebook.exists():
        made = _new_notebook()
        made.metadata[KEY] = jp
        write_notebook(made, notebook)
        return [_imported(loaded, notebook), *_left_out(jp, folder)]
    found = read_notebook(notebook)
    carrier.lift(found.metadata)
    if KEY not in found.metadata:
        found.metadata[KEY] = jp
        write_notebook(found, notebook)
        return [_imported(loaded, notebook), *_left_out(jp, folder)]
    document = load_conversation(notebook)
    identifier = loaded.conversation.id
    held = _find(document, identifier)
    if held is not None:
        if write_directory(held).files == write_directory(jp).files:
            return [f"{notebook} already holds {identifier}: nothing to do"]
        raise StorageError(
            f"{notebook} holds {identifier} with {_count(held)} entries, and {folder} holds it "
            f"with {_count(jp)} that are not the same: drop one of them"
        )
    document.shelve()
    document.conversation = loaded.conversation
    found.metadata[KEY] = document.to_json()
    write_notebook(found, notebook)
    return [_imported(loaded, notebook), *_left_out(jp, folder)]


def export_directory(
    notebook: Path, folder: Path, dialect: Dialect = "native", *, conversation: str | None = None
) -> list[str]:
    """Write a conversation of `notebook` into `folder`; returns what could not be said there.

    Args:
        notebook: The notebook's file.
        folder: The conversation directory itself.
        dialect: `native`, or `jp-head` for what JP reads today.
        conversation: Its id; the active one by default.

    Raises:
        UsageError: If the notebook has no conversation of that id.
        StorageError: If the notebook cannot be read, or the folder not be written.
    """
    document = load_conversation(notebook)
    wanted = conversation or document.conversation.id
    held = _find(document, wanted)
    if held is None:
        known = ", ".join(sorted(document.ids()))
        raise UsageError(f"{notebook} has no conversation {wanted!r}, it has {known}")
    return save_directory(held, folder, dialect)


def _checked(jp: JsonValue, folder: Path) -> Document:
    """The document that the directory makes: what it says would load from a notebook."""
    try:
        return Document.load(jp, clock=utc_now)
    except StorageError as exc:
        raise StorageError(f"{folder}: {exc}") from exc


def _new_notebook() -> Any:
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    cell = nbformat.v4.new_code_cell(LOAD)
    return nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})


def _find(document: Document, identifier: str) -> Mapping[str, JsonValue] | None:
    """The conversation of that id, the active one or another."""
    if document.conversation.id == identifier:
        return document.to_json()
    for other in document.others:
        head = other.get("conversation") if isinstance(other, dict) else None
        if isinstance(other, dict) and isinstance(head, dict) and head.get("id") == identifier:
            return other
    return None


def _count(jp: Mapping[str, JsonValue]) -> int:
    events = jp.get("events")
    return len(events) if isinstance(events, list) else 0


def _imported(loaded: Document, notebook: Path) -> str:
    stream = loaded.conversation
    turns = f"{stream.turn_count} turn{'' if stream.turn_count == 1 else 's'}"
    title = f" {stream.title!r}" if stream.title else ""
    return f"{notebook}: {stream.id}{title} imported ({turns}, {len(stream)} entries)"


def _left_out(jp: Mapping[str, JsonValue], folder: Path) -> list[str]:
    head = jp.get("conversation")
    origin = head.get("origin") if isinstance(head, dict) else None
    names = origin.get("left_out") if isinstance(origin, dict) else None
    found = [str(name) for name in names] if isinstance(names, list) else []
    return [f"left out: {folder / name} (hidden, too long, or no text)" for name in found]
