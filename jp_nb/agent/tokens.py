"""Count the tokens of a turn, and estimate the tokens of a request.

Source: `docs/turns.md`, `docs/record.md`, `docs/decisions.md` D105,
https://docs.anthropic.com/en/docs/build-with-claude/vision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.display import Display, TokensSoFar
from jp_nb.agent.provider import Attachment, ToolDefinition, Usage
from jp_nb.images import MEDIA_TYPES, read_image_size
from jp_nb.json_values import compact_json
from jp_nb.record.context import ContextItem, RequestContext
from jp_nb.record.events import ChatRequest, ChatResponse, Entry, ToolCallRequest, ToolCallResponse
from jp_nb.record.marks import ModelUsage, with_usage


@dataclass(slots=True)
class UsageCounter:
    """Tokens of a turn so far, including questions that a model answered.

    Attributes:
        display: Receives the new total after each request.
        max_tokens: Maximum for the turn; 0: no limit.
    """

    display: Display | None = None
    max_tokens: int = 0
    _total: Usage = field(default_factory=Usage)
    _unstored: dict[str, Usage] = field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """Tokens so far, by kind."""
        return self._total

    @property
    def total(self) -> int:
        """Sum of input and output tokens."""
        return (self._total.input_tokens or 0) + (self._total.output_tokens or 0)

    @property
    def is_over(self) -> bool:
        """True if the turn took more tokens than `max_tokens`."""
        return 0 < self.max_tokens < self.total

    def count(self, usage: Usage) -> Usage:
        """Count and return the tokens of one request. The caller records them."""
        if usage != Usage():
            self._total += usage
            if self.display is not None:
                self.display(TokensSoFar(self._total.input_tokens, self._total.output_tokens))
        return usage

    def add(self, model: str, usage: Usage) -> None:
        """Count the tokens of one request to `model`. `attach_usage` records them later."""
        self._unstored[model] = self._unstored.get(model, Usage()) + self.count(usage)

    def attach_usage_to_last(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return `entries` with all unrecorded usage attached to the last one."""
        if not entries:
            return []
        return [*entries[:-1], self.attach_usage(entries[-1])]

    def attach_usage(self, entry: Entry) -> Entry:
        """Return `entry` with all unrecorded usage attached to it."""
        used = [ModelUsage(model, tokens) for model, tokens in self._unstored.items()]
        self._unstored.clear()
        return with_usage(entry, *used)


BYTES_PER_TOKEN: Final = 4
PIXELS_PER_TOKEN: Final = 750
MAX_SIDE_PIXELS: Final = 1_568
MAX_IMAGE_TOKENS: Final = 1_600


def estimate_text_tokens(text: str) -> int:
    """Estimate the tokens of `text`."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def estimate_image_tokens(size: tuple[int, int] | None) -> int:
    """Estimate the tokens of an image with that width and height in pixels."""
    if size is None:
        return MAX_IMAGE_TOKENS
    width, height = size
    # Providers scale larger images down.
    scale = min(1.0, MAX_SIDE_PIXELS / max(width, height))
    return min(-(-int(width * height * scale * scale) // PIXELS_PER_TOKEN), MAX_IMAGE_TOKENS)


def format_definition(tool: ToolDefinition) -> dict[str, JsonValue]:
    """Return `tool` as one JSON object."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


def estimate_tool_tokens(tool: ToolDefinition) -> int:
    """Estimate the tokens of the definition of `tool`."""
    return estimate_text_tokens(compact_json(format_definition(tool)))


def estimate_attachment_tokens(attachment: Attachment) -> int:
    """Estimate the tokens of `attachment`; 0 for types without an estimate, such as PDF."""
    if isinstance(attachment.content, str):
        return estimate_text_tokens(attachment.content) + estimate_text_tokens(attachment.source)
    if attachment.media_type not in MEDIA_TYPES:
        return 0
    return estimate_image_tokens(read_image_size(attachment.content)) + estimate_text_tokens(
        attachment.source
    )


def estimate_item_tokens(item: ContextItem) -> int:
    """Estimate the tokens of an entry and its images."""
    match item.entry:
        case ChatRequest() as asked:
            text = asked.content
        case ToolCallRequest() as call:
            text = compact_json(call.arguments)
        case ToolCallResponse() as result:
            text = result.content
        case ChatResponse() as response:
            text = response.message or response.reasoning or compact_json(response.data)
    return estimate_text_tokens(text) + sum(
        estimate_image_tokens(image.size) for image in item.images
    )


@dataclass(slots=True)
class ContextTokens:
    """Estimates the tokens of a context as it grows, counting each entry once."""

    _thread: RequestContext | None = None
    _counted: int = 0
    _tokens: int = 0

    def of(self, thread: RequestContext) -> int:
        """Estimate the tokens of `thread`."""
        if thread is not self._thread:
            self._thread, self._counted, self._tokens = thread, 0, 0
        self._tokens += sum(map(estimate_item_tokens, thread.since(self._counted)))
        self._counted = len(thread)
        return self._tokens
