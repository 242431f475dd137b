"""Find the cells of a notebook that define a tool: a function with the decorator `@jp.tool`.

Only these cells run when the tools of a notebook are served (`kernel_tools.py`). They are found in
the syntax tree, because nothing of the notebook may run before.

Source: `docs/mcp.md` (our tools for others).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

_MAGIC: Final = re.compile(r"^([ \t]*)(?:%(?!%)|!).*$", re.MULTILINE)
"""Line of a magic or of a shell command, which is no Python. A cell magic is no tool."""


def iter_tool_cells(cells: Any) -> Iterator[tuple[int, str]]:
    """Yield number and source of each code cell that defines a tool with `@jp.tool`."""
    for number, cell in enumerate(cells, start=1):
        if cell.get("cell_type") != "code":
            continue
        try:
            tree = ast.parse(_MAGIC.sub(r"\1pass", str(cell.get("source", ""))))
        except (SyntaxError, ValueError, RecursionError):
            continue
        if any(map(_is_tool, tree.body)):
            yield number, str(cell["source"])


def _is_tool(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(_is_tool_decorator(decorator) for decorator in node.decorator_list)


def _is_tool_decorator(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        node = node.func
    match node:
        case ast.Attribute(attr="tool", value=ast.Name(id="jp" | "jp_nb")) | ast.Name(id="tool"):
            return True
    return False
