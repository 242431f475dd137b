"""Revert configuration changes: give settings the values that they had before.

The user reverts all that a source such as a file still owns (`-C NAME`), or one value, whoever set
it (`-C KEY=VALUE`). A revert is a change itself: it unsets the paths, and gives them their earlier
values and owners. The last key of a path may be an `Element`: an item of a list, by its name or its
value.

A *claim* of a change names the owner of a path, the source that set it, by hashes (`claims.py`); it
is `UNCLAIMED` if no source owns the path. The `steps` are the changes of a conversation since the
last reset, or its base configuration and all changes. Each has the settings after it (`after`) and
those of the layers `below` the conversation, which all these steps share (`config_step.py`).

Source: `docs/record.md`, `docs/decisions.md` D13.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from jp_nb.config.partials.partial import Partial, build_partial, get_identity, get_path
from jp_nb.config.partials.partial_change import Change
from jp_nb.config.partials.partial_merge import merge_partials
from jp_nb.config.schema import JSON, node_at
from jp_nb.config.setting_paths import Element, PathKeys, format_path, parse_path
from jp_nb.record.changes.claims import UNCLAIMED, Claims, iter_claims, read_hashes
from jp_nb.record.changes.config_step import Step
from jp_nb.record.changes.provenance import paths_overlap


class Revert(NamedTuple):
    """A change that reverts other changes, with its claims: the owner by path."""

    change: Change
    claims: dict[str, JsonValue]


class _State(NamedTuple):
    """A value of a path, and the claim of the change that set it."""

    owner: JsonValue
    value: JsonValue


def revert_source(
    steps: Sequence[Step], hashes: frozenset[str], *, unclaimed: Collection[str] = ()
) -> Revert:
    """Return the revert of all that the source with one of `hashes` still owns.

    Each path gets its value before the last successive changes of the source. Paths that another
    source has set since, and paths without owner, are unchanged. Paths in `unclaimed`, which
    environment variables set, have no owner.
    """
    targets: list[tuple[PathKeys, _State]] = []  # each path with the state to return to
    for keys in Claims(steps, unclaimed).list_owned(hashes):
        states = _list_states(steps, keys)

        while len(states) > 1 and hashes & read_hashes(states[-1].owner):
            states.pop()

        targets.append((keys, states[-1]))

    return _make_revert(steps[0].below, targets)


def revert_value(steps: Sequence[Step], path: str, value: JsonValue) -> Revert | None:
    """Return the revert of `value` at `path`, whoever set it; None if it has another value."""
    keys = parse_path(path)

    states = _list_states(steps, keys)
    if states[-1].value != value:
        return None

    while len(states) > 1 and states[-1].value == value:
        states.pop()

    # All states have this value, so there is no earlier one but that of the layers below.
    if states[-1].value == value:
        states = [_State(UNCLAIMED, get_path(steps[0].below, path))]

    return _make_revert(steps[0].below, [(keys, states[-1])])


def _list_states(steps: Sequence[Step], keys: PathKeys) -> list[_State]:
    """Return the successive values of `keys`, without reverted ones.

    A change without a claim keeps the owner. A change that unsets the path and gives it an earlier
    value is a revert: the states after this one are removed.
    """
    states = [_State(UNCLAIMED, _read_value(steps[0].after, keys))]

    for step in steps[1:]:
        claims = [claim for path, claim in iter_claims(step) if paths_overlap(keys, path)]
        value = _read_value(step.after, keys)
        if not claims and value == states[-1].value:
            continue

        owner = claims[0] if claims else states[-1].owner
        state = _State(owner, value)
        is_revert = format_path(keys) in step.change.unsets and state in states
        if is_revert:
            del states[states.index(state) + 1 :]
        else:
            states.append(state)

    return states


def _read_value(partial: Partial, keys: PathKeys) -> JsonValue:
    """Return the value at `keys`; of several equal items of a list, the first one."""
    *parent, key = keys
    node = node_at(parent)
    if not isinstance(key, Element) or node is None or node.kind != "list":
        return get_path(partial, keys)  # type: ignore[no-any-return]

    value = get_path(partial, tuple(parent))
    items = value if isinstance(value, list) else []
    return next(
        (item for item in items if item == key.json or get_identity(node, item) == key), None
    )


def _make_revert(below: Partial, targets: Iterable[tuple[PathKeys, _State]]) -> Revert:
    """Return the change that gives each path the value of its target state.

    A path whose value is that of the layers `below` gets it from there again. A path without a
    value (None) is only unset.
    """
    delta: Partial = {}
    claims: dict[str, JsonValue] = {}
    uncovers: set[str] = set()

    for keys, state in targets:
        claims[format_path(keys)] = state.owner
        if state.value == _read_value(below, keys):
            uncovers.add(format_path(keys))
        elif state.value is not None:
            path, value = _make_setting(keys, state.value)
            delta = merge_partials(delta, build_partial(path, value))

    change = Change(delta, unsets=tuple(claims), uncovers=frozenset(uncovers))
    return Revert(change, claims)


def _make_setting(keys: PathKeys, value: JsonValue) -> tuple[PathKeys, JsonValue]:
    """Return the path and the value for a delta that sets `value` at `keys`.

    An item is added to its list. A whole list replaces the present one.
    """
    node = node_at(keys) or JSON
    parent = node_at(keys[:-1]) or JSON
    if isinstance(keys[-1], Element) and parent.kind == "list":
        keys = keys[:-1]
        value = [value]

    if node.kind == "list":
        value = {"value": value, "strategy": "replace"}
    return keys, value
