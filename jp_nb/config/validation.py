"""Validation of a partial or a whole configuration: everything wrong at once, in words.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from pydantic import JsonValue, ValidationError

from jp_nb.config.grants import rule_problems, rules_in
from jp_nb.config.partial import Partial, is_wrapper, strip_strategies
from jp_nb.config.partial_reading import Placed, problems_in, read_layer
from jp_nb.config.paths import format_path
from jp_nb.config.schema import ROOT, SchemaNode
from jp_nb.config.tree.access_config import Access
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.left_out import PATTERNS
from jp_nb.config.tree.tool_config import DEFAULTABLE, STAR
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.json_values import MAX_CONFIG_LEVELS


def checked(partial: Mapping[str, JsonValue], *, layer: str, file: str | None = None) -> Partial:
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
    for tool, rules in rules_in(partial):
        for path, message in rule_problems(tool, rules):
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
        raise _error(problems_in(exc), layer, file) from exc
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
        state, toggle = config.conversation.enabling(choice)
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
        yield from rule_problems(name, access.config)


def _error(found: Sequence[ConfigProblem], layer: str | None, file: str | None) -> ConfigError:
    first, *others = found
    return ConfigError(
        first.message, path=first.path, kind=first.kind, layer=layer, file=file, others=others
    )


# --- what others wrote -----------------------------------------------------------------------


def without_left_out(partial: Mapping[str, JsonValue]) -> Partial:
    """Return `partial` without the settings that nothing in a notebook reads."""
    return _without_left_out(partial, PATTERNS)


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
    kept, found = _bounded(without_left_out(partial))
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


def _bounded(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[Placed]]:
    """Return `partial` without what no notebook can keep: what lies too deep, NaN; and that."""
    unfit: list[Placed] = []

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
