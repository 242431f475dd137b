"""Python code that repeats a recorded tool call: `%jp code --call`.

For example, a call of the tool `add` becomes `add(a=1, b=2)` if the notebook has the function `add`
of this tool, and else `jp.call("add", a=1, b=2)`.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import keyword
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import JsonValue

from jp_nb.record.reading.turn_view import ToolCall
from jp_nb.text import escape_invisible, one_line
from jp_nb.toolkit.function_tools.python import PythonTool


def find_call_source(call: ToolCall, tool: PythonTool | None, namespace: Mapping[str, Any]) -> str:
    """Return Python code that repeats `call` with the arguments of its run.

    A function of the notebook is called directly if its arguments are JSON values. Otherwise the
    code uses `jp.call`, which converts the arguments, for example to dates and models.
    """
    source = _write_function_call(call, tool, namespace) if tool is not None else None
    lines = [source or _write_tool_call(call, namespace)]
    if call.is_error and call.content:
        first = call.content.partition("\n")[0]
        error = escape_invisible(one_line(first, limit=200))
        lines.insert(0, f"# failed: {error}")
    return "\n".join(lines)


def _write_function_call(
    call: ToolCall, tool: PythonTool, namespace: Mapping[str, Any]
) -> str | None:
    # None if the function has no name in the namespace, or an argument is not a literal.
    name = _find_name((tool, tool.function), tool.__name__, namespace)
    values = tool.validate_arguments(call.arguments)
    if name is None or values is None or not all(map(_is_literal, values.values())):
        return None

    given = [f"{key}={value!r}" for key, value in values.items()]
    importing = ""
    if tool.context_name is not None:
        module, importing = _find_module(namespace)
        given.append(f"{tool.context_name}={module}.ToolContext({call.name!r})")

    called = f"await {name}" if tool.is_async else name
    return importing + _format_call(called, given)


def _write_tool_call(call: ToolCall, namespace: Mapping[str, Any]) -> str:
    module, importing = _find_module(namespace)
    given = [repr(call.name)]

    # The names of the parameters of `jp.call` cannot be keyword arguments for the tool.
    clash = "tool" in call.arguments or "arguments" in call.arguments
    names_fit = all(key.isidentifier() and not keyword.iskeyword(key) for key in call.arguments)
    if names_fit and not clash:
        given += [f"{key}={value!r}" for key, value in call.arguments.items()]
    else:
        given.append(repr(dict(call.arguments)))

    return importing + _format_call(f"{module}.call", given)


def _format_call(called: str, given: list[str]) -> str:
    line = f"{called}({', '.join(given)})"
    if len(line) <= 88:
        return line

    lines = (f"    {each}," for each in given)
    return "\n".join([f"{called}(", *lines, ")"])


def _is_literal(value: JsonValue) -> bool:
    # `repr` must give Python code for an equal value.
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


def _find_name(sought: Iterable[object], first: str, namespace: Mapping[str, Any]) -> str | None:
    wanted = set(map(id, sought))
    if id(namespace.get(first)) in wanted:
        return first
    names = (n for n, v in namespace.items() if id(v) in wanted and not n.startswith("_"))
    return next(names, None)


def _find_module(namespace: Mapping[str, Any]) -> tuple[str, str]:
    # The name of the package in the namespace, and the line that imports it if it has none.
    known = _find_name([sys.modules["jp_nb"]], "jp", namespace)
    return (known, "") if known is not None else ("jp", "import jp_nb as jp\n\n")
