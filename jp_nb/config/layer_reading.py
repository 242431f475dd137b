"""Read one layer of the configuration: check each setting, and report each problem with its path.

In a layer, each setting can be absent or null, with the same meaning. Lists, texts, and some maps
can also be *wrapped* with the strategy of their merge: `{value, strategy, …}`. Items of lists are
complete. The valid settings are returned in stored form: as JSON, with short forms expanded.

A *node* is the type of a setting in the schema (`schema.py`): a table has named fields, a map free
keys. A problem has a `message` for the user. If the value is wrong for its own reason, this
`cause` is also kept apart, and so are the `expected` values, in words.

`validation.py` adds the checks of the whole configuration, and `known_settings.py` reads settings
of records.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue, ValidationError

from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_merge import TEXT_SEPARATORS
from jp_nb.config.schema import JSON, ROOT, SchemaNode, describe_keys, node_at
from jp_nb.config.setting_paths import PathKeys, format_path
from jp_nb.config.tree.base import PLAIN_FORM, TABLE_FORM
from jp_nb.config.tree.declared_servers import SERVERS_PATH, declare_servers
from jp_nb.config.tree.value_errors import UnexpectedValueError, describe_found
from jp_nb.errors import ConfigProblem

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

LocatedProblem = tuple[PathKeys, ConfigProblem]
"""A problem and the keys of its setting."""

MAX_VALIDATION_HINTS: Final = 20
"""Maximum number of unknown keys for which a similar key is searched."""


def read_layer(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[LocatedProblem]]:
    """Return the valid settings of `partial` in stored form, and its problems, one for each path.

    A setting with a problem is absent or only partly read, so callers discard it. Settings that only
    JP has are invalid here: `remove_ignored` (`known_settings.py`) removes them before.
    """
    # First, because the names of these servers are valid in the model ids of the same layer. This
    # process then knows them.
    declare_servers(get_path(partial, SERVERS_PATH))

    reader = _LayerReader()
    settings = reader.read(ROOT, partial, ())
    if not isinstance(settings, dict):
        settings = {}
    return settings, list(reader.problems.values())


def list_problems(exc: ValidationError) -> list[ConfigProblem]:
    """Return the problems that `exc`, an error of `AppConfig`, reports: one for each path."""
    reader = _LayerReader()
    reader.add_errors(exc, ROOT, ())
    return [problem for _, problem in reader.problems.values()]


class _LayerReader:
    """Reads the settings of one layer. Tables are read field by field, other values by pydantic.

    So one invalid field does not hide the problems of the other ones.

    Attributes:
        problems: The first problem of each path.
    """

    def __init__(self) -> None:
        self.problems: dict[str, LocatedProblem] = {}
        self._hints_left = MAX_VALIDATION_HINTS

    def read(self, node: SchemaNode, value: Any, keys: PathKeys) -> Any:
        """Return `value` of `node` in stored form; None if it is not set or is invalid."""
        if value is None:
            return None
        if not isinstance(value, dict) or not _is_wrapped(node, value):
            return self._read_plain(node, value, keys)

        error = _find_wrapper_error(node, value)
        if error is not None:
            self._add(keys, "value", str(error), cause=error.cause, expected=error.expected)
            return None

        strategy = {key: option for key, option in value.items() if option is not None}
        return {**strategy, "value": self._read_plain(node, value["value"], keys)}

    def _read_plain(self, node: SchemaNode, value: Any, keys: PathKeys) -> Any:
        """Read a `value` without own strategies; its parts may have some."""
        if node.kind == "table" and isinstance(value, dict):
            # Short forms can be tables. If one is invalid, the table is read as far as it is expanded,
            # and its fields are reported.
            with suppress(ValueError):
                for expand in node.shorthands:
                    value = expand(value)

        if isinstance(value, dict):
            if node.kind == "table":
                return self._read_table(node, value, keys)
            if node.kind == "map" and node.item is not JSON:
                return self._read_map(node, value, keys)
        return self._read_whole(node, value, keys)

    def _read_table(self, node: SchemaNode, table: dict[str, Any], keys: PathKeys) -> Partial:
        known = {name: field for name, field in node.fields.items() if name in table}
        others = [name for name in table if name not in known]
        if node.has_free_keys:
            known |= dict.fromkeys(others, JSON)

        values = {name: self.read(known[name], table[name], (*keys, name)) for name in known}

        if not node.has_free_keys:
            for name in others:
                self._add_unknown_key(node, name, keys)
        return {name: value for name, value in values.items() if value is not None}

    def _read_map(self, node: SchemaNode, table: dict[str, Any], keys: PathKeys) -> Partial:
        entries: Partial = {}
        for name, value in table.items():
            try:
                node.key.validate_python(name)
            except ValidationError as exc:
                self.add_errors(exc, node.item, (*keys, name))

            # Also below an invalid key, so that the problems of the entry are reported too.
            entry = self.read(node.item, value, (*keys, name))
            if entry is not None:
                entries[name] = entry
        return entries

    def _read_whole(self, node: SchemaNode, value: Any, keys: PathKeys) -> Any:
        """Read a `value` that is valid or invalid as a whole."""
        try:
            valid = node.adapter.validate_python(value)
        except ValidationError as exc:
            self.add_errors(exc, node, keys)
            return None

        if isinstance(valid, (str, int, float)):
            return valid
        return node.adapter.dump_python(valid, mode="json", exclude_unset=True, exclude_none=True)

    def add_errors(self, exc: ValidationError, node: SchemaNode, above: PathKeys) -> None:
        """Add the problems that `exc` reports for a value of `node` at the keys `above`.

        The setting of an error may be below this value, for example a key in an item of a list.
        """
        for error in exc.errors(include_url=False):
            keys = (*above, *_find_keys(error, node))
            if error["type"] == "extra_forbidden":  # the key may be deeper than `node`
                self._add_unknown_key(node_at(keys[:-1]), keys[-1], keys[:-1])
            else:
                self._add_error(keys, error)

    def _add_unknown_key(self, node: SchemaNode | None, key: str, above: PathKeys) -> None:
        keys = (*above, key)
        if format_path(keys) in self.problems:
            return

        expected = ""
        if node is not None:
            expected = describe_keys(node, key, above, hint=self._hints_left > 0)
        self._hints_left -= 1
        message = f"unknown key, {expected}" if expected else "unknown key"
        self._add(keys, "unknown_key", message, expected=expected)

    def _add_error(self, keys: PathKeys, error: ErrorDetails) -> None:
        """Add an error of pydantic, by its type: https://docs.pydantic.dev/latest/errors/."""
        error_type = error["type"]
        context = error.get("ctx", {})
        first_word = error_type.partition("_")[0]
        kind = "value" if first_word in ("greater", "less") else "type"

        if error_type == "missing":
            self._add(keys, "value", "is required here, but not set")
        elif error_type == "value_error":  # of a validator, usually an `UnexpectedValueError`
            raised = context["error"]
            cause = getattr(raised, "cause", "")
            expected = getattr(raised, "expected", "")
            self._add(keys, "value", str(raised), cause=cause, expected=expected)
        elif error_type == "literal_error":
            unexpected = make_unexpected_value_error(error)
            self._add(keys, "value", str(unexpected), expected=unexpected.expected)
        elif form := _EXPECTED.get(error_type) or _EXPECTED.get(first_word):
            expected = form.format(**context)
            message = f"expected {expected}, {describe_found(error['input'], format_path(keys))}"
            self._add(keys, kind, message, expected=expected)
        else:
            self._add(keys, kind, error["msg"])

    def _add(
        self, keys: PathKeys, kind: str, message: str, *, cause: str = "", expected: str = ""
    ) -> None:
        """Add a problem of a `kind` of `ConfigProblem`, unless the path has one already."""
        path = format_path(keys)
        problem = ConfigProblem(path, kind, message, cause, expected)
        self.problems.setdefault(path, (keys, problem))


def make_unexpected_value_error(error: ErrorDetails) -> UnexpectedValueError:
    """Return the problem that a `literal_error` of pydantic reports."""
    words = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    return UnexpectedValueError(f"one of {', '.join(words)}", error["input"])


_BOOLEANS = (True, False)
_STRATEGY_OPTIONS: dict[str, dict[str, tuple[str | bool, ...]]] = {
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
    """Return True if the table `value` is meant as `{value, strategy, …}`, even if it is invalid.

    A list or a text has no other form that is a table.
    """
    if node.kind == "map":  # it may have an entry `value`
        return node.merge.annotated and {"value", "strategy"} <= value.keys()
    return node.kind in ("list", "text")


def _find_wrapper_error(node: SchemaNode, wrapper: dict[str, Any]) -> UnexpectedValueError | None:
    """Return what is wrong with `{value, strategy, …}` itself; None if at most its value is."""
    options = _STRATEGY_OPTIONS[node.kind]
    if "value" not in wrapper:
        return UnexpectedValueError(
            f"a {node.kind}, or a table of value and {', '.join(options)}",
            found=f"a table of {', '.join(map(str, wrapper)) or 'nothing'}",
        )

    for key, option in wrapper.items():
        if key == "value" or option is None:
            continue
        if key not in options:
            cause = f"unknown key {key!r} next to `value`"
            return UnexpectedValueError(f"one of: {', '.join(options)}", cause=cause)

        if not _is_one_of(option, options[key]):
            listed = ", ".join(str(word).lower() for word in options[key])
            return UnexpectedValueError(f"for {key!r} one of {listed}", option)

    return UnexpectedValueError("a value for 'value'") if wrapper["value"] is None else None


def _is_one_of(value: Any, choices: tuple[str | bool, ...]) -> bool:
    """Return True if `value` is in `choices`. The number 1 is not True, which `in` would accept."""
    return any(value is word or (isinstance(value, str) and value == word) for word in choices)


def _find_keys(error: ErrorDetails, top: SchemaNode) -> PathKeys:
    """Return the keys of the invalid setting, below the value of `top` that was validated.

    The location of an error also has parts that are no keys. Of a setting that is a table or a
    plain value, it has the tag of the form that was read (`TABLE_FORM`, `PLAIN_FORM`). And it ends
    in `[key]` if the key of a map itself is invalid. A setting may have such a name, so the schema
    decides: a tag comes once, directly after a setting with two forms, and `[key]` after a map. With
    the tag `table`, `("labels", "a", "table", "cmd")` gives `("labels", "a", "cmd")`, and
    `("labels", "1x", "[key]")` gives `("labels", "1x")`.
    """
    is_unknown_key = error["type"] == "extra_forbidden"
    keys: list[str] = []
    parent: SchemaNode | None = None
    node: SchemaNode | None = top
    is_tag_read = False

    for part in map(str, error["loc"]):
        is_tagged = node is not None and node.tagged and not is_tag_read
        if is_tagged and part in (TABLE_FORM.tag, PLAIN_FORM.tag):
            is_tag_read = True
            continue
        is_map_entry = parent is not None and parent.kind == "map"
        if part == "[key]" and is_map_entry and not is_unknown_key:
            break

        keys.append(part)
        parent = node
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
