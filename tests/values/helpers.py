"""Helpers that describe values."""

from __future__ import annotations

import io

import PIL.Image

from tests.kit.values import describe_value

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def text(value: object, chars: int = 2_000, name: str = "value") -> str:
    """Return the description of `value`, without images."""
    return str(describe_value(value, chars=chars, name=name).text)


def picture(value: object, side: int = 768) -> PIL.Image.Image:
    """Return the only image of the description of `value`."""
    (image,) = describe_value(value, side=side).images
    made = PIL.Image.open(io.BytesIO(image.content))
    made.load()
    return made
