"""Decode the stream of a response of Gemini's `generateContent` API.

A chunk has parts of texts, thoughts, and whole calls. The API marks neither their begin nor their
end: a part of another kind ends the open text, and the decoder numbers the items itself.

Source: `docs/providers.md`, https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.provider import Finished, FinishReason, Flush, TextKind, ToolCallStart
from jp_nb.errors import ProviderError
from jp_nb.providers.google.google_continued_decoder import THOUGHT_SIGNATURE_KEY, ContinuedDecoder
from jp_nb.providers.google.google_errors import GOOGLE_NAME, end_with_error
from jp_nb.providers.request_parts.tool_call_ids import make_call_id
from jp_nb.providers.response_parts.event_buffer import EventBuffer
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
_USAGE: Final = (
    ("promptTokenCount", "input_tokens"),
    ("candidatesTokenCount", "output_tokens"),
    ("thoughtsTokenCount", "output_tokens"),  # not included in the candidates
    ("thoughtsTokenCount", "reasoning_tokens"),
    ("cachedContentTokenCount", "cache_read_tokens"),
)


class GenerateDecoder(ContinuedDecoder):
    """Decoder for one response of `streamGenerateContent`.

    A call without an id gets one from a digest of the request body, as in chat completions.
    """

    def __init__(self, schema: AnswerSchema | None = None, *, request: bytes = b"") -> None:
        super().__init__(schema, _USAGE)
        self._request = request
        self._index = -1
        self._kind: TextKind | None = None  # of the open text; None: there is none
        self._call: _OpenCall | None = None
        self._ended_calls: dict[tuple[str, str], str] = {}  # arguments by id and name
        self._signature = ""  # of the open item
        self._has_content = False
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
        is_over = bool(self._reason) or (has_end_mark and self._has_content)
        if not is_over or self.is_continued:
            return

        self._flush(out)
        word = self._reason or "STOP"
        reason = _FINISH_REASONS.get(word, "other")
        is_told = reason in ("other", "refused")
        detail = (self._detail or word) if is_told else None
        out.add(Finished(reason, detail))

    def _add_part(self, part: WireObject, out: EventBuffer) -> None:
        signature = part.get("thoughtSignature") or ""
        if not isinstance(signature, str):
            raise TypeError  # `StreamDecoder` reports it
        if call := part.get("functionCall"):
            self._add_call(call, signature, out)
            return

        text = part.get("text")
        if text is None:
            return  # such as an image, which was not asked for

        kind: TextKind = "reasoning" if part.get("thought") else "message"
        if not text and signature and self._kind is None:
            kind = "reasoning"  # without any text, the signature is kept as a thought

        self._has_content = self._has_content or (kind == "message" and bool(text))
        if self._kind is None or (text and kind != self._kind):
            self._flush(out)
            self._index += 1
            self._kind = kind

        if self._kind == "reasoning":
            out.add_text(self._index, "reasoning", text)
        elif text:
            self._answer.feed(self._index, text, out)

        if signature:
            self._signature = signature

    def _add_call(self, call: WireObject, signature: str, out: EventBuffer) -> None:
        id_ = call.get("id") or ""
        name = call["name"]
        arguments = StreamedArguments()
        arguments.add(call.get("args") or {})

        if id_ and self._ended_calls.get((id_, name)) == arguments.resolve():
            return  # a server that repeats its calls at the end

        is_same = bool(id_) and self._call is not None and self._call.key == (id_, name)
        if not is_same:
            self._flush(out)
            self._has_content = True
            self._index += 1
            self._call = _OpenCall((id_, name))
            call_id = id_ or make_call_id(self._index, self._request)
            out.add(ToolCallStart(self._index, call_id, name))

        assert self._call is not None
        out.held_chars -= self._call.arguments.held_chars
        self._call.arguments.add(call.get("args") or {})
        out.held_chars += self._call.arguments.held_chars
        self._signature = signature or self._signature

    def _flush(self, out: EventBuffer) -> None:
        if self._call is not None:
            text = self._call.arguments.resolve()
            out.held_chars -= self._call.arguments.held_chars
            out.add_text(self._index, None, text)
            self._ended_calls[self._call.key] = text
            self._add_flush(out)
        elif self._kind is not None:
            if self._kind == "message":
                self._answer.finish(self._index, out)
            self._add_flush(out)

        self._kind = None
        self._call = None
        self._signature = ""

    def _add_flush(self, out: EventBuffer) -> None:
        metadata: dict[str, JsonValue] = {}
        if self._signature:
            metadata[THOUGHT_SIGNATURE_KEY] = self._signature
        out.add(Flush(self._index, metadata))

    def _end(
        self, reason: str, candidate: WireObject, message: WireObject, out: EventBuffer
    ) -> None:
        token = candidate.get("continuationToken") or message.get("continuationToken")
        if reason == "CONTINUATION" and self.keep_token(token):
            return  # the open text continues in the next stream

        if reason in _MALFORMED:
            said = _read_message(candidate)
            raise ProviderError(
                f"the model of {GOOGLE_NAME} failed: {reason}{said}", kind="transient"
            )
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise ProviderError(
                f"{GOOGLE_NAME} misses a thought signature of this conversation. Start a new one "
                "(`%jp new`)",
                status=400,
            )

        self._flush(out)
        self._reason = reason
        self._detail = candidate.get("finishMessage")
        self.is_complete = True  # only usage is missing


class _OpenCall:
    """A call that the next part may repeat. `key` is its id and its name."""

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.arguments = StreamedArguments()


def _read_message(candidate: WireObject) -> str:
    message = candidate.get("finishMessage")
    return f" ({message[:300]})" if isinstance(message, str) and message else ""
