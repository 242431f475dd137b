"""Chat Completions: the parts of a message.

A message has a text, or a list of parts with texts, images, and PDFs:

    {"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", …}]}

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

from jp_nb.image_headers import PDF
from jp_nb.images import Image
from jp_nb.providers.request_parts.attachment_parts import format_pdf_name
from jp_nb.providers.request_parts.request_body import WireMessage


def format_image_parts(image: Image, words: str) -> list[WireMessage]:
    """Return the parts of an image or a PDF of the conversation, below a text with `words`."""
    if image.media_type == PDF:
        part = make_pdf_part(format_pdf_name(image), image.text)
    else:
        part = make_image_part(image.media_type, image.text)
    return [make_text_part(words), part]


def make_text_part(text: str) -> WireMessage:
    """Return a part with a text."""
    return {"type": "text", "text": text}


def make_pdf_part(name: str, base64_data: str) -> WireMessage:
    """Return a part with a PDF, whose content is Base64."""
    url = f"data:{PDF};base64,{base64_data}"
    return {"type": "file", "file": {"filename": name, "file_data": url}}


def make_image_part(media_type: str, base64_data: str) -> WireMessage:
    """Return a part with an image, whose content is Base64."""
    url = f"data:{media_type};base64,{base64_data}"
    return {"type": "image_url", "image_url": {"url": url}}
