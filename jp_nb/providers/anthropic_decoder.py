"""Decode the streams of Anthropic Messages.

Source: `docs/providers.md`, https://platform.claude.com/docs/en/build-with-claude/streaming.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

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
from jp_nb.json_values import as_object
from jp_nb.providers import schemas
from jp_nb.providers.errors import classify_stream_error
from jp_nb.providers.streaming import Decoder, EventBuffer, WireObject, is_json_object

NAME: Final = "anthropic"
SIGNATURE: Final = "anthropic_thinking_signature"
REDACTED: Final = "anthropic_redacted_thinking"
_TRANSFORMATIONS: Final = {"thinking_dropped": True, "thinking_mismatch_allowed": False}
"""Types of `input_transformations`, with True if the model did not get the thinking."""
_FINISH: Final[Mapping[str, FinishReason]] = {
    "end_turn": "completed",
    "stop_sequence": "completed",
    "tool_use": "completed",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refused",
}
_USAGE: Final[Mapping[str, str]] = {
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}


class AnthropicDecoder(Decoder):
    """Decoder for one response of Anthropic Messages.

    `on_message` gets the message of the first event. `find_signatures` returns the signatures
    of the thinking at paths in the request, such as `messages.1.content.0`.
    """

    def __init__(
        self,
        schema: schemas.AnswerSchema | None = None,
        *,
        on_message: Callable[[WireObject], None] = lambda _: None,
        find_signatures: Callable[[Sequence[str]], Sequence[str]] = lambda paths: [""] * len(paths),
    ) -> None:
        super().__init__(schema)
        self._on_message = on_message
        self._find_signatures = find_signatures
        self._transformations: object = None
        self._blocks: dict[int, _OpenBlock] = {}
        self._pending_flush: Flush | None = None
        self._usage: dict[str, int] = {}
        self._stop_reason: str | None = None
        self._stop_details: Mapping[str, JsonValue] = {}

    def feed(self, message: WireObject, out: EventBuffer) -> None:
        """Add the events of `message`."""
        match message.get("type"):
            case "content_block_delta":
                self._apply_delta(message["index"], message["delta"], out)
            case "content_block_start":
                self._flush_pending_call(out)
                self._start_block(message["index"], message["content_block"], out)
            case "content_block_stop":
                self._stop_block(message["index"], out)
            case "message_start":
                self._on_message(message["message"])
                self._transformations = message["message"].get("input_transformations")
                self._add_usage(message["message"].get("usage"), out)
            case "message_delta":
                self._apply_message_delta(message, out)
            case "message_stop":
                self._flush_pending_call(out)
                self._report_transformations(out)
                out.add(self._make_finished())
            case "ping":
                out.add(KeepAlive())
            case "error":
                raise classify_stream_error(message.get("error"), provider=NAME)
            case None if "error" in message:
                raise classify_stream_error(message["error"], provider=NAME)

    def _start_block(self, index: int, content: WireObject, out: EventBuffer) -> None:
        block = self._blocks[index] = _OpenBlock(content["type"])
        match block.type:
            case "text":
                self._add_text(index, content.get("text"), out)
            case "thinking":
                self._add_signature(block, content.get("signature") or "", out)
                self._add_piece(index, "reasoning", content.get("thinking") or "", out)
            case "redacted_thinking":
                block.redacted = content["data"]
            case "tool_use":
                out.add(ToolCallStart(index, content["id"], content["name"]))
                if given := content.get("input"):
                    self._add_piece(index, None, json.dumps(given), out)

    def _apply_delta(self, index: int, delta: WireObject, out: EventBuffer) -> None:
        match delta["type"]:
            case "text_delta":
                self._add_text(index, delta["text"], out)
            case "input_json_delta" if self._blocks[index].type == "tool_use":
                self._add_piece(index, None, delta["partial_json"], out)
            case "thinking_delta":
                self._add_piece(index, "reasoning", delta["thinking"], out)
            case "signature_delta":
                self._add_signature(self._blocks[index], delta["signature"], out)

    def _stop_block(self, index: int, out: EventBuffer) -> None:
        block = self._blocks.pop(index)
        match block.type:
            case "text":
                self._answer.finish(index, out)
                out.add(Flush(index))
            case "thinking" | "redacted_thinking":
                metadata: dict[str, JsonValue] = {}
                if signature := "".join(block.signature):
                    metadata[SIGNATURE] = signature
                    out.held_chars -= len(signature)
                if block.redacted:
                    metadata[REDACTED] = block.redacted
                if metadata and not block.pieces:
                    # A signature without text is replayed as well, so it needs a part.
                    out.add_text(index, "reasoning", "")
                if metadata or block.pieces:
                    out.add(Flush(index, metadata))
            case "tool_use":
                if is_json_object("".join(block.pieces)):
                    out.add(Flush(index))
                else:  # The arguments are empty or cut, which the stop reason tells.
                    self._pending_flush = Flush(index)

    def _add_text(self, index: int, text: str | None, out: EventBuffer) -> None:
        if text:
            self._answer.feed(index, text, out)

    def _add_piece(self, index: int, kind: TextKind | None, text: str, out: EventBuffer) -> None:
        pieces = self._blocks[index].pieces
        if text:
            pieces.append(text)
            out.add_text(index, kind, text)

    def _add_signature(self, block: _OpenBlock, signature: str, out: EventBuffer) -> None:
        block.signature.append(signature)
        out.held_chars += len(signature)

    def _flush_pending_call(self, out: EventBuffer) -> None:
        flush, self._pending_flush = self._pending_flush, None
        if flush is not None:
            out.add(flush)

    def _apply_message_delta(self, message: WireObject, out: EventBuffer) -> None:
        delta = message["delta"]
        self._stop_reason = delta.get("stop_reason") or self._stop_reason
        self._stop_details = delta.get("stop_details") or self._stop_details
        if _FINISH.get(self._stop_reason or "") == "max_tokens":
            self._pending_flush = None
        self._flush_pending_call(out)
        self._transformations = message.get("input_transformations") or self._transformations
        self._add_usage(message.get("usage"), out)

    def _report_transformations(self, out: EventBuffer) -> None:
        listed = self._transformations if isinstance(self._transformations, list) else []
        found = [x for x in map(as_object, listed) if x.get("type") in _TRANSFORMATIONS]
        if found:
            signatures = self._find_signatures([str(each.get("path")) for each in found])
            for each, signature in zip(found, signatures, strict=True):
                reason = str(each.get("reason")).removesuffix("_binding_mismatch")
                is_dropped = _TRANSFORMATIONS[str(each["type"])]
                out.add(InputChange(reason, is_dropped, signature))

    def _add_usage(self, usage: WireObject | None, out: EventBuffer) -> None:
        # Input tokens include cached ones, as with the other providers.
        if not usage:
            return
        self._usage.update((key, value) for key, value in usage.items() if isinstance(value, int))
        counts: dict[str, int] = {
            ours: self._usage[theirs] for theirs, ours in _USAGE.items() if theirs in self._usage
        }
        details = usage.get("output_tokens_details") or {}
        if "thinking_tokens" in details:
            counts["reasoning_tokens"] = details["thinking_tokens"]
        if "input_tokens" in self._usage:
            counts["input_tokens"] = self._usage["input_tokens"] + sum(
                counts.get(name, 0) for name in ("cache_read_tokens", "cache_write_tokens")
            )
        out.add(Usage(**counts))

    def _make_finished(self) -> Finished:
        word = self._stop_reason
        reason: FinishReason = "completed" if word is None else _FINISH.get(word, "other")
        if reason == "refused":
            details = (self._stop_details.get(name) for name in ("category", "explanation"))
            return Finished(reason, ": ".join(str(text) for text in details if text) or None)
        return Finished(reason, word if reason == "other" else None)


class _OpenBlock:
    def __init__(self, kind: str) -> None:
        self.type = kind
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.redacted = ""
