"""Descriptions of Python values, and their size budget.

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
    """Limits of a description.

    Attributes:
        chars: Maximum number of characters of the text.
        side: Maximum number of pixels of the longest side of an image.
        images: Maximum number of images. With 0, no image is drawn.
        privacy: Rules for hidden parts of the value.
    """

    chars: int = DEFAULT_CHARS
    side: int = DEFAULT_SIDE
    images: int = 4
    privacy: Privacy | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Description:
    """Description of a value for the model. A notebook displays its text, then its images.

    Attributes:
        text: The text, within the budget. It names omitted parts.
        images: Images of the value, in the order of the text.
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
