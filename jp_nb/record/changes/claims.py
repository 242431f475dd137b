"""Claims of configuration changes, and the reverts that they allow.

A claim maps a path to the sources that set it, each as `HASH:LABEL`. Null means that no source owns
the path. Only hashes are compared. The label is for the user.

Source: `docs/record.md`, `docs/decisions.md` D13.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.config.partials.partial import (
    Partial,
    build_partial,
    get_identity,
    get_path,
    is_wrapper,
    iter_leaf_paths,
    unwrap,
)
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.schema import JSON, ROOT, SchemaNode, node_at
from jp_nb.config.setting_paths import Element, PathKeys, format_path, parse_path, try_parse_path
from jp_nb.json_values import sorted_json
from jp_nb.record.changes.config_step import Step
from jp_nb.record.changes.provenance import paths_overlap

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


def claim_owners(value: JsonValue) -> tuple[str, ...] | None:
    """Return the owners in a stored claim, each `HASH:LABEL`, or None for a path without owner.

    A single owner may be stored without a list. A malformed claim means that the path has no owner,
    so no revert changes it.
    """
    named = value if isinstance(value, list) else [value]
    return tuple(owner for owner in named if isinstance(owner, str) and owner) or None


def read_hashes(claim: JsonValue) -> frozenset[str]:
    """Return the hashes in a stored claim. A claim without owner has none."""
    return frozenset(mark.partition(":")[0] for mark in claim_owners(claim) or ())


def make_claims(change: Change, source: ChangeSource | None) -> dict[str, JsonValue]:
    """Return the claims of a delta for `change` by `source`. None means no owner."""
    claim: JsonValue = list(source.marks) if source is not None else UNCLAIMED
    return dict.fromkeys([*change.unsets, *_iter_set_paths(ROOT, change.delta, ())], claim)


def _iter_set_paths(
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
            yield from _iter_set_paths(below, plain, keys)
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


class _RankedClaim(NamedTuple):
    """A stored claim. The higher rank is newer: the number of its step, then the order of paths."""

    rank: tuple[int, int]
    claim: JsonValue


class Claims:
    """The current owners of paths, from all steps since the last reset.

    The paths `unclaimed`, which the environment sets, have no owner.
    """

    def __init__(self, steps: Iterable[Step], unclaimed: Collection[str] = ()) -> None:
        self._newest: dict[PathKeys, _RankedClaim] = {}
        self._below: dict[PathKeys, _RankedClaim] = {}  # the newest one at or below a path
        for step in steps:
            for keys, claim in _iter_claims(step):
                self._add(step.number, keys, claim)

        self._unclaimed = [parse_path(path) for path in unclaimed]

    def _add(self, step: int, keys: PathKeys, claim: JsonValue) -> None:
        known = self._newest.get(keys)
        place = -len(self._newest) if known is None else known.rank[1]
        ranked = _RankedClaim((step, place), claim)
        self._newest[keys] = ranked

        for length in range(len(keys) + 1):
            above = keys[:length]
            if above not in self._below or self._below[above].rank <= ranked.rank:
                self._below[above] = ranked

    def owned_by(self, hashes: frozenset[str]) -> list[PathKeys]:
        """Return the paths whose newest claim is by one of `hashes`."""
        claimed = [keys for keys, each in self._newest.items() if hashes & read_hashes(each.claim)]
        return [keys for keys in claimed if hashes & read_hashes(self.owner(keys))]

    def owner(self, keys: PathKeys) -> JsonValue:
        """Return the newest claim at, above, or below `keys`; None without an owner."""
        if any(paths_overlap(keys, other) for other in self._unclaimed):
            return None

        above = (keys[:length] for length in range(len(keys)))
        found = [self._newest[path] for path in above if path in self._newest]
        if keys in self._below:
            found.append(self._below[keys])

        if not found:
            return None
        return max(found, key=lambda each: each.rank).claim

    def hold(self, claims: Mapping[str, JsonValue]) -> bool:
        """Return True if all `claims` apply already."""
        return all(self._holds(parse_path(path), claim) for path, claim in claims.items())

    def _holds(self, keys: PathKeys, claim: JsonValue) -> bool:
        owner = self.owner(keys)
        if not read_hashes(claim):
            return not read_hashes(owner)

        newest = self._newest.get(keys)
        return owner == claim and newest is not None and newest.claim == claim


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
        states = _list_states(steps, keys)

        while len(states) > 1 and hashes & read_hashes(states[-1].owner):
            states.pop()

        back.append((keys, states[-1]))

    return _make_revert(steps[0].below, back)


def revert_value(steps: Sequence[Step], path: str, value: JsonValue) -> Revert | None:
    """Return the revert of `value` at `path`, whoever set it; None if it has another value."""
    keys = parse_path(path)

    states = _list_states(steps, keys)
    if states[-1].value != value:
        return None

    while len(states) > 1 and states[-1].value == value:
        states.pop()

    if states[-1].value == value:  # unchanged since the beginning
        states = [_State(UNCLAIMED, get_path(steps[0].below, path))]

    return _make_revert(steps[0].below, [(keys, states[-1])])


def _list_states(steps: Sequence[Step], keys: PathKeys) -> list[_State]:
    # The successive values of `keys`, without reverted ones. A change without a claim keeps the
    # owner.
    states = [_State(UNCLAIMED, _read_value(steps[0].after, keys))]

    for step in steps[1:]:
        claims = [claim for path, claim in _iter_claims(step) if paths_overlap(keys, path)]
        value = _read_value(step.after, keys)
        if not claims and value == states[-1].value:
            continue

        owner = claims[0] if claims else states[-1].owner
        state = _State(owner, value)
        if format_path(keys) in step.change.unsets and state in states:
            del states[states.index(state) + 1 :]  # a return to an earlier state
        else:
            states.append(state)

    return states


def _read_value(partial: Partial, keys: PathKeys) -> JsonValue:
    *above, key = keys
    node = node_at(above)
    if not isinstance(key, Element) or node is None or node.kind != "list":
        return get_path(partial, keys)  # type: ignore[no-any-return]

    found = get_path(partial, tuple(above))
    items = found if isinstance(found, list) else []
    return next((i for i in items if i == key.json or get_identity(node, i) == key), None)


def _iter_claims(step: Step) -> Iterator[tuple[PathKeys, JsonValue]]:
    # A claim on a part of a union applies to the whole union. Otherwise the revert of a file could
    # leave half a model.
    claims = step.delta.claims if step.delta is not None else {}

    for path, claim in claims.items():
        keys = try_parse_path(path)
        if keys is None:
            continue

        yield keys, claim
        for above in (keys[:length] for length in range(1, len(keys))):
            if _is_union(node_at(above)) and format_path(above) not in claims:
                yield above, claim


def _make_revert(below: Partial, back: Iterable[tuple[PathKeys, _State]]) -> Revert:
    delta: Partial = {}
    claims: dict[str, JsonValue] = {}
    uncovers: set[str] = set()

    for keys, state in back:
        claims[format_path(keys)] = state.owner
        if state.value == _read_value(below, keys):
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
