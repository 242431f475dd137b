"""Read one layer of the configuration: check each setting, and report each problem with its path.

In a layer, each setting can be absent or null, with the same meaning. Lists, texts, and some maps
can also be *wrapped* with the strategy of their merge: `{value, strategy, …}`. Items of lists are
complete. The valid settings are returned in stored form: as JSON, with short forms expanded.

A *node* is the type of a setting in the schema (`schema.py`): a table has named fields, a map free
keys.

`validation_problems.py` words the problems. `validation.py` adds the checks of the whole
configuration, and `known_settings.py` reads settings of records.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import JsonValue, ValidationError

from jp_nb.config.partials.partial import Partial, get_path
from jp_nb.config.partials.partial_merge import TEXT_SEPARATORS
from jp_nb.config.schema import JSON, ROOT, SchemaNode
from jp_nb.config.setting_paths import PathKeys
from jp_nb.config.tree.declared_servers import SERVERS_PATH, declare_servers
from jp_nb.config.tree.value_errors import UnexpectedValueError
from jp_nb.config.validation_problems import LocatedProblem, ProblemList


def read_layer(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[LocatedProblem]]:
    """Return the valid settings of `partial` in stored form, and its problems, one for each path.

    A setting with a problem is absent or only partly read, so callers discard it. JP is the program
    whose configuration this one extends. Settings that only JP has are invalid here:
    `remove_ignored` (`known_settings.py`) removes them before.
    """
    # First, because the names of these servers are valid in the model ids of the same layer. This
    # process then knows them.
    declare_servers(get_path(partial, SERVERS_PATH))

    reader = _LayerReader()
    settings = reader.read(ROOT, partial, ())
    if not isinstance(settings, dict):
        settings = {}
    return settings, reader.problems.list_located()


class _LayerReader:
    """Reads the settings of one layer. Tables are read field by field, other values by pydantic.

    So one invalid field does not hide the problems of the other ones.
    """

    def __init__(self) -> None:
        self.problems = ProblemList()

    def read(self, node: SchemaNode, value: Any, keys: PathKeys) -> Any:
        """Return `value` of `node` in stored form; None if it is not set or is invalid."""
        if value is None:
            return None
        if not isinstance(value, dict) or not _is_wrapped(node, value):
            return self._read_plain(node, value, keys)

        error = _find_wrapper_error(node, value)
        if error is not None:
            self.problems.add(keys, "value", str(error), cause=error.cause, expected=error.expected)
            return None

        strategy = {key: option for key, option in value.items() if option is not None}
        return {**strategy, "value": self._read_plain(node, value["value"], keys)}

    def _read_plain(self, node: SchemaNode, value: Any, keys: PathKeys) -> Any:
        """Read a `value` without own strategies; its parts may have some."""
        if node.kind == "table" and isinstance(value, dict):
            # Short forms can be tables. If one is invalid, the table is read as far as it is
            # expanded, and the problems of its fields are reported.
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
                self.problems.add_unknown_key(node, name, keys)
        return {name: value for name, value in values.items() if value is not None}

    def _read_map(self, node: SchemaNode, table: dict[str, Any], keys: PathKeys) -> Partial:
        entries: Partial = {}
        for name, value in table.items():
            try:
                node.key.validate_python(name)
            except ValidationError as exc:
                self.problems.add_errors(exc, node.item, (*keys, name))

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
            self.problems.add_errors(exc, node, keys)
            return None

        if isinstance(valid, (str, int, float)):
            return valid
        return node.adapter.dump_python(valid, mode="json", exclude_unset=True, exclude_none=True)


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
        has_both = "value" in value and value.get("strategy") is not None
        return node.merge.annotated and has_both
    return node.kind in ("list", "text")


def _find_wrapper_error(node: SchemaNode, wrapper: dict[str, Any]) -> UnexpectedValueError | None:
    """Return the error of `{value, strategy, …}`; None if at most its value is invalid."""
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
