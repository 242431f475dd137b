"""Claims of configuration changes: the sources that own the values of a conversation.

A *claim* notes, for a path that a change sets, the source that set it, such as a file. So the user
can revert all that a source has set (`-C NAME`, `reverts.py`). A source has several names, such as
a path and an id, and is recorded as a list with a *mark* `HASH:LABEL` for each. Only hashes are
compared. The label is for the user. Null means that no source owns the path.

A `Step` is a configuration change of the conversation with its `number`, from -1 for the base
configuration. `Claims` reads the claims of all steps.

Source: `docs/record.md`, `docs/decisions.md` D13.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.config.partials.partial import get_identity, is_wrapper, unwrap
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.setting_leaves import iter_settings
from jp_nb.config.schema import ROOT, SchemaNode, node_at
from jp_nb.config.setting_paths import Element, PathKeys, format_path, parse_path, try_parse_path
from jp_nb.json_writing import sorted_json
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

        settings = [*unset, *iter_settings(change.delta)]
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


def read_owners(value: JsonValue) -> tuple[str, ...] | None:
    """Return the marks of the owner in a stored claim, or None for a path without owner.

    A single mark may be stored without a list. A malformed claim means that the path has no owner,
    so no revert changes it.
    """
    stored = value if isinstance(value, list) else [value]
    return tuple(mark for mark in stored if isinstance(mark, str) and mark) or None


def read_hashes(claim: JsonValue) -> frozenset[str]:
    """Return the hashes in a stored claim. A claim without owner has none."""
    return frozenset(mark.partition(":")[0] for mark in read_owners(claim) or ())


def make_claims(change: Change, source: ChangeSource | None) -> dict[str, JsonValue]:
    """Return the claims of a delta for `change` by `source`. None means no owner."""
    claim: JsonValue = list(source.marks) if source is not None else UNCLAIMED
    return dict.fromkeys([*change.unsets, *_iter_set_paths(ROOT, change.delta, ())], claim)


def _iter_set_paths(
    node: SchemaNode | None, delta: Mapping[str, JsonValue], above: tuple[str, ...]
) -> Iterator[str]:
    """Yield the paths that `delta` sets: settings, and the items that it adds to a list.

    A value may be in a *wrapper* with its merge strategy, `{"value": …, "strategy": "replace"}`.
    Items are claimed each for itself if they have names (an `Element` of the path), as tools or
    files have. A list that is replaced, or a plain sequence, is claimed as a whole.
    """
    for key, value in delta.items():
        keys = (*above, key)
        child = node.child(key) if node is not None else None
        plain = unwrap(value, child)
        is_replaced = is_wrapper(value, child) and value.get("strategy") == "replace"
        # By its merge rule, a list is a plain sequence, a set, or its items have a key.
        has_named_items = child is not None and child.merge.items != "sequence"

        if isinstance(plain, dict) and plain:
            if _is_table_or_text(child):
                yield format_path(keys)  # the whole value is claimed too
            yield from _iter_set_paths(child, plain, keys)
        elif isinstance(plain, list) and child and has_named_items and not is_replaced:
            for item in plain:
                name = get_identity(child, item)
                element = Element(item if name is None else name)
                yield format_path((*keys, element))
        elif plain is not None:
            yield format_path(keys)


def _is_table_or_text(node: SchemaNode | None) -> bool:
    """Return True for a setting that is a table or a text, such as a model id.

    A field of the table alone has no meaning.
    """
    return node is not None and node.table is not None and node.takes_any_text


def iter_claims(step: Step) -> Iterator[tuple[PathKeys, JsonValue]]:
    """Yield the claims of a step, by keys.

    A claim on a field of a table that can also be a text applies to the whole table. Otherwise, the
    revert of a file could leave half a model id.
    """
    claims = step.delta.claims if step.delta is not None else {}

    for path, claim in claims.items():
        keys = try_parse_path(path)
        if keys is None:
            continue

        yield keys, claim
        for parent in (keys[:length] for length in range(1, len(keys))):
            if _is_table_or_text(node_at(parent)) and format_path(parent) not in claims:
                yield parent, claim


class _RankedClaim(NamedTuple):
    """A stored claim. The higher rank is newer: the number of its step, then the order of paths."""

    rank: tuple[int, int]
    claim: JsonValue


class Claims:
    """The current owners of paths, from all steps since the last reset.

    The paths `unclaimed`, which the environment sets, have no owner.
    """

    def __init__(self, steps: Iterable[Step], unclaimed: Collection[str] = ()) -> None:
        # The newest claim on a path, and the newest claim on the path or any path below it.
        self._newest: dict[PathKeys, _RankedClaim] = {}
        self._newest_below: dict[PathKeys, _RankedClaim] = {}
        for step in steps:
            for keys, claim in iter_claims(step):
                self._add(step.number, keys, claim)

        self._unclaimed = [parse_path(path) for path in unclaimed]

    def _add(self, step: int, keys: PathKeys, claim: JsonValue) -> None:
        earlier = self._newest.get(keys)
        # All paths of a change usually have the same claim. If not, the path that was claimed first
        # has the highest rank in the step. The first path gets 0, the second one -1, and so on.
        order = -len(self._newest) if earlier is None else earlier.rank[1]
        ranked = _RankedClaim((step, order), claim)
        self._newest[keys] = ranked

        for length in range(len(keys) + 1):
            parent = keys[:length]
            known = self._newest_below.get(parent)
            if known is None or known.rank <= ranked.rank:
                self._newest_below[parent] = ranked

    def list_owned(self, hashes: frozenset[str]) -> list[PathKeys]:
        """Return the paths whose newest claim is by one of `hashes`."""
        claimed = [
            keys for keys, ranked in self._newest.items() if hashes & read_hashes(ranked.claim)
        ]
        # Another source may own a path by a newer claim above or below it.
        return [keys for keys in claimed if hashes & read_hashes(self.find_owner(keys))]

    def find_owner(self, keys: PathKeys) -> JsonValue:
        """Return the newest claim at, above, or below `keys`; None without an owner."""
        if any(paths_overlap(keys, other) for other in self._unclaimed):
            return None

        parents = (keys[:length] for length in range(len(keys)))
        candidates = [self._newest[path] for path in parents if path in self._newest]
        if keys in self._newest_below:
            candidates.append(self._newest_below[keys])

        if not candidates:
            return None
        return max(candidates, key=lambda ranked: ranked.rank).claim

    def contain_all(self, claims: Mapping[str, JsonValue]) -> bool:
        """Return True if all `claims` apply already, so that they need not be recorded again."""
        return all(self._contain(parse_path(path), claim) for path, claim in claims.items())

    def _contain(self, keys: PathKeys, claim: JsonValue) -> bool:
        owner = self.find_owner(keys)
        if not read_hashes(claim):
            return not read_hashes(owner)

        # The owner may be that of a path above or below. This path needs a claim of its own.
        newest = self._newest.get(keys)
        return owner == claim and newest is not None and newest.claim == claim
