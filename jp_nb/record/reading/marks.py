"""Marks of messages in their metadata, such as explained errors and messages of the program.

Providers never receive these keys. Tool choice, host, and tool calls have modules of their own
(`tool_choice_marks.py`, `host_marks.py`, `call_marks.py`).

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.json_values import JsonObject
from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    Entry,
)
from jp_nb.record.entries.tool_choice_marks import TOOL_CHOICE
from jp_nb.record.entries.turn_entries import TurnEntries
from jp_nb.record.request_context.host_marks import HOST, LastHost

EXPLAINS_ERROR: Final = "explains_error"
"""True on a request of the user to explain an error (`%jp why`, `%jp fix`)."""
CONTINUES: Final = "continues"
"""True on a text of the model that continues the previous one."""
SCHEMA_RETRY: Final = "schema_retry"
"""True on a message of the program about a structured answer that does not fit."""
NOTE_TO_MODEL: Final = "note_to_model"
"""True on another message of the program, such as one about edited cells."""


def make_request_marks(choice: str, host: str) -> JsonObject:
    """Return metadata for the request of a turn with this tool choice, sent to `host`.

    `auto` and an empty `host` are not recorded. The mark of a host is a digest.
    """
    marks: JsonObject = {} if choice == "auto" else {TOOL_CHOICE: choice}
    if host:
        marks[HOST] = LastHost.of(host).mark
    return marks


def find_turn_to_repeat(turns: Iterable[TurnEntries], why_not: str) -> TurnEntries:
    """Return the last turn that does not explain an error.

    Raises:
        UsageError: There is no such turn. The message begins with `why_not`.
    """
    listed = list(turns)
    for turn in reversed(listed):
        requests = (entry for entry in turn.entries if isinstance(entry, ChatRequest))
        request = next(requests, None)
        if request is not None and request.metadata.get(EXPLAINS_ERROR) is not True:
            return turn
    why = "has only explanations of errors" if listed else "has no turn yet"
    raise UsageError(f"{why_not}: this conversation {why}")


def mark_continuation(response: ChatResponse) -> ChatResponse:
    """Return `response` with a mark that its text continues the previous text."""
    return response.with_metadata(**{CONTINUES: True})


def is_continuation(response: ChatResponse) -> bool:
    """Return True if the text of `response` continues the previous text."""
    return response.metadata.get(CONTINUES) is True


def make_schema_retry(text: str) -> ChatRequest:
    """Return the message that tells the model why its structured answer does not fit."""
    return ChatRequest(content=text, metadata={SCHEMA_RETRY: True})


def is_schema_retry(entry: Entry) -> bool:
    """Return True if `entry` has the mark of `make_schema_retry`.

    The first request of a turn is always the user's. In an untrusted record, it may have the mark,
    which `turn_reader.py` then ignores.
    """
    return isinstance(entry, ChatRequest) and entry.metadata.get(SCHEMA_RETRY) is True


def make_note_to_model(text: str) -> ChatRequest:
    """Return a message of the program that the model reads with the next request."""
    return ChatRequest(content=text, metadata={NOTE_TO_MODEL: True})


def is_note_to_model(entry: Entry) -> bool:
    """Return True if `entry` has the mark of `make_note_to_model`: see `is_schema_retry`."""
    return isinstance(entry, ChatRequest) and entry.metadata.get(NOTE_TO_MODEL) is True
