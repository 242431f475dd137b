"""Long texts and lists of entries, cut into messages of bounded size and put together again.

A message of more than a few hundred KB blocks a browser. So a long record is sent as JSON text in
*pieces* (messages `chunk`), which may arrive in any order, and appended entries in *batches*.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.notebook.page.protocol import is_count
from jp_nb.storable_json import make_storable, make_storable_with_size

MAX_DELIVERY_BYTES = 256 * 1024
"""Limit of a message to a page. A longer write is sent in pieces."""
MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""Limit of a document that a page sends in pieces."""


def to_ascii_json(value: JsonValue) -> str:
    """Return `value` as JSON text in ASCII, which can be split anywhere."""
    return json.dumps(make_storable(value), allow_nan=False, separators=(",", ":"))


def split_text(text: str, size: int = MAX_DELIVERY_BYTES) -> list[str]:
    """Cut ASCII `text` into pieces of at most `size` bytes, at least one."""
    return [text[i : i + size] for i in range(0, len(text), size)] or [""]


def select_batch(
    entries: Iterable[Any], limit: int = MAX_DELIVERY_BYTES
) -> tuple[list[JsonValue], int]:
    """Return the first `entries` within `limit` bytes of JSON, at least one, and their size.

    Numbers and characters that JSON cannot represent are replaced in them (`make_storable`).
    """
    batch: list[JsonValue] = []
    total = 0

    for entry in entries:
        clean, size = make_storable_with_size(entry)
        if batch and total + size > limit:
            break
        batch.append(clean)
        total += size

    return batch, total


@dataclass(slots=True)
class ReceivedPieces:
    """A text that arrives in `count` pieces, in any order and possibly repeated."""

    count: int
    _pieces: dict[int, str] = field(default_factory=dict)  # by their index
    _chars: int = 0  # of all pieces

    def add(self, index: Any, text: Any) -> bool:
        """Add one piece; return True if the text is complete. An invalid piece is ignored.

        Raises:
            StorageError: If the text exceeds `MAX_DOCUMENT_BYTES`.
        """
        if is_count(index) and isinstance(text, str) and index < self.count:
            self._chars += len(text) - len(self._pieces.get(index, ""))
            self._pieces[index] = text

        if self._chars > MAX_DOCUMENT_BYTES:
            raise StorageError("the record of the notebook is too large to read", place="jp")

        return len(self._pieces) == self.count

    def join(self) -> str:
        """Return the complete text."""
        return "".join(self._pieces[index] for index in range(self.count))

    def parse_json(self) -> JsonValue:
        """Return the complete text as JSON.

        Raises:
            StorageError: If it is not valid JSON.
        """
        try:
            return json.loads(self.join())  # type: ignore[no-any-return]
        except (ValueError, RecursionError) as exc:
            raise StorageError(f"the page sent invalid JSON: {exc}", place="jp") from exc
