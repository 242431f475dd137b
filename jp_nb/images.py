"""Images and PDFs for models, and the limits of providers for them.

Providers refuse a request with an image that is too large or damaged. So images are checked before
they are recorded and sent.

Source: `docs/record.md`.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from jp_nb.image_headers import MEDIA_TYPES, PDF, detect_media_type, read_image_size
from jp_nb.pdf_pages import count_pdf_pages
from jp_nb.text import format_bytes, one_line, pluralize

MAX_IMAGE_BYTES: Final = 3_750_000
"""Maximum size of one image or PDF: Anthropic's limit for an image is 5 MB in Base64.

PDFs have the same limit here, although Anthropic limits only the whole request, to 32 MB.

Source: https://docs.anthropic.com/en/docs/build-with-claude/pdf-support
"""
MAX_IMAGE_SIDE: Final = 2000
"""Maximum width and height in pixels: Anthropic's limit for requests with more than 20 images.

Source: https://docs.anthropic.com/en/docs/build-with-claude/vision
"""
MAX_IMAGE_NAME_CHARS: Final = 80


@dataclass(frozen=True)
class Image:
    r"""An image for the model (PNG, JPEG, GIF, or WebP), or a PDF.

    Example:
        >>> Image("image/gif", b"GIF89a\x03\0\x02\0", "figure 1").words
        'figure 1, image/gif 3×2'

    `media_type` is one of `MEDIA_TYPES`, or `application/pdf`. `content` is the bytes of the file,
    and `name` a short description, such as `figure 1`; "" if there is none.
    """

    media_type: str
    content: bytes = field(repr=False)
    name: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return f"<{self.words_with_size}>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": repr(self), **self.display_data}

    @property
    def noun(self) -> Literal["image", "PDF"]:
        """`image` or `PDF`."""
        return "PDF" if self.media_type == PDF else "image"

    @property
    def display_data(self) -> dict[str, str]:
        """The image for a MIME bundle; empty for a PDF, which a notebook shows as text."""
        return {self.media_type: self.text} if self.media_type in MEDIA_TYPES else {}

    @cached_property
    def digest(self) -> str:
        """SHA-256 digest of the file: `sha256:` and hexadecimal digits."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    @cached_property
    def text(self) -> str:
        """The file in Base64."""
        return base64.b64encode(self.content).decode("ascii")

    @cached_property
    def size(self) -> tuple[int, int] | None:
        """Width and height in pixels; None if the file does not contain them."""
        return read_image_size(self.content)

    @cached_property
    def pages(self) -> int | None:
        """Number of pages of a PDF; None for an image, and if the PDF does not declare it."""
        return count_pdf_pages(self.content) if self.media_type == PDF else None

    @property
    def words(self) -> str:
        """Name, type, and size in pixels: `figure 1, image/png 640×480`; for a PDF, in bytes."""
        name = one_line(self.name, limit=MAX_IMAGE_NAME_CHARS).replace("[", "(").replace("]", ")")
        size = "" if self.size is None else f" {self.size[0]}×{self.size[1]}"
        if self.media_type == PDF:
            size = f" {format_bytes(len(self.content))}"
        kind = one_line(self.media_type, limit=MAX_IMAGE_NAME_CHARS)
        return f"{name}, {kind}{size}" if name else f"{kind}{size}"

    @property
    def words_with_size(self) -> str:
        """`words` and the size of the file: `figure 1, image/png 640×480, 31.2 kB`."""
        is_pdf = self.media_type == PDF
        return self.words if is_pdf else f"{self.words}, {format_bytes(len(self.content))}"

    def left_out(self, why: str) -> str:
        """Return a text that replaces the image or PDF for a model, with the reason `why`."""
        return f"[{self.noun}: {self.words_with_size}: omitted, because {why}]"


def count_images(images: Iterable[Image]) -> list[str]:
    """Return the numbers of images and of PDFs, if there are any: `["2 images", "1 PDF"]`."""
    nouns = Counter(image.noun for image in images)
    return [f"{number} {pluralize(noun, number)}" for noun, number in nouns.items()]


def find_image_problem(image: Image) -> str | None:
    """Return the reason why models cannot receive `image`, which may be a PDF, or None.

    An image that a provider rejects would make each request fail.
    """
    if image.media_type not in (*MEDIA_TYPES, PDF):
        return f"models accept {', '.join((*MEDIA_TYPES, PDF))}"
    if detect_media_type(image.content) != image.media_type:
        return f"its bytes are not {image.media_type}"
    if image.media_type == PDF:
        return _find_pdf_problem(image.content)
    if image.size is None:
        return "its bytes do not give its size"
    if max(image.size) > MAX_IMAGE_SIDE:
        return f"models accept at most {MAX_IMAGE_SIDE} pixels per side: scale it down"
    if len(image.content) > MAX_IMAGE_BYTES:
        return f"models accept at most {MAX_IMAGE_BYTES} bytes: scale it down"
    return None


def _find_pdf_problem(content: bytes) -> str | None:
    # Anthropic accepts only complete PDFs without encryption (see `MAX_IMAGE_BYTES`).
    if len(content) > MAX_IMAGE_BYTES:
        return f"the limit is {MAX_IMAGE_BYTES} bytes: select pages"
    if b"%%EOF" not in content:
        return "its end is missing"
    return "it is encrypted" if b"/Encrypt" in content else None
