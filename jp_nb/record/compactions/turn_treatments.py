"""Apply compactions to the turns that a request sends: summarize, or strip reasoning and calls.

In each turn the newest compaction applies, separately for summary, reasoning, and tool calls.

Source: `docs/record.md`, `docs/configuration.md` (RFD 064).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from jp_nb.record.compactions.compaction import list_active_compactions
from jp_nb.record.entries.clock import parse_timestamp
from jp_nb.record.entries.entry_images import IMAGES_KEY
from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    Compaction,
    Entry,
    ToolCallPolicy,
    ToolCallRequest,
    ToolCallResponse,
    is_reasoning,
)
from jp_nb.record.entries.pairs import match_pairs
from jp_nb.record.entries.turn_entries import TurnEvent
from jp_nb.record.stream import ConversationStream

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

    replacements: dict[int, tuple[Entry, ...]] = {}
    previous_summary: Compaction | None = None  # of the previous visible turn
    repeats = _SummaryLimit()

    visible = (event for event in stream.events() if event.position not in hidden)
    for turn, grouped in groupby(visible, key=lambda event: event.turn):
        events = list(grouped)
        treatment = TurnTreatment() if turn == whole else treatments[turn]
        summary = treatment.summary

        if summary is not None:
            replacements |= dict.fromkeys((event.position for event in events), ())
            # The first of the turns that it replaces gets the summary.
            if summary is not previous_summary and repeats.allow(summary):
                replacements[events[0].position] = _make_summary_entries(summary)
        else:
            if treatment.without_reasoning:
                reasoning = (event for event in events if is_reasoning(event.entry))
                replacements |= {event.position: () for event in reasoning}
            if treatment.tool_calls is not None:
                replacements |= _replace_tool_calls(events, treatment.tool_calls)

        previous_summary = summary

    return replacements


def _make_summary_entries(compaction: Compaction) -> tuple[Entry, ...]:
    assert compaction.summary is not None
    return (
        ChatRequest(timestamp=compaction.timestamp, content=SUMMARIZED_REQUEST),
        ChatResponse(timestamp=compaction.timestamp, message=compaction.summary.summary),
    )


class _SummaryLimit:
    """Limits the text of summaries that are repeated, because other turns are between their turns.

    A short record with many compactions could otherwise make a very long request.
    """

    def __init__(self) -> None:
        self._sent: set[int] = set()
        self._room = MAX_REPEATED

    def allow(self, entry: Compaction) -> bool:
        assert entry.summary is not None
        if id(entry) not in self._sent:
            self._sent.add(id(entry))
            return True

        self._room -= len(entry.summary.summary) + len(SUMMARIZED_REQUEST)
        return self._room >= 0


def list_turn_treatments(stream: ConversationStream) -> list[TurnTreatment]:
    """Return the treatment of each turn, or `[]` if all turns are sent whole."""
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
    """Return the first of the compactions that covers each of `count` turns.

    A turn that is decided is skipped at once, so the work is almost linear.
    """
    selected: list[Compaction | None] = [None] * count
    # By turn: the turn itself while it is undecided, else a later one, from where to look further.
    next_undecided = list(range(count + 1))

    def find_undecided(turn: int) -> int:
        while next_undecided[turn] != turn:
            next_undecided[turn] = next_undecided[next_undecided[turn]]
            turn = next_undecided[turn]
        return turn

    for entry in newest_first:
        turn = find_undecided(min(entry.from_turn, count))
        while turn < count and turn <= entry.to_turn:
            selected[turn] = entry
            next_undecided[turn] = turn + 1
            turn = find_undecided(turn)

    return selected


def _replace_tool_calls(
    events: Sequence[TurnEvent], policy: ToolCallPolicy
) -> dict[int, tuple[Entry, ...]]:
    """Return the replacements of the calls and results in `events`, by their position."""
    replacements: dict[int, tuple[Entry, ...]] = {}
    by_position = {event.position: event.entry for event in events}
    pairs = match_pairs(by_position.items())
    called = {response: by_position[call] for call, response in pairs.responses.items()}

    for position, entry in by_position.items():
        if not isinstance(entry, ToolCallRequest | ToolCallResponse):
            continue

        if policy.policy == "omit":
            replacements[position] = ()
        elif isinstance(entry, ToolCallRequest):
            if policy.request:
                replacements[position] = (entry.model_copy(update={"arguments": {}}),)
        elif policy.response:
            request = called.get(position)
            name = request.name if isinstance(request, ToolCallRequest) else "tool"
            state = "error" if entry.is_error else "success"
            content = f"[compacted] {name}: {state}"
            metadata = {key: item for key, item in entry.metadata.items() if key != IMAGES_KEY}
            update = {"content": content, "metadata": metadata}
            replacements[position] = (entry.model_copy(update=update),)

    return replacements
