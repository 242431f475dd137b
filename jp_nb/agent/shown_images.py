"""Which images of a result or a request a model is sent, and what it reads in place of the others.

Source: `docs/turns.md`, `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jp_nb.config.tree.style_config import Record
from jp_nb.image import Image, unfit

MAX_TOLD: Final = 20
"""Images that are left out, each in a line of its own; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The images that are kept and sent.

    Attributes:
        images: Each once, in order.
        left_out: Why the others are not, one line for each: a model reads them in their place.
    """

    images: tuple[Image, ...] = ()
    left_out: tuple[str, ...] = ()

    def added_to(self, text: str) -> str:
        """Return `text` with what is said of the images that are left out."""
        told = self.left_out[:MAX_TOLD]
        more = len(self.left_out) - len(told)
        lines = [*told, *([f"[{more} more omitted]"] if more else [])]
        return "\n".join([*([text] if text else []), *lines])


NONE: Final = Admitted()


def admit(images: Iterable[Image], limits: Record, *, before: int) -> Admitted:
    """Return those of `images` within `limits`; the turn shows so many `before` them."""
    kept: dict[str, Image] = {}
    left_out: list[str] = []
    for image in images:
        if image.digest in kept:
            continue
        why = _why_not(image, limits, before + len(kept))
        if why is None:
            kept[image.digest] = image
        else:
            left_out.append(image.left_out(why))
    return Admitted(tuple(kept.values()), tuple(left_out))


def _why_not(image: Image, limits: Record, before: int) -> str | None:
    if len(image.content) > limits.image_max_bytes:
        return f"record.image_max_bytes is {limits.image_max_bytes}"
    if before >= limits.images_per_turn:
        return f"record.images_per_turn is {limits.images_per_turn}"
    return unfit(image)


def in_a_word(images: Sequence[object]) -> str:
    """Return how many images there are: `1 image`."""
    return f"{len(images)} image{'' if len(images) == 1 else 's'}"
