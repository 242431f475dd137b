"""Built-in tools of the notebook: read cells and variables, run Python, describe tools.

Source: `docs/notebook-tools.md`, `docs/decisions.md` D91 to D93, `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from pydantic import JsonValue

from jp_nb.errors import ToolError
from jp_nb.tools.base import CellThread, Tool, ToolContext
from jp_nb.tools.notebook_access import CodeRun, NotebookAccess
from jp_nb.tools.notebook_reports import (
    CellPart,
    add_results,
    find_cell,
    list_cells,
    list_variables,
    read_cell,
    read_variable,
    search,
)
from jp_nb.tools.outcome import Failure, Outcome, Success
from jp_nb.tools.secrets import NotebookSecrets

TOOLSET: Final = "notebook"
MAX_ITEMS: Final = 200
MAX_SEARCHED: Final = 200

_Read = Callable[[Mapping[str, JsonValue], NotebookAccess, CellThread, int], Awaitable[Success]]


class NotebookTool(Tool):
    """A tool that reads the notebook.

    Args:
        read: Function of the arguments, the notebook, the cell's thread, and the limit for images
            in pixels a side.
        description: Description for the model.
        parameters: The setting `parameters`.
    """

    def __init__(self, read: _Read, description: str, parameters: Mapping[str, JsonValue]) -> None:
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
        return await self._read(given, context.notebook, cell, context.image_side)


# --- cells -----------------------------------------------------------------------------------


async def _cells(
    given: Mapping[str, JsonValue], notebook: NotebookAccess, cell: CellThread, side: int
) -> Success:
    first = _read_int(given, "first", 0, at_least=0)
    cells = await notebook.cells()
    hide = await cell.call(lambda: NotebookSecrets(notebook.namespace))
    return list_cells(cells, first, hide)


async def _cell(
    given: Mapping[str, JsonValue], notebook: NotebookAccess, cell: CellThread, side: int
) -> Success:
    wanted, part = given.get("cell"), given.get("part", "all")
    if isinstance(wanted, bool) or not isinstance(wanted, int | str):
        raise ToolError("`cell` must be the number of a cell from notebook_cells, or its id.")
    if part not in ("all", "source", "outputs"):
        raise ToolError('`part` must be "all", "source", or "outputs".')
    first_line = _read_int(given, "first_line", 1, at_least=1)
    if first_line > 1 and part == "all":
        raise ToolError('`first_line` needs `part`: "source" or "outputs".')
    cells = await notebook.cells(whole=wanted)
    found = find_cell(cells, wanted)
    index = cells.cells.index(found)
    hide = await cell.call(lambda: NotebookSecrets(notebook.namespace))
    cells = await cell.call(lambda: add_results(cells, notebook.namespace, [index], side, hide))
    return read_cell(cells, find_cell(cells, found.number), cast(CellPart, part), first_line, hide)


async def _search(
    given: Mapping[str, JsonValue], notebook: NotebookAccess, cell: CellThread, side: int
) -> Success:
    text = given.get("text")
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_SEARCHED or "\n" in text:
        raise ToolError(f"`text` must be one line of 1 to {MAX_SEARCHED} characters.")
    cells = await notebook.cells()
    latest = range(max(0, len(cells.cells) - MAX_ITEMS), len(cells.cells))
    hide = await cell.call(lambda: NotebookSecrets(notebook.namespace))
    cells = await cell.call(lambda: add_results(cells, notebook.namespace, latest, 0, hide))
    return await asyncio.to_thread(search, cells, text, hide)  # may search megabytes of text


# --- variables -------------------------------------------------------------------------------


async def _variables(
    given: Mapping[str, JsonValue], notebook: NotebookAccess, cell: CellThread, side: int
) -> Success:
    match, first = given.get("match", ""), _read_int(given, "first", 0, at_least=0)
    if not isinstance(match, str):
        raise ToolError("`match` must be a text: a part of the names to list.")
    names = notebook.namespace
    return await cell.call(lambda: list_variables(names, match, first, NotebookSecrets(names)))


async def _variable(
    given: Mapping[str, JsonValue], notebook: NotebookAccess, cell: CellThread, side: int
) -> Success:
    name = given.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ToolError("`name` must be the name of a variable, optionally with a path.")
    parts: list[Any] = [
        (part, _read_int(given, part, 0, at_least=1, at_most=MAX_ITEMS))
        for part in ("head", "tail", "sample")
        if part in given
    ]
    if len(parts) > 1:
        raise ToolError("Give only one of `head`, `tail`, and `sample`.")
    part = parts[0] if parts else None
    names = notebook.namespace
    return await cell.call(lambda: read_variable(names, name, part, NotebookSecrets(names), side))


def _read_int(
    given: Mapping[str, JsonValue], name: str, default: int, *, at_least: int, at_most: int = 10**9
) -> int:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ToolError(f"`{name}` must be a whole number.")
    if not at_least <= value <= at_most and name in given:
        bound = f"{at_least} to {at_most}" if at_most < 10**9 else f"{at_least} or more"
        raise ToolError(f"`{name}` must be {bound}.")
    return value


# --- descriptions for the model ----------------------------------------------------------------


def _integer_schema(description: str) -> JsonValue:
    return {"type": "integer", "description": description}


NOTEBOOK_TOOLS: Final[Mapping[str, NotebookTool]] = {
    "notebook_cells": NotebookTool(
        _cells,
        "List the cells of the current notebook: number, type, run state, and first "
        "line. Returns 50 at a time.",
        {"first": _integer_schema("Number of the first cell to list. Default: 0.")},
    ),
    "notebook_cell": NotebookTool(
        _cell,
        "Read one cell of the notebook: its source, and its outputs with images and errors.",
        {
            "cell": {
                "type": ["integer", "string"],
                "required": True,
                "description": "Number of the cell from notebook_cells, or its id.",
            },
            "part": {
                "type": "string",
                "enum": ["all", "source", "outputs"],
                "description": "Part to read. Default: all.",
            },
            "first_line": _integer_schema("First line of that part to read, from 1. Default: 1."),
        },
    ),
    "notebook_variables": NotebookTool(
        _variables,
        "List the variables of the notebook: name, type, and a one-line description. "
        "Returns 100 at a time.",
        {
            "match": {
                "type": "string",
                "description": "List only names that contain this text, ignoring case.",
            },
            "first": _integer_schema(
                "Number of the first variable to list, in name order. Default: 0."
            ),
        },
    ),
    "notebook_variable": NotebookTool(
        _variable,
        "Read the value of a variable of the notebook, or a part of it. Use "
        "attributes, keys, indices, and slices to read a part of containers, frames, "
        "arrays, records, and stored attributes. Nothing is called or computed. "
        "Secrets are not shown.",
        {
            "name": {
                "type": "string",
                "required": True,
                "description": 'Name with an optional path: df, df.columns, df["price"], '
                "rows[0].title, rows[10:20].",
            },
            "head": _integer_schema(f"Read only the first items or rows, 1 to {MAX_ITEMS}."),
            "tail": _integer_schema(f"Read only the last items or rows, 1 to {MAX_ITEMS}."),
            "sample": _integer_schema(f"Read only a sample, spread evenly, 1 to {MAX_ITEMS}."),
        },
    ),
    "notebook_search": NotebookTool(
        _search,
        "Search the sources and outputs of the notebook's cells for a text, ignoring "
        "case. Returns the matching lines with their cell numbers.",
        {
            "text": {
                "type": "string",
                "required": True,
                "description": "Text to search for: plain text in one line, not a pattern.",
            }
        },
    ),
}
"""The tools of the toolset `notebook`, by name."""


RUN_PYTHON_DESCRIPTION: Final = """\
Run Python code in the notebook's kernel, like a cell of the notebook. Returns the printed text, \
the value of the last expression, figures, and errors. The code uses the variables of the \
notebook, and its changes remain. Usually the user sees the exact code before it runs, and can \
edit or refuse it. Write short code that does one thing. Print only the data that you need. Change \
nothing that the user did not ask you to change."""

SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "code": {
            "type": "string",
            "contentMediaType": "text/x-python",
            "description": (
                "Python code for one cell. The value of the last expression is "
                "shown. `await` works at top level."
            ),
        }
    },
    "required": ["code"],
    "additionalProperties": False,
}
NOTHING_SHOWN: Final = "The code ran and showed no output."
NO_NOTEBOOK: Final = "This conversation has no notebook to run the code in. Do not try again."
NO_CODE: Final = "`code` is empty. Give the code to run, as a text."


class RunPython(Tool):
    """Tool that runs code in the cell's thread, in the user's namespace."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": "explicit",
        "run": "ask",
        "covers": "arguments",
        "description": RUN_PYTHON_DESCRIPTION,
    }
    schema = SCHEMA
    waits_for_cell = True

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | Failure:
        """Return `arguments`, or a failure if there is no code."""
        code = arguments.get("code")
        return arguments if isinstance(code, str) and code.strip() else Failure(NO_CODE)

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Run the code, and return its outputs and its error."""
        notebook = context.notebook
        if notebook is None:
            return Failure(NO_NOTEBOOK)
        code = str(arguments.get("code", ""))
        return _make_outcome(await cell.call(lambda: notebook.execute(code)))


def _make_outcome(run: CodeRun) -> Outcome:
    output = "\n".join(text for each in run.outputs if (text := each.text.removesuffix("\n")))
    images = tuple(image for each in run.outputs for image in each.images)
    if run.error is None:
        return Success(output or ("" if images else NOTHING_SHOWN), images=images)
    parts = [run.error]
    if run.frames:
        parts.append(f"Raised in the code at:\n{run.frames}")
    if output:
        parts.append(f"Output before the error:\n{output}")
    if images:
        parts.append(
            "The code also showed images. Only the user sees them: an error is sent without images."
        )
    return Failure("\n\n".join(parts))


DESCRIBE_TOOLS_DESCRIPTION = """\
Get the full documentation of one or more tools: purpose, examples, and parameters. Use it before \
you call a tool whose short description is not sufficient."""


class DescribeTools(Tool):
    """Tool that returns the full documentation of available tools."""

    registration: Mapping[str, JsonValue] = {
        "source": "builtin",
        "enable": {"state": True, "allow_toggle": "never"},
        "run": "unattended",
        # Without `results_file_link`, which JP sets, because a notebook has no such setting.
        "style": {"hidden": True, "inline_results": "off", "parameters": "off"},
        "description": DESCRIBE_TOOLS_DESCRIPTION,
        "parameters": {
            "tools": {
                "type": "array",
                "required": True,
                "description": "Names of the tools.",
                "items": {"type": "string"},
            }
        },
    }

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Return the documentation of the tools, and the names of those without documentation."""
        names = arguments.get("tools")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return Failure("Missing or invalid `tools` parameter.")
        if not names:
            return Failure("The `tools` array must not be empty.")
        asked = {str(name): context.catalog.get(str(name), "") for name in names}
        parts = [section for section in asked.values() if section]
        if unknown := [name for name, section in asked.items() if not section]:
            parts.append(f"No additional documentation available for: {', '.join(unknown)}")
        return Success("\n\n---\n\n".join(parts))
