"""Configuration changes proposed by a tool: parse them, and check them against its access rules.

    outcome.config, outcome.unset -> structure -> aliases -> leaves -> access rules -> Proposal

A *leaf* is a setting that the change may change, by its keys. All steps after the aliases use the
same leaves. The changes of a batch are combined in `change_squash.py`.

Source: `docs/turns.md`, `docs/decisions.md` D29, D38.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from jp_nb.config.access_rules import Grants, is_sensitive
from jp_nb.config.aliases import ALIASES_PATH, resolve_references
from jp_nb.config.assignments import (
    ASSIGNMENT_LAYER,
    FILE_ONLY_SETTINGS,
    ONLY_IN_FILES,
    read_partial,
)
from jp_nb.config.authority import needs_user
from jp_nb.config.config_snapshot import ConfigSnapshot, complete_model_ids
from jp_nb.config.partials.partial import Partial, get_path, is_wrapper, remove_empty
from jp_nb.config.partials.partial_change import Change, apply_change
from jp_nb.config.partials.partial_merge import merge_partials, strip_strategies
from jp_nb.config.refusal import (
    Problem,
    Refusal,
    refuse_invalid,
    refuse_malformed,
    refuse_unauthorized,
)
from jp_nb.config.schema import ROOT, SchemaNode, describe_keys, mark_items
from jp_nb.config.setting_paths import (
    Element,
    PathKeys,
    format_path,
    is_index,
    look_up,
    parse_path,
    try_parse_path,
)
from jp_nb.config.tree.app import REMOTE_IMAGES
from jp_nb.config.tree.base import describe_found, shorten_for_error
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.text import MAX_LISTED_LINES

_Leaves = dict[PathKeys, JsonValue]

MAX_PROPOSAL_PATHS: Final = 1_000
MAX_PROPOSAL_CHARS: Final = 250_000
"""Limits of one proposal: the user has to read all of it."""
TOO_LARGE_REASON: Final = (
    f"one change has at most {MAX_PROPOSAL_PATHS} paths and {MAX_PROPOSAL_CHARS} characters"
)


@dataclass(frozen=True)
class Proposal:
    """A change of `basis` that the tool may make, with models in place of aliases."""

    change: Change
    paths: tuple[str, ...]
    """All changed paths: leaves that it sets, and paths that it unsets."""
    needs_approval: bool
    basis: ConfigSnapshot = field(repr=False)

    @cached_property
    def after(self) -> Partial:
        """The merged layers after the change, without merge strategies."""
        delta = complete_model_ids(self.change.delta, self.basis)
        change = Change(delta, self.change.unsets)
        return strip_strategies(apply_change(self.basis.partial, change, self.basis.defaults))


def review_proposal(
    config: JsonValue, unset: Sequence[str], grants: Grants, basis: ConfigSnapshot
) -> Proposal | Refusal | None:
    """Return the proposal if `grants` allows it, or the refusal; None for an empty change.

    `config` is a partial configuration, as for `-c`; null means not set. `unset` are paths `a.b.c`,
    or `a.b["item"]` for an item of a list.
    """
    try:
        size = len(json.dumps(config, ensure_ascii=False)) + sum(map(len, unset))
    except (ValueError, TypeError, RecursionError):
        return refuse_malformed(
            "`config` contains a value that JSON does not have, or too many levels"
        )

    if size > MAX_PROPOSAL_CHARS or len(unset) > MAX_PROPOSAL_PATHS:
        return refuse_malformed(TOO_LARGE_REASON)

    problems: list[Problem] = []
    delta = _read_config(config, basis, grants, problems)
    unsets = _read_unsets(unset, problems)
    change = Change(delta, tuple(map(format_path, unsets)))
    for keys in change.leaves:
        if try_parse_path(format_path(keys)) != keys:
            problems.append(Problem("", "a key is too long for a path"))
    if problems:
        return refuse_invalid(problems)

    leaves = change.leaves | _find_new_tables(delta, basis.values)
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


def _read_config(
    config: JsonValue, basis: ConfigSnapshot, grants: Grants, problems: list[Problem]
) -> Partial:
    if config is None:
        return {}

    if not isinstance(config, dict):
        problems.append(Problem("", "expected `config` to be an object", config))
        return {}

    try:
        delta = read_partial(config, layer=ASSIGNMENT_LAYER)
    except ConfigError as exc:
        problems += [_convert_problem(problem, config) for problem in exc.problems]
        return {}

    hosts = get_path(delta, REMOTE_IMAGES)
    if hosts is not None:
        problems.append(Problem(format_path(REMOTE_IMAGES), "only the user sets this", hosts))
        return {}

    aliases = get_path(basis.partial, ALIASES_PATH) or {}
    if get_path(delta, ALIASES_PATH):
        aliases = get_path(merge_partials(basis.partial, delta), ALIASES_PATH)
    delta, unresolved = resolve_references(delta, aliases)

    known = f" ({', '.join(sorted(aliases)[:MAX_LISTED_LINES]) or 'no alias is defined'})"
    for path, name in unresolved:
        expected = "expected `provider/name` or an alias"
        if grants.may_read(parse_path(ALIASES_PATH)):
            expected += known
        message = f"unknown model alias {shorten_for_error(name)!r}"
        short = "no such model alias"
        problems.append(Problem(path, message, name, expected, short_message=short))

    return remove_empty(delta)


def _convert_problem(problem: ConfigProblem, config: Mapping[str, JsonValue]) -> Problem:
    path = problem.path
    expected = problem.expected
    value = look_up(config, try_parse_path(path) or (path,))
    if problem.kind == "unknown_key":
        return Problem(path, "unknown field", value, expected, short_message="no such setting")

    is_shown = repr(value) in (problem.cause or describe_found(value, path))
    if isinstance(value, str) and is_shown and expected.startswith("one of "):
        return Problem(
            path,
            f"unknown variant {shorten_for_error(value)!r}",
            value,
            f"expected {expected}",
            short_message=f"not a valid {path.rpartition('.')[2]}",
        )

    if problem.cause:
        return Problem(path, problem.cause, value, f"expected {expected}")
    return Problem(path, problem.message, value)


def _read_unsets(paths: Sequence[str], problems: list[Problem]) -> list[PathKeys]:
    unsets: dict[PathKeys, None] = {}
    for path in paths:
        parsed = try_parse_path(path)
        if parsed is None:
            problems.append(Problem(path, "not a path", unset=True))
            continue

        keys = mark_items(parsed)
        problem = _find_unset_problem(path, keys)
        if problem is not None:
            problems.append(problem)
        else:
            unsets[keys] = None

    return list(unsets)


def _find_unset_problem(path: str, keys: PathKeys) -> Problem | None:
    """Return the reason why nothing can be unset at `path`, or None.

    A table cannot be unset: a deeper rule may deny access to a part of it.
    """

    def describe(message: str, expected: str = "") -> Problem:
        return Problem(path, message, expected=expected, unset=True)

    if keys[0] in FILE_ONLY_SETTINGS:
        return describe(ONLY_IN_FILES)

    node: SchemaNode = ROOT
    for place, key in enumerate(keys):
        if node.kind == "json":
            return describe("a free-form value can only be unset as a whole")
        if node.kind == "list" and is_index(key) and not isinstance(key, Element):
            return describe("an item of a list is named by its value", 'expected field["item"]')

        below = node.child(key)
        if below is None:
            known = describe_keys(node, key, keys[:place])
            return describe(known) if node.kind == "list" else describe("unknown field", known)

        is_last = place == len(keys) - 1
        if node.kind == "list":
            return None if is_last else describe("an item of a list can only be unset as a whole")

        is_entry = node.kind == "map"
        node = below
        is_value = node.kind in ("text", "scalar", "json") or node.has_short_form
        is_optional = is_value and (node.optional or is_entry)
        if is_last and (node.kind == "list" or is_optional):
            return None

    return describe("cannot be unset", "expected an optional value, a list, or an item of one")


def _find_new_tables(
    delta: Partial, values: JsonValue, node: SchemaNode = ROOT, above: PathKeys = ()
) -> _Leaves:
    """Return the tables of `delta` that replace another form of their setting in `values`.

    A rule for a field of a table does not allow to replace another form by that table.
    """
    tables: _Leaves = {}

    for key, value in delta.items():
        keys = (*above, key)
        below = node.child(key)
        now = values.get(key) if isinstance(values, dict) else None

        if below is None or not isinstance(value, dict) or is_wrapper(value, below):
            continue

        is_plain = not isinstance(now, dict) and (now is not None or not below.optional)
        if below.table is not None and below.tagged and is_plain:
            tables[keys] = value

        if below.kind in ("table", "map"):
            tables |= _find_new_tables(value, now, below, keys)
    return tables


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
    for keys, value in [*leaves.items(), *((keys, None) for keys in unsets)]:
        if grants.needs_approval(keys):
            return True

        # A sensitive value can only be written with `insecure_allow`, which is the user's consent.
        has_consent = value is not None and is_sensitive(keys)
        if not has_consent and needs_user(keys, value, basis.is_inside):
            return True
    return False
