"""Statements of a TOML file with their line numbers, which the standard library's reader drops.

The file is divided into its statements: table headers and pairs of a key and a value. Each one is
read by itself, so that its keys and its line are known. `answers_file.py` names the lines in
its errors, and the inbox of a batch keeps the comments of the file that it writes anew.

Source: https://toml.io/en/v1.0.0.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TomlPath = tuple[str | int, ...]
"""Keys from the top of a file. After the key of an array of tables, the index of an item."""

_TOKEN: Final = re.compile(
    r'''
    """ (?: \\. | [^\\] )*? """ "{0,2}   # a text of several lines, perhaps with quotes at its end
    | '{3} .*? '{3,5}                    # the same without escapes
    | " (?: \\. | [^"\\\n] )* "          # a text
    | ' [^'\n]* '                        # a text without escapes
    | \# [^\n]*                          # a comment
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | (?P<end> \n )                      # the end of a line
    ''',
    re.DOTALL | re.VERBOSE,
)
"""Strings, comments, brackets, and line ends of TOML."""


@dataclass(slots=True)
class TomlStatement:
    """A table header or a pair of a key and a value, with the lines above it.

    Attributes:
        line: Its first line, from 1.
        text: Its text, without the line end. At the end of a file it is empty.
        above: The comments and blank lines above it.
    """

    line: int
    text: str
    above: tuple[str, ...] = ()

    @property
    def is_header(self) -> bool:
        """True for a table header, also of an array of tables."""
        return self.text.lstrip().startswith("[")

    @property
    def starts_item(self) -> bool:
        """True for the header of an item of an array of tables."""
        return self.text.lstrip().startswith("[[")

    def list_comments(self) -> Iterator[str]:
        """Yield the comments in the statement: at its end, and between its lines."""
        for token in _TOKEN.finditer(self.text):
            if token[0].startswith("#"):
                yield token[0]


def split_toml(text: str) -> Iterator[TomlStatement]:
    """Yield the statements of the valid TOML `text`.

    The last one is empty. It has the comments and blank lines at the end of the file.
    """
    begin = 0
    line_number = 1
    depth = 0  # of brackets that are open
    above: list[str] = []

    for token in _TOKEN.finditer(text + "\n"):
        if token["open"] is not None:
            depth += 1
        elif token["close"] is not None:
            depth -= 1
        if token["end"] is None or depth:
            continue  # a statement ends at a line end outside of brackets

        content = text[begin : token.start()]
        stripped = content.strip(" \t")
        is_at_end = token.start() == len(text)
        if stripped and not stripped.startswith("#"):
            yield TomlStatement(line_number, content, tuple(above))
            above = []
        elif stripped or not is_at_end:  # a comment, or a blank line
            above.append(stripped)

        line_number += content.count("\n") + 1
        begin = token.end()

    yield TomlStatement(line_number, "", tuple(above))


@dataclass(slots=True)
class _Node:
    """A key, or an item of an array of tables, with its first line."""

    line: int
    keys: dict[str, _Node] = field(default_factory=dict)
    items: list[_Node] = field(default_factory=list)

    def add(self, key: str, line: int) -> _Node:
        return self.keys.setdefault(key, _Node(line))


class TomlLines:
    """First line of each key of the valid TOML `text`, and of each item of an array of tables.

    A table that only the keys or headers below it name begins with the first one of them.
    """

    def __init__(self, text: str) -> None:
        self._top = _Node(1)
        table = self._top

        for statement in split_toml(text):
            if statement.is_header:
                table = self._open_table(statement)
            elif statement.text:
                _add_keys(table, tomllib.loads(statement.text), statement.line)

    def _open_table(self, header: TomlStatement) -> _Node:
        """Add the keys of `header`, and return the node of its table."""
        table = self._top
        for key in read_header(header):
            # A header below an array of tables is about its last item.
            parent = table.items[-1] if table.items else table
            table = parent.add(key, header.line)

        if header.starts_item:
            table.items.append(_Node(header.line))
        return table.items[-1] if table.items else table

    def find_line(self, path: TomlPath) -> int:
        """Return the line of `path` or its nearest parent, from 1.

        An item of an inline array has the line of its key.
        """
        node = self._top
        for part in path:
            child = _find_part(node, part)
            if child is None:
                break
            node = child
        return node.line


def _find_part(node: _Node, part: str | int) -> _Node | None:
    """Return the node of a key, or of the item of an array of tables with this index, or None."""
    if isinstance(part, int):
        return node.items[part] if part < len(node.items) else None
    return node.keys.get(part)


def read_header(header: TomlStatement) -> list[str]:
    """Return the keys of a table header, such as `a` and `b` of `[a.b]`."""
    keys: list[str] = []
    table: Any = tomllib.loads(header.text)  # such as `{"a": {"b": {}}}`

    while table:
        if isinstance(table, list):  # the header of an item: a list with one table
            [table] = table
            continue
        [(key, table)] = table.items()
        keys.append(key)
    return keys


def _add_keys(node: _Node, table: Mapping[str, Any], line: int) -> None:
    """Add the keys of a statement to `node`: dotted ones, and those of inline tables.

    A loop, because a file may nest tables very deeply.
    """
    pending: list[tuple[_Node, Mapping[str, Any]]] = [(node, table)]
    while pending:
        above, content = pending.pop()
        for key, value in content.items():
            added = above.add(key, line)
            if isinstance(value, dict):
                pending.append((added, value))
