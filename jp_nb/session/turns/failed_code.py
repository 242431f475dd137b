"""The failed lines of user code: their numbers, excerpts around them, and the names in them.

`error_request.py` puts them into a request to the model about the error of the last cell.

Source: `docs/guide.md`, `docs/decisions.md` D85, D99.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import linecache
import textwrap
import tokenize
import traceback
from collections.abc import Iterator
from itertools import accumulate
from types import FrameType, ModuleType

from jp_nb.text import pluralize

MAX_FAILED_LINES = 20  # limit of the lines of one failed statement
MAX_SOURCE_LINE_CHARS = 400  # limit of the characters of a source line


def find_failed_lines(summary: traceback.FrameSummary) -> range:
    """Return the numbers of the lines of the failed statement, from the first."""
    first = summary.lineno or 1
    last = max(summary.end_lineno or first, first)
    return range(first, min(last, first + MAX_FAILED_LINES - 1) + 1)


def find_written_line(
    raw_cell: str, source: str, line: int | None
) -> tuple[str, int | None] | None:
    """Return the cell as the user wrote it, and the number of its failed line.

    IPython ran `source`, a translation of `raw_cell`. It removes empty lines at the beginning and
    replaces lines such as `!ls`; all other lines keep their numbers. The error is at `line` of
    `source`. If `source` is unknown (""), `line` is returned if the cell has it.

    Return None if IPython changed the failed line, since then only `source` explains the error.
    """
    written_lines = raw_cell.splitlines()
    while written_lines and not written_lines[0].strip():
        del written_lines[0]

    written = "\n".join(written_lines)
    source_lines = source.splitlines()
    has_line = line is not None and 0 < line <= len(written_lines)

    if not source_lines:
        return written, line if has_line else None
    if line is None or not has_line or line > len(source_lines):
        return None

    is_same = written_lines[line - 1].strip() == source_lines[line - 1].strip()
    return (written, line) if is_same else None


def iter_named_values(
    frame: FrameType, summary: traceback.FrameSummary
) -> Iterator[tuple[str, object]]:
    """Yield the variables in the failed lines of a call with their values, in order.

    Modules, built-in functions, and names without a value are omitted.

    Args:
        frame: The frame of the call.
        summary: The line at which it failed.
    """
    lines = linecache.getlines(summary.filename, frame.f_globals)
    failing = find_failed_lines(summary)
    code = "".join(lines[failing.start - 1 : failing.stop - 1])
    local_values = frame.f_locals

    for name in find_variable_names(code):
        if name in local_values:
            value = local_values[name]
        elif name in frame.f_globals:
            value = frame.f_globals[name]
        else:
            continue

        is_builtin = hasattr(builtins, name) and value is getattr(builtins, name)
        if not isinstance(value, ModuleType) and not is_builtin:
            yield name, value


def find_variable_names(code: str) -> list[str]:
    """Return the variables in lines of code, in order, without attributes.

    The lines may be a part of a statement.
    """
    code = textwrap.dedent(code)
    with_body = f"{code.rstrip()}\n    pass"  # if `code` is the first line of a block
    for complete_code in (code, with_body):
        try:
            tree = ast.parse(complete_code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue

        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        nodes.sort(key=lambda node: (node.lineno, node.col_offset))
        return list(dict.fromkeys(node.id for node in nodes))
    return list(dict.fromkeys(_iter_token_names(code)))


def _iter_token_names(code: str) -> Iterator[str]:
    """Yield the names in code that cannot be parsed, without attributes and keywords."""
    previous = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.ERRORTOKEN and token.string[0] in "'\"":
                return  # Python 3.11 continues inside an unclosed string

            is_name = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
            if is_name and previous != ".":
                yield token.string

            previous = token.string
    except (tokenize.TokenError, SyntaxError):  # the statement is incomplete
        return


def format_excerpt(lines: dict[int, str], failing: range, room: int) -> Iterator[str]:
    """Yield the lines nearest to the first failing one, with their numbers.

    An arrow marks each failing line. If lines above or below are omitted, a line has their number.

    Args:
        lines: Consecutive lines of code by their numbers.
        failing: Numbers of the failing lines. If it is empty, the first lines are kept.
        room: Maximum number of characters. At least one line is kept.
    """
    width = len(str(max(lines, default=0)))
    texts: dict[int, str] = {}
    for number, line in lines.items():
        mark = "→" if number in failing else " "
        texts[number] = f"{mark} {number:>{width}} {line[:MAX_SOURCE_LINE_CHARS]}"

    center = failing.start
    nearest_first = sorted(texts, key=lambda number: (abs(number - center), number))
    total_sizes = accumulate(len(texts[number]) + 1 for number in nearest_first)
    sized = zip(nearest_first, total_sizes, strict=True)
    fitting = {number for number, total_size in sized if total_size <= room}
    kept = fitting or set(nearest_first[:1])

    # The kept lines are consecutive: sizes only grow, so all nearer lines fit as well.

    above_count = sum(number < min(kept, default=0) for number in texts)
    below_count = len(texts) - len(kept) - above_count

    yield from format_omitted(above_count, "line")
    yield from (texts[number].rstrip() for number in sorted(kept))
    yield from format_omitted(below_count, "line")


def format_omitted(count: int, noun: str) -> Iterator[str]:
    """Yield a line about `count` omitted things, such as calls, or nothing if it is 0."""
    if count:
        yield f"… ({count} {pluralize(noun, count)} omitted)"
