"""Content blocks of Anthropic's messages: texts, images, and documents.

A *block* is a part of a message, such as `{"type": "text", "text": "Hi."}`.

Source: `docs/providers.md`, https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from jp_nb.agent.provider import Attachment
from jp_nb.image_headers import PDF
from jp_nb.images import Image
from jp_nb.providers.request_parts.attachment_parts import (
    IMAGE_AND_PDF_TYPES,
    FormattedAttachments,
    encode_base64,
    format_attachment_name,
    split_attachments,
)
from jp_nb.providers.request_parts.request_body import WireMessage, encode_json

CACHE_MARK: Final[WireMessage] = {"type": "ephemeral"}
"""Value of `cache_control` of a block. The API caches the prompt up to this block."""
_MAX_TITLE_CHARS: Final = 500


def make_text_block(text: str) -> WireMessage:
    """Return a content block with `text`."""
    return {"type": "text", "text": text}


def format_attachments(attachments: Sequence[Attachment]) -> FormattedAttachments:
    """Format attachments as blocks of the first user message. The last one has a cache marker."""
    sent, omitted = split_attachments(attachments, IMAGE_AND_PDF_TYPES)
    blocks = list(chain.from_iterable(map(format_attachment_blocks, sent)))
    if blocks:
        blocks[-1]["cache_control"] = CACHE_MARK
    # The request inserts the blocks before the other blocks of the message: without the brackets.
    listed = encode_json(blocks)
    return FormattedAttachments(user_parts=listed[1:-1], omitted=omitted)


def format_attachment_blocks(attachment: Attachment) -> list[WireMessage]:
    """Return the content blocks of one attachment: a document, or a name and an image."""
    content = attachment.content
    if isinstance(content, str):
        text = content if content.strip() else "(empty)"  # the API rejects a blank text
        return [
            _make_document_block(
                attachment, {"type": "text", "media_type": "text/plain", "data": text}
            )
        ]

    source = {
        "type": "base64",
        "media_type": attachment.media_type,
        "data": encode_base64(content),
    }

    if attachment.media_type == PDF:
        return [_make_document_block(attachment, source)]
    return [
        make_text_block(format_attachment_name(attachment)),
        {"type": "image", "source": source},
    ]


def format_text_and_images(text: str, images: Sequence[Image]) -> list[WireMessage]:
    """Return the content blocks of `text`, if it is not blank, and of `images`.

    Before each, a text names it, such as `[image: figure 1, image/png 640×480]`.
    """
    blocks = [make_text_block(text)] if text.strip() else []
    for image in images:
        source = {"type": "base64", "media_type": image.media_type, "data": image.text}
        kind = "document" if image.media_type == PDF else "image"
        label = make_text_block(f"[{image.noun}: {image.words}]")
        blocks += [label, {"type": kind, "source": source}]
    return blocks


def _make_document_block(attachment: Attachment, source: WireMessage) -> WireMessage:
    title = format_attachment_name(attachment)
    if len(title) > _MAX_TITLE_CHARS:
        title = "…" + title[1 - _MAX_TITLE_CHARS :]  # the end has the name of the file
    return {"type": "document", "source": source, "title": title}
