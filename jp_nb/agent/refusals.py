"""Tell the user which turn a server refuses, and how to continue without it.

A server *refuses* a request as invalid, for example because of an image that it does not support.
A model that refuses to answer is another case (`RefusalError`).

Source: `docs/providers.md` (errors and retries).
"""

from __future__ import annotations

from typing import Final

from jp_nb.agent.turn_record import TurnRecord
from jp_nb.errors import ProviderError
from jp_nb.record.documents.conversation_info import make_title
from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    Entry,
    ToolCallRequest,
    read_words,
)
from jp_nb.record.stream import ConversationStream

_REFUSAL_STATUSES: Final = (400, 422)
"""HTTP status codes of servers for an invalid request."""


def explain_refusal(error: ProviderError, record: TurnRecord) -> str:
    """Return advice about the turn that the server refuses; "" if `error` has another cause.

    Some servers name the position of the refused item (`error.item`, an index into the context).
    Otherwise, the last answered turn is probably the cause. An error of another kind, such as one
    about the key or the length, has its own advice.
    """
    if error.kind != "other" or error.status not in _REFUSAL_STATUSES:
        return ""

    stream = record.stream
    turn: int | None = None
    if error.item is not None and error.item < len(record.context):
        turn = _find_turn(stream, record.context.items[error.item].entry)
    if turn is not None:
        name = _format_turn_name(stream, turn)
        return f"The server refuses a part of {name}. {_describe_remedy(stream, turn)}"

    turn = _find_last_answered_turn(stream)
    if turn is None:
        return ""
    return (
        "If the error is about the conversation, its cause is probably in "
        f"{_format_turn_name(stream, turn)}. {_describe_remedy(stream, turn)}"
    )


def _find_turn(stream: ConversationStream, entry: Entry) -> int | None:
    # A context can have a copy of an entry, with notes about its images: it is not the same object.
    wanted = _make_key(entry)
    for event in stream.events():
        if _make_key(event.entry) == wanted:
            return event.turn
    return None


def _make_key(entry: Entry) -> tuple[object, ...]:
    """Return facts that identify an entry and its copies."""
    return entry.type, entry.timestamp, getattr(entry, "id", None)


def _find_last_answered_turn(stream: ConversationStream) -> int | None:
    answered = (
        event.turn
        for event in stream.events()
        if isinstance(event.entry, ChatResponse | ToolCallRequest)
    )
    return max(answered, default=None)


def _format_turn_name(stream: ConversationStream, turn: int) -> str:
    texts = (
        read_words(event.entry)
        for event in stream.events()
        if event.turn == turn and isinstance(event.entry, ChatRequest)
    )
    title = make_title(next(texts, ""))
    return f"the turn “{title}”"


def _describe_remedy(stream: ConversationStream, turn: int) -> str:
    # Turns are counted from 0. Each undo removes the last one.
    times = stream.turn_count - turn
    command = "`%jp undo`" if times == 1 else f"`%jp undo` {times} times"
    return f"To continue without it, run {command}, then send the request again"
