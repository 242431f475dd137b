"""The turn that a crash, a failed request or an interrupt cut short, as the record has it. Pure.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from jp_nb.record.call_progress import CallProgress, OpenCall, open_calls
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
from jp_nb.record.pairing import match_pairs
from jp_nb.record.stream import ConversationStream
from jp_nb.record.unanswered import is_unanswered, no_answer


@dataclass(frozen=True, slots=True)
class CutShort:
    """A turn, the last one, that can go on.

    Attributes:
        turn: Its number.
        request: What was asked.
        open_calls: The tool calls without a response.
        finished: The calls of the same answer that have one.
        is_unanswered: Whether the model has said nothing in it.
        taken_back: The changes that were made for it, and taken back when it got no answer.
        strange: How many more of them there are that a stranger made.
    """

    turn: int
    request: ChatRequest
    open_calls: tuple[OpenCall, ...]
    finished: tuple[ToolCallRequest, ...]
    is_unanswered: bool
    taken_back: tuple[ConfigDelta, ...] = ()
    strange: int = 0


def cut_short(
    stream: ConversationStream,
    *,
    ended_early: bool = False,
    foreign: int = 0,
    progress: Mapping[str, CallProgress] = MappingProxyType({}),
) -> CutShort | None:
    """Return the last turn of `stream` if something is missing in it; None if it is complete.

    The text of an answer may be a part of it: only who ran the turn knows, and says so with
    `ended_early`. The `foreign` first changes of the configuration are a stranger's. `progress` is
    what is known of the open calls, by their event ids.
    """
    turn = stream.current_turn()
    request = next((entry for entry in turn if isinstance(entry, ChatRequest)), None)
    if request is None or not (ended_early or _awaits_model(turn)):
        return None
    calls = tuple(open_calls(stream, progress))
    silent = is_unanswered(turn)
    numbers = _taken_back(stream) if silent else range(0)
    own = tuple(stream.deltas[number] for number in numbers if number >= foreign)
    return CutShort(
        stream.turn_count - 1,
        request,
        calls,
        tuple(_finished_beside(turn) if calls else ()),
        silent,
        own,
        len(numbers) - len(own),
    )


def _finished_beside(turn: Sequence[Entry]) -> list[ToolCallRequest]:
    """Return the calls of the last answer that have a response."""
    pairs, _, _ = match_pairs(enumerate(turn))
    last = max(i for i, entry in enumerate(turn) if isinstance(entry, ToolCallRequest))
    first = last
    while isinstance(turn[first - 1], ToolCallRequest):
        first -= 1
    calls = (turn[i] for i in range(first, last + 1) if i in pairs)
    return [call for call in calls if isinstance(call, ToolCallRequest)]


def _taken_back(stream: ConversationStream) -> range:
    """Return the numbers of the changes that the mark of the last turn takes back."""
    marks = [number for number, delta in enumerate(stream.deltas) if no_answer(delta) is not None]
    mark = no_answer(stream.deltas[marks[-1]]) if marks else None
    if mark is None or not _is_of_last_turn(stream, stream.deltas[marks[-1]]):
        return range(0)
    begins = marks[-2] + 1 if len(marks) > 1 else 0  # as everywhere: never behind the mark before
    return range(max(begins, marks[-1] - mark.takes_back), marks[-1])


def _is_of_last_turn(stream: ConversationStream, mark: ConfigDelta) -> bool:
    """Return whether `mark` stands behind the request of the last turn."""
    for entry in reversed(stream.entries):
        if entry is mark:
            return True
        if isinstance(entry, ChatRequest):
            return False
    return False


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
