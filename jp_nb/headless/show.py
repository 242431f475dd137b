"""The conversation of a notebook that is not open."""

from __future__ import annotations

from pathlib import Path

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.headless.files import read_notebook
from jp_nb.record import carrier
from jp_nb.record.document import Document, NewerVersionError
from jp_nb.record.timestamps import utc_now


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
    stored = carrier.read(metadata)
    if stored is None:
        if carrier.unreadable(metadata):
            raise StorageError(f"{path}: {carrier.DAMAGED}")
        raise StorageError(f"{path} contains no conversation")
    return stored
