"""Select configuration changes of a conversation, for other conversations and for reports.

- by turn: a fork and a cell that runs again copy only some of the changes;
- inherited: the next conversation begins with the user's changes of this one;
- ignored: the changes of an untrusted record that do not apply.

A *step* is a change with the settings before and after it (`config_step.py`). A *projection* has
all steps of a conversation (`config_history.py`).

Source: `docs/record.md`, `docs/decisions.md` D13.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, takewhile

from pydantic import JsonValue

from jp_nb.config.layers import merge_layers
from jp_nb.config.partials.partial import (
    Partial,
    build_partial,
    get_path,
    is_wrapper,
    iter_leaves,
    iter_settings,
    select_settings,
)
from jp_nb.config.partials.partial_change import Change, apply_change, diff_partials
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.schema import SchemaNode
from jp_nb.config.setting_paths import PathKeys, format_path, parse_path
from jp_nb.record.changes.config_history import Projection
from jp_nb.record.changes.config_step import Step
from jp_nb.record.entries.events import ConfigDelta, TurnStart
from jp_nb.record.entries.proposed_by import is_tool_change
from jp_nb.record.entries.unanswered_turns import select_effective_deltas
from jp_nb.record.stream import ConversationStream

NEVER = -1


class ChangedPaths:
    """The paths that changes set or unset, without reverted ones. Each change is read once."""

    def __init__(self, steps: Sequence[Step]) -> None:
        # The number of the last step, by path.
        self._values: dict[PathKeys, tuple[int, Partial]] = {}  # with its delta
        self._unset: dict[PathKeys, int] = {}
        self._changed_below: dict[PathKeys, int] = {}  # that changed the path, or one below it
        self._reverted: dict[PathKeys, int] = {}

        resets = (number for number, step in enumerate(steps) if step.is_reset)
        start = 1 + max(resets, default=NEVER)

        for number, step in enumerate(steps[start:]):
            delta = step.change.delta
            uncovers = step.change.uncovers
            leaves = [keys for keys, _ in iter_leaves(delta)]
            unsets = [parse_path(path) for path in step.change.unsets if path not in uncovers]

            self._values |= dict.fromkeys(leaves, (number, delta))
            self._unset |= dict.fromkeys(unsets, number)
            self._reverted |= dict.fromkeys(map(parse_path, uncovers), number)

            for keys in (*leaves, *unsets):
                self._changed_below |= {keys[:length]: number for length in range(1, len(keys) + 1)}

    def __contains__(self, path: str) -> bool:
        """Return True if a change applies at `path`."""
        keys = parse_path(path)
        changed = self._changed_below.get(keys, NEVER)
        reverted = self._reverted.get(keys, NEVER)

        for parent in (keys[:length] for length in range(1, len(keys))):
            number, delta = self._values.get(parent, (NEVER, {}))
            if number > changed and get_path(delta, path) is not None:  # an item of a list
                changed = number

            changed = max(changed, self._unset.get(parent, NEVER))
            reverted = max(reverted, self._reverted.get(parent, NEVER))

        return changed > NEVER and changed >= reverted


def select_changes_before_first_turn(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the effective changes before the first turn."""
    beginning = takewhile(lambda entry: not isinstance(entry, TurnStart), stream.entries)
    count = sum(isinstance(entry, ConfigDelta) for entry in beginning)
    effective = select_effective_deltas(stream.deltas)
    return tuple(delta for number, delta in effective if number < count)


def select_changes_since_last_turn(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the effective changes for the next turn."""
    return tuple(delta for _, delta in _list_since_last_turn(stream))


def _list_since_last_turn(stream: ConversationStream) -> list[tuple[int, ConfigDelta]]:
    entries = chain.from_iterable(turn.entries for turn in stream.turns())
    count = sum(isinstance(entry, ConfigDelta) for entry in entries)
    effective = select_effective_deltas(stream.deltas)
    return [(number, delta) for number, delta in effective if number >= count]


def select_changes_for_rerun(
    stream: ConversationStream, number: int, *, options: int = 0, skipped: Iterable[int] = ()
) -> list[tuple[int, ConfigDelta]]:
    """Return the numbered changes of `stream` that a fork before turn `number` copies.

    A fork has the changes before the first turn anyway. Added are those before the request of the
    turn, without the last `options` of them, before the `skipped` turns, and since the last turn.
    Changes by tools, and changes for other later turns, are not copied.
    """
    for_turn = _list_for_turn(stream, number) if number else []
    for_turn = for_turn[: max(len(for_turn) - options, 0)]
    for_skipped = chain.from_iterable(_list_for_turn(stream, turn) for turn in skipped)
    return [*for_turn, *for_skipped, *_list_since_last_turn(stream)]


def _list_for_turn(stream: ConversationStream, number: int) -> list[tuple[int, ConfigDelta]]:
    """Return the numbered changes at the beginning of turn `number`, before its request."""
    start = 0
    for turn in stream.turns():
        at_begin = list(takewhile(lambda entry: isinstance(entry, ConfigDelta), turn.entries))
        if turn.number == number:
            end = start + len(at_begin)
            effective = select_effective_deltas(stream.deltas)
            return [(index, delta) for index, delta in effective if start <= index < end]

        start += sum(isinstance(entry, ConfigDelta) for entry in turn.entries)

    return []


def make_inherited_changes(projection: Projection, begins: Partial) -> Change:
    """Return the change from `begins` to the settings of the conversation of `projection`.

    Only the results of the conversation's own changes are included. `begins` are the settings at
    the beginning of the next conversation, without strategies.
    """
    change = diff_partials(begins, projection.partial())
    steps = projection.steps() if change else ()
    changed = ChangedPaths(steps)
    return select_changes(change, lambda path: path in changed)


def make_inherited_settings(left: Projection, begins: Projection, paths: Collection[str]) -> Change:
    """Return the change that gives `paths` the user's values of the previous conversation.

    Changes by tools, and changes in an untrusted record, are not the user's. Changes that both
    conversations share, as after a fork, are omitted. `begins` is the next conversation, and
    `paths` include everything below them.
    """
    places = [parse_path(path) for path in paths]
    pairs = zip(left.deltas, begins.deltas, strict=False)
    shared_count = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))

    def is_wanted(path: str) -> bool:
        return any(parse_path(path)[: len(place)] == place for place in places)

    below = begins.now().below
    before = begins.partial()
    after = before

    for step in left.steps():
        if step.is_reset or step.delta is None or is_tool_change(step.delta):
            continue
        is_shared = begins.untrusted_count <= step.number < shared_count
        if step.number < left.untrusted_count or is_shared:
            continue
        change = select_changes(step.change, is_wanted)
        if change:
            after = begins.strip(apply_change(after, change, step.defaults, below))

    return diff_partials(before, after)


def select_changes(change: Change, wanted: Callable[[str], bool]) -> Change:
    """Return the part of `change` at the `wanted` paths."""

    def is_wanted(node: SchemaNode | None, keys: PathKeys, value: JsonValue) -> bool | None:
        is_group = node is not None and node.kind in ("table", "map")
        if is_group and isinstance(value, dict) and not is_wrapper(value, node):
            return None
        return wanted(format_path(keys))

    unsets = tuple(path for path in change.unsets if wanted(path))
    delta = select_settings(change.delta, is_wanted)
    return Change(delta, unsets, change.uncovers.intersection(unsets))


def find_untrusted_changes(projection: Projection) -> dict[str, JsonValue]:
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


def find_changes_if_trusted(projection: Projection) -> dict[str, JsonValue]:
    """Return the settings that would change if the record were trusted, by path; None if unset.

    Ignored settings that later changes override are included. The record is folded as trusted,
    because the ignored changes alone do not show the result.
    """
    changed = find_untrusted_changes(projection)
    if not projection.ignored:
        return changed

    trusted = projection.if_trusted()
    after = trusted.partial()
    change = diff_partials(projection.partial(), after)

    changed |= dict.fromkeys(change.unsets)
    changed |= {path: get_path(after, path) for path, _ in iter_settings(change.delta)}

    return changed | dict(trusted.ignored)
