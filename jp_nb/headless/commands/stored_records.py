"""Read the record of a notebook file, and find a conversation in it by its id.

The record is the object `jp` in the notebook's metadata. If another runner executed the notebook,
newer entries are in the state of a widget, the *carrier*.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.headless.files import read_notebook
from jp_nb.json_values import JsonObject
from jp_nb.record.documents import carrier
from jp_nb.record.documents.document import Document
from jp_nb.record.documents.record_shape import get_conversation_id
from jp_nb.record.entries.timestamps import utc_now

_PLAIN_ID = re.compile(r"[A-Za-z0-9_.~-]{1,64}")


def read_record(path: Path | str, *, tolerant: bool = False) -> Document:
    """Return the record of the notebook at `path`.

    With `tolerant`, malformed entries are kept, and the conversation is read-only.

    Raises:
        StorageError: The notebook cannot be read, contains no conversation, or its record is
            damaged.
    """
    return parse_record(read_stored_record(path), path, tolerant=tolerant)


def parse_record(stored: JsonValue, source: Path | str, *, tolerant: bool = False) -> Document:
    """Return the record in the `jp` object `stored`. Errors name its `source`.

    Raises:
        StorageError: The record is damaged, or of a newer version.
    """
    try:
        return Document.load(stored, clock=utc_now, tolerant=tolerant)
    except StorageError as exc:  # also a `NewerVersionError`
        raise type(exc)(f"{source}: {exc}") from exc


def read_stored_record(path: Path | str) -> JsonValue:
    """Return the unchecked `jp` object of the notebook at `path`.

    Raises:
        StorageError: The notebook cannot be read, or contains no conversation.
    """
    metadata = read_notebook(Path(path)).metadata
    stored = carrier.read_carrier(metadata)  # the record in the metadata, merged with its carriers
    if stored is None:
        if carrier.find_unreadable_carriers(metadata):
            raise StorageError(f"{path}: {carrier.DAMAGED}")
        raise StorageError(f"{path} contains no conversation")
    return stored


def find_other_record(others: list[JsonValue], identifier: str) -> JsonObject | None:
    """Return the conversation with this id among `others`, the inactive ones of a record."""
    for other in others:
        if isinstance(other, dict) and get_conversation_id(other) == identifier:
            return other
    return None


def format_conversation_id(identifier: str) -> str:
    """Return `identifier` for a message; an unusual one, which a file can contain, is escaped."""
    return identifier if _PLAIN_ID.fullmatch(identifier) else ascii(identifier[:64])
