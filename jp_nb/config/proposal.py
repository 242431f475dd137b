"""Configuration changes proposed by a tool: parse, check against access rules, and merge.

    outcome.config, outcome.unset -> structure -> aliases -> leaves -> access rules -> Proposal

All steps after the aliases use the same leaves.

Source: `docs/turns.md`, `docs/decisions.md` D29, D38.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.config.access_rules import Grants, is_sensitive
from jp_nb.config.aliases import ALIASES_PATH, map_models, resolve_references
from jp_nb.config.assignments import (
    ASSIGNMENT_LAYER,
    FILE_ONLY_SETTINGS,
    ONLY_IN_FILES,
    read_partial,
)
from jp_nb.config.authority import IsInside, is_path_in_workspace, needs_user
from jp_nb.config.partial import Partial, build_partial, get_path, is_wrapper, remove_empty, unwrap
from jp_nb.config.partial_change import Change, apply_change, unset_path
from jp_nb.config.partial_merge import merge_partials, strip_strategies
from jp_nb.config.schema import (
    JSON,
    ROOT,
    Element,
    PathKeys,
    SchemaNode,
    describe_keys,
    format_path,
    is_index,
    look_up,
    mark_items,
    mask_secrets,
    node_at,
    parse_path,
    try_parse_path,
)
from jp_nb.config.tree.app import REMOTE_IMAGES, AppConfig
from jp_nb.config.tree.base import describe_found, shorten_for_error
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.text import MAX_LISTED_LINES

Reason = Literal[
    "invalid_config", "unauthorized_paths", "user_rejected", "confirmation_unavailable"
]
"""Reason why a proposal is not applied."""

_Leaves = dict[PathKeys, JsonValue]

MAX_PROPOSAL_PATHS: Final = 1_000
MAX_PROPOSAL_CHARS: Final = 250_000
"""Limits of one proposal: the user has to read all of it."""
TOO_LARGE_REASON: Final = (
    f"one change has at most {MAX_PROPOSAL_PATHS} paths and {MAX_PROPOSAL_CHARS} characters"
)
MAX_REFUSAL_LINE_CHARS: Final = 300


@dataclass(frozen=True)
class ConfigSnapshot:
    """The configuration at the start of a cycle: the merged layers, and the validated `config`."""

    partial: Partial = field(default_factory=dict)
    defaults: Partial = field(default_factory=dict)
    """Values that are restored where something is unset."""
    config: AppConfig = field(default_factory=AppConfig)
    is_inside: IsInside = is_path_in_workspace

    @cached_property
    def values(self) -> Partial:
        """The effective configuration with defaults, and with models in place of aliases."""
        dumped = self.config.model_dump(mode="json", exclude_none=True)
        return resolve_references(dumped, self.config.providers.llm.aliases)[0]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a proposal."""

    reason: Reason
    paths: tuple[str, ...]
    """The invalid paths; after a decision of the user, all proposed paths."""
    detail: str
    """Message for the tool: the problem and the expected value."""
    summary: str
    """The problem alone."""
    lines: tuple[str, ...] = ()
    """For the user: each path with its value and the reason."""


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

    problems: list[_Problem] = []
    delta = _read_config(config, basis, grants, problems)
    unsets = _read_unsets(unset, problems)
    change = Change(delta, tuple(map(format_path, unsets)))
    long = [keys for keys in change.leaves if try_parse_path(format_path(keys)) != keys]
    problems += [_Problem("", "a key is too long for a path")] * len(long)

    if problems:
        details: list[str] = []
        for problem in problems:
            has_place = bool(problem.path) and len(problems) > 1
            place = f"{_truncate(problem.path)}: " if has_place else ""
            details.append(f"{place}{problem.detail}")

        detail = "; ".join(_first(details))
        return _refuse("invalid_config", problems, detail, problems[0].message)

    leaves = change.leaves | _find_new_tables(delta, basis.values)
    if not leaves and not unsets:
        return None
    if len(leaves) + len(unsets) > MAX_PROPOSAL_PATHS:
        return refuse_malformed(TOO_LARGE_REASON)

    denied = [
        *(_Problem(format_path(keys), "not granted", leaves[keys]) for keys in leaves
          if not grants.may_write(keys)),
        *(_Problem(format_path(keys), "not granted", unset=True) for keys in unsets
          if not grants.may_unset(keys)),
    ]  # fmt: skip

    if denied:
        listed = ", ".join(_first([_truncate(path) for path in _list_paths(denied)], len(denied)))
        detail = f"not permitted: access.config of this tool does not cover {listed}"
        return _refuse("unauthorized_paths", denied, detail, "not permitted")

    changes = [*leaves.items(), *((keys, None) for keys in unsets)]
    needs_approval = any(
        grants.needs_approval(keys)
        # A sensitive value can only be written with `insecure_allow`, which is the user's consent.
        or ((value is None or not is_sensitive(keys)) and needs_user(keys, value, basis.is_inside))
        for keys, value in changes
    )

    paths = dict.fromkeys([*map(format_path, leaves), *change.unsets])
    return Proposal(change, tuple(paths), needs_approval, basis)


def complete_model_ids(delta: Partial, basis: ConfigSnapshot) -> Partial:
    """Return `delta` with complete model ids; missing parts come from the current model."""

    def complete(keys: PathKeys, value: JsonValue) -> JsonValue:
        was = look_up(basis.partial, keys)
        now = look_up(basis.values, keys)
        if isinstance(value, dict) and not isinstance(was, dict) and isinstance(now, dict):
            return {**now, **value}
        return value

    return map_models(ROOT, delta, complete)  # type: ignore[no-any-return]


def refuse_malformed(reason: str) -> Refusal:
    """Return the refusal of a proposal that cannot be read, or is too large."""
    return Refusal("invalid_config", (), reason, reason)


def _find_new_tables(
    delta: Partial, values: JsonValue, node: SchemaNode = ROOT, above: PathKeys = ()
) -> _Leaves:
    # A rule for a field of a table does not allow to replace another form by that table.
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


@dataclass(frozen=True, slots=True)
class _Problem:
    """A problem with one path of a proposal."""

    path: str
    message: str
    value: JsonValue = None
    expected: str = ""
    unset: bool = False
    short_message: str = ""

    @property
    def detail(self) -> str:
        return f"{self.message}: {self.expected}" if self.expected else self.message

    @property
    def line(self) -> str:
        message = self.short_message or self.message

        if not self.path:
            return _truncate(message)
        if self.unset:
            return f"{_truncate(self.path)}: (unset) ({_truncate(message)})"

        masked = mask_secrets(self.value, try_parse_path(self.path) or (self.path,))
        value = _truncate(json.dumps(masked, ensure_ascii=False))
        return f"{_truncate(self.path)} = {value} ({_truncate(message)})"


_INVISIBLE = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f]")


def _truncate(text: str) -> str:
    more = len(text) - MAX_REFUSAL_LINE_CHARS
    text = _INVISIBLE.sub(lambda match: json.dumps(match[0])[1:-1], text[:MAX_REFUSAL_LINE_CHARS])
    return f"{text}… ({more} more characters)" if more > 0 else text


def _list_paths(problems: Sequence[_Problem]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(problem.path for problem in problems if problem.path))


def _first(texts: Sequence[str], count: int | None = None) -> list[str]:
    # The first texts, and the number of the others.
    if count is None:
        count = len(texts)
    shown = list(texts[:MAX_LISTED_LINES])

    more = count - MAX_LISTED_LINES
    if more > 0:
        shown.append(f"and {more} more")
    return shown


def _refuse(reason: Reason, problems: Sequence[_Problem], detail: str, summary: str) -> Refusal:
    lines = _first([problem.line for problem in problems])
    return Refusal(reason, _list_paths(problems), detail, summary, tuple(lines))


def _read_config(
    config: JsonValue, basis: ConfigSnapshot, grants: Grants, problems: list[_Problem]
) -> Partial:
    if config is None:
        return {}

    if not isinstance(config, dict):
        problems.append(_Problem("", "expected `config` to be an object", config))
        return {}

    try:
        delta = read_partial(config, layer=ASSIGNMENT_LAYER)
    except ConfigError as exc:
        problems += [_convert_problem(problem, config) for problem in exc.problems]
        return {}

    hosts = get_path(delta, REMOTE_IMAGES)
    if hosts is not None:
        problems.append(_Problem(format_path(REMOTE_IMAGES), "only the user sets this", hosts))
        return {}

    aliases = get_path(basis.partial, ALIASES_PATH) or {}
    if get_path(delta, ALIASES_PATH):
        aliases = get_path(merge_partials(basis.partial, delta), ALIASES_PATH)
    delta, unresolved = resolve_references(delta, aliases)

    known = f" ({', '.join(sorted(aliases)[:MAX_LISTED_LINES]) or 'no alias is defined'})"
    for path, name in unresolved:
        expected = "expected `provider/name` or an alias"
        expected += known if grants.may_read(parse_path(ALIASES_PATH)) else ""
        message = f"unknown model alias {shorten_for_error(name)!r}"
        short = "no such model alias"
        problems.append(_Problem(path, message, name, expected, short_message=short))

    return remove_empty(delta)


def _convert_problem(problem: ConfigProblem, config: Mapping[str, JsonValue]) -> _Problem:
    path = problem.path
    expected = problem.expected
    value = look_up(config, try_parse_path(path) or (path,))
    if problem.kind == "unknown_key":
        return _Problem(path, "unknown field", value, expected, short_message="no such setting")

    is_shown = repr(value) in (problem.cause or describe_found(value, path))
    if isinstance(value, str) and is_shown and expected.startswith("one of "):
        return _Problem(
            path,
            f"unknown variant {shorten_for_error(value)!r}",
            value,
            f"expected {expected}",
            short_message=f"not a valid {path.rpartition('.')[2]}",
        )

    if problem.cause:
        return _Problem(path, problem.cause, value, f"expected {expected}")
    return _Problem(path, problem.message, value)


def _read_unsets(paths: Sequence[str], problems: list[_Problem]) -> list[PathKeys]:

    unsets: dict[PathKeys, None] = {}
    for path in paths:
        if (parsed := try_parse_path(path)) is None:
            problems.append(_Problem(path, "not a path", unset=True))
            continue

        keys = mark_items(parsed)
        if problem := _find_unset_problem(keys):
            message, *expected = problem
            problems.append(_Problem(path, message, expected="".join(expected), unset=True))
        else:
            unsets[keys] = None

    return list(unsets)


def _find_unset_problem(keys: PathKeys) -> tuple[str, ...]:
    # Returns the message, and perhaps the expected form; () without a problem.
    # A table cannot be unset: a deeper rule may deny access to a part of it.
    if keys[0] in FILE_ONLY_SETTINGS:
        return (ONLY_IN_FILES,)

    node: SchemaNode = ROOT
    for place, key in enumerate(keys):
        if node.kind == "json":
            return ("a free-form value can only be unset as a whole",)
        if node.kind == "list" and is_index(key) and not isinstance(key, Element):
            return "an item of a list is named by its value", 'expected field["item"]'
        below = node.child(key)
        if below is None:
            known = describe_keys(node, key, keys[:place])
            return ("unknown field", known) if node.kind != "list" else (known,)

        if node.kind == "list":
            inside = len(keys) > place + 1
            return ("an item of a list can only be unset as a whole",) if inside else ()

        is_entry = node.kind == "map"
        node = below
        is_value = node.kind in ("text", "scalar", "json") or node.has_short_form
        is_optional = is_value and (node.optional or is_entry)
        if place == len(keys) - 1 and (node.kind == "list" or is_optional):
            return ()

    return "cannot be unset", "expected an optional value, a list, or an item of one"


def squash_changes(
    changes: Sequence[Change], before: Partial, defaults: Mapping[str, JsonValue]
) -> Change:
    """Return one change that has the same effect on `before` as `changes` in their order.

    No path is both set and unset. If merge strategies cannot express the result, the value is set.
    `defaults` are restored where something is unset.
    """
    change = reduce(_append, changes, Change())

    if [change] == list(changes):
        return change

    after = reduce(lambda partial, one: apply_change(partial, one, defaults), changes, before)
    result = apply_change(before, change, defaults)
    if result == after:
        return change

    fields = dict.fromkeys([*_iter_set_keys(result), *_iter_set_keys(after)])
    differ = [keys for keys in fields if _get_value(result, keys) != _get_value(after, keys)]

    for keys in sorted(differ, key=lambda keys: _is_group(_get_node(keys))):
        change = _set_field(change, keys, before, after)

    return change


def _append(change: Change, then: Change) -> Change:

    for path in then.unsets:
        change = _append_unset(change, parse_path(path))

    unsets = list(map(parse_path, change.unsets))
    delta = then.delta

    for keys in then.leaves:
        whole = keys[:-1] if isinstance(keys[-1], Element) else keys
        if whole in unsets and _get_node(whole).kind == "list":  # a new list
            items = get_path(delta, whole)
            replacement: JsonValue = {"value": items, "strategy": "replace"}
            delta = merge_partials(delta, build_partial(whole, replacement))
            unsets.remove(whole)
        unsets = [other for other in unsets if other[: len(keys)] != keys]

    return _create_change(merge_partials(change.delta, delta), map(format_path, unsets))


def _create_change(delta: Partial, unsets: Iterable[str]) -> Change:
    # Without the paths of `unsets` that `delta` sets.
    if not (paths := tuple(unsets)):
        return Change(delta)
    sets = Change(delta).leaves
    return Change(delta, tuple(path for path in paths if parse_path(path) not in sets))


def _append_unset(change: Change, keys: PathKeys) -> Change:
    path = format_path(keys)
    unsets = [other for other in change.unsets if parse_path(other)[: len(keys)] != keys]
    return Change(remove_empty(unset_path(change.delta, path)), (*unsets, path))


def _set_field(change: Change, keys: PathKeys, before: Partial, after: Partial) -> Change:
    # Appends to `change` that the field at `keys` has the value that it has in `after`.
    node = _get_node(keys)
    value = _get_value(after, keys)

    if _is_group(node):
        return Change(merge_partials(change.delta, build_partial(keys, value)), change.unsets)
    if value is None and node.kind in ("list", "map"):  # to unset it would restore its default
        empty: JsonValue = [] if node.kind == "list" else {}
        value = {"value": empty, "strategy": "replace"}

    change = _append_unset(change, keys)
    if value is None:
        return change

    was = _get_value(before, keys)
    if is_wrapper(value, node) and is_wrapper(was, node) and "dedup" in was:
        value = {"dedup": node.merge.dedup, **value}
    # A table does not replace another one: its path stays among the unset paths.
    return _create_change(merge_partials(change.delta, build_partial(keys, value)), change.unsets)


def _iter_set_keys(
    partial: Partial, node: SchemaNode = ROOT, above: PathKeys = ()
) -> Iterator[PathKeys]:
    # Values, lists, and tables with a short form, which are set as a whole; also entries of maps,
    # which have a meaning even if they are empty.
    for key, value in partial.items():
        keys = (*above, key)
        inner = node.child(key) or JSON
        plain = unwrap(value, inner)
        is_group = _is_group(inner) and isinstance(plain, dict)
        if isinstance(plain, dict) and is_group:
            yield from _iter_set_keys(plain, inner, keys)
        if node.kind == "map" or not is_group:
            yield keys


def _get_value(partial: Partial, keys: PathKeys) -> JsonValue:
    # In a form that replaces any other value.
    node = _get_node(keys)

    above = get_path(partial, keys[:-1]) if keys[1:] else partial
    own: JsonValue = above.get(keys[-1]) if isinstance(above, dict) else None
    value = unwrap(own, node)

    if _is_group(node):
        return None if own is None else {}  # its fields are compared by themselves
    if (own == [] and node.kind == "list") or (own == {} and node.kind == "map"):
        return None

    annotations: Partial = {}
    if is_wrapper(own, node):
        annotations = {key: own[key] for key in ("dedup", "discard_when_merged") if key in own}

    if annotations or (node.kind != "table" and isinstance(value, (dict, list))):
        return {"value": value, "strategy": "replace", **annotations}
    return get_path(strip_strategies(build_partial(keys, value)), keys)  # type: ignore[no-any-return]


def _get_node(keys: PathKeys) -> SchemaNode:
    return node_at(keys) or JSON


def _is_group(node: SchemaNode) -> bool:
    # A table without a short form, or a map without merge strategies.
    if node.kind == "table":
        return not node.has_short_form
    return node.kind == "map" and not node.merge.annotated
