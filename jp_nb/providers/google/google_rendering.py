"""The parts of the messages to Gemini that both dialects share: contents, changes, signatures.

A *content* is a text, an image, or a PDF; each dialect gives it its own form. A *signature* proves
that a thought or a call is one of the model; the API rejects a changed one.

Source: `docs/providers.md`, https://ai.google.dev/gemini-api/docs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from jp_nb.agent.provider import Attachment, ModelRequest
from jp_nb.images import Image
from jp_nb.providers.google.google_errors import GOOGLE_NAME
from jp_nb.providers.request_parts.attachment_parts import (
    IMAGE_AND_PDF_TYPES,
    encode_base64,
    format_attachment_name,
    split_attachments,
)
from jp_nb.providers.request_parts.call_rules import GOOGLE_CALLS
from jp_nb.providers.request_parts.documents_xml import format_documents_xml
from jp_nb.providers.request_parts.first_head import REMOVED_TOOLS
from jp_nb.providers.request_parts.head_changes import HeadChange
from jp_nb.providers.request_parts.messages import Rendering
from jp_nb.providers.request_parts.omission_reports import Omitted

Content = str | tuple[str, str]
"""A text, or the media type and the Base64 of an image or a PDF."""


def describe_change(change: HeadChange) -> str:
    """Return a text for the model about changed instructions, tools, and attachments; "" for none.

    The APIs have no messages of the system within a conversation, so the user's message with this
    text has tags.
    """
    texts = (
        change.format_instructions(),
        change.format_tool_names(),
        change.format_attachment_names(),
    )
    text = "\n\n".join(filter(None, texts))
    return f"<system>\n{text}\n</system>" if text.strip() else ""


def list_attachments(attachments: Sequence[Attachment]) -> tuple[list[Content], Omitted]:
    """Return the contents of a message with `attachments`, and the ones that it omits."""
    sent, omitted = split_attachments(attachments, IMAGE_AND_PDF_TYPES)
    xml = format_documents_xml(sent)
    contents: list[Content] = [xml] if xml else []

    for attachment in sent:
        if isinstance(attachment.content, bytes):
            data = attachment.media_type, encode_base64(attachment.content)
            contents += [format_attachment_name(attachment), data]
    return contents, omitted


def list_input_contents(text: str, images: Sequence[Image]) -> list[Content]:
    """Return the contents of a message with `text`, if it is not blank, and named `images`."""
    contents: list[Content] = [text] if text.strip() else []
    for image in images:
        contents += [f"[{image.noun}: {image.words}]", (image.media_type, image.text)]
    return contents


class GoogleRendering(Rendering):
    """Messages for Gemini, without their form; see `Rendering` (`messages.py`) for the methods.

    Attributes:
        has_signatures: True if a message has a signature.
        allowed_tools: The tools that the model may call; None for all of the request. It is for the
            request that was settled last.
        unsigned_items: The number of items of the context, from the first on, that are sent
            without their signatures, because the API has rejected these.
    """

    appended = frozenset({"system", "attachments", REMOVED_TOOLS})

    def __init__(self, unsigned_items: int = 0) -> None:
        super().__init__(GOOGLE_NAME, GOOGLE_CALLS)
        self.has_signatures = False
        self.allowed_tools: list[str] | None = None
        self.unsigned_items = unsigned_items

    def copy_repairs(self) -> Self:
        """Return an empty rendering with the same number of unsigned items."""
        return type(self)(self.unsigned_items)

    def settle(self, request: ModelRequest) -> ModelRequest:
        """Return `request` with its first head. A tool that was removed may not be called."""
        settled = super().settle(request)
        # The first head still lists the tools that were removed since.
        wanted = {tool.name for tool in request.tools}
        names = [tool.name for tool in settled.tools if tool.name in wanted]
        self.allowed_tools = names if len(names) < len(settled.tools) else None
        return settled

    def _may_sign(self) -> bool:
        """Return True if the current item is sent with its signature."""
        return self.has_valid_signatures and self.item_count >= self.unsigned_items
