"""Which turns a compaction is about: the bounds of a rule, found in a conversation.

Source: `docs/record.md`, `docs/configuration.md` (RFD 064).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from jp_nb.config.tree.compaction_config import TurnBound
from jp_nb.record.compactions import PlacedCompaction, counting
from jp_nb.record.cut_short import cut_short
from jp_nb.record.stream import ConversationStream
from jp_nb.record.timestamps import parse_timestamp
from jp_nb.record.unanswered import is_unanswered


@dataclass(frozen=True, slots=True)
class TurnRange:
    """The turns from `first` to `last`, both included, by their 0-based numbers."""

    first: int
    last: int

    def __contains__(self, turn: object) -> bool:
        return isinstance(turn, int) and self.first <= turn <= self.last

    def __str__(self) -> str:
        """Return `turn 1` or `turns 1 to 4`."""
        if self.first == self.last:
            return f"turn {self.first}"
        return f"turns {self.first} to {self.last}"


class CompactionBounds:
    """Finds the turns between two bounds.

    Turns at the end that got no answer do not count, nor does one that was cut short: it may go
    on. But for the last one if it is under way.

    Args:
        stream: The conversation.
        now: The time, for durations.
        in_turn: True if the last turn is under way: it always stays as it is.
    """

    def __init__(self, stream: ConversationStream, now: datetime, *, in_turn: bool = False) -> None:
        self._now = now
        self._counting = counting(stream.entries)
        self._began: list[datetime | None] = []
        answered: list[bool] = []
        for _, grouped in groupby(stream.events(), key=lambda event: event.turn):
            entries = [event.entry for event in grouped]
            self._began.append(parse_timestamp(entries[0].timestamp))
            answered.append(not is_unanswered(entries))
        if not in_turn and answered and cut_short(stream) is not None:
            answered[-1] = False
        last = len(answered) - 1
        while last >= 0 and not answered[last] and not (in_turn and last == len(answered) - 1):
            last -= 1
        self._last = last
        self._end = last - 1 if in_turn else last

    def kept(self, first: TurnBound, last: TurnBound) -> TurnRange | None:
        """Return the turns between what is kept at both ends; None if there are none."""
        return self._range(self._after_kept(first), self._before_kept(last))

    def given(
        self, first: TurnBound | None, last: TurnBound | None, kept: TurnRange | None = None
    ) -> TurnRange | None:
        """Return the turns from `first` to `last`; what is None is as in `kept`.

        A number is that of a turn, and a duration says how long ago.
        """
        begin = kept.first if kept is not None else 0
        end = kept.last if kept is not None else self._end
        return self._range(
            begin if first is None else self._given_first(first),
            end if last is None else self._given_last(last),
        )

    def _range(self, first: int | None, last: int | None) -> TurnRange | None:
        if first is None or last is None:
            return None
        last = min(last, self._end)
        return TurnRange(first, last) if 0 <= first <= last else None

    # --- one end -----------------------------------------------------------------------------

    def _after_kept(self, bound: TurnBound) -> int | None:
        if bound.kind != "duration":
            return self._first(bound)
        opened = next(filter(None, self._began), None)
        begun = None if opened is None else self._turn_at(opened, bound.amount)
        return None if begun is None else begun + 1

    def _before_kept(self, bound: TurnBound) -> int | None:
        if bound.kind == "duration":
            return self._turn_at(self._now, -bound.amount)
        return int(bound.amount) if bound.kind == "turn" else self._last - int(bound.amount)

    def _given_first(self, bound: TurnBound) -> int | None:
        if bound.kind != "duration":
            return self._first(bound)
        begun = self._turn_at(self._now, -bound.amount)
        return 0 if begun is None else begun + 1

    def _given_last(self, bound: TurnBound) -> int | None:
        if bound.kind == "duration":
            return self._turn_at(self._now, -bound.amount)
        if bound.kind == "last":
            return self._first(bound)
        back = bound.kind == "from_end"
        return self._last - int(bound.amount) if back else int(bound.amount)

    def _first(self, bound: TurnBound) -> int:
        match bound.kind:
            case "last":
                ends = (placed.of_its_time.to_turn for placed in self._counting)
                return max(ends, default=-1) + 1
            case "from_end":
                return max(self._last - int(bound.amount), 0)
            case _:
                return int(bound.amount)

    def _turn_at(self, moment: datetime, seconds: float) -> int | None:
        """Return the last turn that had begun `seconds` after `moment`; None if none had."""
        try:
            moment += timedelta(seconds=seconds)
        except OverflowError:  # farther than there are dates
            return self._last if seconds > 0 else None
        begun = (n for n, began in enumerate(self._began) if began is not None and began <= moment)
        return max(begun, default=None)


def summary_ranges(placed: Iterable[PlacedCompaction]) -> list[TurnRange]:
    """Return the turns of each of the summaries that are `placed` in a record."""
    entries = (each.of_its_time for each in placed)
    return [TurnRange(x.from_turn, x.to_turn) for x in entries if x.summary is not None]


def with_summaries(turns: TurnRange, summaries: Iterable[TurnRange]) -> TurnRange:
    """Return `turns` with all turns of each summary that speaks of one of them.

    A summary cannot be divided: what it stands for is summarised anew as a whole.
    """
    by_first = sorted(summaries, key=lambda each: each.first)
    first, last = turns.first, turns.last
    for each in by_first:  # one walk forward, one back: what each reaches is known by then
        if each.first <= last and each.last >= first:
            last = max(last, each.last)
    for each in sorted(by_first, key=lambda each: -each.last):
        if each.first <= last and each.last >= first:
            first = min(first, each.first)
    return TurnRange(first, last)
