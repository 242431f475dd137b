"""Configuration changes proposed by a tool: reduce, validate, compare.

    outcome.config, outcome.unset -> structure -> aliases -> leaves -> access rules -> Proposal

All steps after the aliases use the same leaves.

Source: `docs/turns.md`, `docs/decisions.md` D29, D38.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.config.access_rules import Grants, is_sensitive
from jp_nb.config.aliases import ALIASES, resolve_partial, resolve_references
from jp_nb.config.assignments import FILE_ONLY, LAYER, ONLY_IN_FILES, read_partial
from jp_nb.config.authority import IsInside, is_path_in_workspace, needs_user
from jp_nb.config.masking import mask_secrets
from jp_nb.config.partial import (
    Change,
    Partial,
    apply,
    build_partial,
    get_path,
    is_wrapper,
    merge,
    remove_empty,
    strip_strategies,
    unset,
    unwrap,
)
from jp_nb.config.schema import (
    JSON,
    ROOT,
    Element,
    Keys,
    SchemaNode,
    format_path,
    format_unknown_key,
    is_index,
    lookup,
    node_at,
    parse_path,
)
from jp_nb.config.tree.app import REMOTE_IMAGES, AppConfig
from jp_nb.config.tree.base import ShortTable, shorten_for_error
from jp_nb.config.tree.models import ModelId
from jp_nb.errors import ConfigError, ConfigProblem

Reason = Literal[
    "invalid_config", "unauthorized_paths", "user_rejected", "confirmation_unavailable"
]
"""The reason why a proposal is not applied."""

_Leaves = dict[Keys, JsonValue]

MAX_PATHS: Final = 1_000
MAX_CHARS: Final = 250_000
"""Bounds of one proposal: whoever agrees to it has to be shown all of it."""
TOO_LARGE: Final = f"one change has at most {MAX_PATHS} paths and {MAX_CHARS} characters"
MAX_TOLD: Final = 20
"""Bound of what is told about one proposal."""
MAX_LINE: Final = 300


@dataclass(frozen=True)
class ConfigSnapshot:
    """The configuration that one cycle begins with.

    Attributes:
        partial: What all layers together set.
        defaults: What shows where something is unset.
        config: The whole of it.
        is_inside: True if what a URL attaches lies in the workspace.
    """

    partial: Partial = field(default_factory=dict)
    defaults: Partial = field(default_factory=dict)
    config: AppConfig = field(default_factory=AppConfig)
    is_inside: IsInside = is_path_in_workspace

    @cached_property
    def values(self) -> Partial:
        """Everything in force, defaults included, with models in place of aliases."""
        dumped = self.config.model_dump(mode="json", exclude_none=True)
        return resolve_partial(dumped, self.config.providers.llm.aliases)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a proposal is not applied.

    Attributes:
        paths: The paths that are to blame; of a decision, all that were proposed.
        detail: For the tool: what is wrong, and what would be right.
        summary: The beginning of it: what is wrong.
        lines: For the person: each path with its value, and why not.
    """

    reason: Reason
    paths: tuple[str, ...]
    detail: str
    summary: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Proposal:
    """A change that its tool may make.

    Attributes:
        change: What it does; aliases are resolved in it.
        paths: Every path that it touches: leaves that it sets, and what it unsets.
        needs_approval: True if somebody has to agree to it first.
        basis: What it changes.
    """

    change: Change
    paths: tuple[str, ...]
    needs_approval: bool
    basis: ConfigSnapshot = field(repr=False)

    @cached_property
    def after(self) -> Partial:
        """Everything that all layers together set once it is applied, without strategies."""
        delta = complete_model_ids(self.change.delta, self.basis)
        change = Change(delta, self.change.unsets)
        return strip_strategies(apply(self.basis.partial, change, self.basis.defaults))


def review_proposal(
    config: JsonValue, unset: Sequence[str], grants: Grants, basis: ConfigSnapshot
) -> Proposal | Refusal | None:
    """Return the change if a tool with `grants` may make it, else why not; None if there is none.

    Args:
        config: A partial configuration, as `-c` takes it; null says nothing, anywhere.
        unset: Paths `a.b.c`, or `a.b["item"]` for an item of a list.
        grants: What the tool may do.
        basis: What it changes.
    """
    problem = _too_large(config, unset)
    if problem is not None:
        return refuse_malformed(problem)
    wrong: list[_Wrong] = []
    delta, unsets = _read(config, basis, grants, wrong), _read_unsets(unset, wrong)
    change = Change(delta, tuple(map(format_path, unsets)))
    long = [keys for keys in change.leaves if not _is_path(keys)]
    wrong += [_Wrong("", "a key is too long for a path")] * len(long)
    if wrong:
        return _invalid(wrong)
    leaves = change.leaves | _turned(delta, basis.values)
    if not leaves and not unsets:
        return None
    if len(leaves) + len(unsets) > MAX_PATHS:
        return refuse_malformed(TOO_LARGE)
    denied = [
        *(_Wrong(format_path(keys), "not granted", leaves[keys]) for keys in leaves
          if not grants.may_write(keys)),
        *(_Wrong(format_path(keys), "not granted", unset=True) for keys in unsets
          if not grants.may_unset(keys)),
    ]  # fmt: skip
    if denied:
        return _unauthorized(denied)
    changes = [*leaves.items(), *((keys, None) for keys in unsets)]
    asks = any(_asks(keys, value, grants, basis) for keys, value in changes)
    paths = dict.fromkeys([*map(format_path, leaves), *change.unsets])
    return Proposal(change, tuple(paths), asks, basis)


def _asks(keys: Keys, value: JsonValue, grants: Grants, basis: ConfigSnapshot) -> bool:
    """True if somebody has to agree to `value` (None: it is unset) at `keys`.

    Who wrote `insecure_allow` has agreed to new rules, as far as the rule says so.
    """
    acknowledged = value is not None and is_sensitive(keys)  # or it could not be written
    return grants.needs_approval(keys) or (
        not acknowledged and needs_user(keys, value, basis.is_inside)
    )


def complete_model_ids(delta: Partial, basis: ConfigSnapshot) -> Partial:
    """Return `delta` with half a model, over an alias or a default, made the whole it means."""
    return _completed(ROOT, delta, basis.partial, basis.values)


def _completed(node: SchemaNode, delta: Partial, before: JsonValue, values: JsonValue) -> Partial:
    result: Partial = {}
    for key, value in delta.items():
        below = node.child(key)
        was, now = (x.get(key) if isinstance(x, dict) else None for x in (before, values))
        if below is not None and isinstance(value, dict) and not is_wrapper(value, below):
            if below.table is ModelId and not isinstance(was, dict) and isinstance(now, dict):
                value = {**now, **value}
            elif below.kind in ("table", "map"):
                value = _completed(below, value, was, now)
        result[key] = value
    return result


def refuse_malformed(why: str) -> Refusal:
    """The refusal of a proposal that cannot even be read, or is too large to be."""
    return Refusal("invalid_config", (), why, why)


def refuse_unconfirmed(proposal: Proposal, reason: Reason, detail: str, short: str) -> Refusal:
    """The refusal of a proposal that nobody agreed to."""
    return Refusal(reason, proposal.paths, detail, short)


def _too_large(config: JsonValue, unset: Sequence[str]) -> str | None:
    """Return what is wrong with a proposal before anybody looks into it; None if nothing."""
    try:
        size = len(_json(config)) + sum(map(len, unset))
    except (ValueError, TypeError, RecursionError):
        return "`config` contains a value that JSON does not have, or too many levels"
    return TOO_LARGE if size > MAX_CHARS or len(unset) > MAX_PATHS else None


def _is_path(keys: Keys) -> bool:
    try:
        return parse_path(format_path(keys)) == keys
    except ConfigError:
        return False


def _turned(
    delta: Partial, values: JsonValue, node: SchemaNode = ROOT, above: Keys = ()
) -> _Leaves:
    """The fields that something plain stands in, of which `delta` makes a table.

    What a rule for a part of that table allows is not to put the table there.
    """
    found: _Leaves = {}
    for key, value in delta.items():
        keys, below = (*above, key), node.child(key)
        now = values.get(key) if isinstance(values, dict) else None
        if below is None or not isinstance(value, dict) or is_wrapper(value, below):
            continue
        is_plain = not isinstance(now, dict) and (now is not None or not below.optional)
        if below.table is not None and below.tagged and is_plain:
            found[keys] = value
        if below.kind in ("table", "map"):
            found |= _turned(value, now, below, keys)
    return found


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
        if not self.path:
            return _cut(why)
        if self.unset:
            return f"{_cut(self.path)}: (unset) ({_cut(why)})"
        value = _json(mask_secrets(self.value, _keys_of(self.path)))
        return f"{_cut(self.path)} = {_cut(value)} ({_cut(why)})"


_UNSEEN = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f]")


def _cut(text: str) -> str:
    """`text` in one line, not too long."""
    left = len(text) - MAX_LINE
    text = _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text[:MAX_LINE])
    return f"{text}… ({left} more characters)" if left > 0 else text


def _keys_of(path: str) -> Keys:
    try:
        return parse_path(path)
    except ConfigError:
        return (path,)


def _fields(wrong: Sequence[_Wrong]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.path for one in wrong if one.path))


def _more(wrong: Sequence[_Wrong]) -> list[str]:
    left = len(wrong) - MAX_TOLD
    return [f"and {left} more"] if left > 0 else []


def _invalid(wrong: Sequence[_Wrong]) -> Refusal:
    told = wrong[:MAX_TOLD]
    details = [one.detail for one in told]
    if len(wrong) > 1:
        details = [f"{_cut(one.path)}: {one.detail}" if one.path else one.detail for one in told]
    return Refusal(
        "invalid_config",
        _fields(wrong),
        "; ".join([*details, *_more(wrong)]),
        wrong[0].what,
        (*(one.line for one in told), *_more(wrong)),
    )


def _unauthorized(denied: Sequence[_Wrong]) -> Refusal:
    told, fields = denied[:MAX_TOLD], _fields(denied)
    listed = ", ".join([*map(_cut, fields[:MAX_TOLD]), *_more(denied)])
    return Refusal(
        "unauthorized_paths",
        fields,
        f"not permitted: access.config of this tool does not cover {listed}",
        "not permitted",
        (*(one.line for one in told), *_more(denied)),
    )


# --- what it sets ------------------------------------------------------------------------------


def _read(config: JsonValue, basis: ConfigSnapshot, grants: Grants, wrong: list[_Wrong]) -> Partial:
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
    hosts = get_path(delta, format_path(REMOTE_IMAGES))
    if hosts is not None:
        wrong.append(_Wrong(format_path(REMOTE_IMAGES), "only the user sets this", hosts))
        return {}
    aliases = get_path(basis.partial, ALIASES) or {}
    if get_path(delta, ALIASES):
        aliases = get_path(merge(basis.partial, delta), ALIASES)
    delta, unresolved = resolve_references(delta, aliases)
    known = f" ({', '.join(sorted(aliases)[:MAX_TOLD]) or 'no alias is defined'})"
    for path, name in unresolved:
        expected = "expected `provider/name` or an alias"
        expected += known if grants.may_read(_ALIASES) else ""
        what = f"unknown model alias {shorten_for_error(name)!r}"
        wrong.append(_Wrong(path, what, name, expected, why="no such model alias"))
    return remove_empty(delta)


_ALIASES = parse_path(ALIASES)
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
            f"unknown variant {shorten_for_error(value)!r}",
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
            keys = _plain(parse_path(path))
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


def _plain(keys: Keys) -> Keys:
    """`keys` of which only an item of a list is in brackets."""
    nodes = [node_at(keys[:place]) for place in range(len(keys))]
    return tuple(
        key if node is not None and node.kind == "list" else str(key)
        for key, node in zip(keys, nodes, strict=True)
    )


def _unset_problem(keys: Keys) -> str | None:
    """Return why a tool cannot unset what `keys` lead to; None if it can.

    That is a value that may also be absent, a list, or an item of one. A table is not: to remove
    it could step over a deeper rule.
    """
    if keys[0] in FILE_ONLY:
        return ONLY_IN_FILES
    node: SchemaNode = ROOT
    for place, key in enumerate(keys):
        if node.kind == "json":
            return "a free-form value can only be unset as a whole"
        if node.kind == "list" and is_index(key) and not isinstance(key, Element):
            return 'an item of a list is named by its value: expected field["item"]'
        below = node.child(key)
        if below is None:
            return format_unknown_key(node, key, keys[:place]).replace(
                "unknown key, ", "unknown field: "
            )
        if node.kind == "list":
            inside = len(keys) > place + 1
            return "an item of a list can only be unset as a whole" if inside else None
        is_entry, node = node.kind == "map", below
        last = place == len(keys) - 1
        if last and (node.kind == "list" or _is_optional_value(node, is_entry=is_entry)):
            return None
    return "cannot be unset: expected an optional value, a list, or an item of one"


def _is_optional_value(node: SchemaNode, *, is_entry: bool) -> bool:
    is_value = node.kind in ("text", "scalar", "json")
    if node.kind == "table" and node.table is not None:  # of several forms, one of them plain
        is_value = node.tagged or issubclass(node.table, ShortTable)
    return is_value and (node.optional or is_entry)


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)


def squash_changes(
    changes: Sequence[Change], before: Partial, defaults: Mapping[str, JsonValue]
) -> Change:
    """One change that does to `before` what `changes` do, one after the other.

    The last word on a path counts, and no path is both set and unset. What strategies of merging
    cannot say about several changes at once is said by the value itself.

    Args:
        changes: In the order in which they are made.
        before: What is in force before the first.
        defaults: What shows where something is unset.
    """
    change = Change()
    for one in changes:
        change = _followed(change, one)
    if [change] == list(changes):
        return change
    after = before
    for one in changes:
        after = apply(after, one, defaults)
    came_to = apply(before, change, defaults)
    if came_to == after:
        return change
    fields = dict.fromkeys([*_set_keys(came_to), *_set_keys(after)])
    differ = [keys for keys in fields if _said(came_to, keys) != _said(after, keys)]
    for keys in sorted(differ, key=lambda keys: _is_group(_node(keys))):
        change = _restated(change, keys, before, after)
    return change


def _followed(change: Change, then: Change) -> Change:
    """`change` and then `then`: the later word on each path, and what both add to a list."""
    for path in then.unsets:
        change = _without(change, parse_path(path))
    unsets, delta = list(map(parse_path, change.unsets)), then.delta
    for keys in then.leaves:
        whole = keys[:-1] if isinstance(keys[-1], Element) else keys
        if whole in unsets and _node(whole).kind == "list":  # it is begun anew
            anew: JsonValue = {"value": get_path(delta, format_path(whole)), "strategy": "replace"}
            delta = merge(delta, build_partial(format_path(whole), anew))
            unsets.remove(whole)
        unsets = [other for other in unsets if other[: len(keys)] != keys]
    return _both(merge(change.delta, delta), map(format_path, unsets))


def _both(delta: Partial, unsets: Iterable[str]) -> Change:
    """Return a change that sets `delta`, and unsets those of `unsets` that it does not set."""
    if not (paths := tuple(unsets)):
        return Change(delta)
    sets = Change(delta).leaves
    return Change(delta, tuple(path for path in paths if parse_path(path) not in sets))


def _without(change: Change, keys: Keys) -> Change:
    """`change`, and then what is at `keys` is unset."""
    path = format_path(keys)
    unsets = [other for other in change.unsets if parse_path(other)[: len(keys)] != keys]
    return Change(remove_empty(unset(change.delta, path)), (*unsets, path))


def _restated(change: Change, keys: Keys, before: Partial, after: Partial) -> Change:
    """`change`, but that it makes of the field at `keys` what that is in `after`."""
    node, value = _node(keys), _said(after, keys)
    if _is_group(node):
        return Change(merge(change.delta, build_partial(format_path(keys), value)), change.unsets)
    if value is None and node.kind in ("list", "map"):  # unset, it would show its default
        value = {"value": [] if node.kind == "list" else {}, "strategy": "replace"}
    change = _without(change, keys)
    if value is None:
        return change
    if is_wrapper(value, node) and is_wrapper(was := _said(before, keys), node) and "dedup" in was:
        value = {"dedup": node.merge.dedup, **value}
    # A table takes no other one's place: it stays among what is unset first.
    return _both(merge(change.delta, build_partial(format_path(keys), value)), change.unsets)


# --- fields ----------------------------------------------------------------------------------


def _set_keys(partial: Partial, node: SchemaNode = ROOT, above: Keys = ()) -> Iterator[Keys]:
    """The keys of everything in `partial` that is set, or unset, as a whole.

    That is a value, a list, or a table that may also be something plain. Any other table counts
    where it says something though nothing is set in it: as an entry of a map.
    """
    for key, value in partial.items():
        keys, inner = (*above, key), node.child(key) or JSON
        plain = unwrap(value, inner)
        is_group = _is_group(inner) and isinstance(plain, dict)
        if isinstance(plain, dict) and is_group:
            yield from _set_keys(plain, inner, keys)
        if node.kind == "map" or not is_group:
            yield keys


def _said(partial: Partial, keys: Keys) -> JsonValue:
    """Return what says, over anything, what `partial` says at `keys`; None if that is nothing."""
    node, above = _node(keys), get_path(partial, format_path(keys[:-1])) if keys[1:] else partial
    found: JsonValue = above.get(keys[-1]) if isinstance(above, dict) else None
    value = unwrap(found, node)
    if _is_group(node):
        return None if found is None else {}  # all that it says by itself: it is there
    if (found == [] and node.kind == "list") or (found == {} and node.kind == "map"):
        return None
    kept: Partial = {}
    if is_wrapper(found, node):
        kept = {key: found[key] for key in ("dedup", "discard_when_merged") if key in found}
    if kept or (node.kind != "table" and isinstance(value, (dict, list))):
        return {"value": value, "strategy": "replace", **kept}
    return get_path(strip_strategies(build_partial(format_path(keys), value)), format_path(keys))  # type: ignore[no-any-return]


def _node(keys: Keys) -> SchemaNode:
    return node_at(keys) or JSON


def _is_group(node: SchemaNode) -> bool:
    """True if `node` is a table and never something plain, or a map that knows no strategies."""
    if node.kind == "table" and node.table is not None:
        return not node.tagged and not issubclass(node.table, ShortTable)
    return node.kind == "map" and not node.merge.annotated
