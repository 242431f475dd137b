"""Find code in a function by its tokens: layout, comments, and blank lines do not count."""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

LAYOUT = {
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.NEWLINE,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
}
CLOSING = {")", "]", "}"}


@dataclass(frozen=True)
class Span:
    """A part of a text, in characters.

    Attributes:
        start: Its first character.
        end: The character behind its last one.
        indentation: Spaces before the first word of the line in which it starts.
    """

    start: int
    end: int
    indentation: int


def replace_once(source: str, function: str, find: str, replace: str) -> str:
    """Return `source` with `replace` for the one place in `function` that has the code `find`.

    Args:
        source: Text of a module.
        function: Name of its function or class, as `Class.method`; "" for the module.
        find: A fragment of code; its further lines are indented from its first one.
        replace: What takes its place, indented in the same way.

    Raises:
        ValueError: If the module has no such function, or if the code is not in it exactly once.
    """
    first, last = _find_lines(source, function)
    spans = list(_find_spans(source, find, first, last))
    if len(spans) != 1:
        raise ValueError(f"{function or 'the module'} has the code to change {len(spans)} times")

    span = spans[0]
    return source[: span.start] + _indent(replace, span.indentation) + source[span.end :]


def find_function(source: str, line: int) -> str:
    """Return the name of the innermost function or class that has `line`, "" for the module."""
    names = [(len(name), name) for name, first, last in _walk(source) if first <= line <= last]
    return max(names)[1] if names else ""


def _find_lines(source: str, function: str) -> tuple[int, int]:
    if not function:
        return 1, len(source.splitlines())

    found = [(first, last) for name, first, last in _walk(source) if name == function]
    if len(found) != 1:
        raise ValueError(f"there are {len(found)} functions or classes named {function}")
    return found[0]


@cache
def _walk(source: str) -> list[tuple[str, int, int]]:
    """Return the full name, the first and the last line of each function and class."""
    found = []
    waiting: list[tuple[str, ast.AST]] = [("", ast.parse(source))]

    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, DEFINITIONS):
                name = f"{prefix}{child.name}"
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                assert child.end_lineno is not None
                found.append((name, first, child.end_lineno))
                waiting.append((f"{name}.", child))
            else:
                waiting.append((prefix, child))

    return found


def _find_spans(source: str, find: str, first: int, last: int) -> Iterator[Span]:
    lines = source.splitlines(keepends=True)
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line))

    tokens = [each for each in _read_tokens(source) if first <= each.start[0] <= last]
    words = [each.string for each in tokens]
    wanted = [each.string for each in _read_tokens(textwrap.dedent(find))]

    for index in range(len(words) - len(wanted) + 1):
        if words[index : index + len(wanted)] != wanted:
            continue

        row, column = tokens[index].start
        end_row, end_column = tokens[index + len(wanted) - 1].end
        line = lines[row - 1]
        yield Span(
            start=offsets[row - 1] + column,
            end=offsets[end_row - 1] + end_column,
            indentation=len(line) - len(line.lstrip()),
        )


@cache
def _read_tokens(source: str) -> list[tokenize.TokenInfo]:
    """Return the tokens that mean something. A comma before a closing bracket does not."""
    found: list[tokenize.TokenInfo] = []
    for token in _tokenize(source):
        if token.string in CLOSING and found and found[-1].string == ",":
            found.pop()
        found.append(token)
    return found


def _tokenize(source: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens up to the end, also of a fragment with an open bracket."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in LAYOUT:
                yield token
    except tokenize.TokenError:
        return


def _indent(text: str, indentation: int) -> str:
    first, *rest = text.split("\n")
    margin = " " * indentation
    return "\n".join([first, *(margin + line if line else line for line in rest)])
