"""Compaction events: the turns they cover, and their effect.

A second compaction with the same turns that is marked (`REVERTS`) reverts the newest active one
before it, and has no other effect. Compactions that were recorded in one step are reverted in one
step: all but the first are marked (`WITH_PREVIOUS`).

Source: `docs/record.md`, `docs/configuration.md` (RFD 064), `docs/decisions.md` D129.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from jp_nb.record.entries.clock import parse_timestamp
from jp_nb.record.entries.entry_images import IMAGES_KEY
from jp_nb.record.entries.events import (
    CONVERSATION_KINDS,
    ChatRequest,
    ChatResponse,
    Compaction,
    Entry,
    ToolCallPolicy,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
    is_reasoning,
)
from jp_nb.record.entries.pairs import match_pairs
from jp_nb.record.entries.turn_entries import TurnEvent
from jp_nb.record.stream import ConversationStream

REVERTS: Final = "takes_back"
WITH_PREVIOUS: Final = "with_previous"
"""Keys in the metadata of a compaction."""


@dataclass(frozen=True, slots=True)
class PlacedCompaction:
    """A compaction at its place in the record.

    Attributes:
        position: Index among all entries.
        after: Number of the last turn that began before it; -1 if there is none.
        turn_continued: True if the turn `after` has later events, as after a resume.
    """

    position: int
    after: int
    entry: Compaction
    is_reverted: bool = False
    turn_continued: bool = False

    @property
    def effective(self) -> Compaction:
        """The compaction without turns that ended after it."""
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
    found: list[PlacedCompaction] = []
    unreverted: dict[tuple[int, int], list[int]] = {}
    turn = -1
    seen = 0  # `seen` is the number of compactions before the last event

    for position, entry in enumerate(entries):
        if isinstance(entry, TurnStart) or (turn < 0 and entry.type in CONVERSATION_KINDS):
            turn = turn + 1
            seen = len(found)
        elif entry.type in CONVERSATION_KINDS:
            for index in range(seen, len(found)):
                found[index] = replace(found[index], turn_continued=True)
            seen = len(found)
        elif isinstance(entry, Compaction):
            same = unreverted.setdefault((entry.from_turn, entry.to_turn), [])
            if not is_revert(entry):
                same.append(len(found))
                found.append(PlacedCompaction(position, turn, entry))
            elif same:
                index = same.pop()
                found[index] = replace(found[index], is_reverted=True)

    return found


def list_active_compactions(entries: Iterable[Entry]) -> list[PlacedCompaction]:
    """Return the compactions in `entries` that are not reverted, oldest first."""
    return [placed for placed in find_compactions(entries) if not placed.is_reverted]


def mark_as_one_step(entries: Sequence[Compaction]) -> list[Compaction]:
    """Return `entries` with marks that they were recorded in one step."""
    return [*entries[:1], *(entry.with_metadata(**{WITH_PREVIOUS: True}) for entry in entries[1:])]


def find_last_step(placed: Sequence[PlacedCompaction]) -> list[PlacedCompaction]:
    """Return the last compactions of `placed` that were recorded in one step, oldest first."""
    found: list[PlacedCompaction] = []

    for each in reversed(placed):
        later = found[-1] if found else None
        if later is not None and not (
            later.entry.metadata.get(WITH_PREVIOUS) is True and later.position == each.position + 1
        ):
            break
        found.append(each)

    return found[::-1]


SUMMARIZED_REQUEST = "[Summary of previous conversation]"
MAX_REPEATED: Final = 100_000
"""Maximum number of characters of repeated summaries in a context."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TurnTreatment:
    """Treatment of a turn in the context: `summary` has the summary that replaces the turn."""

    summary: Compaction | None = None
    without_reasoning: bool = False
    tool_calls: ToolCallPolicy | None = None


def make_replacements(
    stream: ConversationStream, hidden: Collection[int], *, whole: int = -1
) -> dict[int, tuple[Entry, ...]]:
    """Return the replacements of entries by their index. Other entries are sent unchanged.

    Entries in `hidden` are skipped, and the turn `whole` is sent unchanged. In each turn the newest
    compaction applies, separately for summary, reasoning, and tool calls. Of compactions of the
    same time, the later one in the record applies.
    """
    treatments = list_turn_treatments(stream)
    if not treatments:
        return {}

    found: dict[int, tuple[Entry, ...]] = {}
    before: Compaction | None = None  # summary of the previous visible turn
    repeats = _SummaryLimit()

    seen = (event for event in stream.events() if event.position not in hidden)
    for turn, grouped in groupby(seen, key=lambda event: event.turn):
        events = list(grouped)

        treatment = TurnTreatment() if turn == whole else treatments[turn]
        if (summary := treatment.summary) is not None:
            found |= dict.fromkeys((event.position for event in events), ())
            if summary is not before and repeats.allow(summary):
                assert summary.summary is not None
                found[events[0].position] = (
                    ChatRequest(timestamp=summary.timestamp, content=SUMMARIZED_REQUEST),
                    ChatResponse(timestamp=summary.timestamp, message=summary.summary.summary),
                )

            before = summary
            continue

        before = None
        if treatment.without_reasoning:
            found |= {e.position: () for e in events if is_reasoning(e.entry)}
        if treatment.tool_calls is not None:
            found |= _replace_tool_calls(events, treatment.tool_calls)

    return found


class _SummaryLimit:
    # A short record with many compactions could otherwise make a very long request.
    def __init__(self) -> None:
        self._sent: set[int] = set()
        self._room = MAX_REPEATED

    def allow(self, entry: Compaction) -> bool:
        assert entry.summary is not None
        if id(entry) in self._sent:
            self._room -= len(entry.summary.summary) + len(SUMMARIZED_REQUEST)
            return self._room >= 0
        self._sent.add(id(entry))
        return True


def list_turn_treatments(stream: ConversationStream) -> list[TurnTreatment]:
    """Return the treatment of each turn, or `[]` if all turns are sent whole."""
    compactions = [placed.effective for placed in list_active_compactions(stream.entries)]
    if not compactions:
        return []

    compactions.reverse()  # the later one of the same time comes first
    compactions.sort(key=lambda x: parse_timestamp(x.timestamp) or _NEVER, reverse=True)

    count = stream.turn_count
    summaries = _select_per_turn([x for x in compactions if x.summary is not None], count)
    reasoning = _select_per_turn([x for x in compactions if x.reasoning is not None], count)
    tools = _select_per_turn([x for x in compactions if x.tool_calls is not None], count)

    treatments = []
    for summary, strips, calls in zip(summaries, reasoning, tools, strict=True):
        policy = None if calls is None else calls.tool_calls
        treatments.append(TurnTreatment(summary, strips is not None, policy))
    return treatments


def _select_per_turn(newest: Iterable[Compaction], count: int) -> list[Compaction | None]:
    selected: list[Compaction | None] = [None] * count
    open_from = list(range(count + 1))  # from a turn to the next undecided one

    def undecided(turn: int) -> int:
        while open_from[turn] != turn:
            open_from[turn] = turn = open_from[open_from[turn]]
        return turn

    for entry in newest:
        turn = undecided(min(entry.from_turn, count))
        while turn < count and turn <= entry.to_turn:
            selected[turn] = entry
            open_from[turn] = turn + 1
            turn = undecided(turn)

    return selected


def _replace_tool_calls(
    events: Sequence[TurnEvent], policy: ToolCallPolicy
) -> dict[int, tuple[Entry, ...]]:
    found: dict[int, tuple[Entry, ...]] = {}
    by_position = {event.position: event.entry for event in events}
    pairs = match_pairs(by_position.items())
    called = {response: by_position[call] for call, response in pairs.responses.items()}

    for position, entry in by_position.items():
        if not isinstance(entry, ToolCallRequest | ToolCallResponse):
            continue

        if policy.policy == "omit":
            found[position] = ()
        elif isinstance(entry, ToolCallRequest):
            if policy.request:
                found[position] = (entry.model_copy(update={"arguments": {}}),)
        elif policy.response:
            request = called.get(position)
            name = request.name if isinstance(request, ToolCallRequest) else "tool"
            state = "error" if entry.is_error else "success"
            content = f"[compacted] {name}: {state}"
            metadata = {key: item for key, item in entry.metadata.items() if key != IMAGES_KEY}
            update = {"content": content, "metadata": metadata}
            found[position] = (entry.model_copy(update=update),)

    return found
