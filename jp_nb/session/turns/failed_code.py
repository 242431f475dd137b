"""The failed lines of user code: their numbers, excerpts around them, and the names in them.

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
    """Return `raw_cell` and its line for `line` of `source`, which IPython made of it.

    None if IPython changed that line: then `source` is more helpful.
    """
    lines = raw_cell.splitlines()
    while lines and not lines[0].strip():  # IPython removes these
        del lines[0]

    written = "\n".join(lines)
    transformed = source.splitlines()

    if line is None or not 0 < line <= len(lines):
        return None if transformed else (written, None)

    same = not transformed or (
        line <= len(transformed) and lines[line - 1].strip() == transformed[line - 1].strip()
    )
    return (written, line) if same else None


def iter_named_values(
    frame: FrameType, summary: traceback.FrameSummary
) -> Iterator[tuple[str, object]]:
    """Yield the names in the failed lines with their values, in order.

    Modules, built-in functions, and names without a value are omitted.
    """
    lines = linecache.getlines(summary.filename, frame.f_globals)
    failing = find_failed_lines(summary)
    code = "".join(lines[failing.start - 1 : failing.stop - 1])
    known = frame.f_locals

    for name in find_variable_names(code):
        if name in known:
            value = known[name]
        elif name in frame.f_globals:
            value = frame.f_globals[name]
        else:
            continue

        if not isinstance(value, ModuleType) and value is not getattr(builtins, name, frame):
            yield name, value


def find_variable_names(code: str) -> list[str]:
    """Return the variables in lines of code, in order, without attributes."""
    code = textwrap.dedent(code)
    for whole in (code, f"{code.rstrip()}\n    pass"):  # the first line of a block
        try:
            tree = ast.parse(whole)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue

        found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        return list(dict.fromkeys(node.id for node in found))
    return list(dict.fromkeys(_iter_token_names(code)))


def _iter_token_names(code: str) -> Iterator[str]:
    before = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.ERRORTOKEN and token.string[0] in "'\"":
                return  # Python 3.11 continues inside an unclosed string

            is_name = token.type == tokenize.NAME and not keyword.iskeyword(token.string)
            if is_name and before != ".":
                yield token.string

            before = token.string
    except (tokenize.TokenError, SyntaxError):  # the statement is incomplete
        return


def format_excerpt(lines: dict[int, str], failing: range, room: int) -> Iterator[str]:
    """Yield numbered `lines`, those nearest to the failing ones within `room` characters.

    An arrow marks each failing line. At least one line is kept.
    """
    width = len(str(max(lines, default=0)))

    shown: dict[int, str] = {}
    for number, line in lines.items():
        mark = "→" if number in failing else " "
        shown[number] = f"{mark} {number:>{width}} {line[:MAX_SOURCE_LINE_CHARS]}"

    near = sorted(shown, key=lambda number: (abs(number - (failing.start or 1)), number))
    sizes = accumulate(len(shown[number]) + 1 for number in near)
    fitting = {number for number, size in zip(near, sizes, strict=True) if size <= room}
    kept = fitting or set(near[:1])

    above = sum(number < min(kept, default=0) for number in shown)
    below = len(shown) - len(kept) - above

    yield from format_omitted(above, "line")
    yield from (shown[number].rstrip() for number in sorted(kept))
    yield from format_omitted(below, "line")


def format_omitted(count: int, what: str) -> Iterator[str]:
    """Yield a line about `count` omitted things of the kind `what`, or nothing if it is 0."""
    if count:
        noun = what if count == 1 else f"{what}s"
        yield f"… ({count} {noun} omitted)"
