"""A change of the configuration that a tool proposes: what it says, and whether the tool may.

    outcome.config, outcome.unset -> structure -> aliases -> leaves -> grants -> Proposal

Everything after the aliases are resolved looks at the same leaves.

Source: `spec/tools-and-turn-loop.md` 8.1 to 8.4, `design/architecture.md` D29, D38.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.config.app_config import AppConfig
from jp_nb.config.assign import FILE_ONLY, LAYER, read_partial
from jp_nb.config.grants import Grants
from jp_nb.config.models import resolve_partial, unresolved
from jp_nb.config.node import ShortNode, shortened
from jp_nb.config.partial import Change, Partial, at, merge, touched
from jp_nb.config.paths import (
    ROOT,
    Element,
    Node,
    format_path,
    is_index,
    lookup,
    parse_path,
    unknown_key,
)
from jp_nb.config.secrets import masked
from jp_nb.errors import ConfigError, ConfigProblem

Reason = Literal[
    "invalid_config", "unauthorized_paths", "user_rejected", "confirmation_unavailable"
]
"""Why a proposal is not applied (8.7)."""

Keys = tuple[str, ...]

MAX_PATHS: Final = 1_000
MAX_CHARS: Final = 1_000_000
"""Of one proposal: whoever agrees to it has to be shown all of it."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The configuration that one cycle begins with.

    Attributes:
        partial: What all layers together set.
        below: What those under the conversation set: an unset shows it.
        config: The whole of it.
    """

    partial: Partial = field(default_factory=dict)
    below: Partial = field(default_factory=dict)
    config: AppConfig = field(default_factory=AppConfig)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a proposal is not applied (8.7).

    Attributes:
        fields: The paths that are to blame; of a decision, all that were proposed.
        detail: For the tool: what is wrong, and what would be right.
        short: The beginning of it: what is wrong.
        lines: For the person: each path with its value, and why not.
    """

    reason: Reason
    fields: tuple[str, ...]
    detail: str
    short: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that its tool may make.

    Attributes:
        change: What it does; aliases are resolved in it.
        paths: Every path that it touches: leaves that it sets, and what it unsets.
        asks: Whether somebody has to agree to it first.
    """

    change: Change
    paths: tuple[str, ...]
    asks: bool


def review(
    config: JsonValue, unset: Sequence[str], grants: Grants, basis: Basis
) -> Proposal | Refusal | None:
    """Whether a tool with `grants` may make that change; None if it changes nothing.

    Args:
        config: A partial configuration, as `-c` takes it; null says nothing, anywhere.
        unset: Paths `a.b.c`, or `a.b["item"]` for an item of a list.
        grants: What the tool may do.
        basis: What it changes.
    """
    wrong: list[_Wrong] = []
    delta, unsets = _read(config, basis, wrong), _read_unsets(unset, wrong)
    if wrong:
        return _invalid(wrong)
    leaves = dict(touched(delta))
    if not leaves and not unsets:
        return None
    if len(leaves) + len(unsets) > MAX_PATHS or len(_json(delta)) > MAX_CHARS:
        return malformed(f"one change has at most {MAX_PATHS} paths and {MAX_CHARS} characters")
    denied = [
        *(_Wrong(format_path(keys), "not granted", leaves[keys]) for keys in leaves
          if not grants.may_write(keys)),
        *(_Wrong(format_path(keys), "not granted", unset=True) for keys in unsets
          if not grants.may_unset(keys)),
    ]  # fmt: skip
    if denied:
        return _unauthorized(denied)
    asks = any(grants.asks(keys) for keys in (*leaves, *unsets))
    change = Change(delta, tuple(map(format_path, unsets)))
    paths = dict.fromkeys([*map(format_path, leaves), *change.unsets])
    return Proposal(change, tuple(paths), asks)


def malformed(why: str) -> Refusal:
    """The refusal of a proposal that cannot even be read (A33), or is too large to be."""
    return Refusal("invalid_config", (), why, why)


def not_confirmed(proposal: Proposal, reason: Reason, detail: str, short: str) -> Refusal:
    """The refusal of a proposal that nobody agreed to."""
    return Refusal(reason, proposal.paths, detail, short)


# --- what is wrong -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Wrong:
    """One path of a proposal, and what is wrong with it."""

    path: str
    what: str
    value: JsonValue = None
    expected: str = ""
    unset: bool = False
    why: str = ""

    @property
    def detail(self) -> str:
        return f"{self.what}: {self.expected}" if self.expected else self.what

    @property
    def line(self) -> str:
        why = self.why or self.what
        if self.unset:
            return f"{self.path}: (unset) ({why})"
        return f"{self.path} = {_json(masked(self.value, _keys_of(self.path)))} ({why})"


def _keys_of(path: str) -> Keys:
    try:
        return parse_path(path)
    except ConfigError:
        return (path,)


def _invalid(wrong: Sequence[_Wrong]) -> Refusal:
    details = [one.detail for one in wrong]
    if len(wrong) > 1:
        details = [f"{one.path}: {one.detail}" for one in wrong]
    return Refusal(
        "invalid_config",
        tuple(dict.fromkeys(one.path for one in wrong)),
        "; ".join(details),
        wrong[0].what,
        tuple(one.line for one in wrong),
    )


def _unauthorized(denied: Sequence[_Wrong]) -> Refusal:
    fields = tuple(dict.fromkeys(one.path for one in denied))
    return Refusal(
        "unauthorized_paths",
        fields,
        f"not permitted: access.config of this tool does not cover {', '.join(fields)}",
        "not permitted",
        tuple(one.line for one in denied),
    )


# --- what it sets ------------------------------------------------------------------------------


def _read(config: JsonValue, basis: Basis, wrong: list[_Wrong]) -> Partial:
    """The partial that `config` is, in stored form and with models for aliases."""
    if config is None:
        return {}
    if not isinstance(config, dict):
        wrong.append(_Wrong("", "expected `config` to be an object", config))
        return {}
    try:
        delta = read_partial(config, layer=LAYER)
    except ConfigError as exc:
        wrong += [_wrong_value(problem, config) for problem in exc.problems]
        return {}
    aliases = at(merge(basis.partial, delta), "providers.llm.aliases") or {}
    delta = resolve_partial(delta, aliases)
    known = ", ".join(sorted(aliases)) or "there are none"
    for path, name in unresolved(delta):
        expected = f"expected `provider/name` or an alias ({known})"
        what = f"unknown model alias {shortened(name)!r}"
        wrong.append(_Wrong(path, what, name, expected, why="no such model alias"))
    return delta


_EXPECTED = re.compile(r"expected one of (?P<words>.+?)(?:, found .*)?$", re.DOTALL)


def _wrong_value(problem: ConfigProblem, config: Mapping[str, JsonValue]) -> _Wrong:
    """`problem` of `config` in the words that a tool can act on."""
    path, message = problem.path, problem.message
    value = lookup(config, _keys_of(path))
    if problem.kind == "unknown_key":
        expected = message.removeprefix("unknown key").removeprefix(", ")
        return _Wrong(path, "unknown field", value, expected, why="no such setting")
    listed = _EXPECTED.search(message)
    if listed and isinstance(value, str) and repr(value) in message:
        return _Wrong(
            path,
            f"unknown variant {shortened(value)!r}",
            value,
            f"expected one of {listed['words']}",
            why=f"not a valid {path.rpartition('.')[2]}",
        )
    what, expects, expected = message.partition(", expected ")
    return _Wrong(path, what, value, f"expected {expected}" if expects else "")


# --- what it unsets ----------------------------------------------------------------------------


def _read_unsets(paths: Sequence[str], wrong: list[_Wrong]) -> list[Keys]:
    found: dict[Keys, None] = {}
    for path in paths:
        try:
            keys = parse_path(path)
        except ConfigError:
            wrong.append(_Wrong(path, "not a path", unset=True))
            continue
        problem = _unset_problem(keys)
        if problem is not None:
            what, _, expected = problem.partition(": ")
            wrong.append(_Wrong(path, what, expected=expected, unset=True))
        else:
            found[keys] = None
    return list(found)


def _unset_problem(keys: Keys) -> str | None:
    """Why what `keys` lead to cannot be unset by a tool; None if it can.

    That is a value that may also be absent, a list, or an item of one. A table is not: to remove
    it could step over a deeper rule (A49).
    """
    if keys[0] in FILE_ONLY:
        return "only a configuration file says this: about itself"
    node: Node = ROOT
    for place, key in enumerate(keys):
        if node.kind == "json":
            return "a free-form value is unset as a whole"
        if node.kind == "list" and is_index(key) and not isinstance(key, Element):
            return 'an item of a list is named by what it is: expected field["item"]'
        below = node.child(key)
        if below is None:
            return unknown_key(node, key, keys[:place]).replace("unknown key, ", "unknown field: ")
        if node.kind == "list":
            inside = len(keys) > place + 1
            return "an item of a list is unset as a whole" if inside else None
        is_entry, node = node.kind == "map", below
        last = place == len(keys) - 1
        if last and (node.kind == "list" or _is_optional_value(node, is_entry=is_entry)):
            return None
    return "cannot be unset: expected an optional value, a list, or an item of one"


def _is_optional_value(node: Node, *, is_entry: bool) -> bool:
    is_value = node.kind in ("text", "scalar", "json")
    if node.kind == "table" and node.table is not None:  # of several forms, one of them plain
        is_value = node.tagged or issubclass(node.table, ShortNode)
    return is_value and (node.optional or is_entry)


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
