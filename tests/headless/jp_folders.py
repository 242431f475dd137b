"""Conversation directories of JP next to notebooks, for tests of import and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat

from tests.interop.jp_directories import G1, G2, G3, G4, G5, jp_text
from tests.kit.notebook_record import open_document
from tests.kit.records import new_event

GENERATIONS = {"G1": G1, "G2": G2, "G3": G3, "G4": G4, "G5": G5}
OTHER = "17600000001-on-clouds"


def write_folder(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def save_again(notebook: Path) -> None:
    """Write the notebook as a Jupyter server does."""
    nbformat.write(nbformat.read(notebook, as_version=4), notebook)


def record_in(notebook: Path) -> Any:
    return nbformat.read(notebook, as_version=4).metadata.jp


def append_turn(notebook: Path) -> None:
    """Append a turn to the conversation of the notebook, as a run does."""
    stored = nbformat.read(notebook, as_version=4)
    document = open_document(json.loads(json.dumps(stored.metadata.jp)))
    document.conversation.start_turn(new_event("chat_request", content="And?"))
    stored.metadata["jp"] = document.to_json()
    nbformat.write(stored, notebook)


def changed_events(entry: int, **fields: Any) -> bytes:
    """Return the events of G4, with other `fields` in one of them."""
    events = json.loads(G4["events.json"])
    events[entry] |= fields
    return jp_text(events)
