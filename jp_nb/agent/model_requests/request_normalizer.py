"""Normalize model requests, for the comparison with those of a cassette.

A normalized request has no address, header, key, limit, or conversation id. Positions replace tool
call ids, and digests replace images and other bytes. Requests with the same digest are equivalent.

A request consists of *parts*, which a cassette stores once. The messages form a chain: the id of a
message covers all messages before it, so the id of the last one stands for the conversation.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Final, TypeVar

from pydantic import JsonValue

from jp_nb.agent.provider import Attachment, ModelRequest, ToolDefinition
from jp_nb.images import Image
from jp_nb.json_values import JsonObject, map_texts
from jp_nb.json_writing import sorted_json
from jp_nb.record.entries.events import USAGE_KEY, ChatRequest, ToolCallRequest, ToolCallResponse
from jp_nb.record.entries.shapes import SHAPE
from jp_nb.record.reading.call_marks import EDITED_ARGUMENTS_KEY
from jp_nb.record.reading.marks import CONTINUES
from jp_nb.record.request_context.context import ContextItem, RequestContext
from jp_nb.record.request_context.head_marks import HEAD_CHANGE_KEY, HEAD_KEY
from jp_nb.record.request_context.host_marks import HOST
from jp_nb.storable_json import encode_utf8, make_storable

PART_DIGEST_CHARS: Final = 20
"""Length of the id of a part, in hexadecimal digits: 80 bits."""
MAX_CONTEXTS: Final = 4
"""Number of contexts to remember: the conversation, and its concurrent inquiries."""
NO_MESSAGE: Final = ""
"""Id of the message before the first one."""
_OWN_METADATA_KEYS: Final = frozenset(
    {USAGE_KEY, CONTINUES, EDITED_ARGUMENTS_KEY, HEAD_KEY, HEAD_CHANGE_KEY, SHAPE, HOST}
)
"""Metadata keys of `jp_nb` in responses, which are never sent to the model."""

HideSecrets = Callable[[str], str]
"""Removes the known secrets from a text."""
ItemT = TypeVar("ItemT")


def make_digest(value: JsonValue) -> str:
    """Return the digest of `value`, independent of the order of keys."""
    return hashlib.sha256(encode_utf8(sorted_json(value))).hexdigest()[:PART_DIGEST_CHARS]


@dataclass(frozen=True, slots=True)
class RequestPart:
    """A part of a request.

    Attributes:
        kind: `system`, `attachment`, `tool`, or `message`.
        id: The digest of the part and, for a message, of the messages before it.
        value: The content as JSON.
        after: The id of the message before; `NO_MESSAGE` for the first one, and for other parts.
    """

    kind: str
    id: str
    value: JsonObject
    after: str = NO_MESSAGE


def make_part(kind: str, value: JsonObject, after: str = NO_MESSAGE) -> RequestPart:
    """Return the part with `value` and its id."""
    return RequestPart(kind, make_digest([kind, after, value]), value, after)


@dataclass(frozen=True)
class NormalizedRequest:
    """A request without incidental content, for comparison.

    Attributes:
        settings: Provider, model, and tool choice, and the parameters and schema if there are any.
        system: Parts with the texts of the system prompt.
        attachments: Parts with the files in front of the messages.
        tools: Parts with the definitions of tools.
        messages: Parts with the messages, each of which covers those before it.
    """

    settings: JsonObject
    system: tuple[RequestPart, ...] = ()
    attachments: tuple[RequestPart, ...] = ()
    tools: tuple[RequestPart, ...] = ()
    messages: tuple[RequestPart, ...] = ()

    @cached_property
    def summary(self) -> JsonObject:
        """The settings and the ids of the parts. The id of the last message covers all messages."""
        listed = {"system": self.system, "attachments": self.attachments, "tools": self.tools}
        ids: JsonObject = {}
        for name, parts in listed.items():
            if parts:
                ids[name] = [part.id for part in parts]
        last = self.messages[-1].id if self.messages else NO_MESSAGE
        return {**self.settings, **ids, "messages": last}

    @cached_property
    def id(self) -> str:
        """Digest of the request."""
        return make_digest(self.summary)

    @property
    def parts(self) -> tuple[RequestPart, ...]:
        """All parts in the order of the request."""
        return (*self.system, *self.attachments, *self.tools, *self.messages)

    @property
    def is_inquiry(self) -> bool:
        """True if the request asks a model a tool's question. Several may run concurrently."""
        return bool(self.messages) and "inquiry" in self.messages[-1].value


class RequestNormalizer:
    """Normalizes requests to one provider without secrets, and reuses parts of earlier requests."""

    def __init__(self, provider: str, hide: HideSecrets = str) -> None:
        self._provider = provider
        self._hide = hide
        # The contexts of the last requests, with their normalized messages, the newest at the end.
        self._contexts: list[tuple[RequestContext, _Messages]] = []
        # By kind: the items of the last request, and their parts.
        self._last_parts: dict[str, tuple[tuple[object, ...], tuple[RequestPart, ...]]] = {}

    def normalize(self, request: ModelRequest) -> NormalizedRequest:
        """Return `request` in normalized form."""
        messages = self._follow_context(request.context)
        settings: JsonObject = {
            "provider": self._provider,
            "model": request.model,
            "tool_choice": request.tool_choice,
        }
        parameters = asdict(request.parameters)
        effective = {key: value for key, value in parameters.items() if value not in (None, (), {})}
        if effective:
            settings["parameters"] = effective
        if request.schema is not None:
            settings["schema"] = messages.with_positions(dict(request.schema))

        return NormalizedRequest(
            settings=self._clean(settings),
            system=self._make_parts("system", request.system, lambda text: {"text": text}),
            attachments=self._make_parts("attachment", request.attachments, _normalize_attachment),
            tools=self._make_parts("tool", request.tools, ToolDefinition.to_json),
            messages=tuple(messages.parts),
        )

    def _make_parts(
        self, kind: str, items: tuple[ItemT, ...], as_json: Callable[[ItemT], JsonObject]
    ) -> tuple[RequestPart, ...]:
        """Return a part for each of `items`: those of the last request if the items are equal."""
        last_items, parts = self._last_parts.get(kind, ((), ()))
        if last_items != items:
            parts = tuple(self._make_part(kind, as_json(item)) for item in items)
            self._last_parts[kind] = items, parts
        return parts

    def find_last_message(self, context: RequestContext) -> str:
        """Return the id of the last message of `context`; `NO_MESSAGE` if it is empty."""
        parts = self._follow_context(context).parts
        return parts[-1].id if parts else NO_MESSAGE

    def _follow_context(self, context: RequestContext) -> _Messages:
        """Return the normalized messages of `context`, which reuse those of its last request."""
        messages = _Messages(self._provider, self._make_part)
        others: list[tuple[RequestContext, _Messages]] = []
        for known_context, known_messages in self._contexts:
            if known_context is context:  # the same object, which may have grown
                messages = known_messages
            else:
                others.append((known_context, known_messages))

        self._contexts = [*others, (context, messages)][-MAX_CONTEXTS:]
        messages.follow(context)
        return messages

    def _make_part(self, kind: str, value: JsonObject, after: str = NO_MESSAGE) -> RequestPart:
        return make_part(kind, self._clean(value), after)

    def _clean(self, value: JsonObject) -> JsonObject:
        """Return `value` without secrets, and with characters that can be stored."""
        cleaned = make_storable(map_texts(value, self._hide))
        assert isinstance(cleaned, dict)
        return cleaned


class _Messages:
    """Normalized messages of one context. `follow` adds the items that the context got since."""

    def __init__(
        self, provider: str, make_part: Callable[[str, JsonObject, str], RequestPart]
    ) -> None:
        self.parts: list[RequestPart] = []
        self._provider = provider
        self._make_part = make_part
        # Positions of calls, from 1. Models repeat ids: the n-th result answers the n-th call.
        self._call_count = 0
        self._positions: dict[str, int] = {}  # of the last call, by its id
        self._unanswered: dict[str, deque[int]] = {}  # of the calls without a result, by their id

    def follow(self, context: RequestContext) -> None:
        """Add the items that `context` got since the last time."""
        for item in context.since(len(self.parts)):
            after = self.parts[-1].id if self.parts else NO_MESSAGE
            self.parts.append(self._make_part("message", self._normalize_item(item), after))

    def _normalize_item(self, item: ContextItem) -> JsonObject:
        """Return one message, such as `{"role": "user", "text": "Hello"}`."""
        entry = item.entry
        images = _normalize_images(item.images)

        match entry:
            case ChatRequest(content=text):
                inquiry = entry.metadata.get("inquiry")
                mark = {"inquiry": inquiry} if inquiry else {}
                return {"role": "user", **mark, "text": text, **images}
            case ToolCallRequest(id=call_id):
                self._call_count += 1
                self._positions[call_id] = self._call_count
                self._unanswered.setdefault(call_id, deque()).append(self._call_count)
                return {
                    "role": "call",
                    "call": self._call_count,
                    "name": entry.name,
                    "arguments": entry.arguments,
                    **_select_provider_metadata(entry.metadata),
                }
            case ToolCallResponse(id=call_id):
                unanswered = self._unanswered.get(call_id)
                number = unanswered.popleft() if unanswered else 0
                role = "error" if entry.is_error else "result"
                return {"role": role, "call": number, "text": entry.content, **images}

        value: JsonObject = {"role": "assistant", "text": entry.message}
        if entry.kind == "structured":
            value = {"role": "assistant", "data": entry.data}
        elif entry.kind == "reasoning":
            value = {"role": "reasoning", "text": entry.reasoning}
            if item.provider != self._provider:  # reasoning of another provider is sent as text
                value["from"] = item.provider
        return {**value, **_select_provider_metadata(entry.metadata)}

    def with_positions(self, schema: JsonValue) -> JsonValue:
        """Return `schema` with positions in place of tool call ids.

        The schema of an inquiry contains them, such as `tool_call.fetch.ID`.
        """
        if isinstance(schema, dict):
            return {key: self.with_positions(value) for key, value in schema.items()}
        if isinstance(schema, list):
            return [self.with_positions(item) for item in schema]
        if isinstance(schema, str) and schema.startswith("tool_call."):
            for call_id, position in self._positions.items():
                if schema.endswith(f".{call_id}"):
                    return f"{schema.removesuffix(call_id)}{position}"
        return schema


def _select_provider_metadata(metadata: Mapping[str, JsonValue]) -> JsonObject:
    """Return the part of `metadata` that later requests send to the provider."""
    kept = {key: value for key, value in metadata.items() if key not in _OWN_METADATA_KEYS}
    return {"metadata": kept} if kept else {}


def _normalize_images(images: Sequence[Image]) -> JsonObject:
    if not images:
        return {}
    shown: list[JsonValue] = [
        {"type": image.media_type, "name": image.name, "digest": image.digest} for image in images
    ]
    return {"images": shown}


def _normalize_attachment(attachment: Attachment) -> JsonObject:
    content = attachment.content
    value: JsonObject = {"source": attachment.source, "type": attachment.media_type}
    if isinstance(content, str):
        return {**value, "text": content}
    sha256 = hashlib.sha256(content).hexdigest()
    return {**value, "bytes": len(content), "digest": f"sha256:{sha256}"}
