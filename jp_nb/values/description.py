"""A value as a model is told of it, and how long that may be.

Source: `docs/values.md`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from jp_nb.image import Image
from jp_nb.safe_text import plain
from jp_nb.values.privacy import Privacy

DEFAULT_CHARS = 20_000
DEFAULT_SIDE = 768


@dataclass(frozen=True, slots=True)
class ValueBudget:
    """How much may be said of a value.

    Attributes:
        chars: Characters of the text.
        side: Pixels of the longest side of an image.
        images: How many images; with 0 nothing is drawn.
        privacy: Rules for the parts of the value that are hidden.
    """

    chars: int = DEFAULT_CHARS
    side: int = DEFAULT_SIDE
    images: int = 4
    privacy: Privacy | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Description:
    """What is said of a value. In a cell it is shown as a model is told it: text, then images.

    Attributes:
        text: At most as long as the budget. What is left out is said in it.
        images: Pictures of the value, in the order of the text.
    """

    text: str
    images: tuple[Image, ...] = ()

    def __repr__(self) -> str:
        shown = [f"[image: {image.words_with_size}]" for image in self.images]
        return "\n".join([plain(self.text, limit=sys.maxsize), *map(plain, shown)])

    def _ipython_display_(self) -> None:
        """Show text and images, each as an output of its own."""
        display = sys.modules["IPython.display"].display
        display({"text/plain": repr(self)}, raw=True)
        for image in self.images:
            display({image.media_type: image.text, "text/plain": plain(image.name)}, raw=True)
