"""Find the variables in the failed lines of user code, and their values.

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
from types import FrameType, ModuleType

from jp_nb.session.turns.failed_code import find_failed_lines


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
