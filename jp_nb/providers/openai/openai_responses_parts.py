"""Make the parts of messages of the Responses API: texts, images, and PDFs.

A message is an item of the request with a list of parts:

    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]}

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

from collections.abc import Sequence

from jp_nb.agent.provider import Attachment
from jp_nb.image_headers import PDF
from jp_nb.images import Image
from jp_nb.providers.request_parts.attachment_parts import (
    IMAGE_AND_PDF_TYPES,
    FormattedAttachments,
    encode_base64,
    format_attachment_name,
    format_pdf_name,
    split_attachments,
)
from jp_nb.providers.request_parts.documents_xml import format_documents_xml
from jp_nb.providers.request_parts.request_body import WireMessage, encode_json


def format_attachments(
    attachments: Sequence[Attachment], media_types: frozenset[str] = IMAGE_AND_PDF_TYPES
) -> FormattedAttachments:
    """Format attachments as a user message before the context."""
    sent, omitted = split_attachments(attachments, media_types)
    xml = format_documents_xml(sent)
    parts = [make_text_part(xml)] if xml else []

    for attachment in sent:
        if isinstance(attachment.content, str):
            continue
        name = format_attachment_name(attachment)
        data = encode_base64(attachment.content)
        if attachment.media_type == PDF:
            parts.append(_make_pdf_part(name, data))
        else:
            parts += [make_text_part(name), _make_image_part(attachment.media_type, data)]

    messages = (encode_json(make_user_item(parts)),) if parts else ()
    return FormattedAttachments(messages, omitted=omitted)


def format_system_item(texts: Sequence[str], role: str) -> WireMessage | None:
    """Return the system texts as an item of `role`; None without a text."""
    parts = [make_text_part(text) for text in texts if text.strip()]
    if not parts:
        return None
    return {"type": "message", "role": role, "content": parts}


def make_text_part(text: str) -> WireMessage:
    """Return a part with a text."""
    return {"type": "input_text", "text": text}


def _make_image_part(media_type: str, base64_data: str) -> WireMessage:
    url = f"data:{media_type};base64,{base64_data}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}


def _make_pdf_part(name: str, base64_data: str) -> WireMessage:
    url = f"data:{PDF};base64,{base64_data}"
    return {"type": "input_file", "filename": name, "file_data": url}


def make_text_and_image_parts(
    text: str, images: Sequence[Image], origin: str = ""
) -> list[WireMessage]:
    """Return the parts of a message. `origin` follows the name of each image or PDF."""
    parts = [make_text_part(text)] if text.strip() else []
    for image in images:
        parts.append(make_text_part(f"[{image.noun}: {image.words}{origin}]"))
        if image.media_type == PDF:
            parts.append(_make_pdf_part(format_pdf_name(image), image.text))
        else:
            parts.append(_make_image_part(image.media_type, image.text))
    return parts


def make_user_item(parts: list[WireMessage]) -> WireMessage:
    """Return a message of the user."""
    return {"type": "message", "role": "user", "content": parts}
