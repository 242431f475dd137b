"""Helpers that describe values."""

from __future__ import annotations

import io

import PIL.Image

import jp_nb as jp
from jp_nb.values.base import ValueBudget

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def text(value: object, chars: int = 2_000, name: str = "value") -> str:
    """Return the description of `value`, without images."""
    return jp.describe(value, ValueBudget(chars=chars), name=name).text


def picture(value: object, side: int = 768) -> PIL.Image.Image:
    """Return the only image of the description of `value`."""
    (image,) = jp.describe(value, ValueBudget(side=side)).images
    made = PIL.Image.open(io.BytesIO(image.content))
    made.load()
    return made
