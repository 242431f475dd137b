"""Exchanges with a model and tool results for a cassette: normalize, compare, record.

A normalized request has no address, header, key or limit. Tool call ids are replaced by positions,
images and other bytes by digests, and the conversation has no id: two requests with the same
digest ask the same. A recorded response has no timing: keep-alives are omitted, and adjacent
pieces of text are joined.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cache, cached_property
from typing import Any, Final, Protocol, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from jp_nb.agent.provider import (
    Attachment,
    Finished,
    Flush,
    KeepAlive,
    ModelRequest,
    ProviderEvent,
    Retry,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    ToolDefinition,
    Usage,
)
from jp_nb.errors import ProtocolError, ProviderError, ProviderErrorKind
from jp_nb.images import Image
from jp_nb.json_values import JsonObject, compact_json, encode_utf8, make_storable, sorted_json
from jp_nb.record.context import ContextItem, RequestContext
from jp_nb.record.events import USAGE, ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.marks import ARGUMENTS, CONTINUES

DIGEST_CHARS: Final = 20
"""Hexadecimal digits that name a part: 80 bits."""
KEPT_THREADS: Final = 4
"""The conversation's, and those of inquiries beside it."""
NO_MESSAGE: Final = ""
"""The id of what stands before the first message."""
_MARKS: Final = frozenset({USAGE, CONTINUES, ARGUMENTS})
"""Keys in the metadata of what a model said that are ours, and never sent back to it."""

Hide = Callable[[str], str]
P = TypeVar("P")


def digest(value: JsonValue) -> str:
    """Return what names `value`: the same for all orders of its keys."""
    return hashlib.sha256(encode_utf8(sorted_json(value))).hexdigest()[:DIGEST_CHARS]


@dataclass(frozen=True, slots=True)
class RequestPart:
    """A system text, an attachment, a tool or a message, by which requests are told apart.

    Attributes:
        kind: `system`, `attachment`, `tool` or `message`.
        id: The digest of it; of a message with all that was said before it.
        value: What it says, as JSON.
        after: Of a message, the id of the one before; `NO_MESSAGE` if it is the first.
    """

    kind: str
    id: str
    value: JsonObject
    after: str = NO_MESSAGE


def make_part(kind: str, value: JsonObject, after: str = NO_MESSAGE) -> RequestPart:
    """Return the part that says `value`."""
    return RequestPart(kind, digest([kind, after, value]), value, after)


@dataclass(frozen=True)
class NormalizedRequest:
    """What a model was asked.

    Attributes:
        settings: All that is no part: provider, model, tool choice, and parameters and schema
            if there are some.
        system: The system texts, in order.
        attachments: What the model is given before the messages.
        tools: The tools that it may call.
        messages: The conversation, oldest first.
    """

    settings: JsonObject
    system: tuple[RequestPart, ...] = ()
    attachments: tuple[RequestPart, ...] = ()
    tools: tuple[RequestPart, ...] = ()
    messages: tuple[RequestPart, ...] = ()

    @cached_property
    def summary(self) -> JsonObject:
        """The settings, and the ids of the parts: of the messages that of the last one."""
        listed = {"system": self.system, "attachments": self.attachments, "tools": self.tools}
        ids: JsonObject = {
            name: [part.id for part in parts] for name, parts in listed.items() if parts
        }
        last = self.messages[-1].id if self.messages else NO_MESSAGE
        return {**self.settings, **ids, "messages": last}

    @cached_property
    def id(self) -> str:
        """The digest of all of it."""
        return digest(self.summary)

    @property
    def parts(self) -> tuple[RequestPart, ...]:
        """All parts, in the order in which a model reads them."""
        return (*self.system, *self.attachments, *self.tools, *self.messages)

    @property
    def is_inquiry(self) -> bool:
        """True if a question of a tool is put to the model: several may be at the same time."""
        return bool(self.messages) and "inquiry" in self.messages[-1].value


class RequestNormalizer:
    """Normalizes the requests to one provider, reusing the parts of earlier requests.

    Args:
        provider: Its name.
        hide: Takes secrets out of a text.
    """

    def __init__(self, provider: str, hide: Hide = str) -> None:
        self._provider = provider
        self._hide = hide
        self._threads: list[tuple[RequestContext, _Messages]] = []
        self._known: dict[str, tuple[tuple[object, ...], tuple[RequestPart, ...]]] = {}

    def of(self, request: ModelRequest) -> NormalizedRequest:
        """Return what `request` asks."""
        messages = self._messages(request.thread)
        given = asdict(request.parameters)
        settings: JsonObject = {
            "provider": self._provider,
            "model": request.model,
            "tool_choice": request.tool_choice,
        }
        if parameters := {key: each for key, each in given.items() if each not in (None, (), {})}:
            settings["parameters"] = parameters
        if request.schema is not None:
            settings["schema"] = messages.with_positions(dict(request.schema))
        return NormalizedRequest(
            self._clean(settings),
            self._parts("system", request.system, lambda text: {"text": text}),
            self._parts("attachment", request.attachments, _attachment),
            self._parts("tool", request.tools, _tool),
            tuple(messages.parts),
        )

    def _parts(
        self, kind: str, given: tuple[P, ...], as_json: Callable[[P], JsonObject]
    ) -> tuple[RequestPart, ...]:
        """Return the parts that are `given`; the same as long as those are."""
        known, parts = self._known.get(kind, ((), ()))
        if known != given:
            parts = tuple(self._part(kind, as_json(each)) for each in given)
            self._known[kind] = given, parts
        return parts

    def last_message(self, thread: RequestContext) -> str:
        """Return the id of the last message of `thread`; `NO_MESSAGE` if it has none."""
        parts = self._messages(thread).parts
        return parts[-1].id if parts else NO_MESSAGE

    def _messages(self, thread: RequestContext) -> _Messages:
        found = next((known for known in self._threads if known[0] is thread), None)
        if found is None:
            found = (thread, _Messages(self._provider, self._part))
        others = [known for known in self._threads if known[0] is not thread]
        self._threads = [*others, found][-KEPT_THREADS:]
        found[1].follow(thread)
        return found[1]

    def _part(self, kind: str, value: JsonObject, after: str = NO_MESSAGE) -> RequestPart:
        return make_part(kind, self._clean(value), after)

    def _clean(self, value: JsonObject) -> JsonObject:
        cleaned = make_storable(_mapped(value, self._hide))
        assert isinstance(cleaned, dict)
        return cleaned


class _Messages:
    """The messages of one thread, growing with it."""

    def __init__(self, provider: str, part: Callable[[str, JsonObject, str], RequestPart]) -> None:
        self.parts: list[RequestPart] = []
        self._provider = provider
        self._part = part
        self._positions: dict[str, int] = {}
        self._waiting: dict[str, deque[int]] = {}
        self._calls = 0

    def follow(self, thread: RequestContext) -> None:
        for item in thread.since(len(self.parts)):
            after = self.parts[-1].id if self.parts else NO_MESSAGE
            self.parts.append(self._part("message", self._value(item), after))

    def _value(self, item: ContextItem) -> JsonObject:
        entry, images = item.entry, _images(item.images)
        match entry:
            case ChatRequest(content=text):
                mark = {"inquiry": each} if (each := entry.metadata.get("inquiry")) else {}
                return {"role": "user", **mark, "text": text, **images}
            case ToolCallRequest(id=raw):
                self._calls += 1
                self._positions[raw] = self._calls
                self._waiting.setdefault(raw, deque()).append(self._calls)
                said: JsonObject = {"name": entry.name, "arguments": entry.arguments}
                return {"role": "call", "call": self._calls, **said, **_kept(entry.metadata)}
            case ToolCallResponse(id=raw):
                waiting = self._waiting.get(raw)
                number = waiting.popleft() if waiting else 0
                role = "error" if entry.is_error else "result"
                return {"role": role, "call": number, "text": entry.content, **images}
        return self._response(entry, item.provider)

    def _response(self, entry: ChatResponse, provider: str) -> JsonObject:
        said: JsonObject = {"role": "assistant", "text": entry.message}
        if entry.kind == "structured":
            said = {"role": "assistant", "data": entry.data}
        elif entry.kind == "reasoning":
            said = {"role": "reasoning", "text": entry.reasoning}
            if provider != self._provider:  # another one's is sent as text
                said["from"] = provider
        return {**said, **_kept(entry.metadata)}

    def with_positions(self, schema: JsonValue) -> JsonValue:
        """Return `schema` with the position of a call in place of its id: inquiries name theirs."""
        if isinstance(schema, dict):
            return {key: self.with_positions(each) for key, each in schema.items()}
        if isinstance(schema, list):
            return [self.with_positions(each) for each in schema]
        if isinstance(schema, str) and schema.startswith("tool_call."):
            for raw, number in self._positions.items():
                if schema.endswith(f".{raw}"):
                    return f"{schema.removesuffix(raw)}{number}"
        return schema


def _kept(metadata: Mapping[str, JsonValue]) -> JsonObject:
    """Return what a provider stored with its words, to be sent back to it."""
    kept = {key: each for key, each in metadata.items() if key not in _MARKS}
    return {"metadata": kept} if kept else {}


def _images(images: Sequence[Image]) -> JsonObject:
    shown: list[JsonValue] = [
        {"type": image.media_type, "name": image.name, "digest": image.digest} for image in images
    ]
    return {"images": shown} if shown else {}


def _attachment(attachment: Attachment) -> JsonObject:
    content = attachment.content
    said: JsonObject = {"source": attachment.source, "type": attachment.media_type}
    if isinstance(content, str):
        return {**said, "text": content}
    return {
        **said,
        "bytes": len(content),
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
    }


def _tool(tool: ToolDefinition) -> JsonObject:
    said: JsonObject = {"name": tool.name, "description": tool.description}
    return {**said, "parameters": dict(tool.parameters)}


def _mapped(value: JsonValue, hide: Hide) -> JsonValue:
    """Return `value` with `hide` applied to each text of it that is no key."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {key: _mapped(each, hide) for key, each in value.items()}
    if isinstance(value, Iterable):
        return [_mapped(each, hide) for each in value]
    return value


@dataclass(frozen=True, slots=True)
class FailedResponse:
    """The request failed, or the response broke off; what `ProviderError` has to say of it."""

    message: str
    kind: ProviderErrorKind = "other"
    status: int | None = None
    retry_after: float | None = None
    is_protocol: bool = False

    def error(self) -> ProviderError:
        """Return the error. Where the same request may succeed later, that is at once."""
        made = ProtocolError if self.is_protocol else ProviderError
        error = made(self.message, kind=self.kind, status=self.status, retry_after=self.retry_after)
        if error.retryable:
            error.retry_after = 0.0  # the server that wanted a pause is not there
        return error


@dataclass(frozen=True, slots=True)
class IncompleteResponse:
    """The response ended without an end, and without an error."""


End = Finished | Retry | FailedResponse | IncompleteResponse


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a model was asked, and what came of it.

    Attributes:
        asked: The request.
        events: The response, without its end.
        end: How it ended.
    """

    asked: NormalizedRequest
    events: tuple[ProviderEvent, ...]
    end: End

    @property
    def has_failed(self) -> bool:
        """True if the model did not answer."""
        return isinstance(self.end, FailedResponse | IncompleteResponse)


class ExchangeRecorder:
    """Writes down one exchange while it happens.

    Args:
        asked: The request.
        hide: Takes secrets out of a text.
    """

    def __init__(self, asked: NormalizedRequest, hide: Hide = str) -> None:
        self._asked = asked
        self._hide = hide
        self._events: list[ProviderEvent] = []
        self._texts: list[str] = []

    def on_event(self, event: ProviderEvent) -> Exchange | None:
        """Take one event; return the exchange if that ends it."""
        if isinstance(event, Retry):
            event = replace(event, reason=self._hide(event.reason))
        if isinstance(event, (Finished, Retry)):
            return self._ended(event)
        if isinstance(event, KeepAlive):
            return None
        before = self._events[-1] if self._events else None
        if isinstance(event, (TextPart, ToolCallArguments)):
            if before is None or replace(event, text="") != before:
                self._join()
                self._events.append(replace(event, text=""))
            self._texts.append(event.text)
        else:
            self._join()
            self._events.append(event)
        return None

    def _join(self) -> None:
        """Put the text that came into the event that it belongs to."""
        last = self._events[-1] if self._events else None
        if self._texts and isinstance(last, (TextPart, ToolCallArguments)):
            self._events[-1] = replace(last, text="".join(self._texts))
        self._texts.clear()

    def failed(self, error: ProviderError) -> Exchange:
        """Return the exchange that `error` ended."""
        return self._ended(
            FailedResponse(
                self._hide(error.without_address),
                error.kind,
                error.status,
                error.retry_after,
                isinstance(error, ProtocolError),
            )
        )

    def incomplete(self) -> Exchange:
        """Return the exchange that ended without an end."""
        return self._ended(IncompleteResponse())

    def _ended(self, end: End) -> Exchange:
        self._join()
        return Exchange(self._asked, tuple(self._events), end)


# --- as JSON -----------------------------------------------------------------------------------

_EVENTS: Final[Mapping[str, type[Any]]] = {
    "text": TextPart,
    "call": ToolCallStart,
    "arguments": ToolCallArguments,
    "flush": Flush,
    "usage": Usage,
}
_ENDS: Final[Mapping[str, type[Any]]] = {
    "finished": Finished,
    "retry": Retry,
    "failed": FailedResponse,
    "broke-off": IncompleteResponse,
}
_NAMES: Final = {kind: name for table in (_EVENTS, _ENDS) for name, kind in table.items()}


def event_json(event: ProviderEvent | End) -> JsonObject:
    """Return `event` as JSON: its name, and what is not as usual."""
    key = "event" if type(event) in _EVENTS.values() else "end"
    said: dict[str, Any] = {key: _NAMES[type(event)]}
    for field in fields(event):
        value = getattr(event, field.name)
        usual = field.default_factory() if field.default_factory is not MISSING else field.default
        if value != usual:
            said[field.name] = dict(value) if isinstance(value, Mapping) else value
    stored = make_storable(said)
    assert isinstance(stored, dict)
    return stored


def read_event(value: Mapping[str, JsonValue]) -> ProviderEvent:
    """Return the event that `value` is.

    Raises:
        ValueError: If it is none; the message says what is wrong.
    """
    event: ProviderEvent = _read(value, "event", _EVENTS)
    return event


def read_end(value: Mapping[str, JsonValue]) -> End:
    """Return the end that `value` is.

    Raises:
        ValueError: If it is none; the message says what is wrong.
    """
    end: End = _read(value, "end", _ENDS)
    return end


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter({**_EVENTS, **_ENDS}[name])


def _read(value: Mapping[str, JsonValue], key: str, table: Mapping[str, type[Any]]) -> Any:
    name = value.get(key)
    kind = table.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"expected one of {', '.join(table)} at `{key}`")
    said = {each: item for each, item in value.items() if each != key}
    known = {field.name for field in fields(kind)}
    if unknown := sorted(said.keys() - known):
        raise ValueError(f"unknown key `{unknown[0][:60]}` in `{name}`")
    try:
        return _adapter(str(name)).validate_json(compact_json(said), strict=True)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, (name, *first["loc"])))
        raise ValueError(f"{place}: {first['msg']}") from None


FAR: Final = ("provider", "model", "schema", "tool_choice")
"""What tells requests apart more than a word in a message does."""


class Stored(Protocol):
    """A request on a cassette."""

    @property
    def summary(self) -> JsonObject:
        """Its settings, and the ids of its parts."""
        ...


S = TypeVar("S", bound=Stored)


def find_nearest(
    asked: NormalizedRequest, stored: Iterable[S], parts: Mapping[tuple[str, str], RequestPart]
) -> S | None:
    """Return the one of `stored` that differs from `asked` in the fewest parts; the first of those.

    Args:
        asked: The request.
        stored: Those to choose from.
        parts: All their parts by kind and id; a message stands behind the one before it.
    """
    places = {part.id: place for place, part in enumerate(asked.messages, 1)}
    lengths, shared = {NO_MESSAGE: 0}, {NO_MESSAGE: 0}
    for (kind, message), part in parts.items():
        if kind == "message":
            lengths[message] = lengths[part.after] + 1
            shared[message] = places.get(message, shared[part.after])

    def distance(other: S) -> int:
        last = str(other.summary["messages"])
        apart = len(asked.messages) + lengths[last] - 2 * shared[last]
        keys = asked.summary.keys() | other.summary.keys()
        differing = [key for key in keys if asked.summary.get(key) != other.summary.get(key)]
        far = sum(key in FAR for key in differing)
        return apart + 2 * far + len(differing)

    return min(stored, key=distance, default=None)


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """What a model read of a tool call.

    Attributes:
        content: The words.
        is_error: True if the call failed.
    """

    content: str
    is_error: bool


RecordedResults = Callable[[RequestContext], Sequence[RecordedResult] | None]
"""Returns the results of the calls that a thread ends in, in their order; None: they run."""
