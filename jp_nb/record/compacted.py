"""Entries that stand in for compacted turns in what a provider is sent. The record keeps the turns.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from jp_nb.record.compactions import counting
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    Compaction,
    Entry,
    ToolCallPolicy,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.pairing import match_pairs
from jp_nb.record.recorded_images import IMAGES
from jp_nb.record.stream import ConversationStream
from jp_nb.record.timestamps import parse_timestamp
from jp_nb.record.turn_entries import TurnEvent

SUMMARY_REQUEST = "[Summary of previous conversation]"
MAX_REPEATED: Final = 100_000
"""Characters of summaries that are sent again where others divide them, all together."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TurnTreatment:
    """How a turn is sent.

    Attributes:
        summary: The compaction whose summary stands in place of it; then nothing else counts.
        without_reasoning: True if its reasoning is left out.
        tool_calls: What becomes of its tool calls.
    """

    summary: Compaction | None = None
    without_reasoning: bool = False
    tool_calls: ToolCallPolicy | None = None


def stand_ins(
    stream: ConversationStream, hidden: Collection[int], *, whole: int = -1
) -> dict[int, tuple[Entry, ...]]:
    """Return what stands in place of an entry, by its index; an entry that is not here stays.

    What is `hidden` anyway is not looked at, nor the turn that stays `whole`. In each turn the
    newest compaction decides, for the summary, the reasoning and the tool calls on their own; of
    equally old ones the later in the record.
    """
    treatments = turn_treatments(stream)
    if not treatments:
        return {}
    found: dict[int, tuple[Entry, ...]] = {}
    before: Compaction | None = None  # that of the last turn of which anything is seen
    repeats = _Repeats()
    seen = (event for event in stream.events() if event.position not in hidden)
    for turn, grouped in groupby(seen, key=lambda event: event.turn):
        events = list(grouped)
        treatment = TurnTreatment() if turn == whole else treatments[turn]
        if (summary := treatment.summary) is not None:
            found |= dict.fromkeys((event.position for event in events), ())
            if summary is not before and repeats.allow(summary):
                found[events[0].position] = tuple(_summary(summary))
            before = summary
            continue
        before = None
        if treatment.without_reasoning:
            found |= {e.position: () for e in events if _is_reasoning(e.entry)}
        if treatment.tool_calls is not None:
            found |= _tool_calls(events, treatment.tool_calls)
    return found


class _Repeats:
    """Bounds what is sent again of summaries: a short record would make an endless request."""

    def __init__(self) -> None:
        self._sent: set[int] = set()
        self._room = MAX_REPEATED

    def allow(self, entry: Compaction) -> bool:
        """Return whether the summary of `entry` is sent, as it is the first time in any case."""
        assert entry.summary is not None
        if id(entry) in self._sent:
            self._room -= len(entry.summary.summary) + len(SUMMARY_REQUEST)
            return self._room >= 0
        self._sent.add(id(entry))
        return True


def turn_treatments(stream: ConversationStream) -> list[TurnTreatment]:
    """Return how each turn is sent; `[]` if all of them are sent whole."""
    compactions = [placed.of_its_time for placed in counting(stream.entries)]
    if not compactions:
        return []
    compactions.reverse()  # of equally old ones the later stays in front
    compactions.sort(key=lambda x: parse_timestamp(x.timestamp) or _NEVER, reverse=True)
    count = stream.turn_count
    summaries = _deciding(compactions, count, lambda entry: entry.summary is not None)
    reasoning = _deciding(compactions, count, lambda entry: entry.reasoning is not None)
    tools = _deciding(compactions, count, lambda entry: entry.tool_calls is not None)
    return [
        TurnTreatment(
            summaries[turn],
            reasoning[turn] is not None,
            decides.tool_calls if (decides := tools[turn]) is not None else None,
        )
        for turn in range(count)
    ]


def _deciding(
    newest: Iterable[Compaction], count: int, says: Callable[[Compaction], bool]
) -> list[Compaction | None]:
    """Turn by turn the first of `newest` that says something about it."""
    deciding: list[Compaction | None] = [None] * count
    open_from = list(range(count + 1))  # leads from a turn to the next one that is undecided

    def undecided(turn: int) -> int:
        while open_from[turn] != turn:
            open_from[turn] = turn = open_from[open_from[turn]]
        return turn

    for entry in filter(says, newest):
        turn = undecided(min(entry.from_turn, count))
        while turn < count and turn <= entry.to_turn:
            deciding[turn] = entry
            open_from[turn] = turn + 1
            turn = undecided(turn)
    return deciding


def _summary(entry: Compaction) -> Iterator[Entry]:
    assert entry.summary is not None
    yield ChatRequest(timestamp=entry.timestamp, content=SUMMARY_REQUEST)
    yield ChatResponse(timestamp=entry.timestamp, message=entry.summary.summary)


def _is_reasoning(entry: Entry) -> bool:
    return isinstance(entry, ChatResponse) and entry.kind == "reasoning"


def _tool_calls(
    events: Sequence[TurnEvent], policy: ToolCallPolicy
) -> dict[int, tuple[Entry, ...]]:
    found: dict[int, tuple[Entry, ...]] = {}
    by_position = {event.position: event.entry for event in events}
    pairs, _, _ = match_pairs(by_position.items())
    called = {answer: by_position[request] for request, answer in pairs.items()}
    for position, entry in by_position.items():
        if not isinstance(entry, ToolCallRequest | ToolCallResponse):
            continue
        if policy.policy == "omit":
            found[position] = ()
        elif isinstance(entry, ToolCallRequest):
            if policy.request:
                found[position] = (entry.model_copy(update={"arguments": {}}),)
        elif policy.response:
            found[position] = (_blank(entry, called.get(position)),)
    return found


def _blank(response: ToolCallResponse, request: Entry | None) -> ToolCallResponse:
    name = request.name if isinstance(request, ToolCallRequest) else "tool"
    outcome = "error" if response.is_error else "success"
    metadata = {key: item for key, item in response.metadata.items() if key != IMAGES}
    update = {"content": f"[compacted] {name}: {outcome}", "metadata": metadata}
    return response.model_copy(update=update)
