"""Metadata of turn events; usage sums.

- `chat_request`: {"tool_choice": "tool:NAME"}, `required` or `none`, what the first request to the
  model demanded or forbade;
- `chat_request`: {"host": "sha256:2cf24dba"}, the host of the first request to the model, as a
  digest: only the user's files hold the names of hosts;
- `chat_request`: {"explains_error": true}, the request of `%jp why`, which is not asked again;
- `chat_response`: {"continues": true}, the text goes on in the middle of the one before;
- `tool_call_response`: {"edited_arguments": {"to": "Ada"}, "edited_by": "person", "channel":
  "form"}, what the tool ran with after a person changed it. The request stays what the model sent.

In the `metadata` of the last entry of a response, and of the end of a question that a model
answered; only what the provider reported:
    {"usage": {"model": "anthropic/claude-opus-4", "input_tokens": 1200, "output_tokens": 48}}
Providers are never sent it. Where a response left no entry, a change of the configuration that
changes nothing says it at the end of its turn.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Final, Self, TypeVar

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.record.document import Document, events_of
from jp_nb.record.events import (
    USAGE,
    ChatRequest,
    ChatResponse,
    Entry,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.stream import TurnEntries

TOOL_CHOICE: Final = "tool_choice"
CHOICES: Final = ("auto", "none", "required")
"""Tool choices that name no tool."""
HOST: Final = "host"
EXPLAINS_ERROR: Final = "explains_error"
CONTINUES: Final = "continues"
ARGUMENTS: Final = "edited_arguments"


def with_tool_choice(request: ChatRequest, choice: str) -> ChatRequest:
    """Return `request` with the tool choice of its turn, if that demands or forbids calls."""
    if choice == "auto":
        return request
    return request.model_copy(update={"metadata": {**request.metadata, TOOL_CHOICE: choice}})


def recorded_tool_choice(request: ChatRequest) -> str | None:
    """Return the tool choice that `request` is marked with; None without a mark that is one."""
    mark = request.metadata.get(TOOL_CHOICE)
    is_choice = isinstance(mark, str) and (mark in CHOICES or mark.startswith("tool:"))
    return mark if is_choice else None  # type: ignore[return-value]  # it is a text


def to_tool_choice(configured: str) -> str:
    """Return the tool choice that `assistant.tool_choice` means: there a tool is its bare name."""
    return configured if configured in CHOICES else f"tool:{configured}"


def with_host(request: ChatRequest, host: str) -> ChatRequest:
    """Return `request` marked with the `host` that it is sent to; "" is no host."""
    if not host:
        return request
    mark = LastHost.of(host).mark
    return request.model_copy(update={"metadata": {**request.metadata, HOST: mark}})


def last_turn_to_repeat(turns: Iterable[TurnEntries], why_not: str) -> TurnEntries:
    """Return the last of `turns` that does not explain an error.

    Raises:
        UsageError: If there is no such turn; the message begins with `why_not`.
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
    """The host that the last request of a notebook was sent to.

    Attributes:
        mark: Identifies it.
        name: For messages; a record does not have it.
    """

    mark: str
    name: str = "another host"

    @classmethod
    def of(cls, host: str) -> Self:
        """Return the value for `host`, such as `127.0.0.1:8080`."""
        return cls(f"sha256:{sha256(host.encode()).hexdigest()[:8]}", host)


def recorded_host(document: Document) -> LastHost | None:
    """Return the host of the latest request in `document`; None if no request names one.

    Other conversations are read as stored: anyone may have written them.
    """
    found = [
        (request.timestamp, mark)
        for request in document.conversation.requests
        if isinstance(mark := request.metadata.get(HOST), str)
    ]
    for conversation in document.others:
        for event in events_of(conversation):
            match event:
                case {"timestamp": str(timestamp), "metadata": {"host": str(mark)}}:
                    found.append((timestamp, mark))
    return LastHost(max(found)[1]) if found else None


def missing_call(choice: str, names: Collection[str]) -> str | None:
    """Return what `choice` demanded if it is not among the `names` that were called, else None."""
    if choice == "required":
        return None if names else "any tool"
    name = choice.removeprefix("tool:")
    return None if name == choice or name in names else name


def find_missing_call(entries: Sequence[Entry]) -> str | None:
    """Return the same for a recorded turn: its first answer should have had the call."""
    choice, names = "auto", set[str]()
    for entry in entries:
        match entry:
            case ChatRequest(metadata={"tool_choice": str(demanded)}) if choice == "auto":
                choice = demanded
            case ToolCallRequest(name=name):
                names.add(name)
            case ToolCallResponse():
                break
    return missing_call(choice, names)


def mark_continuation(response: ChatResponse) -> ChatResponse:
    """Return `response` as one whose text goes on where the one before was cut off."""
    return response.model_copy(update={"metadata": {**response.metadata, CONTINUES: True}})


def is_continuation(response: ChatResponse) -> bool:
    """Return True if its text goes on in the middle of the one before."""
    return response.metadata.get(CONTINUES) is True


@dataclass(frozen=True, slots=True)
class EditedArguments:
    """The arguments that a tool ran with instead of those that the model sent.

    Attributes:
        arguments: All of them, not only what was changed.
        channel: Where the person changed them: `form`, `stdin` or `terminal`, if known.
    """

    arguments: Mapping[str, JsonValue]
    channel: str | None = None


def edit_metadata(arguments: dict[str, JsonValue], channel: str) -> dict[str, JsonValue]:
    """Return the metadata of the response to a call whose `arguments` a person changed."""
    return {ARGUMENTS: arguments, "edited_by": "person", "channel": channel}


def read_edit(metadata: Mapping[str, JsonValue]) -> EditedArguments | None:
    """Return what the `metadata` of a response says of that; None if nothing or malformed."""
    arguments, channel = metadata.get(ARGUMENTS), metadata.get("channel")
    if not isinstance(arguments, dict):
        return None
    return EditedArguments(arguments, channel if isinstance(channel, str) else None)


MAX_TOKENS: Final = 2**53
"""A number from there on is no count: whoever else reads the record has no such integers."""
MAX_MODEL_CHARS: Final = 300

E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True)
class Usage:
    """Numbers of tokens; None if the provider did not report one.

    A provider reports the tokens of a request so far: a later report overrides by field. The field
    names are also the keys in records and in the reports of `jp-nb run`.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """Return the sums. A sum is None only if neither number was reported."""
        return Usage(
            **{name: _sum(getattr(self, name), getattr(other, name)) for name in USAGE_FIELDS}
        )

    def to_json(self) -> dict[str, JsonValue]:
        """Return the reported numbers as records and reports store them."""
        counts = {name: getattr(self, name) for name in USAGE_FIELDS}
        return {name: count for name, count in counts.items() if count is not None}


USAGE_FIELDS: Final = tuple(each.name for each in fields(Usage))


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Tokens that one model took.

    Attributes:
        model: `provider/name`; "" where the record does not say.
        tokens: How many.
    """

    model: str
    tokens: Usage = field(default_factory=Usage)


def with_usage(entry: E, *used: ModelUsage) -> E:
    """Return `entry` with what was `used` in its metadata; itself if nothing was reported."""
    stored: list[JsonValue] = [_written(one) for one in used if one.tokens != Usage()]
    if not stored:
        return entry
    said: JsonValue = stored[0] if len(stored) == 1 else stored
    return entry.model_copy(update={"metadata": {**entry.metadata, USAGE: said}})


def _written(used: ModelUsage) -> dict[str, JsonValue]:
    named: dict[str, JsonValue] = {"model": used.model} if used.model else {}
    return named | used.tokens.to_json()


def read_usage(metadata: JsonValue | Mapping[str, JsonValue]) -> tuple[ModelUsage, ...]:
    """Return what the `metadata` of an entry says of tokens; what is malformed is passed over."""
    said = metadata.get(USAGE) if isinstance(metadata, Mapping) else None
    several = said if isinstance(said, list) else [said]
    return tuple(_read(one) for one in several if isinstance(one, dict))


def _read(said: Mapping[str, JsonValue]) -> ModelUsage:
    model = said.get("model")
    named = model if isinstance(model, str) and len(model) <= MAX_MODEL_CHARS else ""
    counts = {name: count for name in USAGE_FIELDS if _is_count(count := said.get(name))}
    return ModelUsage(named, Usage(**counts))  # type: ignore[arg-type]  # see _is_count


def _is_count(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_TOKENS


def sum_usage(entries: Iterable[Entry]) -> Usage:
    """Return the tokens that the `entries` of a turn say it took."""
    total = Usage()
    for entry in entries:
        if USAGE in entry.metadata:
            for one in read_usage(entry.metadata):
                total += one.tokens
    return total
