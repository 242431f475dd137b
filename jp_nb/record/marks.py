"""Read and write the metadata of a turn's entries, such as tool choice, host, and edited arguments.

Providers never receive these keys.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Self

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.json_values import MAX_INTEGER, JsonObject, as_object
from jp_nb.record.document import Document, get_events
from jp_nb.record.events import (
    ChatRequest,
    ChatResponse,
    Entry,
    EntryT,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.outcomes import END_WORDS
from jp_nb.record.turn_entries import TurnEntries

TOOL_CHOICE: Final = "tool_choice"
NAMELESS_TOOL_CHOICES: Final = ("auto", "none", "required")
"""Tool choices without a tool's name."""
HOST: Final = "host"
EXPLAINS_ERROR: Final = "explains_error"
CONTINUES: Final = "continues"
EDITED_ARGUMENTS_KEY: Final = "edited_arguments"
SKIPPED_KEY: Final = "skipped"
RULE: Final = "rule"
SERVER: Final = "server"
"""Name of the MCP server in the configuration, of a call and of a question."""
SERVER_TOOL: Final = "server_tool"
"""The server's own name of a called tool."""
INPUT_CHANGES: Final = "input_changes"
SCHEMA_RETRY: Final = "schema_retry"
_INPUT_CHANGES: Final = {"dropped": True, "kept": False}


def make_request_marks(choice: str, host: str) -> JsonObject:
    """Return metadata for the request of a turn with this tool choice, sent to `host`.

    `auto` and an empty `host` are not recorded. The mark of a host is a digest.
    """
    marks: JsonObject = {} if choice == "auto" else {TOOL_CHOICE: choice}
    if host:
        marks[HOST] = LastHost.of(host).mark
    return marks


def read_tool_choice(request: ChatRequest) -> str | None:
    """Return the tool choice in the metadata of `request`, or None if it is missing or invalid."""
    mark = request.metadata.get(TOOL_CHOICE)
    is_choice = isinstance(mark, str) and (
        mark in NAMELESS_TOOL_CHOICES or mark.startswith("tool:")
    )
    return mark if is_choice else None  # type: ignore[return-value]  # it is a text


def to_tool_choice(configured: str) -> str:
    """Return the tool choice for a value of the setting `assistant.tool_choice`."""
    return configured if configured in NAMELESS_TOOL_CHOICES else f"tool:{configured}"


def find_turn_to_repeat(turns: Iterable[TurnEntries], why_not: str) -> TurnEntries:
    """Return the last turn that does not explain an error.

    Raises:
        UsageError: There is no such turn. The message begins with `why_not`.
    """
    found = list(turns)
    for turn in reversed(found):
        request = next((each for each in turn.entries if isinstance(each, ChatRequest)), None)
        if request is not None and request.metadata.get(EXPLAINS_ERROR) is not True:
            return turn
    why = "has only explanations of errors" if found else "has no turn yet"
    raise UsageError(f"{why_not}: this conversation {why}")


@dataclass(frozen=True, slots=True)
class LastHost:
    """The host of a notebook's last request: its digest, and a name that is not recorded."""

    mark: str
    name: str = "another host"

    @classmethod
    def of(cls, host: str) -> Self:
        """Return the name and the digest of `host`, such as `127.0.0.1:8080`."""
        return cls(f"sha256:{sha256(host.encode()).hexdigest()[:8]}", host)


def format_other_host(last: LastHost, host: str, provider: str) -> str:
    """Return the line for the user before a request goes to another host than the `last` one."""
    return (
        f"⚠ This request is sent to {host} ({provider}). "
        f"The previous request of this notebook went to {last.name}."
    )


def mark_host(entry: EntryT, host: str) -> EntryT:
    """Return `entry`, whose metadata is from the server at `host`, with the mark of the host."""
    return entry.with_metadata(**{HOST: LastHost.of(host).mark}) if host else entry


def read_recorded_host(document: Document) -> LastHost | None:
    """Return the host of the latest request in `document`, or None if no request has one."""
    found: list[tuple[str, str]] = []
    for request in document.conversation.requests:
        mark = request.metadata.get(HOST)
        if isinstance(mark, str):
            found.append((request.timestamp, mark))

    for conversation in document.others:
        for event in get_events(conversation):
            match event:
                case {"timestamp": str(timestamp), "metadata": {"host": str(mark)}}:
                    found.append((timestamp, mark))

    return LastHost(max(found)[1]) if found else None


def find_missing_tool(choice: str, names: Collection[str]) -> str | None:
    """Return the tool that `choice` requires if it is not in `names`, else None.

    For `required`, the result is `any tool`. `names` are those of the called tools.
    """
    if choice == "required":
        return None if names else "any tool"
    name = choice.removeprefix("tool:")
    return None if name == choice or name in names else name


def find_missing_call(entries: Sequence[Entry]) -> str | None:
    """Return the required tool that the first response of a recorded turn did not call, or None."""
    choice = "auto"
    names = set[str]()

    for entry in entries:
        match entry:
            case ChatRequest(metadata={"tool_choice": str(demanded)}) if choice == "auto":
                choice = demanded
            case ToolCallRequest(name=name):
                names.add(name)
            case ToolCallResponse():
                break

    return find_missing_tool(choice, names)


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
    """Return True if `entry` is a message of `make_schema_retry`.

    The first request of a turn never is one, whatever an untrusted record says about it.
    """
    return isinstance(entry, ChatRequest) and entry.metadata.get(SCHEMA_RETRY) is True


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
    for name, value in _INPUT_CHANGES.items():
        alike = {key: count for key, count in changes.items() if key[1] is value}
        if alike:
            stored[name] = {reason: count for (reason, _), count in alike.items()}

    return entry.with_metadata(**{INPUT_CHANGES: stored})


def read_input_changes(metadata: Mapping[str, JsonValue]) -> Counter[tuple[str, bool]]:
    """Return the valid counts of `with_input_changes` in the `metadata` of an entry."""
    found: Counter[tuple[str, bool]] = Counter()
    stored = as_object(metadata.get(INPUT_CHANGES))
    for name, is_dropped in _INPUT_CHANGES.items():
        for reason, count in as_object(stored.get(name)).items():
            if type(count) is int and 0 < count <= MAX_INTEGER:
                found[reason, is_dropped] += count
    return found
