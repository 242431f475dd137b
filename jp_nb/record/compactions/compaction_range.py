"""The turns that a compaction covers: ranges between two bounds.

A bound is a `TurnBound` (`turn_bounds.py`), of one of the kinds `turn` (`@3`), `from_end` (`-1`),
`duration` (`5h`), `last` (the turn after the newest compaction), and `count` (a number of turns
that are kept). Its `amount` is the turn, or a number of turns or seconds. Turns are counted from 0,
so the amount of `@3` is 2.

Source: `docs/configuration.md` (RFD 064), `docs/decisions.md` D129.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from jp_nb.config.tree.turn_bounds import TurnBound
from jp_nb.record.compactions.compaction import PlacedCompaction, list_active_compactions
from jp_nb.record.entries.timestamps import parse_timestamp
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.entries.unanswered_turns import is_unanswered
from jp_nb.record.interrupted_turn import find_interrupted_turn
from jp_nb.record.stream import ConversationStream


@dataclass(frozen=True, slots=True)
class TurnRange:
    """The turns from `first` to `last`, both included and counted from 0."""

    first: int
    last: int

    def __contains__(self, turn: object) -> bool:
        return isinstance(turn, int) and self.first <= turn <= self.last

    def __str__(self) -> str:
        """Return `turn 1` or `turns 1 to 4`, counted from 1."""
        if self.first == self.last:
            return f"turn {to_shown_turn(self.first)}"
        return f"turns {to_shown_turn(self.first)} to {to_shown_turn(self.last)}"


class CompactionBounds:
    """Finds the turns between two bounds.

    Failed turns at the end, an interrupted last turn, and the current turn (`in_turn`) are outside
    of all ranges.
    """

    def __init__(self, stream: ConversationStream, now: datetime, *, in_turn: bool = False) -> None:
        self._now = now
        self._active = list_active_compactions(stream.entries)
        self._began: list[datetime | None] = []  # by turn; None if its timestamp is invalid

        answered: list[bool] = []
        for _, grouped in groupby(stream.events(), key=lambda event: event.turn):
            entries = [event.entry for event in grouped]
            self._began.append(parse_timestamp(entries[0].timestamp))
            answered.append(not is_unanswered(entries))

        if in_turn and answered:
            answered[-1] = True  # the current turn will have an answer
        elif answered and find_interrupted_turn(stream) is not None:
            answered[-1] = False

        last = len(answered) - 1
        while last >= 0 and not answered[last]:
            last -= 1

        self._last_answered = last  # bounds count from it
        self._last_to_compact = last - 1 if in_turn else last

    def find_between_kept(self, keep_first: TurnBound, keep_last: TurnBound) -> TurnRange | None:
        """Return the turns to compact by these settings, or None if there are none.

        | kind | `keep_first`: the range begins with | `keep_last`: the range ends with |
        |---|---|---|
        | `count` | the turn after so many turns | the turn so many before the last |
        | `from_end` | the turn so many before the last | the turn so many before the last |
        | `turn` | this turn | this turn |
        | `duration` | the first turn that began later than this | the last turn that old |
        | `last` | the turn after the newest compaction | (refused by `parse_bound`) |

        A duration of `keep_first` is relative to the beginning of the conversation, and one of
        `keep_last` to now.
        """
        if keep_last.kind in ("turn", "duration"):
            end = self._find_last_turn(keep_last)
        else:
            end = self._last_answered - int(keep_last.amount)

        if keep_first.kind != "duration":
            return self._clip_range(self._find_first_turn(keep_first), end)

        began = next(filter(None, self._began), None)
        if began is None:
            return None
        last_kept = self._find_turn_at(began, keep_first.amount)
        return None if last_kept is None else self._clip_range(last_kept + 1, end)

    def find_between(
        self, first: TurnBound | None, last: TurnBound | None, kept: TurnRange | None = None
    ) -> TurnRange | None:
        """Return the turns from `first` to `last`, or None if there are none.

        The user gives them to `%jp compact`. A bound of None means that of `kept`, the turns by the
        settings, or the end of the conversation. A duration is relative to now.
        """
        begin = kept.first if kept is not None else 0
        end = kept.last if kept is not None else self._last_to_compact

        if first is not None and first.kind == "duration":
            last_before = self._find_turn_at(self._now, -first.amount)
            begin = 0 if last_before is None else last_before + 1
        elif first is not None:
            begin = self._find_first_turn(first)

        if last is None:
            return self._clip_range(begin, end)
        return self._clip_range(begin, self._find_last_turn(last))

    def _clip_range(self, first: int, last: int | None) -> TurnRange | None:
        if last is None:
            return None
        last = min(last, self._last_to_compact)
        return TurnRange(first, last) if 0 <= first <= last else None

    def _find_last_turn(self, bound: TurnBound) -> int | None:
        """Return the last turn of a range that ends at `bound`; None if no turn is that old."""
        match bound.kind:
            case "duration":  # the last turn that had begun that long ago
                return self._find_turn_at(self._now, -bound.amount)
            case "last":  # the bound is the turn after the newest compaction at both ends
                return self._find_first_turn(bound)
            case "from_end":
                return self._last_answered - int(bound.amount)
            case _:  # `turn`: `%jp compact` converts a plain number (`count`) to it
                return int(bound.amount)

    def _find_first_turn(self, bound: TurnBound) -> int:
        """Return the first turn of a range that begins at `bound`, which is no duration."""
        match bound.kind:
            case "last":
                ends = (placed.effective.to_turn for placed in self._active)
                return max(ends, default=-1) + 1
            case "from_end":
                return max(self._last_answered - int(bound.amount), 0)
            case _:  # a number of kept turns is also the number of the first turn after them
                return int(bound.amount)

    def _find_turn_at(self, moment: datetime, seconds: float) -> int | None:
        """Return the last turn that had begun some `seconds` after `moment`; None if none had."""
        try:
            moment += timedelta(seconds=seconds)
        except OverflowError:  # outside of the range of dates
            return self._last_answered if seconds > 0 else None
        turns = enumerate(self._began)
        begun = (turn for turn, began in turns if began is not None and began <= moment)
        return max(begun, default=None)


def list_summary_ranges(placed: Iterable[PlacedCompaction]) -> list[TurnRange]:
    """Return the turns of each summary."""
    entries = [compaction.effective for compaction in placed]
    return [
        TurnRange(entry.from_turn, entry.to_turn) for entry in entries if entry.summary is not None
    ]


def widen_to_summaries(turns: TurnRange, summaries: Iterable[TurnRange]) -> TurnRange:
    """Return `turns`, extended to whole summaries.

    A summary cannot be divided, so all of its turns are summarized again.
    """
    by_first = sorted(summaries, key=lambda summary: summary.first)
    by_last = sorted(by_first, key=lambda summary: summary.last, reverse=True)
    first = turns.first
    last = turns.last

    # One pass in each direction is enough: upwards for the end, then downwards for the beginning.
    # If a summary begins after the end reached so far, so do all later ones in this order.
    for summary in by_first:
        if summary.first <= last and summary.last >= first:
            last = max(last, summary.last)
    for summary in by_last:
        if summary.first <= last and summary.last >= first:
            first = min(first, summary.first)

    return TurnRange(first, last)
