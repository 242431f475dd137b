"""Line numbers of the keys of a TOML file, which the standard library's reader does not keep.

The file is divided into its statements: table headers and pairs of a key and a value. Each one is
read by itself, so that its keys and its line are known. `jp_nb/storage/answers_file.py` names the
lines in its errors.

Source: https://toml.io/en/v1.0.0.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

TomlPath = tuple[str, ...]
"""Names of the tables from the top of a file, and of a key in the last one."""

_TOKEN: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?""""{0,2}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*'''
    r"""|(?P<open>[\[{])|(?P<close>[\]}])|(?P<end>\n)""",
    re.DOTALL,
)
"""Strings, comments, brackets, and line ends of TOML."""
_MAX_DEPTH: Final = 6
"""Levels of inline tables and dotted keys in one statement, below which keys have no own line."""


class TomlLines:
    """First line of each key of the valid TOML `text`, and of each item of an array of tables."""

    def __init__(self, text: str) -> None:
        self._found: dict[TomlPath, int] = {}
        self._items: dict[TomlPath, list[int]] = {}
        table: TomlPath = ()

        for number, statement in _split_statements(text):
            paths = list(_list_paths(tomllib.loads(statement)))
            header = statement.lstrip()
            if not header.startswith("["):
                for path in paths:
                    self._found.setdefault((*table, *path), number)
                continue

            table = max(paths, key=len, default=())
            self._found.setdefault(table, number)
            if header.startswith("[["):
                self._items.setdefault(table, []).append(number)

    def of(self, path: TomlPath) -> int:
        """Return the line of `path` or its nearest parent, from 1."""
        while path and path not in self._found:
            path = path[:-1]
        return self._found.get(path, 1)

    def of_item(self, path: TomlPath, index: int) -> int:
        """Return the line of an item of the array at `path`; an inline one has that of its key."""
        items = self._items.get(path, [])
        return items[index] if index < len(items) else self.of(path)


def _split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each table header and key-value pair of `text`, with its first line."""
    begin = 0
    number = 1
    depth = 0

    for token in _TOKEN.finditer(text + "\n"):
        depth += (token["open"] is not None) - (token["close"] is not None)
        if token["end"] is None or depth:
            continue

        statement = text[begin : token.start()]
        if statement.strip():
            yield number, statement

        number += statement.count("\n") + 1
        begin = token.end()


def _list_paths(table: Mapping[str, Any], above: TomlPath = ()) -> Iterator[TomlPath]:
    for key, value in table.items():
        yield (*above, key)
        if isinstance(value, dict) and len(above) < _MAX_DEPTH:
            yield from _list_paths(value, (*above, key))
