"""Validate a layer of the configuration, and report each problem with its path.

In a layer every field may be absent or null, which is the same. A list or a text may also be
written as `{value, strategy, …}`, and so may a map whose field allows it. Items of lists are
complete.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue, ValidationError

from jp_nb.config.access_rules import find_rule_problems, iter_rules
from jp_nb.config.partial import Partial, is_wrapper, strip_strategies
from jp_nb.config.schema import (
    JSON,
    ROOT,
    Keys,
    SchemaNode,
    format_path,
    format_unknown_key,
    node_at,
)
from jp_nb.config.tree.app import IGNORED_PATTERNS, AppConfig
from jp_nb.config.tree.base import PLAIN, TABLE, describe_found
from jp_nb.config.tree.tools import DEFAULTABLE, STAR, Access
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.json_values import MAX_CONFIG_LEVELS

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

LocatedProblem = tuple[Keys, ConfigProblem]
"""A problem and the keys that lead to it."""

MAX_HINTS: Final = 20
"""For how many unknown keys the nearest known one is looked for."""


def read_layer(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[LocatedProblem]]:
    """Return `partial` in stored form without what is wrong in it, and that, each path once.

    Left-out settings are wrong.
    """
    reading = _Reading()
    read = reading.value(ROOT, partial, ())
    return read if isinstance(read, dict) else {}, list(reading.problems.values())


def list_problems(exc: ValidationError) -> list[ConfigProblem]:
    """Return what `exc`, of an `AppConfig`, says in words: one problem a path."""
    reading = _Reading()
    reading.report(exc, ROOT, ())
    return [problem for _, problem in reading.problems.values()]


class _Reading:
    """One partial while it is read.

    Attributes:
        problems: The first problem of every path.
    """

    def __init__(self) -> None:
        self.problems: dict[str, LocatedProblem] = {}
        self._hints = MAX_HINTS

    def value(self, node: SchemaNode, value: Any, keys: Keys) -> Any:
        """Return `value` of `node` in stored form; None if it says nothing, or is wrong."""
        if value is None:
            return None
        if isinstance(value, dict) and _is_wrapped(node, value):
            problem = _wrapper_problem(node, value)
            if problem is not None:
                self._add(keys, "value", problem)
                return None
            said = {key: one for key, one in value.items() if one is not None}
            return {"value": self._plain(node, value["value"], keys), **_without_value(said)}
        return self._plain(node, value, keys)

    def _plain(self, node: SchemaNode, value: Any, keys: Keys) -> Any:
        if node.kind == "table" and isinstance(value, dict):
            for read in node.shorthands:  # some shorthands are tables; these raise for none
                value = read(value)
        if isinstance(value, dict):
            if node.kind == "table":
                return self._table(node, value, keys)
            if node.kind == "map" and node.item is not JSON:
                return self._map(node, value, keys)
        return self._whole(node, value, keys)

    def _table(self, node: SchemaNode, table: dict[str, Any], keys: Keys) -> Partial:
        below = {name: field for name, field in node.fields.items() if name in table}
        others = [name for name in table if name not in below]
        if node.has_free_keys:
            below |= dict.fromkeys(others, JSON)
        values = {name: self.value(below[name], table[name], (*keys, name)) for name in below}
        if not node.has_free_keys:
            for name in others:
                self._unknown(node, name, keys)
        return {name: value for name, value in values.items() if value is not None}

    def _map(self, node: SchemaNode, table: dict[str, Any], keys: Keys) -> Partial:
        read: Partial = {}
        for name, value in table.items():
            try:
                node.key.validate_python(name)
            except ValidationError as exc:
                self.report(exc, node.item, (*keys, name))
            one = self.value(node.item, value, (*keys, name))
            if one is not None:
                read[name] = one
        return read

    def _whole(self, node: SchemaNode, value: Any, keys: Keys) -> Any:
        try:
            read = node.adapter.validate_python(value)
        except ValidationError as exc:
            self.report(exc, node, keys)
            return None
        if isinstance(read, (str, int, float)):
            return read
        return node.adapter.dump_python(read, mode="json", exclude_unset=True, exclude_none=True)

    # --- what is wrong -----------------------------------------------------------------------

    def report(self, exc: ValidationError, node: SchemaNode, above: Keys) -> None:
        """Add what `exc` says about a value of `node`, to which the keys `above` lead."""
        for error in exc.errors(include_url=False):
            keys = (*above, *_keys(error, node))
            if error["type"] == "extra_forbidden":
                self._unknown(node_at(keys[:-1]), keys[-1], keys[:-1])
            else:
                self._add(keys, *_in_words(error, format_path(keys)))

    def _unknown(self, node: SchemaNode | None, key: str, above: Keys) -> None:
        keys = (*above, key)
        if format_path(keys) in self.problems:
            return
        message = "unknown key"
        if node is not None:
            message = format_unknown_key(node, key, above, hint=self._hints > 0)
        self._hints -= 1
        self._add(keys, "unknown_key", message)

    def _add(self, keys: Keys, kind: str, message: str) -> None:
        path = format_path(keys)
        self.problems.setdefault(path, (keys, ConfigProblem(path, kind, message)))


# --- values with a strategy ------------------------------------------------------------------

_SEPARATORS = ("none", "space", "line", "paragraph")
_BOOLEANS = (True, False)
_BESIDE: dict[str, dict[str, tuple[str | bool, ...]]] = {
    "list": {
        "strategy": ("append", "prepend", "replace"),
        "discard_when_merged": _BOOLEANS,
        "dedup": (*_BOOLEANS, "inherit"),
    },
    "text": {
        "strategy": ("append", "prepend", "replace"),
        "discard_when_merged": _BOOLEANS,
        "separator": _SEPARATORS,
    },
    "map": {
        "strategy": ("deep_merge", "merge", "keep", "replace"),
        "discard_when_merged": _BOOLEANS,
    },
}
"""Keys that may stand beside `value`, with their words, by the kind of a node."""


def _is_wrapped(node: SchemaNode, value: dict[str, Any]) -> bool:
    """True if `value` can only be meant as a value with its strategy."""
    if node.kind == "map":  # which may have a key `value` of its own
        return node.merge.annotated and {"value", "strategy"} <= value.keys()
    return node.kind in ("list", "text")


def _wrapper_problem(node: SchemaNode, wrapper: dict[str, Any]) -> str | None:
    """Say what is wrong with how `wrapper` is written; None if nothing is."""
    choices = _BESIDE[node.kind]
    if "value" not in wrapper:
        return (
            f"expected a {node.kind}, or a table of value and {', '.join(choices)}, "
            f"found a table of {', '.join(map(str, wrapper)) or 'nothing'}"
        )
    for key, one in _without_value(wrapper).items():
        if one is None:
            continue
        if key not in choices:
            return f"unknown key {key!r} next to `value`, expected one of: {', '.join(choices)}"
        # Not `one in choices`: to Python, 1 is true.
        if not any(one is word or (isinstance(one, str) and one == word) for word in choices[key]):
            listed = ", ".join(str(word).lower() for word in choices[key])
            return f"expected for {key!r} one of {listed}, {describe_found(one)}"
    return "expected a value for 'value', found nothing" if wrapper["value"] is None else None


def _without_value(wrapper: dict[str, Any]) -> dict[str, Any]:
    return {key: one for key, one in wrapper.items() if key != "value"}


# --- errors of pydantic ----------------------------------------------------------------------

_KEY_ITSELF = "[key]"


def _keys(error: ErrorDetails, top: SchemaNode) -> Keys:
    """Return the keys below `top` that lead to an error, without the tags of union members."""
    unknown = error["type"] == "extra_forbidden"
    keys: list[str] = []
    nodes: list[SchemaNode | None] = [top]
    told_apart = False
    for part in map(str, error["loc"]):
        node = nodes[-1]
        tagged = node is not None and node.tagged and not told_apart
        if tagged and part in (TABLE.tag, PLAIN.tag):
            told_apart = True
        elif part == _KEY_ITSELF and not unknown and len(nodes) > 1 and _is_map(nodes[-2]):
            break
        else:
            keys.append(part)
            nodes.append(node.child(part) if node is not None else None)
            told_apart = False
    return tuple(keys)


def _is_map(node: SchemaNode | None) -> bool:
    return node is not None and node.kind == "map"


_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "a text",
    "list": "a list",
    "dict": "a table",
    "model": "a table",
    "literal": "one of {expected}",
    "enum": "one of {expected}",
    "finite": "a number",
    "greater": "a number greater than {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "invalid-json-value": "text, numbers, true, false, lists or tables",
}
"""By the type of an error, or how that begins."""


def _in_words(error: ErrorDetails, path: str) -> tuple[str, str]:
    """Return kind and message."""
    kind, context = error["type"], error.get("ctx", {})
    beginning = kind.partition("_")[0]
    if kind == "missing":
        return "value", "is required here, but not set"
    if kind == "value_error":
        return "value", error["msg"].removeprefix("Value error, ")
    expected = _EXPECTED.get(kind) or _EXPECTED.get(beginning)
    of_value = "value" if beginning in ("literal", "greater", "less") else "type"
    if expected is None:
        return of_value, error["msg"]
    return (
        of_value,
        f"expected {expected.format(**context)}, {describe_found(error['input'], path)}",
    )


def validate_layer(
    partial: Mapping[str, JsonValue], *, layer: str, file: str | None = None
) -> Partial:
    """Return one layer, every value in the one form in which it is stored.

    Raises:
        ConfigError: With everything that is wrong in it.
    """
    bounded, unfit = _bounded(partial)
    result, wrong = read_layer(bounded)
    if found := [problem for _, problem in [*unfit, *wrong]]:
        raise _error(found, layer, file)
    if found := list(_rule_problems(result)):
        raise _error(found, layer, file)
    return result


def _rule_problems(partial: Partial) -> Iterator[ConfigProblem]:
    for tool, rules in iter_rules(partial):
        for path, message in find_rule_problems(tool, rules):
            yield ConfigProblem(path, "value", message)


# --- the whole configuration -----------------------------------------------------------------


def validate(
    partial: Mapping[str, JsonValue], *, layer: str | None = None, file: str | None = None
) -> AppConfig:
    """Return the whole configuration: `partial`, with defaults where it says nothing.

    Raises:
        ConfigError: If a key is unknown, a value is wrong, or values do not fit together. All of
            them are named.
    """
    try:
        config = AppConfig.model_validate(strip_strategies(partial))
    except ValidationError as exc:
        raise _error(list_problems(exc), layer, file) from exc
    if found := [ConfigProblem(path, "value", message) for path, message in _misfits(config)]:
        raise _error(found, layer, file)
    return config


def _misfits(config: AppConfig) -> Iterator[tuple[str, str]]:
    tools = config.conversation.tools
    star = tools.get(STAR)
    for key in sorted(star.model_fields_set - DEFAULTABLE) if star is not None else ():
        if getattr(star, key) not in (None, {}, []):
            known = ", ".join(sorted(DEFAULTABLE))
            yield (
                f"conversation.tools.{STAR}.{key}",
                f"'{STAR}' holds defaults and has no {key}, expected one of: {known}",
            )
    for name, tool in tools.items():
        if name != STAR and tool.access is not None:
            yield from _access_misfits(name, tool.access, tool.kind)
    choice = config.assistant.tool_choice
    chosen = tools.get(choice)
    if chosen is not None and choice not in ("auto", "none", "required", STAR):
        state, toggle = config.conversation.get_tool_state(choice)
        if not state and toggle == "never":
            yield (
                "assistant.tool_choice",
                f"assistant.tool_choice names {choice!r}, which "
                f"conversation.tools.{choice}.enable turns off permanently: choose "
                "another tool, or allow it to be turned on",
            )


def _access_misfits(name: str, access: Access, kind: str) -> Iterator[tuple[str, str]]:
    path = f"conversation.tools.{name}"
    if kind in ("builtin", "mcp"):
        yield (
            f"{path}.access",
            f"{path}: `access` is only supported on local tools, but '{name}' is a {kind} tool",
        )
    elif kind == "python":
        for field in ("fs", "net", "env"):
            if getattr(access, field):
                yield (
                    f"{path}.access.{field}",
                    f"{path}: `access.{field}` is only supported on local tools, but "
                    f"'{name}' is a python tool: code in the kernel cannot be "
                    "restricted",
                )
    if access.config:
        yield from find_rule_problems(name, access.config)


def _error(found: Sequence[ConfigProblem], layer: str | None, file: str | None) -> ConfigError:
    first, *others = found
    return ConfigError(
        first.message, path=first.path, kind=first.kind, layer=layer, file=file, others=others
    )


# --- what others wrote -----------------------------------------------------------------------


def remove_ignored(partial: Mapping[str, JsonValue]) -> Partial:
    """Return `partial` without the settings that nothing in a notebook reads."""
    return _without_left_out(partial, IGNORED_PATTERNS)


def _without_left_out(
    partial: Mapping[str, JsonValue], patterns: Sequence[tuple[str, ...]]
) -> Partial:
    kept: Partial = {}
    for key, value in partial.items():
        below = [rest for part, *rest in patterns if part in ("*", key)]
        if [] in below:
            continue
        inner = [tuple(rest) for rest in below]
        kept[key] = _without_left_out(value, inner) if isinstance(value, dict) and inner else value
    return kept


def split_unknown(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[ConfigProblem]]:
    """Return the part of a stored `partial` that this release understands, and what it does not.

    The part is in the one form in which values are written.

    A wrong value counts as not understood, alone: what stands beside it stays in force. What
    lacks something is not understood as a whole. What is left out on purpose is not mentioned.
    """
    kept, found = _bounded(remove_ignored(partial))
    unknown = [problem for _, problem in found]
    while True:
        result, found = read_layer(kept)
        if not found:
            return result, unknown
        unknown += [problem for _, problem in found]
        gone = _Gone()
        for keys, _ in found:
            gone.add(ROOT, kept, keys)
        kept = {} if gone.whole else gone.taken_from(ROOT, kept)


class _Gone:
    """A place that is to be taken out, or places below it: all of them in one pass."""

    def __init__(self) -> None:
        self.whole = False
        self._below: dict[str, _Gone] = {}

    def add(self, node: SchemaNode | None, value: JsonValue, keys: Sequence[str]) -> None:
        """Add what `keys` lead to in `value`, or as far as they lead."""
        place: _Gone = self
        for key in keys:
            inner = value["value"] if is_wrapper(value, node) else value
            if isinstance(inner, dict) and key in inner:
                value = inner[key]
            elif isinstance(inner, list) and key.isdecimal() and int(key) < len(inner):
                value = inner[int(key)]
            else:
                break
            node = node.child(key) if node is not None else None
            place = place._below.setdefault(key, _Gone())
        place.whole = True

    def taken_from(self, node: SchemaNode | None, value: Any) -> Any:
        """`value` without it."""
        if not self._below:
            return value
        if is_wrapper(value, node):
            return {**value, "value": self.taken_from(node, value["value"])}
        if isinstance(value, list):
            kept = enumerate(value)
            return [self._item(node, str(i), x) for i, x in kept if not self._takes(str(i))]
        return {key: self._item(node, key, x) for key, x in value.items() if not self._takes(key)}

    def _takes(self, key: str) -> bool:
        return key in self._below and self._below[key].whole

    def _item(self, node: SchemaNode | None, key: str, value: Any) -> Any:
        below = self._below.get(key)
        if below is None:
            return value
        return below.taken_from(node.child(key) if node is not None else None, value)


def _bounded(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[LocatedProblem]]:
    """Return `partial` without what no notebook can keep: what lies too deep, NaN; and that."""
    unfit: list[LocatedProblem] = []

    def fits(keys: tuple[str, ...], value: JsonValue) -> bool:
        message = None
        if isinstance(value, float) and not isfinite(value):
            message = f"expected a finite number, found {value}"
        elif isinstance(value, (dict, list)) and len(keys) >= MAX_CONFIG_LEVELS:
            message = f"more than {MAX_CONFIG_LEVELS} tables and lists are nested here"
        if message is not None:
            unfit.append((keys, ConfigProblem(format_path(keys), "value", message)))
        return message is None

    def bound(value: JsonValue, above: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            items = [((*above, key), key, item) for key, item in value.items()]
            return {key: bound(item, keys) for keys, key, item in items if fits(keys, item)}
        if isinstance(value, list):
            numbered = [((*above, str(place)), item) for place, item in enumerate(value)]
            return [bound(item, keys) for keys, item in numbered if fits(keys, item)]
        return value

    return bound(dict(partial), ()), unfit
