"""The turn that a crash, a failed request or an interrupt cut short, as the record has it. Pure.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jp_nb.record.events import (
    CONVERSATION_KINDS,
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Entry,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.stream import ConversationStream
from jp_nb.record.unanswered import is_unanswered, no_answer


@dataclass(frozen=True, slots=True)
class CutShort:
    """A turn, the last one, that can go on.

    Attributes:
        turn: Its number.
        request: What was asked.
        open_calls: The tool calls that nothing answers: they may have run, in part or whole.
        is_unanswered: Whether the model has said nothing in it.
        taken_back: The changes that were made for it, and taken back when it got no answer.
    """

    turn: int
    request: ChatRequest
    open_calls: tuple[ToolCallRequest, ...]
    is_unanswered: bool
    taken_back: tuple[ConfigDelta, ...] = ()


def cut_short(stream: ConversationStream, *, ended_early: bool = False) -> CutShort | None:
    """Return the last turn of `stream` if something is missing in it; None if it is complete.

    The text of an answer may be a part of it: only who ran the turn knows, and says so with
    `ended_early`.
    """
    turn = stream.current_turn()
    request = next((entry for entry in turn if isinstance(entry, ChatRequest)), None)
    if request is None or not (ended_early or _awaits_model(turn)):
        return None
    calls = tuple(stream.unanswered())
    silent = is_unanswered(turn)
    changes = _taken_back(stream) if silent else ()
    return CutShort(stream.turn_count - 1, request, calls, silent, changes)


def _taken_back(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return what the mark at the end of the last turn takes back."""
    mark = no_answer(stream.deltas[-1]) if stream.deltas else None
    if mark is None or not mark.takes_back:
        return ()
    return tuple(stream.deltas[-1 - mark.takes_back : -1])


def _awaits_model(turn: Sequence[Entry]) -> bool:
    """Return True if the model has the next word after the last event of `turn`."""
    events = [entry for entry in turn if entry.type in CONVERSATION_KINDS]
    match events[-1] if events else None:
        case ChatRequest() | ToolCallRequest() | ToolCallResponse():
            return True
        case InquiryRequest() | InquiryResponse():
            return True
        case ChatResponse(kind="reasoning"):
            return True
    return False
