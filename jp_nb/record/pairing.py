"""Requests and responses that belong together: tool calls and inquiries alike.

Ids repeat, in other turns and within one. So they pair by count, inside their turn: the n-th
response of an id answers its n-th request.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Literal, NamedTuple

from jp_nb.errors import StorageError
from jp_nb.record.events import (
    Entry,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
)

Family = Literal["tool", "inquiry"]


class Half(NamedTuple):
    """One half of a pair."""

    family: Family
    id: str
    is_response: bool


def half_of(entry: Entry) -> Half | None:
    """Return which half of which pair `entry` is; None if it pairs with nothing."""
    match entry:
        case ToolCallRequest():
            return Half("tool", entry.id, is_response=False)
        case ToolCallResponse():
            return Half("tool", entry.id, is_response=True)
        case InquiryRequest():
            return Half("inquiry", entry.id, is_response=False)
        case InquiryResponse():
            return Half("inquiry", entry.id, is_response=True)
    return None


class Pairs:
    """Counts of the requests and responses of each id in one turn."""

    __slots__ = ("_asked", "_done", "_uneven")

    def __init__(self) -> None:
        self._asked: dict[tuple[Family, str], int] = {}
        self._done: dict[tuple[Family, str], int] = {}
        self._uneven: set[tuple[Family, str]] = set()

    def add(self, half: Half) -> None:
        """Count one half more."""
        key = half.family, half.id
        counts = self._done if half.is_response else self._asked
        counts[key] = counts.get(key, 0) + 1
        if self._asked.get(key, 0) == self._done.get(key, 0):
            self._uneven.discard(key)
        else:
            self._uneven.add(key)

    def asked(self, family: Family, identifier: str) -> int:
        """Return the number of requests with this id."""
        return self._asked.get((family, identifier), 0)

    def done(self, family: Family, identifier: str) -> int:
        """Return the number of responses with this id."""
        return self._done.get((family, identifier), 0)

    @property
    def balanced(self) -> bool:
        """True if every id has as many responses as requests."""
        return not self._uneven

    def uneven(self, family: Family) -> bool:
        """Return True if an id of `family` has more of one than of the other."""
        return any(key[0] == family for key in self._uneven)


def check_pairs(entries: Iterable[Entry], before: Pairs) -> None:
    """Check that `entries` may follow the part of a turn that is counted in `before`.

    Raises:
        StorageError: If a response among them answers nothing, or what is answered already.
    """
    batch = Pairs()  # counted apart: if one of them is refused, none is appended
    for entry in entries:
        if isinstance(entry, TurnStart):
            before, batch = Pairs(), Pairs()
            continue
        half = half_of(entry)
        if half is None:
            continue
        if half.is_response:
            family, identifier, _ = half
            asked = before.asked(family, identifier) + batch.asked(family, identifier)
            done = before.done(family, identifier) + batch.done(family, identifier)
            kind = "ToolCallResponse" if family == "tool" else "InquiryResponse"
            if not asked:
                raise StorageError(f"{kind} references unknown request ID `{identifier}`")
            if done >= asked:
                raise StorageError(f"Duplicate {kind} for ID `{identifier}`")
        batch.add(half)


def match_pairs(turn: Iterable[tuple[int, Entry]]) -> tuple[dict[int, int], set[int], set[int]]:
    """Pair the requests and responses of one turn, whose entries are given with their indexes.

    Returns:
        Response by request; requests that nothing answers; responses that answer nothing
        before them.
    """
    waiting: dict[tuple[Family, str], deque[int]] = {}
    pairs: dict[int, int] = {}
    loose: set[int] = set()
    for index, entry in turn:
        if (half := half_of(entry)) is None:
            continue
        family, identifier, is_response = half
        if not is_response:
            waiting.setdefault((family, identifier), deque()).append(index)
        elif waiting.get((family, identifier)):
            pairs[waiting[family, identifier].popleft()] = index
        else:
            loose.add(index)
    return pairs, {index for indexes in waiting.values() for index in indexes}, loose
