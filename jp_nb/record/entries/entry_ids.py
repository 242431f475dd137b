"""The ids of a conversation's entries, by index: stored ones, and ids that are made on first use.

A stored id names its entry if no earlier entry has the same. A repeated id stays with the first
entry, but `find` finds none for it, because a reference to it is ambiguous. Another entry
gets an id of this process, which is made when it is first needed and is not written into the
loaded entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from jp_nb.record.entries.new_ids import IdFactory


def read_stored_id(raw: JsonValue, key: str = "event_id") -> str | None:
    """Return the id at `key` of a stored entry, or None. The empty string is not an id."""
    found = raw.get(key) if isinstance(raw, dict) else None
    return found if isinstance(found, str) and found else None


class EntryIds:
    """Maps indexes of entries to ids, and ids to indexes. Every id is unique."""

    def __init__(self, new_id: IdFactory) -> None:
        self._new_id = new_id  # may return an id that is taken
        self._ids: list[str | None] = []  # None until an id is made
        self._indexes: dict[str, int] = {}
        self._repeated: set[str] = set()  # stored ids of several entries

    def add(self, stored: str | None) -> None:
        """Add the next entry, with its `stored` id or None."""
        if stored in self._indexes:
            self._repeated.add(stored)
            stored = None
        elif stored is not None:
            self._indexes[stored] = len(self._ids)
        self._ids.append(stored)

    def get(self, index: int) -> str:
        """Return the id of entry `index`, which is made if it has none. `index` may be negative."""
        found = self._ids[index]
        if found is None:
            found = self._make_unused_id()
            self._ids[index] = found
            self._indexes[found] = range(len(self._ids))[index]  # not negative
        return found

    def _make_unused_id(self) -> str:
        made = self._new_id()
        while made in self._indexes:
            made = self._new_id()
        return made

    def get_known(self, index: int) -> str | None:
        """Return the id of entry `index`; None if it is not made yet."""
        return self._ids[index]

    def find(self, entry_id: str) -> int | None:
        """Return the index of the entry with this id; None if none or several have it."""
        if entry_id in self._repeated:
            return None
        return self._indexes.get(entry_id)

    def list_known(self) -> list[str | None]:
        """Return the id of each entry; None if it is not made yet."""
        return list(self._ids)

    def replace(self, known: Sequence[str | None]) -> None:
        """Replace all entries by entries with the `known` ids, which come from `list_known`.

        A repeated id stays repeated, even if one of its entries remains: a reference may mean one
        that was removed.
        """
        self._ids = list(known)
        self._indexes = {each: index for index, each in enumerate(known) if each is not None}

    def mark_repeated(self, other: EntryIds) -> None:
        """Take over the repeated ids of `other`, whose entries this object shares."""
        self._repeated |= other._repeated
