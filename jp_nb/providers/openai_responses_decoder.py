"""Decode the stream of a response of the OpenAI Responses API.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.agent.provider import (
    Finished,
    FinishReason,
    Flush,
    InputChange,
    KeepAlive,
    TextKind,
    ToolCallStart,
    Usage,
)
from jp_nb.errors import ProviderError
from jp_nb.json_values import compact_json, read_json
from jp_nb.providers import schemas
from jp_nb.providers.errors import classify_stream_error
from jp_nb.providers.request_body import encode_json
from jp_nb.providers.streaming import Decoder, EventBuffer, WireObject, is_json_object
from jp_nb.text import one_line

ITEM_ID: Final = "openai_item_id"
ENCRYPTED: Final = "openai_encrypted_content"
SUMMARY_LENGTHS: Final = "openai_summary_lengths"
"""Lengths of the parts of a summary, which the record joins by blank lines. One part needs none."""
PHASE: Final = "openai_phase"
ANNOTATIONS: Final = "openai_annotations"
ITEM: Final = "openai_item"
"""Whole item that the record cannot express otherwise."""
PART_SEPARATOR: Final = "\n\n"

_LOGGER: Final = logging.getLogger(__name__)
_STATUSES: Final[Mapping[str, str]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_INCOMPLETE: Final[Mapping[str, FinishReason]] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refused",
}
_REFUSAL_CODES: Final = frozenset({"invalid_prompt", "bio_policy", "misalignment_policy_violation"})
"""Codes of errors that mean that the request was refused."""
_TEXT_KINDS: Final[Mapping[str, TextKind]] = {
    "output_text": "message",
    "reasoning_summary_text": "reasoning",
    "reasoning_text": "reasoning",
}
_REFUSAL: Final = "refusal"
_PARTS: Final[Mapping[str, str]] = {
    f"response.{family}.{step}": family
    for family in (*_TEXT_KINDS, _REFUSAL)
    for step in ("delta", "done")
}
"""Events of parts of an item, with their families."""
_FRAMES: Final = frozenset(
    {
        "response.content_part.added",
        "response.content_part.done",
        "response.output_text.annotation.added",  # also in the complete item
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
    }
)
_STATES: Final = frozenset(
    {
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.compaction.compacting",
    }
)
_CALL_FIELDS: Final = frozenset({"type", "id", "call_id", "name", "arguments", "status"})


class ResponsesDecoder(Decoder):
    """Decoder for one response of the Responses API.

    Items are found by `output_index`, or by their id on servers that do not send it (llama.cpp). A
    call without an id gets one from a digest of the request body. `on_response` gets the object of
    the response at its end.
    """

    def __init__(
        self,
        name: str,
        schema: schemas.AnswerSchema | None = None,
        *,
        request: bytes = b"",
        on_response: Callable[[WireObject], object] = lambda _: None,
    ) -> None:
        super().__init__(schema)
        self._on_response = on_response
        self.unknown: Counter[str] = Counter()  # types of events and items
        self._name = name
        self._request = request
        self._items: list[_Item] = []
        self._by_key: dict[int | str, _Item] = {}
        self._refusal: list[str] = []

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`."""
        kind = message.get("type") or ""
        if (family := _PARTS.get(kind)) is not None:
            self._add_part(message, family, out)
            return
        match kind:
            case "response.function_call_arguments.delta" | "response.function_call_arguments.done":
                self._find(message, "function_call").add_arguments(message, out)
            case "response.output_item.added":
                self._start_item(message, message["item"], out)
            case "response.output_item.done":
                item = self._find(message, message["item"]["type"])
                self._end_item(item, message["item"], out)
            case _ if kind not in _FRAMES:
                self._apply_response_event(message, kind, out)

    def _apply_response_event(self, message: WireObject, kind: str, out: EventBuffer) -> None:
        if kind in _STATUSES:
            self._end_response(message["response"], _STATUSES[kind], out)
        elif kind == "error" or (not kind and "error" in message):
            self._fail(message.get("error") or {**message, "type": None}, out)
        elif kind in _STATES:
            out.note_state()
        else:
            self._count_unknown(kind)
            out.add(KeepAlive())  # such as `keepalive`

    def _count_unknown(self, kind: str) -> None:
        if kind not in self.unknown:
            _LOGGER.debug("%s sent an unknown event or item: %s", self._name, one_line(kind))
        self.unknown[kind] += 1

    def _find(self, message: WireObject, kind: str) -> _Item:
        place = message.get("output_index")
        key = place if place is not None else message.get("item_id")
        if key is None:
            key = (message.get("item") or {}).get("id")
        item = self._by_key.get(key) if key is not None else None
        if item is None:
            item = _Item(kind, len(self._items))
            self._items.append(item)
            if key is not None:
                self._by_key[key] = item
        return item

    def _start_item(self, message: WireObject, content: WireObject, out: EventBuffer) -> None:
        if message.get("output_index") is None:
            self._by_key.pop(content.get("id") or "", None)  # llama.cpp repeats ids of calls
        item = self._find(message, content["type"])
        if item.kind == "function_call":
            self._start_call(item, content, out)

    def _start_call(
        self, item: _Item, content: WireObject, out: EventBuffer, *, is_complete: bool = False
    ) -> None:
        name = content.get("name")
        # A model can choose an empty name, which the complete item has.
        if item.is_started or not (name or (is_complete and name == "")):
            return
        item.is_started = True
        digest = sha256(b"%d " % item.index + self._request).hexdigest()
        call_id = content.get("call_id") or f"call_{digest[:32]}"
        out.add(ToolCallStart(item.index, call_id, name))

    def _add_part(self, message: WireObject, family: str, out: EventBuffer) -> None:
        item = self._find(message, "reasoning" if "reasoning" in family else "message")
        part = (family, message.get("summary_index", message.get("content_index")))
        text = message.get("delta")
        if text is None:  # the whole part, which repeats its deltas
            text = "" if part in item.parts else message.get("text") or message.get("refusal") or ""
        self._add_text(item, part, text, out)

    def _add_text(self, item: _Item, part: Part, text: str, out: EventBuffer) -> None:
        if not text:
            return
        family = part[0]
        is_new = part not in item.parts
        item.parts[part] = item.parts.get(part, 0) + len(text)
        if family == _REFUSAL:
            self._refusal.append(text)
            out.held_chars += len(text)
            return
        if is_new and item.has_text:
            text = PART_SEPARATOR + text
        item.has_text = True
        if _TEXT_KINDS[family] == "reasoning":
            out.add_text(item.index, "reasoning", text)
        else:
            self._answer.feed(item.index, text, out)

    def _end_item(self, item: _Item, content: WireObject, out: EventBuffer) -> None:
        if item.is_ended:
            return
        item.is_ended = True
        match item.kind:
            case "message":
                self._add_missing_parts(item, content, out)
                self._answer.finish(item.index, out)
                out.add(Flush(item.index, _message_metadata(content)))
            case "reasoning":
                self._add_missing_parts(item, content, out)
                self._end_reasoning(item, content, out)
            case "function_call":
                self._start_call(item, content, out, is_complete=True)
                self._end_call(item, content, out)
            case _:
                self._count_unknown(content["type"])
                out.bytes += len(encode_json(content))
                out.add_text(item.index, "reasoning", "")  # metadata needs a part
                out.add(Flush(item.index, {ITEM: content}))

    def _add_missing_parts(self, item: _Item, content: WireObject, out: EventBuffer) -> None:
        streamed = {family for family, _ in item.parts}
        if item.kind == "reasoning" and streamed:
            return
        for index, part in enumerate(content.get("summary") or content.get("content") or ()):
            family = str(part.get("type")).replace("summary", "reasoning_summary")
            if family not in streamed and (family in _TEXT_KINDS or family == _REFUSAL):
                text = part.get("text") or part.get("refusal") or ""
                self._add_text(item, (family, index), text, out)

    def _end_reasoning(self, item: _Item, content: WireObject, out: EventBuffer) -> None:
        item_id, encrypted = content.get("id"), content.get("encrypted_content")
        if not isinstance(item_id, str):
            out.add(Flush(item.index))
            return
        metadata: dict[str, JsonValue] = {ITEM_ID: item_id}
        if isinstance(encrypted, str) and encrypted:
            metadata[ENCRYPTED] = encrypted
            lengths: list[JsonValue] = [
                length for (family, _), length in item.parts.items() if "summary" in family
            ]
            if item.has_text and len(lengths) != 1:
                metadata[SUMMARY_LENGTHS] = lengths
            if not item.has_text:
                out.add_text(item.index, "reasoning", "")  # metadata needs a part
        out.add(Flush(item.index, metadata))

    def _end_call(self, item: _Item, content: WireObject, out: EventBuffer) -> None:
        if not item.is_started:
            raise ProviderError(f"{self._name} called a tool without a name", kind="transient")
        received = "".join(item.fragments)
        arguments = content.get("arguments") or item.arguments or received
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if received and arguments != received:
            _LOGGER.debug("%s corrected the arguments of a tool call", self._name)
        out.held_chars -= len(received)
        out.add_text(item.index, None, arguments)
        metadata: dict[str, JsonValue] = {}
        if isinstance(item_id := content.get("id"), str):
            metadata[ITEM_ID] = item_id
        if content.keys() - _CALL_FIELDS or not _is_compact(arguments):
            metadata[ITEM] = {**content, "arguments": arguments}
            out.bytes += len(encode_json(content))
        out.add(Flush(item.index, metadata))

    def _end_response(self, response: WireObject, status: str, out: EventBuffer) -> None:
        self._on_response(response)
        status = response.get("status") or status
        output = response.get("output")
        if not self._items and isinstance(output, list):  # a response that was not streamed
            for index, content in enumerate(output):
                message = {"output_index": index, "item": content}
                self._start_item(message, content, out)
                self._end_item(self._find(message, content["type"]), content, out)
        if usage := response.get("usage"):
            out.add(_parse_usage(usage))
        for change in response.get("input_transformations") or ():
            reason = str(change.get("reason")).removesuffix("_mismatch")
            is_dropped = change.get("action") == "removed"
            out.add(InputChange(reason, is_dropped, mark=str(change.get("id") or "")))
        if status == "failed":
            self._fail(response.get("error"), out)
            return
        for item in self._items:  # of servers that do not end items
            is_text = item.kind in ("message", "reasoning")
            if is_text or (status == "completed" and item.is_complete_call()):
                self._end_item(item, {}, out)
        out.add(self._make_finished(status, response))

    def _make_finished(self, status: str, response: WireObject) -> Finished:
        if status == "completed":
            refusal = "".join(self._refusal)
            return Finished("refused", refusal) if refusal else Finished()
        details = response.get("incomplete_details") or {}
        word = str((details.get("reason") if status == "incomplete" else None) or status)
        reason = _INCOMPLETE.get(word, "other")
        return Finished(reason, None if reason == "max_tokens" else word)

    def _fail(self, error: Any, out: EventBuffer) -> None:
        details: Mapping[str, Any] = error if isinstance(error, dict) else {}
        code = details.get("code")
        if code in _REFUSAL_CODES:
            misalignment = details.get("misalignment") or {}
            explanation = misalignment.get("detailed_explanation") or details.get("message")
            out.add(Finished("refused", f"{code}: {explanation}" if explanation else code))
            return
        if param := details.get("param"):
            error = {**details, "message": f"{details.get('message')} (at `{param}`)"}
        raise classify_stream_error(error, provider=self._name)


Part = tuple[str, Any]
"""Family of events of a part of an item, and the index of the part."""


class _Item:
    """An output item whose parts arrive."""

    def __init__(self, kind: str, index: int) -> None:
        self.kind = kind
        self.index = index
        self.parts: dict[Part, int] = {}  # length of each
        self.has_text = False
        self.is_started = False  # as a call
        self.is_ended = False
        self.fragments: list[str] = []  # of arguments
        self.arguments = ""

    def add_arguments(self, message: WireObject, out: EventBuffer) -> None:
        if (fragment := message.get("delta")) is None:
            self.arguments = message["arguments"]
        else:
            self.fragments.append(fragment)
            out.held_chars += len(fragment)

    def is_complete_call(self) -> bool:
        is_open = self.is_started and not self.is_ended
        return is_open and is_json_object(self.arguments or "".join(self.fragments))


def _message_metadata(content: WireObject) -> dict[str, JsonValue]:
    metadata: dict[str, JsonValue] = {
        key: value
        for key, value in ((ITEM_ID, content.get("id")), (PHASE, content.get("phase")))
        if isinstance(value, str)
    }
    parts = content.get("content") or ()
    if annotations := [one for part in parts for one in part.get("annotations") or ()]:
        metadata[ANNOTATIONS] = annotations
    return metadata


def _is_compact(arguments: str) -> bool:
    try:
        return compact_json(read_json(arguments)) == arguments
    except ValueError:
        return True  # the record has other arguments


def _parse_usage(usage: WireObject) -> Usage:
    read = usage.get("input_tokens_details") or {}
    written = usage.get("output_tokens_details") or {}
    return Usage(
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        reasoning_tokens=written.get("reasoning_tokens"),
        cache_read_tokens=read.get("cached_tokens"),
        cache_write_tokens=read.get("cache_write_tokens"),
    )
