"""Changes of the configuration before they are recorded.

Source: `docs/record.md`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.config.partial import Change, Partial, apply, diff, strip_strategies
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.validation import validate
from jp_nb.record.claims import Claims
from jp_nb.record.events import UNCOVERS, ConfigDelta
from jp_nb.record.own_paths import OwnPaths
from jp_nb.record.projection import Projection
from jp_nb.record.steps import Step


class Draft:
    """Changes on top of a projection, one after the other; `record` appends them all.

    Attributes:
        deltas: The entries to append.
        notices: What the person should be told of them.
    """

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._began = self._now = projection.now()
        self._made: list[Step] = []
        self._config: AppConfig | None = None
        self.deltas: list[ConfigDelta] = []
        self.notices: list[str] = []

    def add(self, change: Change, claims: Mapping[str, JsonValue]) -> bool:
        """Make `change`, without what is so already; returns whether anything is left of it.

        New claims are recorded also alone: who owns a path may change while its value stays.
        """
        change = self._reduced(change)
        if not change and self._is_claimed(claims):
            return False
        shown: list[JsonValue] = [path for path in change.unsets if path in change.uncovers]
        metadata: dict[str, JsonValue] = {UNCOVERS: shown} if shown else {}
        self._append(
            ConfigDelta(
                delta=change.delta, unsets=change.unsets, claims=dict(claims), metadata=metadata
            )
        )
        return bool(change)

    def reset(self) -> None:
        """Begin again from the program's defaults."""
        self._append(ConfigDelta(op="reset"))

    def _append(self, delta: ConfigDelta) -> None:
        self._now = self._projection.step(self._now, self._now.number + 1, delta)
        self._made.append(self._now)
        self._config = None
        self.deltas.append(delta)

    def record(self) -> None:
        """Append the deltas; the projection goes on from what they were found to come to."""
        if self.deltas:
            self._projection.record(self.deltas, self._began, self._now, self._config)

    def _reduced(self, change: Change) -> Change:
        """Return the smallest change that does the same now."""
        before, wanted = strip_strategies(self._now.after), self._after(change)
        unsets = change.unsets if wanted != before or self._takes_back(change) else ()
        only_unset = Change(unsets=unsets, uncovers=change.uncovers)
        needed = diff(self._after(only_unset) if unsets else before, wanted)
        both = tuple(dict.fromkeys((*unsets, *needed.unsets)))
        smaller = Change(needed.delta, both, change.uncovers.intersection(unsets))
        return smaller if smaller == change or self._after(smaller) == wanted else change

    def _after(self, change: Change) -> Partial:
        now = self._now
        return strip_strategies(apply(now.after, change, now.defaults, now.below))

    def _takes_back(self, change: Change) -> bool:
        """Return whether the conversation has a say in something that `change` uncovers."""
        if not change.uncovers:
            return False
        said = OwnPaths(self.steps())
        return any(path in said for path in change.uncovers)

    def _is_claimed(self, claims: Mapping[str, JsonValue]) -> bool:
        return not claims or Claims(self.steps()).hold(claims)

    def partial(self) -> Partial:
        """Return what would be set."""
        return strip_strategies(self._now.after)

    def config(self) -> AppConfig:
        """Return the configuration that would be in force; the same object until something changes.

        Raises:
            ConfigError: If it is none.
        """
        if not self.deltas:
            return self._projection.config()
        if self._config is None:
            self._config = validate(self._now.after)
        return self._config

    def now(self) -> Step:
        """Return the last step."""
        return self._now

    def steps(self) -> list[Step]:
        """Return all changes since the last reset, with those made here."""
        found = self._projection.steps()
        for step in self._made:
            found = [step] if step.is_reset else [*found, step]
        return found
