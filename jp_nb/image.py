"""A picture that a model is sent, and what its first bytes say of it.

Source: `docs/record.md`.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

MEDIA_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The kinds that every provider which is sent images takes."""
_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True)
class Image:
    """A picture in one of the forms of `MEDIA_TYPES`.

    Attributes:
        media_type: Such as `image/png`.
        content: The bytes of the file.
        name: What it is, in words, such as `figure 1`; "" if nobody said.
    """

    media_type: str
    content: bytes = field(repr=False)
    name: str = field(default="", compare=False)

    @cached_property
    def digest(self) -> str:
        """Return what tells it from every other image: `sha256:` and hexadecimal digits."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    @property
    def text(self) -> str:
        """Return the bytes in Base64."""
        return base64.b64encode(self.content).decode("ascii")


def media_type_of(content: bytes) -> str | None:
    """Return the kind of image that `content` begins as; None if it is none of `MEDIA_TYPES`."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _BEGINNINGS if content.startswith(start)), None)
