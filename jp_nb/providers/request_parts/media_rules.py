"""The rules of a model about images and PDFs, and the words for a file that a request omits.

`Image.noun` is `image` or `PDF`, and `Image.words` its name, type, and size, such as
`figure 1, image/png 640×480`.

Source: `docs/providers.md` (images and PDFs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from jp_nb.agent.provider import Attachment
from jp_nb.images import Image
from jp_nb.providers.request_parts.attachment_parts import IMAGE_AND_PDF_TYPES


@dataclass(frozen=True, slots=True)
class MediaRules:
    """The images and PDFs that requests to a model omit.

    Attributes:
        refused: The server's reason for each file that it has refused, by digest.
        max_pages: Maximum number of pages of all PDFs of a request; None if there is no limit.
    """

    refused: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    max_pages: int | None = None

    def find_omission_reason(self, image: Image, pages_before: int) -> str:
        """Return the reason to omit `image`, which may be a PDF; "" to send it.

        `pages_before` is the number of pages of the PDFs before it, as far as it is known.
        """
        reason = self.refused.get(image.digest)
        if reason is not None:
            return f"the server refused it: {reason}"

        pages = image.pages
        if pages is None or self.max_pages is None or pages_before + pages <= self.max_pages:
            return ""

        limit = f"a request to this model takes at most {self.max_pages} pages"
        if not pages_before:
            return f"it has {pages} pages, and {limit}: select pages"
        return f"it has {pages} pages, and {limit}, of which {pages_before} are used: select pages"


def as_image(attachment: Attachment) -> Image | None:
    """Return an attached image or PDF as an `Image`; None for a text or another file."""
    content = attachment.content
    if isinstance(content, str) or attachment.media_type not in IMAGE_AND_PDF_TYPES:
        return None
    return Image(attachment.media_type, content, attachment.source)


def format_omission(image: Image, reason: str) -> str:
    """Return the line that replaces `image` in a request."""
    return f"[{image.noun}: {image.words}, not sent: {reason}]"


def name_medium(image: Image) -> str:
    """Return the name of an image or a PDF for the user."""
    return f"{image.noun} ({image.words})"
