"""The compactions of a record: which of them count, and which were taken back.

A compaction is taken back by another entry of its kind with the same turns, which says nothing
about them but this, in its `metadata`:
    {"takes_back": true}
It takes back the newest one before it that still counts. Those that one step recorded are taken
back in one step: all but the first have `{"with_previous": true}`.

Source: `docs/record.md`, `docs/decisions.md` D129.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jp_nb.record.events import CONVERSATION_KINDS, Compaction, Entry, TurnStart

TAKES_BACK: Final = "takes_back"
WITH_PREVIOUS: Final = "with_previous"
"""Keys in the metadata of a compaction."""


@dataclass(frozen=True, slots=True)
class PlacedCompaction:
    """A compaction at its place in the record.

    Attributes:
        position: Its index among all entries.
        after: The number of the last turn that had begun before it; -1 if none had.
        entry: What it says, as it is stored.
        taken_back: True if a later entry takes it back.
        turn_went_on: True if that turn went on behind it, as one that is resumed does.
    """

    position: int
    after: int
    entry: Compaction
    taken_back: bool = False
    turn_went_on: bool = False

    @property
    def of_its_time(self) -> Compaction:
        """What it says, with no word about turns that ended after it."""
        last = self.after - 1 if self.turn_went_on else self.after
        return self.entry.model_copy(update={"to_turn": min(self.entry.to_turn, last)})


def takes_back(entry: Entry) -> bool:
    """True of an entry that takes a compaction back."""
    return isinstance(entry, Compaction) and entry.metadata.get(TAKES_BACK) is True


def taking_back(entry: Compaction) -> Compaction:
    """Return the entry that takes `entry` back."""
    return Compaction(from_turn=entry.from_turn, to_turn=entry.to_turn, metadata={TAKES_BACK: True})


def placed_compactions(entries: Iterable[Entry]) -> list[PlacedCompaction]:
    """Return the compactions among `entries`, oldest first, without those that take one back."""
    found: list[PlacedCompaction] = []
    open_ones: dict[tuple[int, int], list[int]] = {}
    turn, seen = -1, 0  # so many stand before the last event
    for position, entry in enumerate(entries):
        if isinstance(entry, TurnStart) or (turn < 0 and entry.type in CONVERSATION_KINDS):
            turn, seen = turn + 1, len(found)
        elif entry.type in CONVERSATION_KINDS:
            for index in range(seen, len(found)):
                found[index] = replace(found[index], turn_went_on=True)
            seen = len(found)
        elif isinstance(entry, Compaction):
            same = open_ones.setdefault((entry.from_turn, entry.to_turn), [])
            if not takes_back(entry):
                same.append(len(found))
                found.append(PlacedCompaction(position, turn, entry))
            elif same:
                index = same.pop()
                found[index] = replace(found[index], taken_back=True)
    return found


def counting(entries: Iterable[Entry]) -> list[PlacedCompaction]:
    """Return the compactions among `entries` that count, oldest first."""
    return [placed for placed in placed_compactions(entries) if not placed.taken_back]


def in_one_step(entries: Sequence[Compaction]) -> list[Compaction]:
    """Return `entries` for the record: each but the first says that it goes with the one before."""
    with_it = {WITH_PREVIOUS: True}
    return [
        entry.model_copy(update={"metadata": {**entry.metadata, **with_it}}) if number else entry
        for number, entry in enumerate(entries)
    ]


def made_together(placed: Sequence[PlacedCompaction]) -> list[PlacedCompaction]:
    """Return those at the end of `placed` that were recorded in one step, oldest first."""
    found: list[PlacedCompaction] = []
    for each in reversed(placed):
        later = found[-1] if found else None
        if later is not None and not _goes_with(later, each):
            break
        found.append(each)
    return found[::-1]


def _goes_with(later: PlacedCompaction, earlier: PlacedCompaction) -> bool:
    marked = later.entry.metadata.get(WITH_PREVIOUS) is True
    return marked and later.position == earlier.position + 1
