"""The last turn of a conversation, if it can continue.

A turn can continue if it does not end with an answer of the model: after a request, a tool call, or
a result of a tool, or if the answer was cut. `%jp resume` continues it.

If it is *unanswered*, so without any text or call of the model, it may end with a mark
(`unanswered_turns.py`): a configuration change that reverts the changes before it, which were made
for this turn. They apply again if the turn is resumed.

Source: `docs/record.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from jp_nb.record.entries.entry_kinds import CONVERSATION_KINDS
from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Entry,
    ToolCallRequest,
    TurnStart,
)
from jp_nb.record.entries.pairs import match_pairs
from jp_nb.record.entries.unanswered_turns import (
    RevertedChanges,
    is_unanswered,
    read_no_answer,
)
from jp_nb.record.stream import ConversationStream
from jp_nb.record.unfinished_calls import CallProgress, OpenCall, list_open_calls


@dataclass(frozen=True, slots=True)
class InterruptedTurn:
    """The last turn, if it can continue.

    Attributes:
        turn: Its number, counted from 0.
        request: Its first request.
        open_calls: Its tool calls without a response (`unfinished_calls.py`).
        finished: Finished calls of the same response as the open calls. They do not run again.
        is_unanswered: True if the model sent no text and no call in the turn.
        taken_back: Reverted changes, which apply again.
        untrusted_changes: Number of reverted changes that do not apply again, because they are in
            the untrusted part of the record.
    """

    turn: int
    request: ChatRequest
    open_calls: tuple[OpenCall, ...]
    finished: tuple[ToolCallRequest, ...]
    is_unanswered: bool
    taken_back: tuple[ConfigDelta, ...] = ()
    untrusted_changes: int = 0


def find_interrupted_turn(
    stream: ConversationStream,
    *,
    ended_early: bool = False,
    untrusted_count: int = 0,
    progress: Mapping[str, CallProgress] = MappingProxyType({}),
) -> InterruptedTurn | None:
    """Return the last turn of `stream` if it is incomplete, or None.

    Args:
        stream: The conversation.
        ended_early: True if the text of the last response is cut: the record does not show it.
        untrusted_count: Number of the first configuration changes that are from someone else.
        progress: Progress of open calls in the journal, by their event ids.
    """
    turn = stream.current_turn()
    request = next((entry for entry in turn if isinstance(entry, ChatRequest)), None)

    if request is None or not (ended_early or _awaits_model(turn)):
        return None

    calls = tuple(list_open_calls(stream, progress))
    is_silent = is_unanswered(turn)
    numbers = _list_reverted_changes(stream) if is_silent else []
    own = tuple(stream.deltas[number] for number in numbers if number >= untrusted_count)
    finished = _find_finished_calls(turn) if calls else []

    return InterruptedTurn(
        turn=stream.turn_count - 1,
        request=request,
        open_calls=calls,
        finished=tuple(finished),
        is_unanswered=is_silent,
        taken_back=own,
        untrusted_changes=len(numbers) - len(own),
    )


def _find_finished_calls(turn: Sequence[Entry]) -> list[ToolCallRequest]:
    """Return the calls of the last response that have a result. `turn` has an open call.

    The calls of a response follow each other in the record, after another entry of the turn.
    """
    responses = match_pairs(enumerate(turn)).responses
    last = max(index for index, entry in enumerate(turn) if isinstance(entry, ToolCallRequest))
    first = last
    while isinstance(turn[first - 1], ToolCallRequest):
        first -= 1

    calls = [turn[index] for index in range(first, last + 1) if index in responses]
    return [call for call in calls if isinstance(call, ToolCallRequest)]


def _list_reverted_changes(stream: ConversationStream) -> list[int]:
    """Return the numbers of the changes that the mark of the last turn reverts; [] without one."""
    index = len(stream.deltas)

    for entry in reversed(stream.entries):
        if isinstance(entry, ChatRequest):  # the last turn has no mark
            break
        if not isinstance(entry, ConfigDelta):
            continue

        index -= 1  # the index of `entry` among the changes
        if read_no_answer(entry) is None:
            continue

        # A mark does not revert changes before the previous mark, so the earlier ones are read
        # first. The second `follow` continues after them: it returns only what this mark reverts.
        reverted = RevertedChanges()
        reverted.follow(stream.deltas[:index])
        return sorted(reverted.follow(stream.deltas[: index + 1]))

    return []


def _awaits_model(turn: Sequence[Entry]) -> bool:
    """Return True if the events of `turn` do not end with a text or data of the model.

    Without any event after its start, a turn awaits nothing.
    """
    events = [entry for entry in turn if entry.type in CONVERSATION_KINDS]
    last = events[-1] if events else None
    is_answer = isinstance(last, ChatResponse) and last.kind != "reasoning"
    return not (is_answer or isinstance(last, TurnStart | None))
