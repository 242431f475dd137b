"""Find the requests to models in a conversation.

Requests to the model are not entries. `find_requests` finds them by the beginnings of the stored
responses. A turn without a response counts as one request; other requests without a stored response
are not found.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    ToolCallRequest,
    ToolCallResponse,
    is_reasoning,
)
from jp_nb.record.entries.turn_entries import TurnEvent
from jp_nb.record.entries.turn_numbers import to_shown_turn
from jp_nb.record.reading.marks import is_continuation
from jp_nb.record.stream import ConversationStream


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """A request to a model, and the position of its response.

    Attributes:
        turn: Its turn, counted from 0.
        number: Its number in the turn, counted from 1.
        position: Number of entries before the request.
        end: Index after the last entry of its response; `position` if there is none.
        is_new_cycle: True for the first request of a turn, and for one after tool calls.
    """

    turn: int
    number: int
    position: int
    end: int
    is_new_cycle: bool

    @property
    def name(self) -> str:
        """Name for the user, such as `3.1`."""
        return f"{to_shown_turn(self.turn)}.{self.number}"


def find_requests(stream: ConversationStream) -> list[RequestSpan]:
    """Return the requests to models in `stream`, oldest first."""
    spans: list[RequestSpan] = []
    for turn, events in groupby(stream.events(), key=lambda event: event.turn):
        spans += _iter_requests_of_turn(turn, list(events))
    return spans


def _iter_requests_of_turn(turn: int, events: Sequence[TurnEvent]) -> Iterator[RequestSpan]:
    """Yield the requests of one turn: one or more for each answer of the model.

    An answer is the entries of the model between two other entries, such as a request of the user
    and a result. Questions of tools do not end it.
    """
    number = 1
    is_new_cycle = True
    answer: list[TurnEvent] = []
    asked_at: int | None = None  # position of the last request of the user

    for event in [*events, None]:  # None ends the last answer
        entry = event.entry if event is not None else None
        if event is not None and isinstance(entry, ChatResponse | ToolCallRequest):
            answer.append(event)
            continue
        if not isinstance(entry, ChatRequest | ToolCallResponse | None):
            continue

        for part in _split_by_request(answer):
            start = part[0].position
            end = part[-1].position + 1
            yield RequestSpan(turn, number, start, end, is_new_cycle)
            number += 1
            is_new_cycle = False

        answer = []
        if event is not None and isinstance(entry, ChatRequest):
            asked_at = event.position
        is_new_cycle = is_new_cycle or isinstance(entry, ToolCallResponse)

    is_unanswered = number == 1
    if is_unanswered and asked_at is not None:
        yield RequestSpan(turn, number, asked_at + 1, asked_at + 1, is_new_cycle)


def _split_by_request(answer: Sequence[TurnEvent]) -> Iterator[Sequence[TurnEvent]]:
    """Yield the entries of each request's response. Several requests can continue one answer.

    A continuation begins with its reasoning, which is before the marked text.
    """
    start = 0
    for index, event in enumerate(answer):
        if not (isinstance(event.entry, ChatResponse) and is_continuation(event.entry)):
            continue

        first = index
        while first > start and is_reasoning(answer[first - 1].entry):
            first -= 1
        if first > start:
            yield answer[start:first]
            start = first

    if answer:
        yield answer[start:]
