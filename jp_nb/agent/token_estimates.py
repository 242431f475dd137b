"""Estimate the tokens of texts, images, and a whole context, before a provider counts them.

Source: `docs/turns.md`, https://docs.anthropic.com/en/docs/build-with-claude/vision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from jp_nb.agent.provider import Attachment, ToolDefinition
from jp_nb.image_headers import MEDIA_TYPES, read_image_size
from jp_nb.json_writing import compact_json
from jp_nb.record.entries.events import (
    ChatRequest,
    ChatResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.request_context.context import ContextItem, RequestContext
from jp_nb.record.request_context.request_head import AttachmentDigest, RequestHead

BYTES_PER_TOKEN: Final = 4
PIXELS_PER_TOKEN: Final = 750
MAX_SIDE_PIXELS: Final = 1_568
MAX_IMAGE_TOKENS: Final = 1_600


def estimate_text_tokens(text: str) -> int:
    """Estimate the tokens of `text`, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def estimate_image_tokens(size: tuple[int, int] | None) -> int:
    """Estimate the tokens of an image by width and height in pixels; the maximum if None."""
    if size is None:
        return MAX_IMAGE_TOKENS

    width, height = size
    # Providers scale larger images down.
    scale = min(1.0, MAX_SIDE_PIXELS / max(width, height))
    pixels = int(width * height * scale * scale)
    return min(-(-pixels // PIXELS_PER_TOKEN), MAX_IMAGE_TOKENS)


def estimate_tool_tokens(tool: ToolDefinition) -> int:
    """Estimate the tokens of the definition of `tool`."""
    return estimate_text_tokens(compact_json(tool.to_json()))


def estimate_attachment_tokens(attachment: Attachment) -> int:
    """Estimate the tokens of `attachment`; 0 for types without an estimate, such as PDF."""
    if isinstance(attachment.content, str):
        return estimate_text_tokens(attachment.content) + estimate_text_tokens(attachment.source)
    if attachment.media_type not in MEDIA_TYPES:
        return 0

    size = read_image_size(attachment.content)
    return estimate_image_tokens(size) + estimate_text_tokens(attachment.source)


def estimate_item_tokens(item: ContextItem) -> int:
    """Estimate the tokens of an entry and its images. A PDF counts as one large image."""
    match item.entry:
        case ChatRequest() as request:
            text = request.content
        case ToolCallRequest() as call:
            text = compact_json(call.arguments)
        case ToolCallResponse() as result:
            text = result.content
        case ChatResponse() as response:
            text = response.message or response.reasoning or compact_json(response.data)

    image_tokens = sum(estimate_image_tokens(image.size) for image in item.images)
    return estimate_text_tokens(text) + image_tokens


def _estimate_change_tokens(
    before: RequestHead, after: RequestHead, contents: Mapping[AttachmentDigest, Attachment]
) -> int:
    """Estimate the tokens of the messages for an appended change of the head.

    The head is the system prompt, tools, and files in front of the messages. A change of it is sent
    as a message, with all texts of a changed system prompt, and the tools and files that are new.
    """
    texts = () if before.system == after.system else after.system
    known = {tool.name: tool for tool in before.tools}
    tools = (tool for tool in after.tools if known.get(tool.name) != tool)
    added = {*after.attachments} - {*before.attachments}
    attachments = (contents[digest] for digest in added & contents.keys())

    tokens = sum(map(estimate_text_tokens, texts))
    tokens += sum(map(estimate_tool_tokens, tools))
    tokens += sum(map(estimate_attachment_tokens, attachments))
    return tokens


@dataclass(slots=True)
class ContextTokens:
    """Estimates the tokens of a context as it grows, counting each entry and change once.

    The first head is not counted. It is in front of the messages, and `compactor.py` adds the
    tokens of the current system prompt, tools, and files. Each later change of the head is sent as
    a message, so it counts.
    """

    _context: RequestContext | None = None
    _tokens: int = 0  # of the counted items and heads of this context
    _item_count: int = 0
    _head_count: int = 0

    def estimate(self, context: RequestContext) -> int:
        """Estimate the tokens of `context`. A context that is the same object has only grown."""
        if context is not self._context:
            self._context = context
            self._item_count = 0
            self._head_count = 0
            self._tokens = 0

        self._tokens += sum(map(estimate_item_tokens, context.since(self._item_count)))
        # Only changes of the head count, from the last counted head to the first new one as well.
        heads = context.heads[max(self._head_count - 1, 0) :]
        for before, after in pairwise(heads):
            self._tokens += _estimate_change_tokens(before.head, after.head, context.contents)

        self._head_count = len(context.heads)
        self._item_count = len(context)
        return self._tokens
