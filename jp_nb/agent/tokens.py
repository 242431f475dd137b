"""Count the tokens of a turn, and estimate those of a request.

Source: `docs/turns.md`, `docs/record.md`, `docs/decisions.md` D105,
https://docs.anthropic.com/en/docs/build-with-claude/vision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.display import Display, TokensSoFar
from jp_nb.agent.provider import Attachment, ToolDefinition, Usage
from jp_nb.images import MEDIA_TYPES, size_of
from jp_nb.json_values import compact_json
from jp_nb.record.context import ContextItem, RequestContext
from jp_nb.record.events import ChatRequest, ChatResponse, Entry, ToolCallRequest, ToolCallResponse
from jp_nb.record.marks import KEYS, ModelUsage, TurnUsage, with_usage


def _unseen(event: object) -> None:
    """Show nothing."""


@dataclass(slots=True)
class UsageCounter:
    """The tokens of a turn so far, with those of the questions that a model answered.

    Attributes:
        display: Is told how many there are.
        most: So many the turn may take; 0: any number.
    """

    display: Display = _unseen
    most: int = 0
    _total: TurnUsage = field(default_factory=TurnUsage)
    _unstored: dict[str, TurnUsage] = field(default_factory=dict)

    @property
    def usage(self) -> Usage:
        """Tokens so far."""
        return Usage(**asdict(self._total))

    @property
    def total(self) -> int:
        """Tokens that were sent and received."""
        return (self._total.input_tokens or 0) + (self._total.output_tokens or 0)

    @property
    def is_over(self) -> bool:
        """True if the turn took more tokens than it may."""
        return 0 < self.most < self.total

    def count(self, usage: Usage) -> TurnUsage:
        """Count the tokens of one request, which its caller records; return them."""
        tokens = TurnUsage(**{name: getattr(usage, name) for name in KEYS})
        if tokens != TurnUsage():
            self._total += tokens
            self.display(TokensSoFar(self._total.input_tokens, self._total.output_tokens))
        return tokens

    def add(self, model: str, usage: Usage) -> None:
        """Count the tokens of one request to `model`; an entry of its response is to say them."""
        self._unstored[model] = self._unstored.get(model, TurnUsage()) + self.count(usage)

    def attach_usage_to_last(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return `entries`, the last of which says what no entry has said yet."""
        if not entries:
            return []
        return [*entries[:-1], self.attach_usage(entries[-1])]

    def attach_usage(self, entry: Entry) -> Entry:
        """Return `entry`, which says what no entry has said yet."""
        used = [ModelUsage(model, tokens) for model, tokens in self._unstored.items()]
        self._unstored.clear()
        return with_usage(entry, *used)


BYTES_PER_TOKEN: Final = 4
PIXELS_PER_TOKEN: Final = 750
LONGEST_SIDE: Final = 1_568
MOST_IMAGE_TOKENS: Final = 1_600
"""Of one image, also of one whose size is not known."""


def text_tokens(text: str) -> int:
    """Return about how many tokens a model reads in `text`."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def image_tokens(size: tuple[int, int] | None) -> int:
    """Return about how many tokens an image takes that has so many pixels.

    A model that is sent a larger one is shown it smaller.
    """
    if size is None:
        return MOST_IMAGE_TOKENS
    width, height = size
    scale = min(1.0, LONGEST_SIDE / max(width, height))
    return min(-(-int(width * height * scale * scale) // PIXELS_PER_TOKEN), MOST_IMAGE_TOKENS)


def definition_json(tool: ToolDefinition) -> dict[str, JsonValue]:
    """Return `tool` as one object."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


def tool_tokens(tool: ToolDefinition) -> int:
    """Return about how many tokens the definition of `tool` takes."""
    return text_tokens(compact_json(definition_json(tool)))


def attachment_tokens(attachment: Attachment) -> int:
    """Return about how many tokens `attachment` takes; 0 where nothing can be said of it."""
    if isinstance(attachment.content, str):
        return text_tokens(attachment.content) + text_tokens(attachment.source)
    if attachment.media_type not in MEDIA_TYPES:
        return 0
    return image_tokens(size_of(attachment.content)) + text_tokens(attachment.source)


def item_tokens(item: ContextItem) -> int:
    """Return about how many tokens an entry takes, with its images."""
    match item.entry:
        case ChatRequest() as asked:
            text = asked.content
        case ToolCallRequest() as call:
            text = compact_json(call.arguments)
        case ToolCallResponse() as result:
            text = result.content
        case ChatResponse() as said:
            text = said.message or said.reasoning or compact_json(said.data)
    return text_tokens(text) + sum(image_tokens(image.size) for image in item.images)


@dataclass(slots=True)
class ContextTokens:
    """Counts the tokens of a thread as it grows: what was counted is not counted again."""

    _thread: RequestContext | None = None
    _counted: int = 0
    _tokens: int = 0

    def of(self, thread: RequestContext) -> int:
        """Return about how many tokens `thread` takes."""
        if thread is not self._thread:
            self._thread, self._counted, self._tokens = thread, 0, 0
        self._tokens += sum(map(item_tokens, thread.since(self._counted)))
        self._counted = len(thread)
        return self._tokens
