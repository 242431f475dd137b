"""Built-in tools that read the notebook: its cells and its variables.

Source: `docs/notebook-tools.md`, `docs/decisions.md` D91 to D93.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from jp_nb.errors import ToolError
from jp_nb.toolkit.arguments.parameters import argument
from jp_nb.toolkit.base import Tool
from jp_nb.toolkit.builtin.cell_results import add_results
from jp_nb.toolkit.builtin.cell_search import search_cells
from jp_nb.toolkit.builtin.notebook_cells import (
    CELLS_AT_ONCE,
    find_cell,
    format_cell,
    format_cell_line,
    format_missing_cell,
    format_view,
)
from jp_nb.toolkit.builtin.notebook_variables import list_variables, read_variable
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.data_sections import DataSection, frame_sections
from jp_nb.toolkit.notebook_access import NotebookAccess
from jp_nb.toolkit.outcome import Outcome, Success
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets
from jp_nb.toolkit.tool_context import ToolContext
from jp_nb.values.data_parts import DataPart

TOOLSET: Final = "notebook"
MAX_PARTS: Final = 200
MAX_QUERY_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class _NotebookCall:
    """One call of a tool that reads the notebook.

    Attributes:
        arguments: The arguments without nulls, which models send for missing arguments.
        notebook: Access to the cells and variables.
        cell: The cell's thread, in which the user's variables are read.
        side: Limit for the longest side of images, in pixels.
    """

    arguments: Mapping[str, JsonValue]
    notebook: NotebookAccess
    cell: CellThread
    side: int

    async def read_secrets(self) -> NotebookSecrets:
        """Return the user's secrets, which hide themselves in the texts for the model."""
        return await self.cell.call(lambda: NotebookSecrets(self.notebook.namespace))

    def read_integer(self, name: str, default: int, *, at_least: int, at_most: int = 10**9) -> int:
        """Return the argument `name`, or `default` if it is missing, which may be out of bounds.

        Raises:
            ToolError: It is not a whole number from `at_least` to `at_most`.
        """
        value = self.arguments.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ToolError(f"`{name}` must be a whole number.")
        if not at_least <= value <= at_most and name in self.arguments:
            bound = f"{at_least} to {at_most}" if at_most < 10**9 else f"{at_least} or more"
            raise ToolError(f"`{name}` must be {bound}.")
        return value


class NotebookTool(Tool):
    """A tool that reads the notebook with the function `read`, one of those below."""

    read_only = True

    def __init__(
        self,
        read: Callable[[_NotebookCall], Awaitable[Success]],
        description: str,
        parameters: Mapping[str, JsonValue],
    ) -> None:
        self._read = read
        self.registration: Mapping[str, JsonValue] = {
            "source": "builtin",
            "toolset": TOOLSET,
            "run": "unattended",
            "description": description,
            "parameters": dict(parameters),
        }

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the requested part of the notebook, marked as data.

        Raises:
            ToolError: The arguments are invalid, or the part does not exist.
        """
        if context.notebook is None:
            raise ToolError("This conversation has no notebook.")
        given = {name: value for name, value in arguments.items() if value is not None}
        return await self._read(_NotebookCall(given, context.notebook, cell, context.image_side))


async def _list_cells(call: _NotebookCall) -> Success:
    """Run `notebook_cells`."""
    first = call.read_integer("first", 1, at_least=1)
    cells = await call.notebook.cells()
    hide = await call.read_secrets()
    total = len(cells.cells)
    shown = cells.cells[first - 1 : first - 1 + CELLS_AT_ONCE]
    if not shown:
        raise ToolError(format_missing_cell(str(first), total))

    last = shown[-1].number
    about = f"Cells {first} to {last} of {total}. {format_view(cells)}"
    if last < total:
        about += f" For more, call with first={last + 1}."

    lines = "\n".join(format_cell_line(cell, hide) for cell in shown)
    return Success(frame_sections(about, [DataSection("cells", lines)]))


async def _read_cell(call: _NotebookCall) -> Success:
    """Run `notebook_cell`."""
    wanted = call.arguments.get("cell")
    part = call.arguments.get("part", "all")
    if isinstance(wanted, bool) or not isinstance(wanted, int | str):
        raise ToolError("`cell` must be the number of a cell from notebook_cells, or its id.")
    if part not in ("all", "source", "outputs"):
        raise ToolError('`part` must be "all", "source", or "outputs".')

    first_line = call.read_integer("first_line", 1, at_least=1)
    if first_line > 1 and part == "all":
        raise ToolError('`first_line` needs `part`: "source" or "outputs".')

    cells = await call.notebook.cells(whole=wanted)
    index = cells.cells.index(find_cell(cells, wanted))
    hide = await call.read_secrets()
    # Without an open page, outputs are known only from the user's variable `Out`.
    cells = await add_results(
        call.cell, call.notebook.namespace, cells, indexes=[index], side=call.side, hide=hide
    )
    return format_cell(cells, cells.cells[index], part=str(part), first_line=first_line, hide=hide)


async def _search_cells(call: _NotebookCall) -> Success:
    """Run `notebook_search`."""
    text = call.arguments.get("text")
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_QUERY_CHARS or "\n" in text:
        raise ToolError(f"`text` must be one line of 1 to {MAX_QUERY_CHARS} characters.")

    cells = await call.notebook.cells()
    total = len(cells.cells)
    latest = range(max(0, total - MAX_PARTS), total)  # enough, and it bounds the time
    hide = await call.read_secrets()
    cells = await add_results(
        call.cell, call.notebook.namespace, cells, indexes=latest, side=0, hide=hide
    )
    return await asyncio.to_thread(search_cells, cells, text, hide)  # may search megabytes of text


async def _list_variables(call: _NotebookCall) -> Success:
    """Run `notebook_variables`."""
    match = call.arguments.get("match", "")
    first = call.read_integer("first", 0, at_least=0)
    if not isinstance(match, str):
        raise ToolError("`match` must be a text: a part of the names to list.")

    namespace = call.notebook.namespace
    return await call.cell.call(
        lambda: list_variables(namespace, match, first, NotebookSecrets(namespace))
    )


async def _read_variable(call: _NotebookCall) -> Success:
    """Run `notebook_variable`."""
    name = call.arguments.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ToolError("`name` must be the name of a variable, optionally with a path.")

    kinds: tuple[DataPart, ...] = ("head", "tail", "sample")
    parts = [
        (kind, call.read_integer(kind, 0, at_least=1, at_most=MAX_PARTS))
        for kind in kinds
        if kind in call.arguments
    ]
    if len(parts) > 1:
        raise ToolError("Give only one of `head`, `tail`, and `sample`.")

    part = parts[0] if parts else None
    namespace = call.notebook.namespace
    return await call.cell.call(
        lambda: read_variable(
            namespace, name, part=part, hide=NotebookSecrets(namespace), side=call.side
        )
    )


NOTEBOOK_TOOLS: Final[Mapping[str, NotebookTool]] = {
    "notebook_cells": NotebookTool(
        _list_cells,
        "List the cells of the current notebook: number, type, run state, id, version, and "
        "first line. Returns 50 at a time.",
        {"first": argument("integer", "Number of the first cell to list. Default: 1.")},
    ),
    "notebook_cell": NotebookTool(
        _read_cell,
        "Read one cell of the notebook: its source, and its outputs with images and errors.",
        {
            "cell": argument(
                ["integer", "string"],
                "Number of the cell from notebook_cells, or its id.",
                required=True,
            ),
            "part": argument(
                "string", "Part to read. Default: all.", enum=["all", "source", "outputs"]
            ),
            "first_line": argument(
                "integer", "First line of that part to read, from 1. Default: 1."
            ),
        },
    ),
    "notebook_variables": NotebookTool(
        _list_variables,
        "List the variables of the notebook: name, type, and a one-line description. "
        "Returns 100 at a time.",
        {
            "match": argument("string", "List only names that contain this text, ignoring case."),
            "first": argument(
                "integer", "Number of the first variable to list, in name order. Default: 0."
            ),
        },
    ),
    "notebook_variable": NotebookTool(
        _read_variable,
        "Read the value of a variable of the notebook, or a part of it. Use "
        "attributes, keys, indices, and slices to read a part of containers, frames, "
        "arrays, records, and stored attributes. Nothing is called or computed. "
        "Secrets are not shown.",
        {
            "name": argument(
                "string",
                'Name with an optional path: df, df.columns, df["price"], rows[0].title, '
                "rows[10:20].",
                required=True,
            ),
            "head": argument("integer", f"Read only the first items or rows, 1 to {MAX_PARTS}."),
            "tail": argument("integer", f"Read only the last items or rows, 1 to {MAX_PARTS}."),
            "sample": argument("integer", f"Read only a sample, spread evenly, 1 to {MAX_PARTS}."),
        },
    ),
    "notebook_search": NotebookTool(
        _search_cells,
        "Search the sources and outputs of the notebook's cells for a text, ignoring "
        "case. Returns the matching lines with their cell numbers.",
        {
            "text": argument(
                "string",
                "Text to search for: plain text in one line, not a pattern.",
                required=True,
            )
        },
    ),
}
"""The tools of the toolset `notebook`, by name."""
