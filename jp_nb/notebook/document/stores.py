"""The store that keeps the record nowhere, and words of all stores."""

from __future__ import annotations

from jp_nb.errors import StorageError

IN_NOTEBOOK = "kept in this notebook"
IN_RUN = "kept in the notebook that the runner writes, if it writes one"


def in_memory(reason: str) -> str:
    """Return the phrase for a record that no notebook takes."""
    return f"kept in memory only: {reason}"


def not_saved(reason: str) -> StorageError:
    """Return the error for a record that could not be saved."""
    return StorageError(f"The record is not saved: {reason}")


class MemoryStore:
    """Keeps nothing: there is no notebook, or it must not be written."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @property
    def where(self) -> str:
        """`kept in memory only`, and why."""
        return in_memory(self._reason)

    @property
    def why_not_kept(self) -> str | None:
        """Why no notebook keeps the record."""
        return self._reason

    def changed(self) -> None:
        """Nothing to do."""

    def replaced(self) -> None:
        """Nothing to do."""

    def flush(self, timeout: float) -> bool:
        """Return False: no home has anything."""
        return False

    def cell_ends(self) -> None:
        """Nothing to wait for."""

    def can_be_read_again(self, timeout: float) -> bool:
        """Return False: there is nothing to read."""
        return False

    def save(self, timeout: float = 10.0) -> str:
        """Raise `StorageError`: there is no file to save."""
        raise not_saved(f"it is {self.where}")

    def saved_entries(self, conversation: str) -> int:
        """Return 0: there is no file."""
        return 0

    def take_notices(self) -> list[str]:
        """Return none: `where` says it all."""
        return []

    def close(self) -> None:
        """Nothing to do."""
