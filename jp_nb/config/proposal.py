"""Review the configuration changes that a tool proposes, by its access rules.

    outcome.config, outcome.unset -> `proposal_reading.py` -> leaves -> access rules -> Proposal

A *leaf* is the path of one setting with its new value, the smallest part that an access rule can
allow. A table is a leaf only if it replaces a plain value as a whole. All checks use the same
leaves. The changes of a batch are combined in `change_squash.py`.

`basis` is the present configuration, and a *node* is the type of a setting in the schema. A change
has `unsets`, paths to unset, and `delta`, settings to merge; `Change.leaves` are those of `delta`.

Source: `docs/turns.md`, `docs/decisions.md` D29, D38.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from jp_nb.config.access_rules import Grants, is_sensitive
from jp_nb.config.config_snapshot import ConfigSnapshot
from jp_nb.config.partials.partial import Partial, is_wrapper
from jp_nb.config.partials.partial_change import Change, apply_change
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.proposal_reading import read_proposed_config, read_proposed_unsets
from jp_nb.config.refusal import (
    Problem,
    Refusal,
    refuse_invalid,
    refuse_malformed,
    refuse_unauthorized,
)
from jp_nb.config.schema import ROOT, SchemaNode
from jp_nb.config.setting_paths import PathKeys, format_path, try_parse_path
from jp_nb.config.tool_authority import needs_user

_Leaves = dict[PathKeys, JsonValue]
"""The new values of the leaves, by their keys."""

MAX_PROPOSAL_PATHS: Final = 1_000
MAX_PROPOSAL_CHARS: Final = 250_000
"""Limits of one proposal: the user has to read all of it."""
TOO_LARGE_REASON: Final = (
    f"one change has at most {MAX_PROPOSAL_PATHS} paths and {MAX_PROPOSAL_CHARS} characters"
)


@dataclass(frozen=True)
class Proposal:
    """A change of `basis` that the tool may make.

    `proposal_reading.py` has replaced aliases of models by their ids.
    """

    change: Change
    paths: tuple[str, ...]
    """All changed paths: leaves that it sets, and paths that it unsets."""
    needs_approval: bool
    basis: ConfigSnapshot = field(repr=False)

    @cached_property
    def after(self) -> Partial:
        """The merged layers after the change, without merge strategies."""
        # An id may have only a provider or only a name. The current model has the other part.
        delta = self.basis.complete_model_ids(self.change.delta)
        change = Change(delta, self.change.unsets)
        return strip_strategies(apply_change(self.basis.partial, change, self.basis.defaults))


def review_proposal(
    config: JsonValue, unset: Sequence[str], grants: Grants, basis: ConfigSnapshot
) -> Proposal | Refusal | None:
    """Return the proposal if `grants` allows it, or the refusal; None for an empty change.

    `config` is a partial configuration, as for `-c`; null means not set. `unset` are paths `a.b.c`,
    or `a.b["item"]` for an item of a list.
    """
    malformed_reason = _find_malformed_reason(config, unset)
    if malformed_reason is not None:
        return refuse_malformed(malformed_reason)

    problems: list[Problem] = []
    delta = read_proposed_config(config, basis, grants, problems)
    unsets = read_proposed_unsets(unset, problems)
    change = Change(delta, tuple(map(format_path, unsets)))
    if _has_overlong_key(change):
        problems.append(Problem("", "a key is too long for a path"))
    if problems:
        return refuse_invalid(problems)

    leaves = change.leaves | _find_replacing_tables(delta, basis.values)
    if not leaves and not unsets:
        return None
    if len(leaves) + len(unsets) > MAX_PROPOSAL_PATHS:
        return refuse_malformed(TOO_LARGE_REASON)

    denied = _find_denied(leaves, unsets, grants)
    if denied:
        return refuse_unauthorized(denied)

    paths = dict.fromkeys([*map(format_path, leaves), *change.unsets])
    needs_approval = _needs_approval(leaves, unsets, grants, basis)
    return Proposal(change, tuple(paths), needs_approval, basis)


def _find_malformed_reason(config: JsonValue, unset: Sequence[str]) -> str | None:
    """Return the reason why the proposal is not read at all, or None."""
    try:
        size = len(json.dumps(config, ensure_ascii=False)) + sum(map(len, unset))
    except (ValueError, TypeError, RecursionError):
        return "`config` contains a value that JSON does not have, or too many levels"

    is_too_large = size > MAX_PROPOSAL_CHARS or len(unset) > MAX_PROPOSAL_PATHS
    return TOO_LARGE_REASON if is_too_large else None


def _has_overlong_key(change: Change) -> bool:
    """Return True if a key is so long that the path of its leaf cannot be parsed again."""
    return any(try_parse_path(format_path(keys)) != keys for keys in change.leaves)


def _find_replacing_tables(
    delta: Partial, values: JsonValue, node: SchemaNode = ROOT, above: PathKeys = ()
) -> _Leaves:
    """Return the tables of `delta` that replace a plain value of their setting in `values`.

    With `reasoning = "auto"` in `values`, `reasoning = {exclude = true}` replaces the whole value.
    A rule for the field `exclude` does not allow that, so the table counts as a leaf.
    """
    tables: _Leaves = {}

    for key, value in delta.items():
        keys = (*above, key)
        child = node.child(key)
        if child is None or not isinstance(value, dict):
            continue
        if is_wrapper(value, child):  # a list, text, or map, with its merge strategy
            continue

        current = values.get(key) if isinstance(values, dict) else None
        if child.has_plain_form and _is_plain_now(current, child):
            tables[keys] = value

        if child.kind in ("table", "map"):
            tables |= _find_replacing_tables(value, current, child, keys)
    return tables


def _is_plain_now(current: JsonValue, node: SchemaNode) -> bool:
    """Return True if the present value of a setting with a plain form is not a table.

    Without a `current` value, an optional setting has none, and another one has its default. The
    default of a setting with a plain form is plain.
    """
    if current is None:
        return not node.optional
    return not isinstance(current, dict)


def _find_denied(leaves: _Leaves, unsets: Sequence[PathKeys], grants: Grants) -> list[Problem]:
    denied: list[Problem] = []
    for keys, value in leaves.items():
        if not grants.may_write(keys):
            denied.append(Problem(format_path(keys), "not granted", value))
    for keys in unsets:
        if not grants.may_unset(keys):
            denied.append(Problem(format_path(keys), "not granted", unset=True))
    return denied


def _needs_approval(
    leaves: _Leaves, unsets: Sequence[PathKeys], grants: Grants, basis: ConfigSnapshot
) -> bool:
    """Return True if the user has to approve the change.

    A path needs that if a rule of the user asks for it, or if its new value could run code or send
    data (`needs_user`). A sensitive value is exempt from the latter: only a rule with
    `insecure_allow` lets a tool write it, and this rule is already the user's consent.
    """
    for keys in (*leaves, *unsets):
        if grants.needs_approval(keys):
            return True

    for keys, value in leaves.items():
        # Null unsets a setting, which needs no `insecure_allow`.
        is_allowed_as_insecure = value is not None and is_sensitive(keys)
        if not is_allowed_as_insecure and needs_user(keys, value, basis.is_in_workspace):
            return True

    return any(needs_user(keys, None, basis.is_in_workspace) for keys in unsets)
