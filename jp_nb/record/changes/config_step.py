"""`Step`: one configuration change of a conversation, with the merged settings before and after it.

`config_history.py` makes the steps. The last one is the effective configuration, and the last one
that changed a path is the source of its value (`provenance.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_change import Change
from jp_nb.record.entries.events import ConfigDelta


@dataclass(frozen=True, slots=True)
class Step:
    """A configuration change and its result."""

    number: int
    """Number of the delta in the conversation; -1 for the base configuration."""
    delta: ConfigDelta | None
    """The entry; None for the base configuration."""
    change: Change
    """The part of the entry that applies."""
    below: Partial
    """The layers below the conversation; after a reset by the user, only `defaults`."""
    defaults: Partial
    """The tools' defaults, which apply where a path is unset."""
    after: Partial
    """The merged settings after the change."""
    is_reverted: bool = False
    """True if the change was reverted, because its turn has no answer."""

    @property
    def is_reset(self) -> bool:
        """True for the base configuration, and for a change that discards all earlier settings."""
        if self.delta is None:
            return True

        # The result of a reset is `below` itself. But a reset may be ignored, if the budget for
        # changes of an untrusted record is spent: then its result is the settings before it.
        applies = not self.is_reverted and self.after is self.below
        return self.delta.op == "reset" and applies

    @property
    def discards_layers(self) -> bool:
        """True for a reset that also discards the settings of the layers below the conversation.

        A reset in an untrusted record does not.
        """
        return self.delta is not None and self.is_reset and self.below is self.defaults


def select_steps_since_reset(steps: Sequence[Step]) -> list[Step]:
    """Return the applied steps from the last reset on, or from the base configuration."""
    start = next(index for index in reversed(range(len(steps))) if steps[index].is_reset)
    return [step for step in steps[start:] if not step.is_reverted]
