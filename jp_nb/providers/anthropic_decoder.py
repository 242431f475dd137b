"""Decodes the stream of Anthropic Messages into events.

Source: `docs/providers.md`; https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_events import (
    Finished,
    FinishReason,
    Flush,
    KeepAlive,
    ProviderEvent,
    TextPart,
    ToolCallArguments,
    ToolCallStart,
    Usage,
)
from jp_nb.errors import ProviderError
from jp_nb.providers import answer_schema as schemas
from jp_nb.providers.answers import AnswerText, is_json_object
from jp_nb.providers.anthropic_request import NAME, REDACTED, SIGNATURE
from jp_nb.providers.retry import classify_in_stream
from jp_nb.providers.streaming import WireObject

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


class AnthropicDecoder:
    """Decodes the messages of one response."""

    def __init__(self, schema: schemas.AnswerSchema | None = None) -> None:
        self._answer = AnswerText(schema)
        self._blocks: dict[int, _Block] = {}
        self._cut_call: Flush | None = None
        self._usage: dict[str, int] = {}
        self._stop_reason: str | None = None
        self._stop_details: Mapping[str, JsonValue] = {}
        self._finished = False
        self._signatures = 0

    @property
    def held(self) -> int:
        """Characters that were taken and are in no event yet."""
        return self._answer.held + self._signatures

    complete = False

    def feed(self, message: WireObject) -> list[ProviderEvent]:
        """The events that `message` gives; see `streaming.Decoder`."""
        match message.get("type"):
            case "content_block_delta":
                return self._delta(message["index"], message["delta"])
            case "content_block_start":
                return [*self._release(), *self._start(message["index"], message["content_block"])]
            case "content_block_stop":
                return self._stop(message["index"])
            case "message_start":
                return self._report(message["message"].get("usage"))
            case "message_delta":
                return self._ending(message)
            case "message_stop":
                self._finished = True
                return [*self._release(), self._end()]
            case "ping":
                return [KeepAlive()]
            case "error":
                raise classify_in_stream(message.get("error"), provider=NAME)
            case None if "error" in message:
                raise classify_in_stream(message["error"], provider=NAME)
        return []

    def finish(self) -> list[ProviderEvent]:
        """Nothing more, or an error: the protocol has its own last message."""
        if not self._finished:
            raise ProviderError(
                f"the response of {NAME} ended before it was complete", kind="transient"
            )
        return []

    def _start(self, index: int, content: WireObject) -> list[ProviderEvent]:
        block = self._blocks[index] = _Block(content["type"])
        match block.type:
            case "text":
                return self._text(index, content.get("text"))
            case "thinking":
                signature = content.get("signature") or ""
                block.signature.append(signature)
                self._signatures += len(signature)
                return self._thought(index, block, content.get("thinking"))
            case "redacted_thinking":
                block.redacted = content["data"]
            case "tool_use":
                start = ToolCallStart(index, content["id"], content["name"])
                given = content.get("input")
                if not given:
                    return [start]
                return [start, *self._arguments(index, block, json.dumps(given))]
        return []

    def _delta(self, index: int, delta: WireObject) -> list[ProviderEvent]:
        match delta["type"]:
            case "text_delta":
                return self._text(index, delta["text"])
            case "input_json_delta" if self._blocks[index].type == "tool_use":
                return self._arguments(index, self._blocks[index], delta["partial_json"])
            case "thinking_delta":
                return self._thought(index, self._blocks[index], delta["thinking"])
            case "signature_delta":
                self._blocks[index].signature.append(delta["signature"])
                self._signatures += len(delta["signature"])
        return []

    def _stop(self, index: int) -> list[ProviderEvent]:
        block = self._blocks.pop(index)
        match block.type:
            case "text":
                return [*self._answer.complete(index), Flush(index)]
            case "thinking" | "redacted_thinking":
                metadata: dict[str, JsonValue] = {}
                if signature := "".join(block.signature):
                    metadata[SIGNATURE] = signature
                    self._signatures -= len(signature)
                if block.redacted:
                    metadata[REDACTED] = block.redacted
                # Reasoning without a text still has to be replayed: give it a place.
                empty = [] if block.pieces else [TextPart(index, "reasoning", "")]
                return [*empty, Flush(index, metadata)] if metadata or block.pieces else []
            case "tool_use":
                flush = Flush(index)
                if is_json_object("".join(block.pieces)):
                    return [flush]
                self._cut_call = flush  # empty, or cut by the limit? The stop reason will tell.
        return []

    def _text(self, index: int, text: str | None) -> list[ProviderEvent]:
        return self._answer.part(index, text) if text else []

    def _thought(self, index: int, block: _Block, text: str | None) -> list[ProviderEvent]:
        if not text:
            return []
        block.pieces.append(text)
        return [TextPart(index, "reasoning", text)]

    def _arguments(self, index: int, block: _Block, text: str) -> list[ProviderEvent]:
        if not text:
            return []
        block.pieces.append(text)
        return [ToolCallArguments(index, text)]

    def _release(self) -> list[ProviderEvent]:
        flush, self._cut_call = self._cut_call, None
        return [flush] if flush is not None else []

    def _ending(self, message: WireObject) -> list[ProviderEvent]:
        delta = message["delta"]
        self._stop_reason = delta.get("stop_reason") or self._stop_reason
        self._stop_details = delta.get("stop_details") or self._stop_details
        if _FINISH.get(self._stop_reason or "") == "max_tokens":
            self._cut_call = None
        return [*self._release(), *self._report(message.get("usage"))]

    def _report(self, usage: WireObject | None) -> list[ProviderEvent]:
        """Usage as all providers give it: the input includes what the cache served or took."""
        if not usage:
            return []
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
        return [Usage(**counts)]

    def _end(self) -> Finished:
        word = self._stop_reason
        reason: FinishReason = "completed" if word is None else _FINISH.get(word, "other")
        if reason == "refused":
            said = (self._stop_details.get(name) for name in ("category", "explanation"))
            return Finished(reason, ": ".join(str(text) for text in said if text) or None)
        return Finished(reason, word if reason == "other" else None)


class _Block:
    """A content block that is being received."""

    def __init__(self, kind: str) -> None:
        self.type = kind
        self.pieces: list[str] = []
        self.signature: list[str] = []
        self.redacted = ""
