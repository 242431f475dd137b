"""What the describers of single kinds have in common.

Source: `docs/values.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from jp_nb.values.cutting import count
from jp_nb.values.description import Description

BRIEF_CHARS = 160


@dataclass(frozen=True, slots=True)
class Telling:
    """What a description has to keep to.

    Attributes:
        chars: The longest text.
        side: Pixels of the longest side of an image.
        images: How many images.
        name: The expression that gives the value; "" if there is none.
        inner: Describes a value inside of this one.
        brief: One line is wanted: of all that is said, the first counts.
    """

    chars: int
    side: int
    images: int
    name: str
    inner: Callable[[object, Telling], Description]
    brief: bool = False

    def part(self, chars: int, *, name: str = "", images: int = 0, brief: bool = False) -> Telling:
        """Return what counts for a part of the value."""
        return replace(self, chars=chars, name=name, images=images, brief=brief)

    def expression(self, end: str) -> str:
        """Return the expression for what stands behind the value, such as `rows[20:40]`."""
        return f"{self.name}{end}" if self.name else end

    def more(self, number: int, word: str, end: str, many: str = "") -> str:
        """Return that `number` things are left out, and the expression that has them."""
        return f"… {count(number, f'more {word}', many and f'more {many}')}; {self.expression(end)}"


Describer = Callable[[Any, Telling], "str | Description"]
