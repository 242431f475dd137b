"""Repair a record, so that providers accept a request with it.

Providers reject a call without a result, a result without a call, and a conversation that does not
begin with a request. A repair corrects this, because a kernel may end between any two entries.
Repairing twice changes nothing.

A *pair* is a tool call with its response, or a question with its answer (`pairs.py`). In a turn,
requests without a response are `unanswered`, and responses without a request are `loose`.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from jp_nb.record.entries.entry_kinds import CONVERSATION_KINDS
from jp_nb.record.entries.events import (
    ChatRequest,
    Entry,
    RawEntry,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
)
from jp_nb.record.entries.pairs import match_pairs

INTERRUPTED_CALL: Final = "Tool call was interrupted."

# For a conversation without a request. The time of the repair would make two repairs differ.
EPOCH_TIMESTAMP: Final = "1970-01-01 00:00:00.0"

_MESSAGES: Final = ("chat_request", "chat_response")


class Item(NamedTuple):
    """An entry with its stored object and its id.

    The stream creates the stored object and the id if `raw` is None.
    """

    entry: Entry
    raw: RawEntry | None = None
    event_id: str | None = None

    @property
    def is_event(self) -> bool:
        """True if the entry belongs to a turn. A repair never changes other entries."""
        return self.entry.type in CONVERSATION_KINDS

    @property
    def is_turn_start(self) -> bool:
        """True if a turn starts here."""
        return isinstance(self.entry, TurnStart)


def repair_items(items: Sequence[Item], *, resumes: bool = False) -> list[Item]:
    """Return the items of a well-formed record. Unchanged items are the same objects.

    If the last turn `resumes`, its tool calls without a response stay open.
    """
    repaired = _drop_events_before_first_request(items)
    repaired = _pair_turns(repaired, resumes=resumes)
    repaired = _drop_trailing_turn_starts(repaired)
    return _put_one_turn_start_first(repaired)


def _drop_events_before_first_request(items: Sequence[Item]) -> list[Item]:
    """Drop events that no request asked for. Without a request, all stay."""
    first = _find_first_request(items)
    if first is None:
        return list(items)

    kept = [item for item in items[:first] if item.is_turn_start or not item.is_event]
    return [*kept, *items[first:]]


def _find_first_request(items: Sequence[Item]) -> int | None:
    for index, item in enumerate(items):
        if isinstance(item.entry, ChatRequest):
            return index
    return None


def _pair_turns(items: Sequence[Item], *, resumes: bool) -> list[Item]:
    result: list[Item] = []
    turn: list[Item] = []  # ids may repeat in a later turn, so each turn is paired separately

    for item in items:
        if item.is_turn_start:
            result += _pair_turn(turn)
            turn = []
        turn.append(item)

    return [*result, *_pair_turn(turn, resumes=resumes)]


def _pair_turn(turn: Sequence[Item], *, resumes: bool = False) -> list[Item]:
    """Return the turn without halves of pairs.

    A tool call without a response gets one. A question without an answer is dropped, as is a
    response without a request.
    """
    matched = match_pairs((index, item.entry) for index, item in enumerate(turn))
    calls = {response: call for call, response in matched.responses.items()}
    result: list[Item] = []
    delayed: dict[int, Item] = {}  # added responses that wait for their place, by call

    for index, item in enumerate(turn):
        entry = item.entry
        if index in matched.loose:
            continue

        # Add the delayed responses whose place is before this entry: responses are in the order of
        # their calls, before the next message.
        if isinstance(entry, ToolCallResponse):
            earlier_calls = [call for call in delayed if call < calls[index]]
            result += [delayed.pop(call) for call in earlier_calls]
        elif entry.type in _MESSAGES:
            result += delayed.values()
            delayed = {}

        if index not in matched.unanswered:
            result.append(item)
            continue
        if not isinstance(entry, ToolCallRequest):  # a question without an answer
            continue

        result.append(item)
        if resumes:
            continue

        response = Item(_make_interrupted_response(entry))
        if _has_answered_sibling(turn, index, matched.loose):
            delayed[index] = response
        else:
            result.append(response)

    return [*result, *delayed.values()]


def _make_interrupted_response(call: ToolCallRequest) -> ToolCallResponse:
    return ToolCallResponse(
        timestamp=call.timestamp, id=call.id, content=INTERRUPTED_CALL, is_error=True
    )


def _has_answered_sibling(turn: Sequence[Item], call: int, loose: set[int]) -> bool:
    """Return True if another call of the same message has a response after index `call`.

    An added response then has to follow all calls of the message, because providers take the
    results together.
    """
    for index in range(call + 1, len(turn)):
        if turn[index].entry.type in _MESSAGES:
            return False
        if isinstance(turn[index].entry, ToolCallResponse) and index not in loose:
            return True
    return False


def _drop_trailing_turn_starts(items: Sequence[Item]) -> list[Item]:
    """Return `items` without turns that only begin. Other entries at the end stay."""
    end = len(items)
    while end and (items[end - 1].is_turn_start or not items[end - 1].is_event):
        end -= 1

    kept = [item for item in items[end:] if not item.is_turn_start]
    return [*items[:end], *kept]


def _put_one_turn_start_first(items: list[Item]) -> list[Item]:
    """Let exactly one turn start precede the first request."""
    has_turn = any(item.is_event and not item.is_turn_start for item in items)
    if not has_turn:
        return items

    request = _find_first_request(items)
    if request is None:
        # Imported answers without a request: their turns stay as they are.
        if any(item.is_turn_start for item in items):
            return items
        return [Item(TurnStart(timestamp=EPOCH_TIMESTAMP)), *items]

    starts = [index for index, item in enumerate(items[:request]) if item.is_turn_start]
    if not starts:
        start = Item(TurnStart(timestamp=items[request].entry.timestamp))
        return [*items[:request], start, *items[request:]]

    extra = set(starts[:-1])
    return [item for index, item in enumerate(items) if index not in extra]
