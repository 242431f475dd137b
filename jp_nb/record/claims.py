"""Claims: the sources of settings in the record, and reverts of a source's changes.

A claim maps a path to the sources that set it, each as `HASH:LABEL`. Null means that no source owns
the path. Only hashes are compared. The label is for the user.

Source: `docs/record.md`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from jp_nb.config.partial import (
    Change,
    Partial,
    build_partial,
    get_identity,
    get_path,
    is_wrapper,
    iter_leaf_paths,
    merge,
    unwrap,
)
from jp_nb.config.schema import ROOT, Element, SchemaNode, format_path, node_at, parse_path
from jp_nb.errors import ConfigError
from jp_nb.json_values import sorted_json
from jp_nb.record.config_history import Step, paths_overlap
from jp_nb.record.events import claim_owners

MAX_LABEL_CHARS = 80
UNCLAIMED: JsonValue = None
"""The stored form of a claim without owner (D3). An empty list means the same."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source of settings, such as a file, that the user can revert.

    Attributes:
        marks: `HASH:LABEL` for each name of the source.
    """

    marks: tuple[str, ...]

    @classmethod
    def named(cls, *names: str, label: str) -> Source:
        """Return a source with `names`, such as its path and its `id`."""
        return cls(tuple(f"{_hash(n)}:{label}" for n in names))

    @classmethod
    def assignment(cls, change: Change) -> Source:
        """Return the source of an assignment. Its name is the change, its label the paths."""
        settings = _settings(change)
        text = ", ".join(f"{path}={sorted_json(value)}" for path, value in settings)
        paths = ", ".join(path for path, _ in settings)
        shown = paths if len(paths) <= MAX_LABEL_CHARS else f"{paths[: MAX_LABEL_CHARS - 1]}…"
        return cls.named(f"kv:{text}", label=shown)

    @property
    def hashes(self) -> frozenset[str]:
        """The hashes of its names."""
        return frozenset(mark.partition(":")[0] for mark in self.marks)


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _settings(change: Change) -> list[tuple[str, JsonValue]]:
    return [*((path, None) for path in change.unsets), *iter_leaf_paths(change.delta)]


def hashes_of(claim: JsonValue) -> frozenset[str]:
    """Return the hashes in a stored claim. A claim without owner has none."""
    return frozenset(mark.partition(":")[0] for mark in claim_owners(claim) or ())


def claims_for(change: Change, source: Source | None) -> dict[str, JsonValue]:
    """Return the claims of a delta for `change` by `source`. None means no owner."""
    claim: JsonValue = list(source.marks) if source is not None else UNCLAIMED
    return dict.fromkeys([*change.unsets, *_set_paths(ROOT, change.delta, ())], claim)


def _set_paths(
    node: SchemaNode | None, delta: Mapping[str, JsonValue], above: tuple[str, ...]
) -> Iterator[str]:
    for key, value in delta.items():
        keys, below = (*above, key), node.child(key) if node is not None else None
        plain = unwrap(value, below)
        replaces = is_wrapper(value, below) and value.get("strategy") == "replace"
        if isinstance(plain, dict) and plain:
            if _is_union(below):
                yield format_path(keys)  # the whole union is claimed too
            yield from _set_paths(below, plain, keys)
        elif isinstance(plain, list) and _has_named_items(below) and not replaces:
            assert below is not None
            for item in plain:
                yield format_path((*keys, _name(below, item)))
        elif plain is not None:
            yield format_path(keys)


def _is_union(node: SchemaNode | None) -> bool:
    # Such a setting is a table or a text, so a part of it has no meaning.
    return node is not None and node.table is not None and node.takes_any_text


def _has_named_items(node: SchemaNode | None) -> bool:
    return node is not None and node.kind == "list" and node.merge.items != "sequence"


def _name(node: SchemaNode, item: JsonValue) -> Element:
    found = get_identity(node, item)
    return Element(item if found is None else found)


_Ranked = tuple[tuple[int, int], JsonValue]
"""A claim with its age: the number of its step, then its order in the step."""


class Claims:
    """The current owners of paths."""

    def __init__(self, steps: Iterable[Step], unclaimed: Collection[str] = ()) -> None:
        """Index the claims of all steps since the last reset, and paths of the environment."""
        self._newest: dict[tuple[str, ...], tuple[int, JsonValue]] = {}
        for step in steps:
            for keys, claim in _claims_of(step):
                self._newest[keys] = step.number, claim
        self._rank()
        self._unclaimed = [parse_path(path) for path in unclaimed]

    def _rank(self) -> None:
        """Index the newest claim at each path, and the newest one at or below each path."""
        self._ranked = {
            keys: ((number, -place), claim)
            for place, (keys, (number, claim)) in enumerate(self._newest.items())
        }
        self._below = dict[tuple[str, ...], _Ranked]()
        for keys, ranked in self._ranked.items():
            for length in range(len(keys) + 1):
                known = self._below.setdefault(keys[:length], ranked)
                if known[0] < ranked[0]:
                    self._below[keys[:length]] = ranked

    def owned_by(self, hashes: frozenset[str]) -> list[tuple[str, ...]]:
        """Return the paths whose newest claim is by one of `hashes`."""
        return [
            keys
            for keys, (_, claim) in self._newest.items()
            if hashes & hashes_of(claim) and hashes & hashes_of(self.owner(keys))
        ]

    def owner(self, keys: tuple[str, ...]) -> JsonValue:
        """Return the newest claim at, above, or below `keys`; None without an owner."""
        if any(paths_overlap(keys, other) for other in self._unclaimed):
            return None
        above = (keys[:length] for length in range(len(keys)))
        found = [self._ranked[path] for path in above if path in self._ranked]
        found += [self._below[keys]] if keys in self._below else []
        return max(found, key=lambda claim: claim[0])[1] if found else None

    def hold(self, claims: Mapping[str, JsonValue]) -> bool:
        """Return True if all `claims` apply already."""
        return all(self._holds(parse_path(path), claim) for path, claim in claims.items())

    def _holds(self, keys: tuple[str, ...], claim: JsonValue) -> bool:
        owner = self.owner(keys)
        if not hashes_of(claim):
            return not hashes_of(owner)
        return owner == claim and self._newest.get(keys, (0, None))[1] == claim


# --- reverts ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Revert:
    """A change that reverts other changes, with its claims."""

    change: Change
    claims: dict[str, JsonValue]


def revert_source(
    steps: Sequence[Step], hashes: frozenset[str], *, unclaimed: Collection[str] = ()
) -> Revert:
    """Return the revert of all that the source with one of `hashes` still owns.

    Each path gets its value before all changes of the source. Paths that another source has set
    since, and paths without owner, are unchanged.

    Args:
        steps: All steps since the last reset.
        hashes: Hashes of the source.
        unclaimed: Paths that the environment sets.
    """
    back: list[tuple[tuple[str, ...], _State]] = []
    for keys in Claims(steps, unclaimed).owned_by(hashes):
        states = _states(steps, keys)
        while len(states) > 1 and hashes & hashes_of(states[-1].owner):
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


@dataclass(frozen=True, slots=True)
class _State:
    owner: JsonValue
    value: JsonValue


def _states(steps: Sequence[Step], keys: tuple[str, ...]) -> list[_State]:
    """Return the successive values of `keys`, without reverted ones.

    A change without a claim keeps the owner.
    """
    states = [_State(UNCLAIMED, _value(steps[0].after, keys))]
    for step in steps[1:]:
        claim = _claim_at(step, keys)
        value = _value(step.after, keys)
        if claim is None and value == states[-1].value:
            continue
        state = _State(states[-1].owner if claim is None else claim[0], value)
        if format_path(keys) in step.change.unsets and state in states:
            del states[states.index(state) + 1 :]  # a return to an earlier state
        else:
            states.append(state)
    return states


def _value(partial: Partial, keys: tuple[str, ...]) -> JsonValue:
    node = node_at(keys[:-1])
    key = keys[-1]
    if not isinstance(key, Element) or node is None or node.kind != "list":
        return get_path(partial, format_path(keys))  # type: ignore[no-any-return]
    found = get_path(partial, format_path(keys[:-1]))
    items = found if isinstance(found, list) else []
    return next((i for i in items if i == key.json or get_identity(node, i) == key), None)


def _claim_at(step: Step, keys: tuple[str, ...]) -> tuple[JsonValue] | None:
    """Return the claim of `step` on `keys` in a tuple; None if there is none."""
    return next(((claim,) for path, claim in _claims_of(step) if paths_overlap(keys, path)), None)


def _claims_of(step: Step) -> Iterator[tuple[tuple[str, ...], JsonValue]]:
    """Yield the claims of `step`. Invalid paths are skipped.

    A claim on a part of a union applies to the whole union. Otherwise the revert of a file could
    leave half a model.
    """
    claims = step.delta.claims if step.delta is not None else {}
    for path, claim in claims.items():
        try:
            keys = parse_path(path)
        except ConfigError:
            continue
        yield keys, claim
        for above in (keys[:i] for i in range(1, len(keys))):
            if _is_union(node_at(above)) and format_path(above) not in claims:
                yield above, claim


def _revert(below: Partial, back: Iterable[tuple[tuple[str, ...], _State]]) -> Revert:
    delta: Partial = {}
    claims: dict[str, JsonValue] = {}
    uncovers: set[str] = set()
    for keys, state in back:
        claims[format_path(keys)] = state.owner
        if state.value == _value(below, keys):
            uncovers.add(format_path(keys))
        if state.value is None or state.value == _value(below, keys):
            continue
        node = node_at(keys)
        is_item = isinstance(keys[-1], Element) and _is_list(node_at(keys[:-1]))
        value: JsonValue = [state.value] if is_item else state.value
        if _is_list(node):
            value = {"value": value, "strategy": "replace"}
        delta = merge(delta, build_partial(format_path(keys[:-1] if is_item else keys), value))
    return Revert(Change(delta, tuple(claims), frozenset(uncovers)), claims)


def _is_list(node: SchemaNode | None) -> bool:
    return node is not None and node.kind == "list"
