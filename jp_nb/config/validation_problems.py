"""The problems of settings for the user, also those that pydantic reports, each with its path.

A problem has a `message` for the user, such as "expected true or false, found 'maybe'". The
`expected` values are also kept apart, in words. So is a `cause`, if a validator gives one, such as
"'a b' cannot be the name of an MCP server": tools see other messages, made of these parts.
`layer_reading.py` reads the settings of a layer, and adds their problems here.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from jp_nb.config.schema import ROOT, SchemaNode, describe_keys, node_at
from jp_nb.config.setting_paths import PathKeys, format_path
from jp_nb.config.tree.base import PLAIN_FORM, TABLE_FORM
from jp_nb.config.tree.value_errors import UnexpectedValueError, describe_found
from jp_nb.errors import ConfigProblem

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

LocatedProblem = tuple[PathKeys, ConfigProblem]
"""A problem and the keys of its setting."""

MAX_VALIDATION_HINTS: Final = 20
"""Maximum number of unknown keys for which a similar key is searched."""


class ProblemList:
    """Problems of settings. Only the first one of each path is kept."""

    def __init__(self) -> None:
        self._by_path: dict[str, LocatedProblem] = {}
        self._hints_left = MAX_VALIDATION_HINTS

    def list_located(self) -> list[LocatedProblem]:
        """Return the problems in the order in which they were added."""
        return list(self._by_path.values())

    def add_errors(self, exc: ValidationError, node: SchemaNode, above: PathKeys) -> None:
        """Add the problems that `exc` reports for a value of `node` at the keys `above`.

        The setting of an error may be below this value, for example a key in an item of a list.
        """
        for error in exc.errors(include_url=False):
            keys = (*above, *_find_keys(error, node))
            if error["type"] == "extra_forbidden":  # the key may be deeper than `node`
                self.add_unknown_key(node_at(keys[:-1]), keys[-1], keys[:-1])
            else:
                self._add_error(keys, error)

    def add_unknown_key(self, node: SchemaNode | None, key: str, above: PathKeys) -> None:
        """Add the problem of an unknown `key` in `node`, which is at the keys `above`."""
        keys = (*above, key)
        if format_path(keys) in self._by_path:
            return

        expected = ""
        if node is not None:
            # The known keys. With `hint`, the most similar one too, for which the search is slow.
            expected = describe_keys(node, key, above, hint=self._hints_left > 0)
        self._hints_left -= 1
        message = f"unknown key, {expected}" if expected else "unknown key"
        self.add(keys, "unknown_key", message, expected=expected)

    def _add_error(self, keys: PathKeys, error: ErrorDetails) -> None:
        """Add an error of pydantic, by its type: https://docs.pydantic.dev/latest/errors/."""
        error_type = error["type"]
        context = error.get("ctx", {})
        first_word = error_type.partition("_")[0]
        # A number out of range has the right type.
        kind = "value" if first_word in ("greater", "less") else "type"

        if error_type == "missing":
            self.add(keys, "value", "is required here, but not set")
        elif error_type == "value_error":  # of a validator, usually an `UnexpectedValueError`
            raised = context["error"]
            cause = getattr(raised, "cause", "")
            expected = getattr(raised, "expected", "")
            self.add(keys, "value", str(raised), cause=cause, expected=expected)
        elif error_type == "literal_error":
            unexpected = make_unexpected_value_error(error)
            self.add(keys, "value", str(unexpected), expected=unexpected.expected)
        elif form := _EXPECTED.get(error_type) or _EXPECTED.get(first_word):
            expected = form.format(**context)
            found = describe_found(error["input"], format_path(keys))  # such as "found a list"
            self.add(keys, kind, f"expected {expected}, {found}", expected=expected)
        else:
            self.add(keys, kind, error["msg"])

    def add(
        self, keys: PathKeys, kind: str, message: str, *, cause: str = "", expected: str = ""
    ) -> None:
        """Add a problem of a `kind` of `ConfigProblem`, unless the path has one already."""
        path = format_path(keys)
        problem = ConfigProblem(path, kind, message, cause, expected)
        self._by_path.setdefault(path, (keys, problem))


def list_problems(exc: ValidationError) -> list[ConfigProblem]:
    """Return the problems that `exc`, an error of `AppConfig`, reports: one for each path."""
    problems = ProblemList()
    problems.add_errors(exc, ROOT, ())
    return [problem for _, problem in problems.list_located()]


def make_unexpected_value_error(error: ErrorDetails) -> UnexpectedValueError:
    """Return the problem that a `literal_error` of pydantic reports."""
    words = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    return UnexpectedValueError(f"one of {', '.join(words)}", error["input"])


def _find_keys(error: ErrorDetails, top: SchemaNode) -> PathKeys:
    """Return the keys of the invalid setting, below the value of `top` that was validated.

    The location of an error also has parts that are no keys. Of a setting that is a table or a
    plain value, it has the tag of the form that was read (`TABLE_FORM`, `PLAIN_FORM`). And it ends
    in `[key]` if the key of a map itself is invalid. A setting may have such a name, so the schema
    decides: a tag comes once, directly after a setting with two forms, and `[key]` after a map. So
    `("labels", "a", "~table", "cmd")` gives `("labels", "a", "cmd")`, and
    `("labels", "1x", "[key]")` gives `("labels", "1x")`. The last part of an `extra_forbidden`
    error is always the unknown key.
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
