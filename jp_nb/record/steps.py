"""The steps of a configuration: what is stored of each change, and what it came to. Pure.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jp_nb.config.partial import Change, Partial
from jp_nb.record.events import ConfigDelta


@dataclass(frozen=True, slots=True)
class Step:
    """One change of the configuration and what it came to.

    Attributes:
        number: Of the delta among the conversation's; -1 for its base configuration.
        delta: The entry; None for the base configuration.
        change: What of it counts.
        below: What lies under the conversation; after a reset that is less.
        defaults: What the tools bring along: it shows where something is unset.
        before: The partial in force until then.
        after: And from then on.
        taken_back: The turn it was made for got no answer: it does not count.
    """

    number: int
    delta: ConfigDelta | None
    change: Change
    below: Partial
    defaults: Partial
    before: Partial
    after: Partial
    taken_back: bool = False

    @property
    def is_reset(self) -> bool:
        """True if everything begins again here."""
        return self.delta is None or (self.delta.op == "reset" and not self.taken_back)


def related(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether one path leads to the other."""
    length = min(len(one), len(other))
    return one[:length] == other[:length]
