"""The conversation of a notebook that is not open."""

from __future__ import annotations

from pathlib import Path

from jp_nb.errors import StorageError
from jp_nb.headless.files import read_notebook
from jp_nb.notebook.document import carrier
from jp_nb.record.document import Document, NewerVersionError
from jp_nb.record.timestamps import utc_now


def load_conversation(path: Path | str) -> Document:
    """What the notebook at `path` keeps, wherever in it that is.

    Raises:
        StorageError: If it is no notebook, holds no conversation, or a damaged one; the message
            names file and place.
    """
    path = Path(path)
    metadata = read_notebook(path).metadata
    stored = carrier.read(metadata)
    if stored is None:
        if carrier.unreadable(metadata):
            raise StorageError(f"{path}: the copy that a headless run left is damaged")
        raise StorageError(f"{path} holds no conversation")
    try:
        return Document.load(stored, clock=utc_now)
    except NewerVersionError as exc:
        raise NewerVersionError(f"{path}: {exc}") from exc
    except StorageError as exc:
        raise StorageError(f"{path}: {exc}") from exc
