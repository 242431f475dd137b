"""Validate a layer of the configuration, and report each problem with its path.

In a layer, each setting can be absent or null, with the same meaning. Lists, texts, and some maps
can also be written as `{value, strategy, …}`. Items of lists are complete. A
`ConfigError` has all problems.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue, ValidationError

from jp_nb.config.access_rule_checks import find_rule_problems, iter_rules
from jp_nb.config.partials.partial import Partial, get_path, is_wrapper
from jp_nb.config.partials.partial_merge import TEXT_SEPARATORS
from jp_nb.config.partials.partial_strategies import strip_strategies
from jp_nb.config.schema import JSON, ROOT, SchemaNode, describe_keys, node_at
from jp_nb.config.setting_paths import PathKeys, format_path
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.base import PLAIN_FORM, TABLE_FORM, UnexpectedValueError, describe_found
from jp_nb.config.tree.ignored_settings import IGNORED_PATTERNS
from jp_nb.config.tree.named_servers import SERVERS_PATH, declare_servers
from jp_nb.config.tree.tool_settings import DEFAULTABLE, STAR, Access
from jp_nb.errors import ConfigError, ConfigProblem
from jp_nb.json_values import MAX_CONFIG_LEVELS

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

LocatedProblem = tuple[PathKeys, ConfigProblem]
"""A problem and the keys of its setting."""

MAX_VALIDATION_HINTS: Final = 20
"""Maximum number of unknown keys for which a similar key is searched."""


def read_layer(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[LocatedProblem]]:
    """Return the valid settings of `partial` in stored form, and its problems, one for each path.

    Settings that only JP has are invalid here: see `remove_ignored`.
    """
    declare_servers(get_path(partial, SERVERS_PATH))
    reading = _Reading()
    read = reading.read(ROOT, partial, ())
    if not isinstance(read, dict):
        read = {}
    return read, list(reading.problems.values())


def list_problems(exc: ValidationError) -> list[ConfigProblem]:
    """Return the problems that `exc`, an error of `AppConfig`, reports: one for each path."""
    reading = _Reading()
    reading.report(exc, ROOT, ())
    return [problem for _, problem in reading.problems.values()]


class _Reading:
    """State of the validation of one partial configuration."""

    def __init__(self) -> None:
        self.problems: dict[str, LocatedProblem] = {}
        """The first problem of each path."""
        self._hints = MAX_VALIDATION_HINTS

    def read(self, node: SchemaNode, value: Any, keys: PathKeys) -> Any:
        """Return `value` of `node` in stored form; None if it is not set or is invalid."""
        if value is None:
            return None
        if isinstance(value, dict) and _is_wrapped(node, value):
            wrong = _find_wrapper_problem(node, value)
            if wrong is not None:
                self._add(keys, "value", str(wrong), cause=wrong.cause, expected=wrong.expected)
                return None
            annotations = {key: one for key, one in value.items() if one is not None}
            return {**annotations, "value": self._read_plain(node, value["value"], keys)}

        return self._read_plain(node, value, keys)

    def _read_plain(self, node: SchemaNode, value: Any, keys: PathKeys) -> Any:
        if node.kind == "table" and isinstance(value, dict):
            with suppress(ValueError):  # its fields are reported below
                for read in node.shorthands:  # short forms can be tables
                    value = read(value)

        if isinstance(value, dict):
            if node.kind == "table":
                return self._read_table(node, value, keys)
            if node.kind == "map" and node.item is not JSON:
                return self._read_map(node, value, keys)
        return self._read_whole(node, value, keys)

    def _read_table(self, node: SchemaNode, table: dict[str, Any], keys: PathKeys) -> Partial:
        below = {name: field for name, field in node.fields.items() if name in table}

        others = [name for name in table if name not in below]
        if node.has_free_keys:
            below |= dict.fromkeys(others, JSON)
        values = {name: self.read(below[name], table[name], (*keys, name)) for name in below}
        for name in others if not node.has_free_keys else ():
            self._unknown(node, name, keys)
        return {name: value for name, value in values.items() if value is not None}

    def _read_map(self, node: SchemaNode, table: dict[str, Any], keys: PathKeys) -> Partial:
        read: Partial = {}
        for name, value in table.items():
            try:
                node.key.validate_python(name)
            except ValidationError as exc:
                self.report(exc, node.item, (*keys, name))
            one = self.read(node.item, value, (*keys, name))
            if one is not None:
                read[name] = one
        return read

    def _read_whole(self, node: SchemaNode, value: Any, keys: PathKeys) -> Any:
        try:
            read = node.adapter.validate_python(value)
        except ValidationError as exc:
            self.report(exc, node, keys)
            return None

        if isinstance(read, (str, int, float)):
            return read
        return node.adapter.dump_python(read, mode="json", exclude_unset=True, exclude_none=True)

    def report(self, exc: ValidationError, node: SchemaNode, above: PathKeys) -> None:
        """Add the problems that `exc` reports for a value of `node` at the keys `above`."""
        for error in exc.errors(include_url=False):
            keys = (*above, *_find_keys(error, node))
            if error["type"] == "extra_forbidden":
                self._unknown(node_at(keys[:-1]), keys[-1], keys[:-1])
            else:
                self._add_error(keys, error)

    def _unknown(self, node: SchemaNode | None, key: str, above: PathKeys) -> None:

        keys = (*above, key)
        if format_path(keys) in self.problems:
            return

        known = describe_keys(node, key, above, hint=self._hints > 0) if node is not None else ""
        self._hints -= 1
        message = f"unknown key, {known}" if known else "unknown key"
        self._add(keys, "unknown_key", message, expected=known)

    def _add_error(self, keys: PathKeys, error: ErrorDetails) -> None:
        kind = error["type"]
        context = error.get("ctx", {})
        beginning = kind.partition("_")[0]
        of_value = "value" if beginning in ("greater", "less") else "type"

        if kind == "missing":
            self._add(keys, "value", "is required here, but not set")
        elif kind == "value_error":
            wrong = context["error"]
            cause = getattr(wrong, "cause", "")
            expected = getattr(wrong, "expected", "")
            self._add(keys, "value", str(wrong), cause=cause, expected=expected)
        elif kind == "literal_error":
            wrong = make_unexpected_value_error(error)
            self._add(keys, "value", str(wrong), expected=wrong.expected)
        elif form := _EXPECTED.get(kind) or _EXPECTED.get(beginning):
            expected = form.format(**context)
            message = f"expected {expected}, {describe_found(error['input'], format_path(keys))}"
            self._add(keys, of_value, message, expected=expected)
        else:
            self._add(keys, of_value, error["msg"])

    def _add(
        self, keys: PathKeys, kind: str, message: str, *, cause: str = "", expected: str = ""
    ) -> None:
        path = format_path(keys)
        problem = ConfigProblem(path, kind, message, cause, expected)
        self.problems.setdefault(path, (keys, problem))


def make_unexpected_value_error(error: ErrorDetails) -> UnexpectedValueError:
    """Return the problem that a `literal_error` of pydantic reports."""
    words = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    return UnexpectedValueError(f"one of {', '.join(words)}", error["input"])


_BOOLEANS = (True, False)
_ANNOTATIONS: dict[str, dict[str, tuple[str | bool, ...]]] = {
    "list": {
        "strategy": ("append", "prepend", "replace"),
        "discard_when_merged": _BOOLEANS,
        "dedup": (*_BOOLEANS, "inherit"),
    },
    "text": {
        "strategy": ("append", "prepend", "replace"),
        "discard_when_merged": _BOOLEANS,
        "separator": tuple(TEXT_SEPARATORS),
    },
    "map": {
        "strategy": ("deep_merge", "merge", "keep", "replace"),
        "discard_when_merged": _BOOLEANS,
    },
}
"""Allowed keys next to `value`, with their values, by the kind of a node."""


def _is_wrapped(node: SchemaNode, value: dict[str, Any]) -> bool:
    if node.kind == "map":  # it may have a key `value`
        return node.merge.annotated and {"value", "strategy"} <= value.keys()
    return node.kind in ("list", "text")


def _find_wrapper_problem(node: SchemaNode, wrapper: dict[str, Any]) -> UnexpectedValueError | None:
    choices = _ANNOTATIONS[node.kind]
    if "value" not in wrapper:
        return UnexpectedValueError(
            f"a {node.kind}, or a table of value and {', '.join(choices)}",
            found=f"a table of {', '.join(map(str, wrapper)) or 'nothing'}",
        )

    for key, one in wrapper.items():
        if key == "value" or one is None:
            continue
        if key not in choices:
            cause = f"unknown key {key!r} next to `value`"
            return UnexpectedValueError(f"one of: {', '.join(choices)}", cause=cause)

        # Not `one in choices[key]`: in Python, 1 == True.
        if not any(one is word or (isinstance(one, str) and one == word) for word in choices[key]):
            listed = ", ".join(str(word).lower() for word in choices[key])
            return UnexpectedValueError(f"for {key!r} one of {listed}", one)

    return UnexpectedValueError("a value for 'value'") if wrapper["value"] is None else None


def _find_keys(error: ErrorDetails, top: SchemaNode) -> PathKeys:
    # The location of an error also contains the tags of union members, and `[key]` for the key
    # of a map.
    unknown = error["type"] == "extra_forbidden"
    keys: list[str] = []
    above: SchemaNode | None = None
    node: SchemaNode | None = top
    is_tag_read = False

    for part in map(str, error["loc"]):
        is_tagged = node is not None and node.tagged and not is_tag_read
        if is_tagged and part in (TABLE_FORM.tag, PLAIN_FORM.tag):
            is_tag_read = True
            continue
        if part == "[key]" and not unknown and above is not None and above.kind == "map":
            break

        keys.append(part)
        above = node
        node = node.child(part) if node is not None else None
        is_tag_read = False
    return tuple(keys)


_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "a text",
    "list": "a list",
    "dict": "a table",
    "model": "a table",
    "enum": "one of {expected}",
    "finite": "a number",
    "greater": "a number greater than {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "invalid-json-value": "text, numbers, true, false, lists, or tables",
}
"""Expected values by the type of a pydantic error, or the first part of the type."""


def validate_layer(
    partial: Mapping[str, JsonValue], *, layer: str, file: str | None = None
) -> Partial:
    """Return the settings of one layer in stored form.

    Raises:
        ConfigError: The layer has problems, which are in `problems` of the error.
    """
    storable, problems = _remove_unstorable(partial)
    result, invalid = read_layer(storable)
    problems += [problem for _, problem in invalid]

    if not problems:
        for tool, rules in iter_rules(result):
            found = find_rule_problems(tool, rules)
            problems += [ConfigProblem(path, "value", message) for path, message in found]

    if problems:
        raise _create_error(problems, layer, file)
    return result


def validate_config(
    partial: Mapping[str, JsonValue], *, layer: str | None = None, file: str | None = None
) -> AppConfig:
    """Return the whole configuration: `partial` and the defaults.

    Raises:
        ConfigError: A setting is not valid, or two settings conflict.
    """
    return validate_plain_config(strip_strategies(partial), layer=layer, file=file)


def validate_plain_config(
    settings: Partial, *, layer: str | None = None, file: str | None = None
) -> AppConfig:
    """Validate as `validate_config` does, for settings without merge strategies.

    Equal settings give the same object: most conversations have the settings of the one before.
    """
    declare_servers(get_path(settings, SERVERS_PATH))
    try:
        config = _validate_text(json.dumps(settings))  # with infinite numbers, to refuse them
    except ValidationError as exc:
        raise _create_error(list_problems(exc), layer, file) from exc

    conflicts = [ConfigProblem(path, "value", text) for path, text in _find_conflicts(config)]
    if conflicts:
        raise _create_error(conflicts, layer, file)
    return config


@lru_cache(maxsize=4)
def _validate_text(settings: str) -> AppConfig:
    return AppConfig.model_validate(json.loads(settings))


def _find_conflicts(config: AppConfig) -> Iterator[tuple[str, str]]:
    tools = config.conversation.tools
    star = tools.get(STAR)
    known = ", ".join(sorted(DEFAULTABLE))

    for key in sorted(star.model_fields_set - DEFAULTABLE) if star is not None else ():
        if getattr(star, key) not in (None, {}, []):
            text = f"'{STAR}' holds defaults and has no {key}, expected one of: {known}"
            yield f"conversation.tools.{STAR}.{key}", text

    for name, tool in tools.items():
        if name != STAR and tool.access is not None:
            yield from _find_access_conflicts(name, tool.access, tool.kind)

    choice = config.assistant.tool_choice
    chosen = tools.get(choice)
    if chosen is not None and choice not in ("auto", "none", "required", STAR):
        state, toggle = config.conversation.get_tool_state(choice)
        if not state and toggle == "never":
            yield (
                "assistant.tool_choice",
                f"assistant.tool_choice names {choice!r}, which conversation.tools.{choice}.enable "
                "turns off permanently: choose another tool, or allow it to be turned on",
            )


def _find_access_conflicts(name: str, access: Access, kind: str) -> Iterator[tuple[str, str]]:
    path = f"conversation.tools.{name}"
    text = f"is only supported on local tools, but '{name}' is a {kind} tool"

    if kind in ("builtin", "mcp"):
        yield f"{path}.access", f"{path}: `access` {text}"
    elif kind == "python":
        for field in ("fs", "net", "env"):
            if getattr(access, field):
                why = "code in the kernel cannot be restricted"
                yield f"{path}.access.{field}", f"{path}: `access.{field}` {text}: {why}"

    if access.config:
        yield from find_rule_problems(name, access.config)


def _create_error(
    problems: Sequence[ConfigProblem], layer: str | None, file: str | None
) -> ConfigError:
    first = problems[0]
    error = ConfigError(first.message, path=first.path, kind=first.kind, layer=layer, file=file)
    error.problems = tuple(problems)
    return error


def remove_ignored(partial: Mapping[str, JsonValue]) -> Partial:
    """Return `partial` without the settings that only JP has."""

    def kept(part: Mapping[str, JsonValue], patterns: Sequence[Sequence[str]]) -> Partial:
        result: Partial = {}
        for key, value in part.items():
            below = [rest for first, *rest in patterns if first in ("*", key)]
            if [] not in below:
                result[key] = kept(value, below) if isinstance(value, dict) and below else value
        return result

    return kept(partial, IGNORED_PATTERNS)


def split_unknown(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[ConfigProblem]]:
    """Return the settings of a stored `partial` that are valid in this release, and the problems.

    The settings are in stored form. An invalid value is removed alone; a table without a required
    field is removed as a whole. Settings that only JP has are removed without a problem.
    """
    kept, problems = _remove_unstorable(remove_ignored(partial))
    while True:
        result, located = read_layer(kept)
        if not located:
            return result, problems

        problems += [problem for _, problem in located]
        places = {_existing_part(ROOT, kept, keys) for keys, _ in located}
        kept = {} if () in places else _remove_places(ROOT, kept, places)


def _existing_part(node: SchemaNode | None, value: JsonValue, keys: PathKeys) -> PathKeys:
    # A required field that is missing has keys, but only its table exists.

    for number, key in enumerate(keys):
        inner = value["value"] if is_wrapper(value, node) else value
        if isinstance(inner, dict) and key in inner:
            value = inner[key]
        elif isinstance(inner, list) and key.isdecimal() and int(key) < len(inner):
            value = inner[int(key)]
        else:
            return keys[:number]

        node = node.child(key) if node is not None else None
    return keys


def _remove_places(node: SchemaNode | None, value: Any, places: Iterable[PathKeys]) -> Any:
    # Removes all places in one pass: a record may have thousands of invalid values.
    if is_wrapper(value, node):
        return {**value, "value": _remove_places(node, value["value"], places)}

    below: dict[str, list[PathKeys]] = {}
    for key, *rest in places:
        below.setdefault(key, []).append(tuple(rest))

    items = enumerate(value) if isinstance(value, list) else value.items()
    kept = {}
    for name, item in items:
        rests = below.get(str(name), [])
        if () in rests:
            continue

        child = None if node is None else node.child(str(name))
        kept[name] = _remove_places(child, item, rests) if rests else item

    return list(kept.values()) if isinstance(value, list) else kept


def _remove_unstorable(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[ConfigProblem]]:
    # A notebook can store neither NaN nor values that are nested too deeply.
    problems: list[ConfigProblem] = []

    def is_storable(keys: PathKeys, value: JsonValue) -> bool:
        if isinstance(value, float) and not isfinite(value):
            message = f"expected a finite number, found {value}"
        elif isinstance(value, (dict, list)) and len(keys) >= MAX_CONFIG_LEVELS:
            message = f"more than {MAX_CONFIG_LEVELS} tables and lists are nested here"
        else:
            return True
        problems.append(ConfigProblem(format_path(keys), "value", message))
        return False

    def filtered(value: JsonValue, above: PathKeys) -> Any:
        if isinstance(value, dict):
            items = [((*above, key), key, item) for key, item in value.items()]
            return {k: filtered(item, keys) for keys, k, item in items if is_storable(keys, item)}
        if isinstance(value, list):
            numbered = [((*above, str(place)), item) for place, item in enumerate(value)]
            return [filtered(item, keys) for keys, item in numbered if is_storable(keys, item)]
        return value

    return filtered(dict(partial), ()), problems
