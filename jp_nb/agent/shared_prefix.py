"""Compare the beginnings of two requests. Prompt caches of providers cover only the common one.

Source: `docs/providers.md` (requests only grow).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

BodyPart = tuple[str, bytes]
"""Name and content of a part of a request body, such as a message or one of its `tools`."""


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
    pairs = zip(before, after, strict=False)
    same_parts = takewhile(lambda pair: pair[0][1] == pair[1][1], pairs)
    same_count = len(list(same_parts))
    sizes = [len(content) for _, content in before]

    part = ""
    if same_count < len(before):
        # The first part that differs is a new one, or one that was changed or removed.
        next_name = after[same_count][0] if same_count < len(after) else ""
        later_names = {name for name, _ in before[same_count:]}
        is_new = next_name and next_name not in later_names
        part = next_name if is_new else before[same_count][0]

    return SharedPrefix(sum(sizes[:same_count]), sum(sizes), part)
