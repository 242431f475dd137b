"""The places in a record at which a model was asked.

A request leaves no entry of its own: it stands where its answer begins. One of which nothing was
kept, such as an answer that was aborted, is not seen here; that of a turn without any answer is.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.stream import ConversationStream
from jp_nb.record.turn_entries import TurnEvent
from jp_nb.record.turn_marks import continues


@dataclass(frozen=True, slots=True)
class RequestPlace:
    """A request to a model.

    Attributes:
        turn: Its turn, from 0.
        number: Which of the requests of its turn it is, from 1.
        position: So many entries had been recorded when it was made.
        end: The index behind the last entry of its answer; `position` if it got none.
        is_new_cycle: True if tools ran before it, or it is the first of its turn.
    """

    turn: int
    number: int
    position: int
    end: int
    is_new_cycle: bool

    @property
    def name(self) -> str:
        """`3.1`: how a person names it."""
        return f"{self.turn}.{self.number}"


def request_places(stream: ConversationStream) -> list[RequestPlace]:
    """Return where models were asked in `stream`, oldest first."""
    found: list[RequestPlace] = []
    for turn, events in groupby(stream.events(), key=lambda event: event.turn):
        found += _in_turn(turn, list(events))
    return found


def _in_turn(turn: int, events: Sequence[TurnEvent]) -> Iterator[RequestPlace]:
    number, is_new_cycle = 1, True
    answer: list[TurnEvent] = []
    asked: int | None = None
    for event in events:
        match event.entry:
            case ChatResponse() | ToolCallRequest():
                answer.append(event)
                continue
            case ChatRequest():
                asked = event.position
            case ToolCallResponse():
                pass
            case _:
                continue
        for part in _parts(answer):
            yield _place(turn, number, part, is_new_cycle=is_new_cycle)
            number, is_new_cycle = number + 1, False
        answer = []
        is_new_cycle = is_new_cycle or isinstance(event.entry, ToolCallResponse)
    for part in _parts(answer):
        yield _place(turn, number, part, is_new_cycle=is_new_cycle)
        number, is_new_cycle = number + 1, False
    if number == 1 and asked is not None:
        yield RequestPlace(turn, number, asked + 1, asked + 1, is_new_cycle)


def _place(
    turn: int, number: int, answer: Sequence[TurnEvent], *, is_new_cycle: bool
) -> RequestPlace:
    return RequestPlace(turn, number, answer[0].position, answer[-1].position + 1, is_new_cycle)


def _parts(answer: Sequence[TurnEvent]) -> Iterator[Sequence[TurnEvent]]:
    """Yield what each request added to `answer`: it may have been continued by further ones."""
    start = 0
    for index, event in enumerate(answer):
        if not (isinstance(event.entry, ChatResponse) and continues(event.entry)):
            continue
        first = index
        while first > start and _is_reasoning(answer[first - 1]):
            first -= 1
        if first > start:
            yield answer[start:first]
            start = first
    if answer:
        yield answer[start:]


def _is_reasoning(event: TurnEvent) -> bool:
    return isinstance(event.entry, ChatResponse) and event.entry.kind == "reasoning"
