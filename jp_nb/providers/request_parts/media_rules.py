"""The rules of a model about images and PDFs, which decide about the files that requests omit.

Source: `docs/providers.md` (images and PDFs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from jp_nb.images import Image


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
