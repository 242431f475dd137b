"""Descriptions of values: their limits, their results, and their describers.

A *describer* is a function that returns the description of a value within `DescriptionLimits`. Each
module of this folder lists its describers by class as `ValueKinds`, and `describe.py` chooses one.
It makes the `DescriptionLimits` from the `ValueBudget` of the caller. A describer divides its
limits among the parts of the value (`for_part`).

Source: `docs/values.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jp_nb.images import Image
from jp_nb.text import plain
from jp_nb.values.cut_text import format_quantity
from jp_nb.values.privacy import Privacy

DEFAULT_CHARS = 20_000
DEFAULT_SIDE = 768


@dataclass(frozen=True, slots=True)
class ValueBudget:
    """Limits of a description, as the caller of `describe` sets them.

    Attributes:
        chars: Maximum length of the text.
        side: Maximum number of pixels of the longest side of an image.
        images: Maximum number of images.
        privacy: Rules that hide secrets. With None, the current rules apply: those of the value
            that contains this one, if that is being described.
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
        images: Images and PDFs of the value, in the order of the text.
    """

    text: str
    images: tuple[Image, ...] = ()

    def __repr__(self) -> str:
        shown = [f"[{image.noun}: {image.words_with_size}]" for image in self.images]
        return "\n".join([plain(self.text, limit=sys.maxsize), *map(plain, shown)])

    def _ipython_display_(self) -> None:
        # Only IPython calls this, so its modules are loaded.
        display = sys.modules["IPython.display"].display
        display({"text/plain": repr(self)}, raw=True)
        for image in self.images:
            if data := image.display_data:
                display({**data, "text/plain": plain(image.name)}, raw=True)


BRIEF_CHARS = 160
"""Usual length of a description in one line."""


@dataclass(frozen=True, slots=True)
class DescriptionLimits:
    """Limits for the description of one value or part.

    Attributes:
        chars: Maximum length of the text.
        side: Maximum number of pixels of the longest side of an image.
        images: Maximum number of images.
        name: Expression for the value, such as the name of a variable; "" without one.
        describe_part: Function that describes a part of the value, within the result of `for_part`.
        brief: True for a description in one line.
    """

    chars: int
    side: int
    images: int
    name: str
    describe_part: Callable[[object, DescriptionLimits], Description]
    brief: bool = False

    def for_part(
        self, chars: int, *, name: str = "", images: int = 0, brief: bool = False
    ) -> DescriptionLimits:
        """Return the limits for a part of the value, which by default has no name and images."""
        return replace(self, chars=chars, name=name, images=images, brief=brief)

    def format_expression(self, end: str) -> str:
        """Return the value's name followed by `end`, such as `rows[20:40]`."""
        return f"{self.name}{end}" if self.name else end

    def format_omitted(self, number: int, word: str, end: str, many: str = "") -> str:
        """Return a note about omitted items: `… 80 more rows; df[20:40] has the next`.

        This is `format_omitted(80, "row", "[20:40] has the next")` for the value with the name
        `df`. `many` is the plural of the noun `word`, if that is irregular.
        """
        plural = f"more {many}" if many else ""
        return f"… {format_quantity(number, f'more {word}', plural)}; {self.format_expression(end)}"


Describer = Callable[[Any, DescriptionLimits], "str | Description"]
"""A text is a description without images."""


class ValueKind(NamedTuple):
    """A kind of values.

    Attributes:
        describe: The describer.
        is_rich: True if such values, for example frames and figures, are described separately in a
            container, each with its own lines and images.
    """

    describe: Describer
    is_rich: bool = False


ValueKinds = tuple[tuple[str, str, ValueKind], ...]
"""Kinds of values, each with the module and the name of its class."""
