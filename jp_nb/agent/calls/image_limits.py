"""Keep the images of a turn within its limits.

Source: `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jp_nb.config.tree.app import Record
from jp_nb.images import Image, find_image_problem
from jp_nb.text import MAX_LISTED_LINES


@dataclass(frozen=True, slots=True)
class LimitedImages:
    """Images within the limits of a turn, and a line for each of the `omitted` ones."""

    images: tuple[Image, ...] = ()
    omitted: tuple[str, ...] = ()

    def add_omissions_to(self, text: str) -> str:
        """Return `text` followed by the lines about omitted images."""
        lines = list(self.omitted[:MAX_LISTED_LINES])
        more = len(self.omitted) - len(lines)
        if more:
            lines.append(f"[{more} more omitted]")
        if text:
            lines.insert(0, text)
        return "\n".join(lines)


NO_IMAGES: Final = LimitedImages()


def limit_images(images: Iterable[Image], limits: Record, *, earlier_count: int) -> LimitedImages:
    """Return the `images` within `limits`, if the turn has `earlier_count` images already.

    `limits` are the settings `record`. An image that occurs twice is kept once.
    """
    kept: dict[str, Image] = {}
    omitted: list[str] = []

    for image in images:
        if image.digest in kept:
            continue
        if len(image.content) > limits.image_max_bytes:
            reason: str | None = f"record.image_max_bytes is {limits.image_max_bytes}"
        elif earlier_count + len(kept) >= limits.images_per_turn:
            reason = f"record.images_per_turn is {limits.images_per_turn}"
        else:
            reason = find_image_problem(image)

        if reason is None:
            kept[image.digest] = image
        else:
            omitted.append(image.left_out(reason))  # a line about the image

    return LimitedImages(tuple(kept.values()), tuple(omitted))
