"""Parts of a request for attachments, which several providers share.

An *attachment* is a file that the user gives to the whole conversation: a text, an image, or a PDF.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from jp_nb.agent.provider import Attachment
from jp_nb.image_headers import MEDIA_TYPES, PDF
from jp_nb.images import MAX_IMAGE_NAME_CHARS, Image
from jp_nb.providers.network.endpoint import Endpoint
from jp_nb.providers.request_parts.omission_reports import Omitted
from jp_nb.text import one_line

IMAGE_TYPES: Final = frozenset(MEDIA_TYPES)
IMAGE_AND_PDF_TYPES: Final = IMAGE_TYPES | {PDF}


@dataclass(frozen=True, slots=True)
class FormattedAttachments:
    """Attachments in a provider's format. An API has one of three places for them.

    Attributes:
        messages: Messages before those of the context, each as JSON.
        system: Text at the end of the system prompt.
        user_parts: Parts at the start of the first user message, as JSON, joined by commas.
        omitted: The attachments that are not sent, each with the reason.
    """

    messages: tuple[bytes, ...] = ()
    system: str = ""
    omitted: Omitted = field(default_factory=dict)
    user_parts: bytes = b""


def split_attachments(
    attachments: Sequence[Attachment], media_types: frozenset[str]
) -> tuple[list[Attachment], Omitted]:
    """Separate attachments that the provider accepts (texts and `media_types`) from the others."""
    sent: list[Attachment] = []
    omitted: Omitted = {}
    for attachment in attachments:
        setting = f"conversation.attachments[{attachment.source!r}] ({attachment.media_type})"
        if isinstance(attachment.content, bytes) and attachment.media_type not in media_types:
            accepted = ", ".join(("text", *sorted(media_types)))
            omitted.setdefault(setting, f"this provider accepts only {accepted}")
        elif attachment.content == b"":
            omitted.setdefault(setting, "it is empty")
        else:
            sent.append(attachment)

    return sent, omitted


def as_image(attachment: Attachment) -> Image | None:
    """Return an attached image or PDF as an `Image`; None for a text or another file."""
    content = attachment.content
    if isinstance(content, str) or attachment.media_type not in IMAGE_AND_PDF_TYPES:
        return None
    return Image(attachment.media_type, content, attachment.source)


def advise_images(endpoint: Endpoint, media_types: frozenset[str]) -> str:
    """Return the advice for a user whose model may accept images; "" if they are sent."""
    if media_types >= IMAGE_TYPES:
        return ""
    return f"If the model accepts images: `%jp config {endpoint.setting_path}.images=true`"


def format_attachment_name(attachment: Attachment) -> str:
    """Return the source, or a placeholder because APIs reject blank names."""
    return attachment.source if attachment.source.strip() else "(no name)"


def format_pdf_name(image: Image) -> str:
    """Return the name of a PDF of a request or result, as the name of a file."""
    name = one_line(image.name, limit=MAX_IMAGE_NAME_CHARS) or "document"
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def encode_base64(content: bytes) -> str:
    """Return `content` in Base64."""
    return base64.b64encode(content).decode("ascii")
