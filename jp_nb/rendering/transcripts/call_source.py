"""Python code that repeats a recorded tool call: `%jp code --call`.

For example, a call of the tool `add` becomes `add(a=1, b=2)` if the notebook has the function `add`
of this tool, and else `jp.call("add", a=1, b=2)`.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import keyword
import math
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import JsonValue

from jp_nb.exact_form import escape_invisible
from jp_nb.record.reading.turn_view import ToolCall
from jp_nb.text import one_line
from jp_nb.toolkit.function_tools.python_tool import PythonTool


def write_call_source(call: ToolCall, tool: PythonTool | None, namespace: Mapping[str, Any]) -> str:
    """Return Python code that repeats `call` with its arguments, also if the user edited them.

    `tool` is the Python tool that was called; None for another tool, such as one of a server. Its
    function is called directly if its arguments are JSON values. Otherwise the code uses `jp.call`,
    which runs a tool without a model, and converts arguments, for example to dates.
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
    """Return a call of the function of a tool.

    None if the function has no name in the namespace, or an argument is not a literal.
    """
    # The notebook may have the tool or its function under another name.
    name = _find_name((tool, tool.function), tool.__name__, namespace)
    values = tool.validate_arguments(call.arguments)  # as Python values; None if not valid
    if name is None or values is None or not all(map(_is_literal, values.values())):
        return None

    arguments = [f"{key}={value!r}" for key, value in values.items()]
    import_code = ""
    if tool.context_name is not None:  # of the parameter with the `ToolContext`
        module, import_code = _find_module(namespace)
        arguments.append(f"{tool.context_name}={module}.ToolContext({call.name!r})")

    function = f"await {name}" if tool.is_async else name
    return import_code + _format_call(function, arguments)


def _write_tool_call(call: ToolCall, namespace: Mapping[str, Any]) -> str:
    """Return a call of `jp.call`, with keyword arguments if Python allows that."""
    module, import_code = _find_module(namespace)
    arguments = [repr(call.name)]

    # `arguments` is a parameter of `jp.call` itself, and `tool` would look like one.
    clash = "tool" in call.arguments or "arguments" in call.arguments
    if all(map(_can_be_keyword, call.arguments)) and not clash:
        arguments += [f"{key}={value!r}" for key, value in call.arguments.items()]
    else:
        arguments.append(repr(dict(call.arguments)))

    return import_code + _format_call(f"{module}.call", arguments)


def _can_be_keyword(name: str) -> bool:
    """Return True if a call can pass an argument of this name as `name=value`."""
    # Python normalizes the names in code: it reads the micro sign as the Greek letter mu.
    is_kept = unicodedata.normalize("NFKC", name) == name
    return name.isidentifier() and not keyword.iskeyword(name) and is_kept


def _format_call(function: str, arguments: list[str]) -> str:
    """Return a call in one line, or with one line for each argument if it is long."""
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= 88:
        return line

    lines = (f"    {argument}," for argument in arguments)
    return "\n".join([f"{function}(", *lines, ")"])


def _is_literal(value: JsonValue) -> bool:
    """Return True if `repr` gives Python code for an equal value: no NaN, and no own classes."""
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


def _find_name(
    objects: Iterable[object], usual_name: str, namespace: Mapping[str, Any]
) -> str | None:
    """Return the name of one of `objects` in a namespace, at best its usual name."""
    wanted = set(map(id, objects))
    if id(namespace.get(usual_name)) in wanted:
        return usual_name

    for name, value in namespace.items():
        if id(value) in wanted and not name.startswith("_"):
            return name
    return None


def _find_module(namespace: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of the package in a namespace, and the code that imports it."""
    name = _find_name([sys.modules["jp_nb"]], "jp", namespace)
    if name is not None:
        return name, ""
    return "jp", "import jp_nb as jp\n\n"
