"""A partial configuration, read once: each value in its one stored form, or what is wrong with it.

In a partial every field may be absent, or null, which is the same. A list or a text may also be
written as `{value, strategy, …}`, and so may a map whose field says so. Items of lists are whole.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue, ValidationError

from jp_nb.config.partial import Partial
from jp_nb.config.paths import Keys, format_path
from jp_nb.config.schema import JSON, ROOT, SchemaNode, node_at, unknown_key
from jp_nb.config.tree.node import PLAIN, TABLE, found
from jp_nb.errors import ConfigProblem

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Placed = tuple[Keys, ConfigProblem]
"""A problem and the keys that lead to it."""

MAX_HINTS: Final = 20
"""For how many unknown keys the nearest known one is looked for."""


def read_layer(partial: Mapping[str, JsonValue]) -> tuple[Partial, list[Placed]]:
    """Return `partial` in stored form without what is wrong in it, and that, each path once.

    Left-out settings are wrong.
    """
    reading = _Reading()
    read = reading.value(ROOT, partial, ())
    return read if isinstance(read, dict) else {}, list(reading.problems.values())


def problems_in(exc: ValidationError) -> list[ConfigProblem]:
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
        self.problems: dict[str, Placed] = {}
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
            message = unknown_key(node, key, above, hint=self._hints > 0)
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
            return f"expected for {key!r} one of {listed}, {found(one)}"
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
    return of_value, f"expected {expected.format(**context)}, {found(error['input'], path)}"
