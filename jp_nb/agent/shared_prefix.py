"""Compare the beginnings of two requests. Prompt caches of providers cover only the common one.

Source: `docs/providers.md` (requests only grow).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

BodyPart = tuple[str, bytes]
"""Name and content of a part of a request body, such as a message or one of its `tools`.

Several parts may have the same name.
"""


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """The common beginning of two requests.

    Attributes:
        kept: Size of the common beginning, in bytes.
        total: Size of the first request, in bytes.
        part: The first part that differs; "" if the second request begins with the first one.
    """

    kept: int
    total: int
    part: str

    @property
    def percent(self) -> int:
        """The common beginning in percent, rounded down."""
        return 100 * self.kept // self.total if self.total else 0


def compare_parts(before: Sequence[BodyPart], after: Sequence[BodyPart]) -> SharedPrefix:
    """Return the common beginning of two requests with these parts."""
    contents_before = [content for _, content in before]
    contents_after = [content for _, content in after]
    pairs = zip(contents_before, contents_after, strict=False)
    same_count = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    sizes = list(map(len, contents_before))

    part = ""
    if same_count < len(before):
        part = _name_first_difference(before[same_count:], after[same_count:])
    return SharedPrefix(sum(sizes[:same_count]), sum(sizes), part)


def _name_first_difference(before: Sequence[BodyPart], after: Sequence[BodyPart]) -> str:
    """Return the name of the part that was inserted, changed, or removed.

    Both are the parts from the first difference on. A part was inserted if `before` has none of
    this name: from `[message]` to `[tools, message]`, that is `tools`. Otherwise the first part of
    `before` was changed or removed.
    """
    names_before = [name for name, _ in before]
    if after:
        name_after, _ = after[0]
        if name_after and name_after not in names_before:
            return name_after
    return names_before[0]
