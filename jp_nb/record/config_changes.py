"""Drafts of configuration changes, paths set by one source, and inherited or untrusted changes.

Source: `docs/record.md`, `docs/decisions.md` D13.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from pydantic import JsonValue

from jp_nb.config.layers import merge_layers
from jp_nb.config.partial import (
    Change,
    Partial,
    apply,
    build_partial,
    diff,
    get_path,
    is_wrapper,
    iter_leaf_paths,
    iter_leaves,
    strip_strategies,
)
from jp_nb.config.schema import JSON, ROOT, Keys, SchemaNode, format_path, parse_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.record.claims import Claims
from jp_nb.record.config_history import Projection, Step, since_reset
from jp_nb.record.events import UNCOVERS, ConfigDelta, TurnStart
from jp_nb.record.stream import ConversationStream, effective_deltas, is_tool_change

NEVER = -1


@dataclass(slots=True)
class _Mark:
    # Numbers of the steps with the last change at one path.
    value: tuple[int, Mapping[str, Any]] | None = None
    unset: int = NEVER
    reverted: int = NEVER
    inside: int = NEVER
    parts: dict[str, _Mark] = field(default_factory=dict)


class ChangedPaths:
    """The paths that changes set or unset, without reverted ones. Each change is read once."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._root = _Mark()
        for number, step in enumerate(steps):
            if step.is_reset:
                self._root = _Mark()
            else:
                self._add(number, step.change)

    def __contains__(self, path: object) -> bool:
        """Return True if a change applies at `path`."""
        keys = parse_path(str(path))
        changed = reverted = NEVER
        mark: _Mark | None = self._root
        for key in keys:
            assert mark is not None
            if mark.value is not None and get_path(mark.value[1], str(path)) is not None:
                changed = max(changed, mark.value[0])
            mark = mark.parts.get(key)
            if mark is None:
                break
            changed, reverted = max(changed, mark.unset), max(reverted, mark.reverted)
        if mark is not None:
            changed = max(changed, mark.inside)
        return changed > NEVER and changed >= reverted

    def _add(self, number: int, change: Change) -> None:
        for keys, _ in iter_leaves(change.delta):
            self._mark(keys, number).value = (number, change.delta)
        for path in change.unsets:
            keys = parse_path(path)
            if path not in change.uncovers:
                self._mark(keys, number).unset = number
        for path in change.uncovers:
            self._mark(parse_path(path), None).reverted = number

    def _mark(self, keys: Sequence[str], number: int | None) -> _Mark:
        mark = self._root
        for key in keys:
            mark = mark.parts.setdefault(key, _Mark())
            if number is not None:
                mark.inside = number
        return mark


class Draft:
    """Changes on top of a projection. `record` appends them all.

    Attributes:
        notices: Notices for the user.
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

    def add(self, change: Change, claims: Mapping[str, JsonValue]) -> bool:
        """Add `change` without its redundant parts. Return True if anything is left.

        Changed claims are recorded even if no value changes.
        """
        change = self._reduce(change)
        if not change and (not claims or Claims(self.steps()).hold(claims)):
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
        """Return to the defaults of the program."""
        self._append(ConfigDelta(op="reset"))

    def _append(self, delta: ConfigDelta) -> None:
        self._made.append(self._projection.step(self.now(), delta))

    def record(self) -> None:
        """Append the deltas. The projection reuses their results."""
        if self._made:
            self._projection.record(self._last, self._made)

    def _reduce(self, change: Change) -> Change:
        before, wanted = self.partial(), self._after(change)
        unsets = change.unsets if wanted != before or self._removes_own_value(change) else ()
        only_unset = Change(unsets=unsets, uncovers=change.uncovers)
        needed = diff(self._after(only_unset) if unsets else before, wanted)
        both = tuple(dict.fromkeys((*unsets, *needed.unsets)))
        smaller = Change(needed.delta, both, change.uncovers.intersection(unsets))
        return smaller if smaller == change or self._after(smaller) == wanted else change

    def _after(self, change: Change) -> Partial:
        now = self.now()
        return self._projection.strip(apply(now.after, change, now.defaults, now.below))

    def _removes_own_value(self, change: Change) -> bool:
        if not change.uncovers:
            return False
        changed = ChangedPaths(self.steps())
        return any(path in changed for path in change.uncovers)

    def partial(self) -> Partial:
        """Return the merged settings with the changes."""
        return self._projection.strip(self.now().after)

    def config(self) -> AppConfig:
        """Return the effective configuration with the changes.

        Raises:
            ConfigError: The settings are invalid.
        """
        if not self._made:
            return self._projection.config()
        return self._projection.validate(self.now().after)

    def now(self) -> Step:
        """Return the last step."""
        return self._made[-1] if self._made else self._last

    def steps(self) -> list[Step]:
        """Return all changes since the last reset, including those of the draft."""
        return since_reset([*self._projection.steps(), *self._made])


def changes_before_first_turn(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the effective changes before the first turn."""
    start = next((n for n, x in enumerate(stream.entries) if isinstance(x, TurnStart)), None)
    before = sum(isinstance(entry, ConfigDelta) for entry in stream.entries[:start])
    return tuple(delta for number, delta in effective_deltas(stream.deltas) if number < before)


def changes_since_last_turn(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the effective changes for the next turn."""
    return tuple(delta for _, delta in _since_last_turn(stream))


def _since_last_turn(stream: ConversationStream) -> list[tuple[int, ConfigDelta]]:
    made = sum(isinstance(entry, ConfigDelta) for turn in stream.turns() for entry in turn.entries)
    return [(number, delta) for number, delta in effective_deltas(stream.deltas) if number >= made]


def changes_for_rerun(
    stream: ConversationStream, number: int, *, options: int = 0, skipped: Iterable[int] = ()
) -> list[tuple[int, ConfigDelta]]:
    """Return the numbered changes of `stream` that a fork before turn `number` copies.

    A fork has the changes before the first turn anyway. These are added:

    - the changes before the request of the turn, without the last `options` of them;
    - the changes before the `skipped` turns after it;
    - the changes since the last turn.

    Changes by tools, and changes for other later turns, are not copied.
    """
    ahead = _ahead_of(stream, number) if number else []
    later = [change for turn in skipped for change in _ahead_of(stream, turn)]
    return [*ahead[: max(len(ahead) - options, 0)], *later, *_since_last_turn(stream)]


def _ahead_of(stream: ConversationStream, number: int) -> list[tuple[int, ConfigDelta]]:
    start = 0
    for turn in stream.turns():
        ahead = list(takewhile(lambda entry: isinstance(entry, ConfigDelta), turn.entries))
        if turn.number == number:
            end = start + len(ahead)
            return [x for x in effective_deltas(stream.deltas) if start <= x[0] < end]
        start += sum(isinstance(entry, ConfigDelta) for entry in turn.entries)
    return []


def inherited_changes(projection: Projection, begins: Partial) -> Change:
    """Return the change from `begins` to the settings of the conversation of `projection`.

    Only the results of the conversation's own changes are included.

    Args:
        projection: The previous conversation.
        begins: Settings at the beginning of the next conversation, without strategies.
    """
    changed = ChangedPaths(projection.steps())
    change = diff(begins, projection.partial())
    return select_changes(change, lambda path: path in changed)


def inherited_settings(left: Projection, begins: Projection, paths: Collection[str]) -> Change:
    """Return the change that gives `paths` the user's values of the previous conversation.

    Changes by tools, and changes in an untrusted record, are not the user's. Changes that both
    conversations share, as after a fork, are omitted.

    Args:
        left: The previous conversation.
        begins: The next conversation.
        paths: The settings, with everything below them.
    """
    keys = [parse_path(path) for path in paths]
    shared = _shared_changes(left, begins)
    below, before = begins.now().below, begins.partial()
    after = before
    for step in left.steps():
        if step.is_reset or step.delta is None or is_tool_change(step.delta):
            continue
        if step.number < left.untrusted_count or begins.untrusted_count <= step.number < shared:
            continue
        change = select_changes(step.change, lambda path: _is_within(path, keys))
        if change:
            after = begins.strip(apply(after, change, step.defaults, below))
    return diff(before, after)


def _shared_changes(left: Projection, begins: Projection) -> int:
    pairs = zip(left.deltas, begins.deltas, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _is_within(path: str, places: Collection[Keys]) -> bool:
    keys = parse_path(path)
    return any(keys[: len(place)] == place for place in places)


def select_changes(change: Change, wanted: Callable[[str], bool]) -> Change:
    """Return the part of `change` at the `wanted` paths."""
    delta = _at(change.delta, wanted, ROOT, ())
    unsets = tuple(path for path in change.unsets if wanted(path))
    return Change(delta, unsets, change.uncovers.intersection(unsets))


def _at(
    partial: Mapping[str, JsonValue], wanted: Callable[[str], bool], node: SchemaNode, above: Keys
) -> Partial:
    kept: Partial = {}
    for key, value in partial.items():
        keys, below = (*above, key), node.child(key) or JSON
        is_group = below.kind in ("table", "map") and not is_wrapper(value, below)
        if isinstance(value, dict) and is_group:
            if inner := _at(value, wanted, below, keys):
                kept[key] = inner
        elif wanted(format_path(keys)):
            kept[key] = value
    return kept


def untrusted_changes(projection: Projection) -> dict[str, JsonValue]:
    """Return the ignored settings of the record that differ from the user's files, by path."""
    plain = strip_strategies(merge_layers(projection.layers()))
    return {
        path: value
        for path, value in projection.ignored.items()
        if value is None
        or path.startswith("(")
        or strip_strategies(build_partial(path, value))
        != build_partial(path, get_path(plain, path))
    }


def changes_if_trusted(projection: Projection) -> dict[str, JsonValue]:
    """Return the settings that would change if the record were trusted, by path; None if unset.

    Ignored settings that later changes override are included. The record is folded as trusted,
    because the ignored changes alone do not show the result.
    """
    found = untrusted_changes(projection)
    if not projection.ignored:
        return found
    trusted = projection.if_trusted()
    after = trusted.partial()
    change = diff(projection.partial(), after)
    found |= dict.fromkeys(change.unsets)
    found |= {path: get_path(after, path) for path, _ in iter_leaf_paths(change.delta)}
    return found | dict(trusted.ignored)
