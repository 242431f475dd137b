"""What a store of the record can do, and the one that keeps it nowhere."""

from __future__ import annotations

from typing import Protocol

from jp_nb.errors import StorageError

IN_NOTEBOOK = "kept in this notebook"


def in_memory(reason: str) -> str:
    """The phrase for a record that no notebook takes."""
    return f"kept in memory only: {reason}"


class RecordStore(Protocol):
    """A store that can also be waited for. Safe from any thread."""

    def changed(self) -> None:
        """Entries were appended to the active conversation."""
        ...

    def replaced(self) -> None:
        """The active conversation is another one, or was repaired: keep the whole of it."""
        ...

    @property
    def where(self) -> str:
        """Where the record is kept: `kept in this notebook` or `kept in memory only: …`."""
        ...

    def flush(self, timeout: float) -> bool:
        """Wait until the home has every entry; returns whether it has them."""
        ...

    def cell_ends(self) -> None:
        """Wait a moment for the home, if one answers: who saves now, saves all of the cell."""
        ...

    def save(self, timeout: float = 10.0) -> str:
        """Have the file written now; returns in words where the record is.

        Raises:
            StorageError: If that failed; the message says why.
        """
        ...

    def take_notices(self) -> list[str]:
        """What the person should be told since the last call."""
        ...

    def close(self) -> None:
        """Stop. What was not sent stays in memory."""
        ...


class MemoryStore:
    """Keeps nothing: there is no notebook, or it must not be written."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @property
    def where(self) -> str:
        """Says why."""
        return in_memory(self._reason)

    def changed(self) -> None:
        """Nothing to do."""

    def replaced(self) -> None:
        """Nothing to do."""

    def flush(self, timeout: float) -> bool:
        """No home has anything."""
        return False

    def cell_ends(self) -> None:
        """Nothing to wait for."""

    def save(self, timeout: float = 10.0) -> str:
        """Cannot be done."""
        raise StorageError(f"the record is not saved: it is {self.where}")

    def take_notices(self) -> list[str]:
        """There are none: `where` says it all."""
        return []

    def close(self) -> None:
        """Nothing to do."""
