"""Decode the stream of a response of Gemini's `generateContent` API.

A chunk has parts of texts, thoughts, and whole calls:

    {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]}
    {"candidates": [{"content": {"parts": [{"text": "lo."}]}, "finishReason": "STOP"}]}

The API marks neither the begin nor the end of a text: a part of another kind ends the open text,
and the decoder numbers the output items itself.

Source: `docs/providers.md`, https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.agent.provider_events import Finished, FinishReason, Flush, TextKind, ToolCallStart
from jp_nb.errors import ProviderError
from jp_nb.providers.google.google_continued_decoder import THOUGHT_SIGNATURE_KEY, ContinuedDecoder
from jp_nb.providers.google.google_errors import GOOGLE_NAME, end_with_error
from jp_nb.providers.response_parts.event_buffer import EventBuffer
from jp_nb.providers.response_parts.generated_call_ids import make_call_id
from jp_nb.providers.response_parts.stream_decoder import WireObject
from jp_nb.providers.response_parts.streamed_arguments import StreamedArguments
from jp_nb.providers.schemas.answer_schemas import AnswerSchema

_FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "STOP": "completed",
    "MAX_TOKENS": "max_tokens",
    "CONTINUATION": "max_tokens",  # after the last continuation
    **dict.fromkeys(
        (
            "SAFETY",
            "RECITATION",
            "PROHIBITED_CONTENT",
            "BLOCKLIST",
            "SPII",
            "LANGUAGE",
            "MODEL_ARMOR",
            "IMAGE_SAFETY",
            "IMAGE_PROHIBITED_CONTENT",
            "IMAGE_RECITATION",
            "IMAGE_OTHER",
            "JAILBREAK",
        ),
        "refused",
    ),
}
_MALFORMED: Final = frozenset(
    {"UNEXPECTED_TOOL_CALL", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"}
)
"""Finish reasons of a failure of the model, which another attempt may not have."""
_USAGE: Final = (
    ("promptTokenCount", "input_tokens"),
    ("candidatesTokenCount", "output_tokens"),
    ("thoughtsTokenCount", "output_tokens"),  # not included in the candidates
    ("thoughtsTokenCount", "reasoning_tokens"),
    ("cachedContentTokenCount", "cache_read_tokens"),
)


@dataclass(slots=True)
class _OpenText:
    """An item with a text, which the next part may continue."""

    index: int
    kind: TextKind
    signature: str = ""


@dataclass(slots=True)
class _OpenCall:
    """An item with a call, which the next part may continue or repeat."""

    index: int
    key: tuple[str, str]  # the id, which may be empty, and the name of the tool
    arguments: StreamedArguments = field(default_factory=StreamedArguments)
    signature: str = ""


class GenerateDecoder(ContinuedDecoder):
    """Decoder for one response of `streamGenerateContent`.

    It fills in the methods of `Decoder` (`stream_decoder.py`): `feed` gets the chunks of the
    server, and adds events to `out`. At most one item is open at a time. A `Flush` event ends it,
    with the last signature of its parts as metadata. A call without an id gets one from a digest of
    the request body, as in Chat Completions.

    Texts of the answer pass `self._answer` of the base class, which tells a message from structured
    data. Arguments that are in no event yet count for the size limit of the response: `out.hold`
    adds their length, and `out.release` takes it away.
    """

    def __init__(self, schema: AnswerSchema | None = None, *, request: bytes = b"") -> None:
        super().__init__(schema, _USAGE)
        self._request = request
        self._item_count = 0
        self._open_item: _OpenText | _OpenCall | None = None
        self._ended_calls: dict[tuple[str, str], str] = {}  # arguments by id and name
        self._has_content = False  # a text of the answer, or a call, has arrived
        # The finish reason of the server, and its explanation:
        self._reason = ""
        self._detail: str | None = None

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`, a chunk of the response."""
        if error := message.get("error"):
            out.add(end_with_error(error))
            return

        self.add_usage(message.get("usageMetadata"), out)
        if reason := (message.get("promptFeedback") or {}).get("blockReason"):
            detail = message["promptFeedback"].get("blockReasonMessage")
            out.add(Finished("refused", str(detail or reason)))

        for candidate in message.get("candidates") or ():
            # The request asks for one candidate, which has no index, or 0.
            if candidate is not None and not candidate.get("index"):
                self._apply_candidate(candidate, message, out)

    def _apply_candidate(
        self, candidate: WireObject, message: WireObject, out: EventBuffer
    ) -> None:
        for part in (candidate.get("content") or {}).get("parts") or ():
            if part is not None:
                self._add_part(part, out)
        if reason := candidate.get("finishReason"):
            self._end(reason, candidate, message, out)

    def finish(self, out: EventBuffer, *, has_end_mark: bool = False) -> None:
        """Add the last event if a finish reason arrived, or the end mark after some content."""
        has_ended = bool(self._reason) or (has_end_mark and self._has_content)
        if not has_ended or self.is_continued:
            return

        self._flush_item(out)
        wire_reason = self._reason or "STOP"
        reason = _FINISH_REASONS.get(wire_reason, "other")
        needs_detail = reason in ("other", "refused")
        detail = (self._detail or wire_reason) if needs_detail else None
        out.add(Finished(reason, detail))

    def _add_part(self, part: WireObject, out: EventBuffer) -> None:
        """Add a part: a call, or a text, each with or without a signature."""
        signature = part.get("thoughtSignature") or ""
        if not isinstance(signature, str):
            raise TypeError  # `StreamDecoder` reports it

        if call := part.get("functionCall"):
            self._add_call(call, signature, out)
            return

        text = part.get("text")
        if text is not None:  # None: such as an image, which was not asked for
            kind: TextKind = "reasoning" if part.get("thought") else "message"
            self._add_text(kind, text, signature, out)

    def _add_text(self, kind: TextKind, text: str, signature: str, out: EventBuffer) -> None:
        """Add a part with a text, which may be empty.

        - A text of the same kind continues the open text. Another kind begins a new item.
        - An empty part belongs to the open text, whatever its kind is: it only brings a signature.
        - An empty part with a signature, if no text is open, becomes a thought without a text.
        """
        opened = self._open_item
        if not isinstance(opened, _OpenText) or (text and kind != opened.kind):
            self._flush_item(out)
            is_only_signature = bool(signature) and not text
            new_kind: TextKind = "reasoning" if is_only_signature else kind
            opened = _OpenText(self._make_index(), new_kind)
            self._open_item = opened

        if opened.kind == "reasoning":
            out.add_text(opened.index, "reasoning", text)
        elif text:
            self._has_content = True
            self._answer.feed(opened.index, text, out)

        opened.signature = signature or opened.signature

    def _add_call(self, call: WireObject, signature: str, out: EventBuffer) -> None:
        """Add a part with a call.

        A part with the id and the name of the open call continues or repeats its arguments. A part
        without an id is always another call.
        """
        id_ = call.get("id") or ""
        key = (id_, call["name"])
        arguments = call.get("args") or {}

        if id_ and self._ended_calls.get(key) == _format_alone(arguments):
            return  # a server that repeats its calls at the end

        opened = self._open_item
        if not (id_ and isinstance(opened, _OpenCall) and opened.key == key):
            self._flush_item(out)
            self._has_content = True
            opened = _OpenCall(self._make_index(), key)
            self._open_item = opened
            call_id = id_ or make_call_id(opened.index, self._request)
            out.add(ToolCallStart(opened.index, call_id, call["name"]))

        out.hold(opened.arguments.add(arguments))
        opened.signature = signature or opened.signature

    def _make_index(self) -> int:
        """Return the index of the next output item."""
        self._item_count += 1
        return self._item_count - 1

    def _flush_item(self, out: EventBuffer) -> None:
        """End the open item, if there is one."""
        opened = self._open_item
        self._open_item = None
        if opened is None:
            return

        if isinstance(opened, _OpenCall):
            text = opened.arguments.resolve()
            out.release(opened.arguments.held_chars)
            out.add_arguments(opened.index, text)
            self._ended_calls[opened.key] = text
        elif opened.kind == "message":
            self._answer.finish(opened.index, out)

        metadata: dict[str, JsonValue] = {}
        if opened.signature:
            metadata[THOUGHT_SIGNATURE_KEY] = opened.signature
        out.add(Flush(opened.index, metadata))

    def _end(
        self, reason: str, candidate: WireObject, message: WireObject, out: EventBuffer
    ) -> None:
        """End the open item at the finish reason. The usage may follow, then `finish` is called.

        Raises:
            ProviderError: The reason is a failure of the model, or a thought is missing.
        """
        token = candidate.get("continuationToken") or message.get("continuationToken")
        if reason == "CONTINUATION" and self.keep_token(token):
            return  # the open text continues in the next stream

        if reason in _MALFORMED:
            explanation = _read_message(candidate)
            raise ProviderError(
                f"the model of {GOOGLE_NAME} failed: {reason}{explanation}", kind="transient"
            )
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise ProviderError(
                f"{GOOGLE_NAME} misses a thought signature of this conversation. Start a new one "
                "(`%jp new`)",
                status=400,
            )

        self._flush_item(out)
        self._reason = reason
        self._detail = candidate.get("finishMessage")
        self.is_complete = True  # only usage is missing


def _format_alone(arguments: Any) -> str:
    """Return arguments as `StreamedArguments` returns them if no other piece follows."""
    alone = StreamedArguments()
    alone.add(arguments)
    return alone.resolve()


def _read_message(candidate: WireObject) -> str:
    """Return the explanation of the server, in brackets; "" if there is none."""
    message = candidate.get("finishMessage")
    return f" ({message[:300]})" if isinstance(message, str) and message else ""
