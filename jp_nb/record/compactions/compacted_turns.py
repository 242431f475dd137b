"""Replace the entries of compacted turns: by a summary, or without reasoning and tool calls.

`turn_treatments.py` decides which compaction applies to a turn. The record keeps all entries: only
the context of requests has the replacements.

Source: `docs/record.md`, `docs/configuration.md` (RFD 064).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Final

from jp_nb.record.compactions.turn_treatments import TurnTreatment, list_turn_treatments
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


def make_replacements(
    stream: ConversationStream, hidden: Collection[int], *, whole: int = -1
) -> dict[int, tuple[Entry, ...]]:
    """Return the replacements of entries by their index. Other entries are sent unchanged.

    An entry whose replacement is `()` is not sent. Entries at the indexes `hidden` are not sent
    either, and have no replacement. The turn `whole` is sent unchanged, because it is running; -1
    is no turn.
    """
    treatments = list_turn_treatments(stream)
    if not treatments:
        return {}

    replacements: dict[int, tuple[Entry, ...]] = {}
    previous_summary: Compaction | None = None  # of the turn before
    limit = _SummaryLimit()

    visible = (event for event in stream.events() if event.position not in hidden)
    for turn, grouped in groupby(visible, key=lambda event: event.turn):
        events = list(grouped)
        treatment = TurnTreatment() if turn == whole else treatments[turn]
        summary = treatment.summary

        if summary is not None:
            replacements |= dict.fromkeys((event.position for event in events), ())
            # A summary replaces several turns, and is sent in place of the first of them.
            if summary is not previous_summary and limit.allow(summary):
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
    """Limits the text of summaries that are sent again.

    A summary is sent again if a newer compaction replaces some turns between its turns. A short
    record with many compactions could otherwise make a very long request.
    """

    def __init__(self) -> None:
        self._sent_ids: set[int] = set()  # of `id`
        self._chars_left = MAX_REPEATED

    def allow(self, entry: Compaction) -> bool:
        """Return True if the summary of `entry` may be sent at a further place, and count it."""
        assert entry.summary is not None
        if id(entry) not in self._sent_ids:
            self._sent_ids.add(id(entry))
            return True

        self._chars_left -= len(entry.summary.summary) + len(SUMMARIZED_REQUEST)
        return self._chars_left >= 0


def _replace_tool_calls(
    events: Sequence[TurnEvent], policy: ToolCallPolicy
) -> dict[int, tuple[Entry, ...]]:
    """Return the replacements of the calls and results in `events`, by their position.

    With the policy `strip`, `policy.request` empties the arguments of calls, and `policy.response`
    the contents of results.
    """
    replacements: dict[int, tuple[Entry, ...]] = {}
    by_position = {event.position: event.entry for event in events}
    pairs = match_pairs(by_position.items())
    request_by_response = {
        response: by_position[call] for call, response in pairs.responses.items()
    }

    for position, entry in by_position.items():
        if not isinstance(entry, ToolCallRequest | ToolCallResponse):
            continue

        if policy.policy == "omit":
            replacements[position] = ()
        elif isinstance(entry, ToolCallRequest):
            if policy.request:
                replacements[position] = (entry.model_copy(update={"arguments": {}}),)
        elif policy.response:
            stripped = _strip_response(entry, request_by_response.get(position))
            replacements[position] = (stripped,)

    return replacements


def _strip_response(entry: ToolCallResponse, request: Entry | None) -> ToolCallResponse:
    """Return a result without its content and images, but with the name of the tool."""
    name = request.name if isinstance(request, ToolCallRequest) else "tool"
    state = "error" if entry.is_error else "success"
    content = f"[compacted] {name}: {state}"
    metadata = {key: item for key, item in entry.metadata.items() if key != IMAGES_KEY}
    return entry.model_copy(update={"content": content, "metadata": metadata})
