"""Messages between the kernel and the page: protocol 1. Pure.

`live.py` and the lab extension exchange these as the data of comm messages.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import storable, storable_and_size
from jp_nb.notebook.people import read_name

PROTOCOL = 1
TARGET = "jp_nb.document"
MAX_BATCH_BYTES = 256 * 1024
MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""Bound of a document that a page sends in pieces."""


class Numbering:
    """Makes the kernel's messages, numbered.

    Attributes:
        last: The number of the last one.
        path: Where the notebook is that they are for.
    """

    def __init__(self) -> None:
        self.last = 0
        self.path = ""

    def message(self, what: str, **fields: JsonValue) -> dict[str, JsonValue]:
        """Return the next message, of the kind `what`."""
        self.last += 1
        # `ctl` and `path` are in every message: a page that was reloaded did not see the first.
        head: dict[str, JsonValue] = {"type": what, "v": PROTOCOL, "ctl": True}
        return {**head, "seq": self.last, "path": self.path, **fields}


@dataclass(frozen=True, slots=True)
class Hello:
    """A page says what it has.

    Attributes:
        page: Names the page; another one may show the same notebook.
        path: Where the notebook is, as the server names it.
        has_document: Whether the notebook's metadata has the key `jp` (or a carrier) at all.
        document: What is there: unchecked.
        tells_cells: Whether the page answers when it is asked for cells.
        keeps: Whether it understands `exchange`.
        session: Stands in the header of what the page sends, through whatever comm.
        user: The name of its user, if the document is shared; made safe.
    """

    page: str
    path: str
    read_only: bool = False
    collaborative: bool = False
    has_document: bool = False
    document: JsonValue = None
    tells_cells: bool = False
    keeps: bool = False
    session: str = ""
    user: str | None = None
    protocol: JsonValue = PROTOCOL

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Hello:
        """Return the message, without a document that follows in pieces."""
        return cls(
            page=str(data.get("page", "")),
            path=str(data.get("path", "")),
            read_only=bool(data.get("readOnly")),
            collaborative=bool(data.get("collaborative")),
            has_document="doc" in data,
            document=data.get("doc"),
            tells_cells="cells" in _list(data.get("tells")),
            keeps="exchange" in _list(data.get("tells")),
            session=str(data.get("session", "")),
            user=read_name(data.get("user")),
            protocol=data.get("v"),
        )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@dataclass(slots=True)
class Pieces:
    """Puts a document together that was too long for one message; any order, any repeats."""

    count: int
    _parts: dict[int, str] = field(default_factory=dict)

    def add(self, index: Any, text: Any) -> bool:
        """Take one piece; return whether all are there."""
        if isinstance(index, int) and isinstance(text, str) and 0 <= index < self.count:
            self._parts[index] = text
        if sum(map(len, self._parts.values())) > MAX_DOCUMENT_BYTES:
            raise StorageError("the record of the notebook is too large to read", place="jp")
        return len(self._parts) == self.count

    def text(self) -> str:
        """Return the pieces in their order, once all are there."""
        return "".join(self._parts[i] for i in range(self.count))

    def document(self) -> JsonValue:
        """Return what the pieces say.

        Raises:
            StorageError: If it is not JSON.
        """
        try:
            return json.loads(self.text())  # type: ignore[no-any-return]
        except ValueError as exc:
            raise StorageError(f"the page sent invalid JSON: {exc}", place="jp") from exc


def can_wait(kind: str, content: Mapping[str, Any]) -> bool:
    """Return whether a message of this `kind` may wait for a batch: one that has entries may."""
    data = content.get("data")
    of_record = kind == "comm_msg" and str(content.get("comm_id", "")).startswith(f"{TARGET}.")
    return of_record and isinstance(data, dict) and data.get("type") == "append"


def is_short(value: JsonValue) -> bool:
    """Return whether `value` goes in one message."""
    return len(as_ascii(value)) <= MAX_BATCH_BYTES


def split(text: str, size: int = MAX_BATCH_BYTES) -> list[str]:
    """Cut ASCII `text` into pieces of at most `size` bytes, at least one."""
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


def as_ascii(value: JsonValue) -> str:
    """Return `value` as JSON text in ASCII: no cut goes through a character."""
    return json.dumps(storable(value), allow_nan=False, separators=(",", ":"))


def take_batch(entries: Iterable[Any], limit: int = MAX_BATCH_BYTES) -> tuple[list[JsonValue], int]:
    """Return the first `entries` that fit into `limit` bytes of JSON, at least one; their size."""
    batch: list[JsonValue] = []
    total = 0
    for entry in entries:
        clean, size = storable_and_size(entry)
        if batch and total + size > limit:
            break
        batch.append(clean)
        total += size
    return batch, total
