"""Describe pictures: images of PIL, and images for the model, which are shown as they are.

A *describer* returns the text of a value for the model, perhaps with images, within its `limits`
(`base.py`). With `limits.brief`, the text is one line, without images.

Source: `docs/values.md`.
"""

from __future__ import annotations

import io
from typing import Any, Final

from jp_nb.images import Image
from jp_nb.values.base import Description, DescriptionLimits, ValueKind, ValueKinds
from jp_nb.values.cut_text import format_quantity
from jp_nb.values.figures import add_image, quote_label

MAX_PIXELS: Final = 60_000_000
"""Maximum size of a picture that is resized."""
_MODES: Final = ("1", "L", "LA", "RGB", "RGBA")
"""Modes of pictures that PNG supports."""


def _describe_picture(value: Any, limits: DescriptionLimits) -> str | Description:
    width, height = value.size
    title = f"PIL.{type(value).__name__}, {width} x {height} pixels, mode {value.mode}"
    if limits.brief:
        return title
    if width * height > MAX_PIXELS:
        return f"{title}: too large to show. Make a smaller copy with .resize((768, 768))"
    return add_image(title, limits, lambda: _resize(value, limits.side))


def _resize(value: Any, side: int) -> bytes:
    """Return the image as a PNG of at most `side` pixels, without the metadata of its file."""
    image = value
    if image.mode not in _MODES:
        has_alpha = image.mode in ("PA", "RGBa") or "transparency" in image.info
        mode = "RGBA" if has_alpha else "RGB"
        if image.mode == "La":
            mode = "LA"
        image = image.convert(mode)

    image = image.copy()
    image.info = {}  # metadata of the file, such as the location of a photo
    if max(image.size) > side:
        image.thumbnail((side, side))

    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()


def _describe_image(value: Image, limits: DescriptionLimits) -> str | Description:
    title = f"{value.media_type} of {format_quantity(len(value.content), 'byte')}"
    named = f"{title}, {quote_label(value.name)}" if value.name else title
    is_shown = limits.images > 0 and not limits.brief
    images = (value,) if is_shown else ()
    return Description(named, images)


PICTURE_KINDS: Final[ValueKinds] = (
    ("PIL.Image", "Image", ValueKind(_describe_picture, is_rich=True)),
    ("jp_nb.images", "Image", ValueKind(_describe_image, is_rich=True)),
)
