"""Find the compactions that apply to each turn.

In each turn the newest compaction applies, separately for summary, reasoning, and tool calls. Of
compactions of the same time, the later one in the record applies. `compacted_turns.py` replaces the
entries of the turns.

Source: `docs/record.md`, `docs/configuration.md` (RFD 064).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from jp_nb.record.compactions.compaction import list_active_compactions
from jp_nb.record.entries.events import Compaction, ToolCallPolicy
from jp_nb.record.entries.timestamps import parse_timestamp
from jp_nb.record.stream import ConversationStream

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TurnTreatment:
    """Treatment of a turn in the requests after its compaction.

    Attributes:
        summary: The compaction whose summary replaces the turn and other turns; None if the turn is
            sent.
        without_reasoning: True if the reasoning of the turn is not sent.
        tool_calls: The treatment of its tool calls; None if they are sent whole.
    """

    summary: Compaction | None = None
    without_reasoning: bool = False
    tool_calls: ToolCallPolicy | None = None


def list_turn_treatments(stream: ConversationStream) -> list[TurnTreatment]:
    """Return the treatment of each turn, or `[]` if all turns are sent whole."""
    # With their actual ranges: a stored one may reach past its position (`PlacedCompaction`).
    compactions = [placed.effective for placed in list_active_compactions(stream.entries)]
    if not compactions:
        return []

    compactions.reverse()  # the later one of the same time comes first
    compactions.sort(key=_get_time, reverse=True)
    with_summary = [entry for entry in compactions if entry.summary is not None]
    with_reasoning = [entry for entry in compactions if entry.reasoning is not None]
    with_tool_calls = [entry for entry in compactions if entry.tool_calls is not None]

    count = stream.turn_count
    selected = zip(
        _select_per_turn(with_summary, count),
        _select_per_turn(with_reasoning, count),
        _select_per_turn(with_tool_calls, count),
        strict=True,
    )

    treatments = []
    for summary, reasoning, tool_calls in selected:
        policy = None if tool_calls is None else tool_calls.tool_calls
        treatments.append(TurnTreatment(summary, reasoning is not None, policy))
    return treatments


def _get_time(entry: Compaction) -> datetime:
    return parse_timestamp(entry.timestamp) or _NEVER


def _select_per_turn(newest_first: Iterable[Compaction], count: int) -> list[Compaction | None]:
    """Return the first of the compactions that covers each of `count` turns."""
    selected: list[Compaction | None] = [None] * count
    undecided = _UndecidedTurns(count)

    for entry in newest_first:
        turn = undecided.find_first(min(entry.from_turn, count))
        while turn < count and turn <= entry.to_turn:
            selected[turn] = entry
            undecided.remove(turn)
            turn = undecided.find_first(turn)

    return selected


class _UndecidedTurns:
    """The turns from 0 to `count` - 1 that no compaction covers yet.

    This is a disjoint-set forest with path halving, so that many overlapping compactions take
    almost linear time: https://en.wikipedia.org/wiki/Disjoint-set_data_structure
    """

    def __init__(self, count: int) -> None:
        # By turn: the turn itself while it is undecided, else a later one, from where to look.
        self._next = list(range(count + 1))

    def remove(self, turn: int) -> None:
        self._next[turn] = turn + 1

    def find_first(self, turn: int) -> int:
        """Return the first undecided turn from `turn` on, or `count` if there is none."""
        following = self._next
        while following[turn] != turn:
            following[turn] = following[following[turn]]
            turn = following[turn]
        return turn
