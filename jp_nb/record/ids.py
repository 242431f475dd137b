"""Ids of entries, given by the stream that holds them.

Source: `docs/record.md`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from pydantic import JsonValue

Draw = Callable[[], str]
"""Returns a new id at random."""

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_LENGTH = 7


def random_id() -> str:
    """Seven lowercase letters and digits, as good as the system's randomness."""
    return spelled_id(secrets.randbits(64))


def spelled_id(number: int) -> str:
    """Return the id that the last digits of `number` spell."""
    digits = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def stored_id(raw: JsonValue, key: str = "event_id") -> str | None:
    """Return the id at `key` of a stored entry; None if there is none. Any text but "" is one."""
    found = raw.get(key) if isinstance(raw, dict) else None
    return found if isinstance(found, str) and found else None


class EventIds:
    """The ids of a stream's entries, index by index; no two are equal.

    An entry without an id gets one when somebody asks for it: loading draws none.

    Attributes:
        ambiguous: Values that several entries had when they were loaded. The first kept it.
    """

    __slots__ = ("_draw", "_ids", "_places", "ambiguous")

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._ids: list[str | None] = []
        self._places: dict[str, int] = {}
        self.ambiguous: set[str] = set()

    def add(self, stored: str | None) -> None:
        """Go on to the next entry, which is stored with the id `stored`."""
        if stored is not None:
            if stored in self._places:
                self.ambiguous.add(stored)
                stored = None
            else:
                self._places[stored] = len(self._ids)
        self._ids.append(stored)

    def of(self, index: int) -> str:
        """Return the id of entry number `index`."""
        found = self._ids[index]
        while found is None:
            drawn = self._draw()  # may be one that a record already holds
            if drawn not in self._places:
                found = self._ids[index] = drawn
                self._places[drawn] = index if index >= 0 else index + len(self._ids)
        return found

    def place(self, identifier: str) -> int | None:
        """Return the index of the one entry with this id; None if there is none, or several."""
        return None if identifier in self.ambiguous else self._places.get(identifier)

    def known(self) -> list[str | None]:
        """Return the ids index by index; None where nobody asked yet."""
        return list(self._ids)

    def rearrange(self, ids: Iterable[str | None]) -> None:
        """Take over `known` ids in another order; None is a new entry."""
        self._ids = list(ids)
        self._places = {known: i for i, known in enumerate(self._ids) if known is not None}
