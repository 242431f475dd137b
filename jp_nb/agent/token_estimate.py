"""About how many tokens a model reads: four bytes of text are one, an image by its pixels.

Source: `docs/decisions.md` D105; https://docs.anthropic.com/en/docs/build-with-claude/vision
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.agent.model_events import Attachment, ToolDefinition
from jp_nb.image import MEDIA_TYPES, size_of
from jp_nb.json_values import compact_json
from jp_nb.record.events import ChatRequest, ChatResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.thread import Thread, ThreadItem

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


def item_tokens(item: ThreadItem) -> int:
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
class ThreadTokens:
    """Counts the tokens of a thread as it grows: what was counted is not counted again."""

    _thread: Thread | None = None
    _counted: int = 0
    _tokens: int = 0

    def of(self, thread: Thread) -> int:
        """Return about how many tokens `thread` takes."""
        if thread is not self._thread:
            self._thread, self._counted, self._tokens = thread, 0, 0
        self._tokens += sum(map(item_tokens, thread.since(self._counted)))
        self._counted = len(thread)
        return self._tokens
