"""Messages between kernel and page.

`live_store.py` and the lab extension exchange these messages as the data of comm messages.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import MAX_INTEGER, make_storable, make_storable_with_size
from jp_nb.notebook.collaborators import read_user_name

PROTOCOL = 1
TARGET = "jp_nb.document"
MAX_BATCH_BYTES = 256 * 1024
MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""Limit of a document that a page sends in pieces."""


MAX_CHUNKS: Final = 65_536
"""Limit of the pieces of a document."""
MAX_FIELD_CHARS: Final = 10_000
"""Limit of ids, paths, and reasons in a message of a page."""
_TEXTS: Final = ("type", "page", "path", "stream", "session", "client", "why", "request")
_COUNTS: Final = ("seq", "n", "i", "of", "chunks")
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "hello": ("page", "path"),
    "chunk": ("page", "i", "text"),
    "ack": ("seq", "stream", "n"),
    "nack": ("seq",),
    "saved": (),
    "save_failed": ("seq",),
    "cells": ("seq", "i", "of", "text"),
    "bye": ("page",),
    "want": ("page", "request"),
    "seen": ("page", "request"),
    "input": ("seq", "can"),
}


def read_page_message(data: Any) -> dict[str, Any] | None:
    """Return the fields of `data` if it is a message of a page, with the right types; else None.

    Other code in a page can send comm messages, too: a script in an output, or another notebook.
    """
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        return None
    if data["type"] not in _REQUIRED:
        return None
    if any(data.get(name) is None for name in _REQUIRED[data["type"]]):
        return None
    if not all(_is_name(data[name]) for name in _TEXTS if data.get(name) is not None):
        return None
    if not all(_is_count(data[name]) for name in _COUNTS if data.get(name) is not None):
        return None

    return {name: value for name, value in data.items() if value is not None or name == "doc"}


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_FIELD_CHARS


def _is_count(value: Any) -> bool:
    # A boolean is an integer of Python.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INTEGER


class Numbering:
    """Builder of the kernel's messages; `last` is the `seq` of the last one."""

    def __init__(self) -> None:
        self.last = 0
        self.path = ""

    def message(self, kind: str, **fields: JsonValue) -> dict[str, JsonValue]:
        """Return the next message."""
        self.last += 1
        # `ctl` and `path` are in every message, because a reloaded page did not receive the first.
        head: dict[str, JsonValue] = {"type": kind, "v": PROTOCOL, "ctl": True}
        return {**head, "seq": self.last, "path": self.path, **fields}


@dataclass(frozen=True, slots=True)
class Hello:
    """State of a page: its message `hello`. Several pages may show the same notebook.

    Attributes:
        path: The server's path of the notebook.
        has_document: True if the notebook's metadata has the key `jp` or a carrier.
        document: The `jp` object, not validated.
        session: Jupyter session in the header of all messages of the page, if it shares a
            document.
        client: The same, for each page.
        user: Name of the page's user if the document is shared, cleaned by `read_user_name`.
    """

    page: str
    path: str
    read_only: bool = False
    collaborative: bool = False
    has_document: bool = False
    document: JsonValue = None
    supports_cells: bool = False
    supports_exchange: bool = False
    supports_input: bool = False
    supports_ended: bool = False
    supports_printed: bool = False
    session: str = ""
    client: str = ""
    user: str | None = None
    protocol: JsonValue = PROTOCOL

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Hello:
        """Parse `data`. A document that follows in pieces is added later."""
        supported = data.get("tells")
        supported = supported if isinstance(supported, list) else []
        return cls(
            page=str(data.get("page", "")),
            path=str(data.get("path", "")),
            read_only=bool(data.get("readOnly")),
            collaborative=bool(data.get("collaborative")),
            has_document="doc" in data,
            document=data.get("doc"),
            supports_cells="cells" in supported,
            supports_exchange="exchange" in supported,
            supports_input="input" in supported,
            supports_ended="ended" in supported,
            supports_printed="printed" in supported,
            session=str(data.get("session", "")),
            client=str(data.get("client", "")),
            user=read_user_name(data.get("user")),
            protocol=data.get("v"),
        )


@dataclass(slots=True)
class Pieces:
    """Text that arrives in several messages, in any order and possibly repeated."""

    count: int
    _parts: dict[int, str] = field(default_factory=dict)
    _chars: int = 0

    def add(self, index: Any, text: Any) -> bool:
        """Add one piece; return True if the text is complete.

        Raises:
            StorageError: If the text exceeds `MAX_DOCUMENT_BYTES`.
        """
        if _is_count(index) and isinstance(text, str) and index < self.count:
            self._chars += len(text) - len(self._parts.get(index, ""))
            self._parts[index] = text

        if self._chars > MAX_DOCUMENT_BYTES:
            raise StorageError("the record of the notebook is too large to read", place="jp")

        return len(self._parts) == self.count

    def text(self) -> str:
        """Return the complete text."""
        return "".join(self._parts[i] for i in range(self.count))

    def document(self) -> JsonValue:
        """Return the complete text as JSON.

        Raises:
            StorageError: If it is not valid JSON.
        """
        try:
            return json.loads(self.text())  # type: ignore[no-any-return]
        except (ValueError, RecursionError) as exc:
            raise StorageError(f"the page sent invalid JSON: {exc}", place="jp") from exc


def is_batchable(kind: str, content: Mapping[str, Any]) -> bool:
    """Return True for an `append`, which may wait for the next batch of iopub messages."""
    data = content.get("data")
    of_record = kind == "comm_msg" and str(content.get("comm_id", "")).startswith(f"{TARGET}.")
    return of_record and isinstance(data, dict) and data.get("type") == "append"


def split_text(text: str, size: int = MAX_BATCH_BYTES) -> list[str]:
    """Cut ASCII `text` into pieces of at most `size` bytes, at least one."""
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


def to_ascii_json(value: JsonValue) -> str:
    """Return `value` as JSON text in ASCII, which can be split anywhere."""
    return json.dumps(make_storable(value), allow_nan=False, separators=(",", ":"))


def take_batch(entries: Iterable[Any], limit: int = MAX_BATCH_BYTES) -> tuple[list[JsonValue], int]:
    """Return the first `entries` within `limit` bytes of JSON, at least one, and their size."""
    batch: list[JsonValue] = []
    total = 0

    for entry in entries:
        clean, size = make_storable_with_size(entry)
        if batch and total + size > limit:
            break
        batch.append(clean)
        total += size

    return batch, total
