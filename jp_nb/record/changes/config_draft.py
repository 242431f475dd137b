"""`Draft`: configuration changes that are not in the record yet.

The options of a cell and `%jp config` draft changes on top of the effective configuration. Only if
the whole command succeeds, `Draft.record` appends them. Until then, the record is unchanged.

The effective configuration is kept as *steps*, one for each change. A `Step` has the change and the
merged settings after it (`config_step.py`). A `Projection` has the steps of the record
(`config_history.py`), and a draft adds its own after them.

Source: `docs/record.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial
from jp_nb.config.partials.partial_change import Change, apply_change
from jp_nb.config.partials.partial_diff import diff_partials
from jp_nb.config.tree.app import AppConfig
from jp_nb.json_values import JsonObject
from jp_nb.record.changes.changed_paths import ChangedPaths
from jp_nb.record.changes.claims import ChangeSource, Claims, make_claims
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.changes.config_step import Step, select_steps_since_reset
from jp_nb.record.entries.events import UNCOVERS, ConfigDelta


class Draft:
    """Changes on top of a projection, with notices for the user. `record` appends them all.

    Merged settings contain *merge strategies*, such as `append` of a list, for later merges.
    `Projection.strip` removes them, so that values can be compared.

    A *claim* notes the source, such as a file, that has set a path (`claims.py`). A change
    *uncovers* a path if it unsets it so that the layers below the conversation apply there again.
    """

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._last = projection.now()
        self._made: list[Step] = []
        self.notices: list[str] = []

    @property
    def deltas(self) -> list[ConfigDelta]:
        """The entries to append."""
        return [step.delta for step in self._made if step.delta is not None]

    @property
    def made(self) -> Sequence[Step]:
        """The changes and their results."""
        return tuple(self._made)

    def add_from(self, source: ChangeSource | None, change: Change) -> bool:
        """Add `change` by `source`, or without a source: see `add`."""
        return self.add(change, make_claims(change, source))

    def add(self, change: Change, claims: Mapping[str, JsonValue]) -> bool:
        """Add `change` without its redundant parts. Return True if anything is left.

        Changed claims are recorded even if no value changes.
        """
        change, after = self._reduce(change)

        # A change is false if it neither sets nor unsets anything.
        if not change and (not claims or Claims(self.steps()).contain_all(claims)):
            return False

        uncovers: list[JsonValue] = [path for path in change.unsets if path in change.uncovers]
        metadata: JsonObject = {UNCOVERS: uncovers} if uncovers else {}
        delta = ConfigDelta(
            delta=change.delta,
            unsets=change.unsets,
            claims=dict(claims),
            metadata=metadata,
        )

        now = self.now()
        step = Step(
            number=now.number + 1,
            delta=delta,
            change=change,
            below=now.below,
            defaults=now.defaults,
            after=after,
        )
        self._made.append(step)

        return bool(change)

    def reset(self) -> None:
        """Return to the defaults of the program."""
        self._made.append(self._projection.make_step(self.now(), ConfigDelta(op="reset")))

    def record(self) -> None:
        """Append the deltas. The projection reuses their results."""
        if self._made:
            self._projection.record(self._last, self._made)

    def _reduce(self, change: Change) -> tuple[Change, Partial]:
        """Return `change` without its redundant parts, and the merged settings after it.

        `change` itself is returned if a smaller one would have another effect, because of the merge
        strategies of its values.
        """
        strip = self._projection.strip
        before = self.partial()
        after = self._apply(change)
        wanted = strip(after)

        if wanted == before and not self._uncovers_equal_value(change):
            return Change(), self.now().after

        smaller = self._make_smaller(change, before, wanted)
        if smaller == change:
            return change, after

        after_smaller = self._apply(smaller)
        if strip(after_smaller) == wanted:
            return smaller, after_smaller
        return change, after

    def _uncovers_equal_value(self, change: Change) -> bool:
        """Return True if `change` uncovers a path that the conversation has set.

        The layers below have the same value there, because no value changes now. But from now on,
        their later changes apply at this path.
        """
        if not change.uncovers:
            return False
        changed = ChangedPaths(self.steps())
        return any(path in changed for path in change.uncovers)

    def _make_smaller(self, change: Change, before: Partial, wanted: Partial) -> Change:
        """Return the unsets of `change`, with the new values that differ after these unsets."""
        after_unsets = before
        if change.unsets:
            only_unsets = Change(unsets=change.unsets, uncovers=change.uncovers)
            after_unsets = self._projection.strip(self._apply(only_unsets))

        needed = diff_partials(after_unsets, wanted)
        unsets = tuple(dict.fromkeys((*change.unsets, *needed.unsets)))
        return Change(needed.delta, unsets, change.uncovers.intersection(change.unsets))

    def _apply(self, change: Change) -> Partial:
        now = self.now()
        return apply_change(now.after, change, now.defaults, now.below)

    def partial(self) -> Partial:
        """Return the merged settings with the changes."""
        return self._projection.strip(self.now().after)

    def config(self) -> AppConfig:
        """Return the effective configuration with the changes."""
        if not self._made:
            return self._projection.config()
        return self._projection.validate(self.now().after)

    def now(self) -> Step:
        """Return the last step."""
        return self._made[-1] if self._made else self._last

    def steps(self) -> list[Step]:
        """Return all changes since the last reset, including those of the draft."""
        return select_steps_since_reset([*self._projection.steps(), *self._made])
