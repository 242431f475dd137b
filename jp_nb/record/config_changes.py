"""Configuration changes: their claims, reverts, drafts, and inherited or untrusted changes.

A claim maps a path to the sources that set it, each as `HASH:LABEL`. Null means that no source owns
the path. Only hashes are compared. The label is for the user.

Source: `docs/record.md`, `docs/decisions.md` D13.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.config.layers import merge_layers
from jp_nb.config.partial import (
    Change,
    Partial,
    apply_change,
    build_partial,
    diff_partials,
    get_identity,
    get_path,
    is_wrapper,
    iter_leaf_paths,
    iter_leaves,
    merge_partials,
    select_settings,
    strip_strategies,
    unwrap,
)
from jp_nb.config.schema import (
    JSON,
    ROOT,
    Element,
    PathKeys,
    SchemaNode,
    format_path,
    node_at,
    parse_path,
    try_parse_path,
)
from jp_nb.config.tree.app import AppConfig
from jp_nb.json_values import JsonObject, sorted_json
from jp_nb.record.config_history import Projection, Step, paths_overlap, select_steps_since_reset
from jp_nb.record.events import UNCOVERS, ConfigDelta, TurnStart, claim_owners
from jp_nb.record.stream import ConversationStream, is_tool_change, select_effective_deltas

MAX_SOURCE_LABEL_CHARS = 80
UNCLAIMED: JsonValue = None  # a claim without owner (D3); an empty list means the same


@dataclass(frozen=True, slots=True)
class ChangeSource:
    """A source of settings, such as a file, that the user can revert.

    `marks` has `HASH:LABEL` for each of its names.
    """

    marks: tuple[str, ...]

    @classmethod
    def named(cls, *names: str, label: str) -> ChangeSource:
        """Return a source with `names`, such as its path and its `id`."""
        encoded = (name.encode("utf-8", "surrogatepass") for name in names)
        return cls(tuple(f"{hashlib.sha256(name).hexdigest()}:{label}" for name in encoded))

    @classmethod
    def assignment(cls, change: Change) -> ChangeSource:
        """Return the source of an assignment. Its name is the change, its label the paths."""
        unset: list[tuple[str, JsonValue]] = [(path, None) for path in change.unsets]

        settings = [*unset, *iter_leaf_paths(change.delta)]
        text = ", ".join(f"{path}={sorted_json(value)}" for path, value in settings)
        paths = ", ".join(path for path, _ in settings)

        label = paths
        if len(paths) > MAX_SOURCE_LABEL_CHARS:
            label = f"{paths[: MAX_SOURCE_LABEL_CHARS - 1]}…"
        return cls.named(f"kv:{text}", label=label)

    @property
    def hashes(self) -> frozenset[str]:
        """The hashes of its names."""
        return read_hashes(list(self.marks))


def read_hashes(claim: JsonValue) -> frozenset[str]:
    """Return the hashes in a stored claim. A claim without owner has none."""
    return frozenset(mark.partition(":")[0] for mark in claim_owners(claim) or ())


def make_claims(change: Change, source: ChangeSource | None) -> dict[str, JsonValue]:
    """Return the claims of a delta for `change` by `source`. None means no owner."""
    claim: JsonValue = list(source.marks) if source is not None else UNCLAIMED
    return dict.fromkeys([*change.unsets, *_set_paths(ROOT, change.delta, ())], claim)


def _set_paths(
    node: SchemaNode | None, delta: Mapping[str, JsonValue], above: tuple[str, ...]
) -> Iterator[str]:
    for key, value in delta.items():
        keys = (*above, key)
        below = node.child(key) if node is not None else None
        plain = unwrap(value, below)
        replaces = is_wrapper(value, below) and value.get("strategy") == "replace"
        if isinstance(plain, dict) and plain:
            if _is_union(below):
                yield format_path(keys)  # the whole union is claimed too
            yield from _set_paths(below, plain, keys)
        elif isinstance(plain, list) and not replaces and below and below.merge.items != "sequence":
            for item in plain:
                name = get_identity(below, item)
                named = item if name is None else name
                element = Element(named)
                yield format_path((*keys, element))
        elif plain is not None:
            yield format_path(keys)


def _is_union(node: SchemaNode | None) -> bool:
    # Such a setting is a table or a text, so a part of it has no meaning.
    return node is not None and node.table is not None and node.takes_any_text


class Claims:
    """The current owners of paths, from all steps since the last reset.

    The paths `unclaimed`, which the environment sets, have no owner.
    """

    def __init__(self, steps: Iterable[Step], unclaimed: Collection[str] = ()) -> None:
        # A claim has the number of its step, then the order of the paths.
        self._newest: dict[PathKeys, tuple[tuple[int, int], JsonValue]] = {}
        self._below: dict[PathKeys, tuple[tuple[int, int], JsonValue]] = {}  # at or below a path
        for step in steps:
            for keys, claim in _claims_of(step):
                known = self._newest.get(keys)
                place = -len(self._newest) if known is None else known[0][1]
                ranked = self._newest[keys] = (step.number, place), claim
                for length in range(len(keys) + 1):
                    newest = self._below.setdefault(keys[:length], ranked)
                    if newest[0] <= ranked[0]:
                        self._below[keys[:length]] = ranked
        self._unclaimed = [parse_path(path) for path in unclaimed]

    def owned_by(self, hashes: frozenset[str]) -> list[PathKeys]:
        """Return the paths whose newest claim is by one of `hashes`."""
        return [
            keys
            for keys, (_, claim) in self._newest.items()
            if hashes & read_hashes(claim) and hashes & read_hashes(self.owner(keys))
        ]

    def owner(self, keys: PathKeys) -> JsonValue:
        """Return the newest claim at, above, or below `keys`; None without an owner."""
        if any(paths_overlap(keys, other) for other in self._unclaimed):
            return None
        above = (keys[:length] for length in range(len(keys)))
        found = [self._newest[path] for path in above if path in self._newest]
        found += [self._below[keys]] if keys in self._below else []
        return max(found, key=lambda claim: claim[0])[1] if found else None

    def hold(self, claims: Mapping[str, JsonValue]) -> bool:
        """Return True if all `claims` apply already."""
        for keys, claim in ((parse_path(path), claim) for path, claim in claims.items()):
            owner = self.owner(keys)
            newest = self._newest.get(keys)
            is_held = owner == claim and newest is not None and newest[1] == claim
            if not read_hashes(claim):
                is_held = not read_hashes(owner)
            if not is_held:
                return False

        return True


class Revert(NamedTuple):
    """A change that reverts other changes, with its claims."""

    change: Change
    claims: dict[str, JsonValue]


class _State(NamedTuple):
    owner: JsonValue
    value: JsonValue


def revert_source(
    steps: Sequence[Step], hashes: frozenset[str], *, unclaimed: Collection[str] = ()
) -> Revert:
    """Return the revert of all that the source with one of `hashes` still owns.

    Each path gets its value before all changes of the source. Paths that another source has set
    since, and paths without owner, are unchanged. For `unclaimed` see `Claims`.
    """
    back: list[tuple[PathKeys, _State]] = []
    for keys in Claims(steps, unclaimed).owned_by(hashes):
        states = _states(steps, keys)
        while len(states) > 1 and hashes & read_hashes(states[-1].owner):
            states.pop()
        back.append((keys, states[-1]))
    return _revert(steps[0].below, back)


def revert_value(steps: Sequence[Step], path: str, value: JsonValue) -> Revert | None:
    """Return the revert of `value` at `path`, whoever set it; None if it has another value."""
    keys = parse_path(path)

    states = _states(steps, keys)
    if states[-1].value != value:
        return None

    while len(states) > 1 and states[-1].value == value:
        states.pop()

    if states[-1].value == value:  # unchanged since the beginning
        states = [_State(UNCLAIMED, get_path(steps[0].below, path))]

    return _revert(steps[0].below, [(keys, states[-1])])


def _states(steps: Sequence[Step], keys: PathKeys) -> list[_State]:
    # The successive values of `keys`, without reverted ones. A change without a claim keeps the
    # owner.
    states = [_State(UNCLAIMED, _value(steps[0].after, keys))]

    for step in steps[1:]:
        claims = [claim for path, claim in _claims_of(step) if paths_overlap(keys, path)]
        value = _value(step.after, keys)
        if not claims and value == states[-1].value:
            continue
        owner = claims[0] if claims else states[-1].owner
        state = _State(owner, value)
        if format_path(keys) in step.change.unsets and state in states:
            del states[states.index(state) + 1 :]  # a return to an earlier state
        else:
            states.append(state)

    return states


def _value(partial: Partial, keys: PathKeys) -> JsonValue:
    *above, key = keys
    node = node_at(above)
    if not isinstance(key, Element) or node is None or node.kind != "list":
        return get_path(partial, keys)  # type: ignore[no-any-return]
    found = get_path(partial, tuple(above))
    items = found if isinstance(found, list) else []
    return next((i for i in items if i == key.json or get_identity(node, i) == key), None)


def _claims_of(step: Step) -> Iterator[tuple[PathKeys, JsonValue]]:
    # A claim on a part of a union applies to the whole union. Otherwise the revert of a file could
    # leave half a model.
    claims = step.delta.claims if step.delta is not None else {}

    for path, claim in claims.items():
        if (keys := try_parse_path(path)) is None:
            continue
        yield keys, claim
        for above in (keys[:i] for i in range(1, len(keys))):
            if _is_union(node_at(above)) and format_path(above) not in claims:
                yield above, claim


def _revert(below: Partial, back: Iterable[tuple[PathKeys, _State]]) -> Revert:
    delta: Partial = {}
    claims: dict[str, JsonValue] = {}
    uncovers: set[str] = set()

    for keys, state in back:
        claims[format_path(keys)] = state.owner
        if state.value == _value(below, keys):
            uncovers.add(format_path(keys))
        elif state.value is not None:
            node = node_at(keys) or JSON
            above = node_at(keys[:-1]) or JSON
            is_item = isinstance(keys[-1], Element) and above.kind == "list"
            value: JsonValue = [state.value] if is_item else state.value
            if node.kind == "list":
                value = {"value": value, "strategy": "replace"}
            place = keys[:-1] if is_item else keys
            delta = merge_partials(delta, build_partial(place, value))

    return Revert(Change(delta, tuple(claims), frozenset(uncovers)), claims)


NEVER = -1


class ChangedPaths:
    """The paths that changes set or unset, without reverted ones. Each change is read once."""

    def __init__(self, steps: Sequence[Step]) -> None:
        # Each has the number of the last step by path. `_inside` also has the paths above.
        self._values: dict[PathKeys, tuple[int, Partial]] = {}
        self._unset: dict[PathKeys, int] = {}
        self._inside: dict[PathKeys, int] = {}
        self._reverted: dict[PathKeys, int] = {}

        start = 1 + max((n for n, step in enumerate(steps) if step.is_reset), default=NEVER)

        for number, step in enumerate(steps[start:]):
            delta = step.change.delta
            uncovers = step.change.uncovers
            leaves = [keys for keys, _ in iter_leaves(delta)]
            unsets = [parse_path(path) for path in step.change.unsets if path not in uncovers]
            self._values |= dict.fromkeys(leaves, (number, delta))
            self._unset |= dict.fromkeys(unsets, number)
            self._reverted |= dict.fromkeys(map(parse_path, uncovers), number)
            for keys in (*leaves, *unsets):
                self._inside |= {keys[:length]: number for length in range(1, len(keys) + 1)}

    def __contains__(self, path: str) -> bool:
        """Return True if a change applies at `path`."""
        keys = parse_path(path)
        changed = self._inside.get(keys, NEVER)
        reverted = self._reverted.get(keys, NEVER)
        for above in (keys[:length] for length in range(1, len(keys))):
            number, delta = self._values.get(above, (NEVER, {}))
            if number > changed and get_path(delta, path) is not None:  # an item of a list
                changed = number
            changed = max(changed, self._unset.get(above, NEVER))
            reverted = max(reverted, self._reverted.get(above, NEVER))

        return changed > NEVER and changed >= reverted


class Draft:
    """Changes on top of a projection, with notices for the user. `record` appends them all."""

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
        if not change and (not claims or Claims(self.steps()).hold(claims)):
            return False

        shown: list[JsonValue] = [path for path in change.unsets if path in change.uncovers]
        metadata: JsonObject = {UNCOVERS: shown} if shown else {}
        delta = ConfigDelta(
            delta=change.delta,
            unsets=change.unsets,
            claims=dict(claims),
            metadata=metadata,
        )

        now = self.now()
        step = Step(now.number + 1, delta, change, now.below, now.defaults, after)
        self._made.append(step)

        return bool(change)

    def reset(self) -> None:
        """Return to the defaults of the program."""
        self._made.append(self._projection.step(self.now(), ConfigDelta(op="reset")))

    def record(self) -> None:
        """Append the deltas. The projection reuses their results."""
        if self._made:
            self._projection.record(self._last, self._made)

    def _reduce(self, change: Change) -> tuple[Change, Partial]:
        """Return `change` without its redundant parts, and the merged settings after it."""
        strip = self._projection.strip
        before = self.partial()
        after = self._apply(change)
        wanted = strip(after)

        is_needed = wanted != before
        if not is_needed and change.uncovers:  # it may remove a value of the conversation
            changed = ChangedPaths(self.steps())
            is_needed = any(path in changed for path in change.uncovers)
        if not is_needed:
            return Change(), self.now().after

        unset = before
        if change.unsets:
            unset = strip(self._apply(Change(unsets=change.unsets, uncovers=change.uncovers)))

        needed = diff_partials(unset, wanted)
        both = tuple(dict.fromkeys((*change.unsets, *needed.unsets)))
        smaller = Change(needed.delta, both, change.uncovers.intersection(change.unsets))

        if smaller == change:
            return change, after

        reduced = self._apply(smaller)
        return (smaller, reduced) if strip(reduced) == wanted else (change, after)

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


def select_changes_before_first_turn(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the effective changes before the first turn."""
    start = next((n for n, x in enumerate(stream.entries) if isinstance(x, TurnStart)), None)
    before = sum(isinstance(entry, ConfigDelta) for entry in stream.entries[:start])
    return tuple(
        delta for number, delta in select_effective_deltas(stream.deltas) if number < before
    )


def select_changes_since_last_turn(stream: ConversationStream) -> tuple[ConfigDelta, ...]:
    """Return the effective changes for the next turn."""
    return tuple(delta for _, delta in _since_last_turn(stream))


def _since_last_turn(stream: ConversationStream) -> list[tuple[int, ConfigDelta]]:
    entries = chain.from_iterable(turn.entries for turn in stream.turns())
    made = sum(isinstance(entry, ConfigDelta) for entry in entries)
    return [
        (number, delta)
        for number, delta in select_effective_deltas(stream.deltas)
        if number >= made
    ]


def select_changes_for_rerun(
    stream: ConversationStream, number: int, *, options: int = 0, skipped: Iterable[int] = ()
) -> list[tuple[int, ConfigDelta]]:
    """Return the numbered changes of `stream` that a fork before turn `number` copies.

    A fork has the changes before the first turn anyway. Added are those before the request of the
    turn, without the last `options` of them, before the `skipped` turns, and since the last turn.
    Changes by tools, and changes for other later turns, are not copied.
    """
    ahead = _ahead_of(stream, number) if number else []
    ahead = ahead[: max(len(ahead) - options, 0)]
    later = chain.from_iterable(_ahead_of(stream, turn) for turn in skipped)
    return [*ahead, *later, *_since_last_turn(stream)]


def _ahead_of(stream: ConversationStream, number: int) -> list[tuple[int, ConfigDelta]]:
    start = 0
    for turn in stream.turns():
        ahead = list(takewhile(lambda entry: isinstance(entry, ConfigDelta), turn.entries))
        if turn.number == number:
            end = start + len(ahead)
            return [x for x in select_effective_deltas(stream.deltas) if start <= x[0] < end]
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
    keys = [parse_path(path) for path in paths]
    both = zip(left.deltas, begins.deltas, strict=False)
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], both)))

    below = begins.now().below
    before = begins.partial()
    after = before

    for step in left.steps():
        if step.is_reset or step.delta is None or is_tool_change(step.delta):
            continue
        if step.number < left.untrusted_count or begins.untrusted_count <= step.number < shared:
            continue
        change = select_changes(
            step.change, lambda path: any(parse_path(path)[: len(place)] == place for place in keys)
        )
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
    found = find_untrusted_changes(projection)
    if not projection.ignored:
        return found

    trusted = projection.if_trusted()
    after = trusted.partial()
    change = diff_partials(projection.partial(), after)

    found |= dict.fromkeys(change.unsets)
    found |= {path: get_path(after, path) for path, _ in iter_leaf_paths(change.delta)}

    return found | dict(trusted.ignored)
