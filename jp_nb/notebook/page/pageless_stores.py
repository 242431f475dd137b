"""Storage backends without an open page, and the one that keeps the record in memory only.

They implement `RecordStore` (`session/host.py`). `CarrierStore` is the other backend without a
page.

Source: `docs/record.md`, `docs/decisions.md` D33.
"""

from __future__ import annotations

from jp_nb.notebook.page.record_location import format_memory_location, make_not_saved_error


class PagelessStore:
    """Storage backend that receives nothing from a page."""

    def can_reload(self, timeout: float) -> bool:
        """Return False: no page has a newer record."""
        return False

    def count_saved_entries(self, conversation: str) -> int:
        """Return 0: without a page, nothing reports that the notebook file was saved."""
        return 0

    def take_notices(self) -> list[str]:
        """Return no notices."""
        return []


class MemoryStore(PagelessStore):
    """Storage backend without a notebook, or with one that must not be written."""

    def __init__(self, reason: str) -> None:
        self.location = format_memory_location(reason)
        self.unsaved_reason: str | None = reason

    def changed(self) -> None:
        """Do nothing: memory has every change already."""

    def replaced(self) -> None:
        """Do nothing: memory has the other conversation already."""

    def flush_after_cell(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def flush(self, timeout: float) -> bool:
        """Return False: no notebook has the record."""
        return False

    def save(self, timeout: float = 10.0) -> str:
        """Raise `StorageError`, because there is no file to save."""
        raise make_not_saved_error(f"it is {self.location}")
