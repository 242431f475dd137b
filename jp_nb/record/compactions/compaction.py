"""Compaction events: their place in the record, and entries that revert them.

A second compaction with the same turns that is marked (`REVERTS`) reverts the newest active one
before it, and has no other effect. Compactions that were recorded in one step are reverted in one
step: all but the first are marked (`WITH_PREVIOUS`). `turn_treatments.py` finds those that apply to
each turn.

Source: `docs/record.md`, `docs/configuration.md` (RFD 064), `docs/decisions.md` D129.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jp_nb.record.entries.entry_kinds import CONVERSATION_KINDS
from jp_nb.record.entries.events import Compaction, Entry, TurnStart

REVERTS: Final = "takes_back"
"""Key in the metadata of a compaction that reverts another one. The stored word is older."""
WITH_PREVIOUS: Final = "with_previous"
"""Key in the metadata of a compaction that was recorded in one step with the entry before it."""


@dataclass(frozen=True, slots=True)
class PlacedCompaction:
    """A compaction at its place in the record.

    Attributes:
        position: Index among all entries.
        after: Number of the last turn that began before it; -1 if there is none.
        entry: The compaction as it is stored.
        is_reverted: True if a later entry reverts it.
        turn_continued: True if the turn `after` has later events, as after a resume.
    """

    position: int
    after: int
    entry: Compaction
    is_reverted: bool = False
    turn_continued: bool = False

    @property
    def effective(self) -> Compaction:
        """The compaction with the turns that it really covers: those that ended before it."""
        last = self.after - 1 if self.turn_continued else self.after
        return self.entry.model_copy(update={"to_turn": min(self.entry.to_turn, last)})


def is_revert(entry: Entry) -> bool:
    """Return True if `entry` reverts a compaction."""
    return isinstance(entry, Compaction) and entry.metadata.get(REVERTS) is True


def make_revert(entry: Compaction) -> Compaction:
    """Return an entry that reverts `entry`."""
    return Compaction(from_turn=entry.from_turn, to_turn=entry.to_turn, metadata={REVERTS: True})


def find_compactions(entries: Iterable[Entry]) -> list[PlacedCompaction]:
    """Return the compactions in `entries`, oldest first, without entries that revert one."""
    compactions: list[PlacedCompaction] = []
    unreverted: dict[tuple[int, int], list[int]] = {}  # indexes by the turns of the compaction
    turn = -1
    known_at_last_event = 0  # number of compactions before the last event

    for position, entry in enumerate(entries):
        is_event = entry.type in CONVERSATION_KINDS  # a compaction is no event

        # A turn begins. Events before the first `TurnStart` are a turn too.
        if isinstance(entry, TurnStart) or (turn < 0 and is_event):
            turn = turn + 1
            known_at_last_event = len(compactions)

        # The turn continues after the compactions since its last event.
        elif is_event:
            for index in range(known_at_last_event, len(compactions)):
                compactions[index] = replace(compactions[index], turn_continued=True)
            known_at_last_event = len(compactions)

        # A compaction, or an entry that reverts the newest one of the same turns.
        elif isinstance(entry, Compaction):
            same_turns = unreverted.setdefault((entry.from_turn, entry.to_turn), [])
            if not is_revert(entry):
                same_turns.append(len(compactions))
                compactions.append(PlacedCompaction(position, turn, entry))
            elif same_turns:
                index = same_turns.pop()
                compactions[index] = replace(compactions[index], is_reverted=True)

    return compactions


def list_active_compactions(entries: Iterable[Entry]) -> list[PlacedCompaction]:
    """Return the compactions in `entries` that are not reverted, oldest first."""
    return [placed for placed in find_compactions(entries) if not placed.is_reverted]


def mark_as_one_step(entries: Sequence[Compaction]) -> list[Compaction]:
    """Return `entries` with marks that they were recorded in one step."""
    return [*entries[:1], *(entry.with_metadata(**{WITH_PREVIOUS: True}) for entry in entries[1:])]


def continues_step(entry: Entry) -> bool:
    """Return True if `entry` is a compaction that was recorded in one step with the one before."""
    return isinstance(entry, Compaction) and entry.metadata.get(WITH_PREVIOUS) is True


def find_last_step(placed: Sequence[PlacedCompaction]) -> list[PlacedCompaction]:
    """Return the last compactions of `placed` that were recorded in one step, oldest first."""
    step: list[PlacedCompaction] = []

    for compaction in reversed(placed):
        if step and not _is_same_step(compaction, step[-1]):
            break
        step.append(compaction)

    return step[::-1]


def _is_same_step(earlier: PlacedCompaction, later: PlacedCompaction) -> bool:
    return continues_step(later.entry) and later.position == earlier.position + 1
