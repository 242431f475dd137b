"""Changes of the configuration before they are recorded.

Source: `spec/conversation-stream.md` 5.4.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.config.app_config import AppConfig
from jp_nb.config.partial import Change, Partial, apply, diff, settled, validate
from jp_nb.record.claims import Claims
from jp_nb.record.events import ConfigDelta
from jp_nb.record.projection import Projection, Step


class Draft:
    """Changes on top of a projection, one after the other.

    Attributes:
        deltas: The entries to append, all of them or none.
    """

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._now = projection.now()
        self._made: list[Step] = []
        self.deltas: list[ConfigDelta] = []

    def add(self, change: Change, claims: Mapping[str, JsonValue]) -> bool:
        """Make `change`, without what is so already; returns whether anything is left of it.

        New claims are recorded also alone: who owns a path may change while its value stays.
        """
        change = self._reduced(change)
        if not change and self._is_claimed(claims):
            return False
        self._append(ConfigDelta(delta=change.delta, unsets=change.unsets, claims=dict(claims)))
        return bool(change)

    def reset(self) -> None:
        """Begin again from the program's defaults."""
        self._append(ConfigDelta(op="reset"))

    def _append(self, delta: ConfigDelta) -> None:
        self._now = self._projection.step(self._now, self._now.number + 1, delta)
        self._made.append(self._now)
        self.deltas.append(delta)

    def _reduced(self, change: Change) -> Change:
        """The smallest change that does the same now."""
        now = self._now
        before = settled(now.after)
        wanted = settled(apply(now.after, change, now.below))
        unsets = change.unsets if wanted != before else ()
        cleared = settled(apply(now.after, Change(unsets=unsets), now.below))
        needed = diff(cleared, wanted)
        smaller = Change(needed.delta, tuple(dict.fromkeys((*unsets, *needed.unsets))))
        same = settled(apply(now.after, smaller, now.below)) == wanted
        return smaller if same else change

    def _is_claimed(self, claims: Mapping[str, JsonValue]) -> bool:
        return not claims or Claims(self.steps()).hold(claims)

    def partial(self) -> Partial:
        """What would be set."""
        return settled(self._now.after)

    def config(self) -> AppConfig:
        """The configuration that would be in force.

        Raises:
            ConfigError: If it is none.
        """
        return validate(self._now.after)

    def steps(self) -> list[Step]:
        """All changes since the last reset, with those made here."""
        found = self._projection.steps()
        for step in self._made:
            found = [step] if step.is_reset else [*found, step]
        return found
