"""Marks in the metadata of a turn's entries, such as edited arguments and explained errors.

Providers never receive these keys. Tool choice and host have modules of their own
(`tool_choice_marks.py`, `host_marks.py`).

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_limits import MAX_INTEGER
from jp_nb.json_values import JsonObject, as_object
from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    Entry,
    EntryT,
    ToolCallResponse,
)
from jp_nb.record.entries.tool_choice_marks import TOOL_CHOICE
from jp_nb.record.entries.turn_entries import TurnEntries
from jp_nb.record.reading.outcome_words import END_WORDS
from jp_nb.record.request_context.host_marks import HOST, LastHost

EXPLAINS_ERROR: Final = "explains_error"
"""True on a request of the user to explain an error (`%jp why`, `%jp fix`)."""
CONTINUES: Final = "continues"
"""True on a text of the model that continues the previous one."""
EDITED_ARGUMENTS_KEY: Final = "edited_arguments"
"""The arguments of a call that the user edited, on its response."""
SKIPPED_KEY: Final = "skipped"
"""True on the response to a call that the user skipped or stopped."""
RULE: Final = "rule"
"""The rule that decided about a call, on its response."""
SERVER: Final = "server"
"""Name of the MCP server in the configuration, of a call and of a question."""
SERVER_TOOL: Final = "server_tool"
"""The server's own name of a called tool."""
INPUT_CHANGES: Final = "input_changes"
"""Counts of reasoning that the provider received changed, or not at all."""
SCHEMA_RETRY: Final = "schema_retry"
"""True on a message of the program about a structured answer that does not fit."""
NOTE_TO_MODEL: Final = "note_to_model"
"""True on another message of the program, such as one about edited cells."""
_KINDS_OF_CHANGE: Final = {"dropped": True, "kept": False}
"""Stored name of each kind of input change: True if the model did not get the reasoning.

Reasoning under `kept` reached the model, although it did not fit the conversation.
"""


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


def make_edit_metadata(arguments: dict[str, JsonValue], channel: str) -> dict[str, JsonValue]:
    """Return the metadata of the response to a call with edited `arguments`."""
    return {EDITED_ARGUMENTS_KEY: arguments, "edited_by": "person", "channel": channel}


def make_server_marks(server: str, tool: str) -> JsonObject:
    """Return the metadata of the response to a call of a server's `tool`, by the server's name."""
    marks: JsonObject = {SERVER: server} if server else {}
    if server and tool:
        marks[SERVER_TOOL] = tool
    return marks


def read_rule(response: ToolCallResponse) -> JsonObject | None:
    """Return the rule that decided about the call, if the record has a valid one."""
    rule = as_object(response.metadata.get(RULE))
    is_valid = isinstance(rule.get("when"), dict) and isinstance(rule.get("from"), str)
    return rule if is_valid else None


def is_skipped(response: ToolCallResponse) -> bool:
    """Return True if the user skipped or stopped the call.

    Records of older releases have no mark, but only the text of the response.
    """
    if SKIPPED_KEY in response.metadata:
        return response.metadata[SKIPPED_KEY] is True
    declined = {words.response for words in END_WORDS.values()}
    return response.content in declined or response.content.startswith("Tool skipped by user")


def with_input_changes(entry: EntryT, changes: Mapping[tuple[str, bool], int]) -> EntryT:
    """Return `entry` with the counts of input changes by reason, and by True if it was dropped."""
    if not changes:
        return entry

    stored: JsonObject = {}
    for name, is_dropped in _KINDS_OF_CHANGE.items():
        alike = {key: count for key, count in changes.items() if key[1] is is_dropped}
        if alike:
            stored[name] = {reason: count for (reason, _), count in alike.items()}

    return entry.with_metadata(**{INPUT_CHANGES: stored})


def read_input_changes(metadata: Mapping[str, JsonValue]) -> Counter[tuple[str, bool]]:
    """Return the valid counts of `with_input_changes` in the `metadata` of an entry."""
    counts: Counter[tuple[str, bool]] = Counter()
    stored = as_object(metadata.get(INPUT_CHANGES))
    for name, is_dropped in _KINDS_OF_CHANGE.items():
        for reason, count in as_object(stored.get(name)).items():
            if type(count) is int and 0 < count <= MAX_INTEGER:
                counts[reason, is_dropped] += count
    return counts
