"""Normalize model requests, for the comparison with those of a cassette.

A normalized request (`normalized_request.py`) has no address, header, key, limit, or conversation
id. Positions replace tool call ids, and digests replace images and other bytes. Its messages form a
chain: each part of a message has the id of the one before.

Each request of a turn repeats the conversation so far. So that a long turn is not normalized again
and again, the messages of a context are kept, and only its new items are normalized.

Source: `docs/cassettes.md`.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Final, TypeVar

from pydantic import JsonValue

from jp_nb.agent.model_requests.normalized_request import (
    NO_MESSAGE,
    NormalizedRequest,
    RequestPart,
    make_part,
)
from jp_nb.agent.provider import Attachment, ModelRequest, ToolDefinition
from jp_nb.images import Image
from jp_nb.json_values import JsonObject, map_texts
from jp_nb.record.entries.events import USAGE_KEY, ChatRequest, ToolCallRequest, ToolCallResponse
from jp_nb.record.entries.shapes import SHAPE
from jp_nb.record.reading.call_marks import EDITED_ARGUMENTS_KEY
from jp_nb.record.reading.marks import CONTINUES
from jp_nb.record.request_context.context import ContextItem, RequestContext
from jp_nb.record.request_context.head_marks import HEAD_CHANGE_KEY, HEAD_KEY
from jp_nb.record.request_context.host_marks import HOST
from jp_nb.storable_json import make_storable

MAX_CONTEXTS: Final = 4
"""Number of contexts to remember: the conversation, and its concurrent inquiries."""
_OWN_METADATA_KEYS: Final = frozenset(
    {USAGE_KEY, CONTINUES, EDITED_ARGUMENTS_KEY, HEAD_KEY, HEAD_CHANGE_KEY, SHAPE, HOST}
)
"""Metadata keys of `jp_nb` in responses, which are never sent to the model."""

HideSecrets = Callable[[str], str]
"""Removes the known secrets from a text."""
ItemT = TypeVar("ItemT")


class RequestNormalizer:
    """Normalizes requests to one provider without secrets, and reuses parts of earlier requests."""

    def __init__(self, provider: str, hide: HideSecrets = str) -> None:
        self._provider = provider
        self._hide = hide
        # The contexts of the last requests, the latest at the end, each with its normalized
        # messages. A turn has one context, which grows, and each of its inquiries has a copy.
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
        chosen = {key: value for key, value in parameters.items() if value not in (None, (), {})}
        if chosen:
            settings["parameters"] = chosen
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
        """Return the normalized messages of `context`; make only those since its last request."""
        # A context is recognized by its identity: it is the same object, which may have grown.
        known = [messages for kept, messages in self._contexts if kept is context]
        messages = known[0] if known else _Messages(self._provider, self._make_part)

        others = [entry for entry in self._contexts if entry[0] is not context]
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
                # The question of a tool to a model, which `llm_inquiry.py` marks.
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

        The schema of an inquiry contains one, such as `tool_call.fetch.ID`.
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
