"""Python source that calls a tool as the model did: where a failed call becomes a test.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import keyword
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import JsonValue

from jp_nb.record.turn_view import ToolCall
from jp_nb.safe_text import escape_unseen, one_line
from jp_nb.tooling.python import PythonTool

MAX_COLUMNS: Final = 88
"""Of a call in one line."""
MAX_ERROR_CHARS: Final = 200


def call_source(call: ToolCall, tool: PythonTool | None, namespace: Mapping[str, Any]) -> str:
    """Return source that makes `call` once more, with the arguments it ran with.

    A function of the notebook is called itself if it takes what JSON has; else `jp.call` runs the
    tool, which makes dates, models and the like of its arguments first.

    Args:
        call: As it is recorded.
        tool: The Python tool of that name; None if there is none.
        namespace: Of the notebook.
    """
    source = _of_function(call, tool, namespace) if tool is not None else None
    lines = [source or _of_tool(call, namespace)]
    if call.is_error and call.content:
        said = escape_unseen(one_line(call.content.partition("\n")[0], limit=MAX_ERROR_CHARS))
        lines.insert(0, f"# failed: {said}")
    return "\n".join(lines)


def _of_function(call: ToolCall, tool: PythonTool, namespace: Mapping[str, Any]) -> str | None:
    """Return a call of the function; None if no name has it or its arguments are no literals."""
    name = _name_of((tool, tool.function), tool.__name__, namespace)
    values = tool.values_of(call.arguments)
    if name is None or values is None or not all(map(_is_literal, values.values())):
        return None
    given = [f"{key}={value!r}" for key, value in values.items()]
    if tool.context_name is not None:
        given.append(f"{tool.context_name}={_jp(namespace)}.ToolContext({call.name!r})")
    called = _written(f"{'await ' if tool.is_async else ''}{name}", given)
    return f"{_import(namespace)}{called}" if tool.context_name is not None else called


def _of_tool(call: ToolCall, namespace: Mapping[str, Any]) -> str:
    given = [repr(call.name)]
    if all(key.isidentifier() and not keyword.iskeyword(key) for key in call.arguments):
        clash = "tool" in call.arguments or "arguments" in call.arguments
        if not clash:
            given += [f"{key}={value!r}" for key, value in call.arguments.items()]
            return f"{_import(namespace)}{_written(f'{_jp(namespace)}.call', given)}"
    given.append(repr(dict(call.arguments)))
    return f"{_import(namespace)}{_written(f'{_jp(namespace)}.call', given)}"


def _written(called: str, given: list[str]) -> str:
    line = f"{called}({', '.join(given)})"
    if len(line) <= MAX_COLUMNS:
        return line
    return "\n".join([f"{called}(", *(f"    {each}," for each in given), ")"])


def _is_literal(value: JsonValue) -> bool:
    """Return True if `repr` writes `value` such that Python reads the same."""
    match value:
        case float():
            return math.isfinite(value)
        case list():
            return type(value) is list and all(map(_is_literal, value))
        case dict():
            return type(value) is dict and all(
                type(key) is str and _is_literal(below) for key, below in value.items()
            )
        case _:
            return type(value) in (str, int, bool, type(None))


def _name_of(sought: Iterable[object], first: str, namespace: Mapping[str, Any]) -> str | None:
    """Return a name of one of the `sought` objects, `first` if it is one."""
    wanted = set(map(id, sought))
    if id(namespace.get(first)) in wanted:
        return first
    return next(
        (n for n, v in namespace.items() if id(v) in wanted and not n.startswith("_")), None
    )


def _jp(namespace: Mapping[str, Any]) -> str:
    return _name_of([sys.modules["jp_nb"]], "jp", namespace) or "jp"


def _import(namespace: Mapping[str, Any]) -> str:
    known = _name_of([sys.modules["jp_nb"]], "jp", namespace)
    return "" if known is not None else "import jp_nb as jp\n\n"
