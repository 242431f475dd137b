"""Built-in tools of the notebook: read cells and variables, and run Python.

Source: `docs/notebook-tools.md`, `docs/decisions.md` D91 to D93, `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, TypeGuard

from pydantic import JsonValue

from jp_nb.config.secrets import NOT_SHOWN
from jp_nb.errors import ToolError
from jp_nb.images import Image, count_images
from jp_nb.text import one_line, plain
from jp_nb.toolkit.base import (
    CellOutput,
    CellThread,
    CodeRun,
    DataSection,
    NotebookAccess,
    NotebookCell,
    NotebookCells,
    Tool,
    ToolContext,
    frame_sections,
)
from jp_nb.toolkit.notebook_secrets import NotebookSecrets
from jp_nb.toolkit.outcome import Failure, Outcome, Success
from jp_nb.toolkit.parameters import argument
from jp_nb.values.base import DEFAULT_SIDE, Description, ValueBudget, apply_privacy
from jp_nb.values.data_path import (
    DataPart,
    NotAValuePath,
    NotShown,
    ValuePathError,
    follow_data,
    keep_readable_items,
    read_value_path,
    split_rows,
    take_part,
)
from jp_nb.values.describe import describe

CELLS_AT_ONCE: Final = 50
MAX_TEXT_CHARS: Final = 20_000
"""Limit for the characters of a source, of outputs, and of a value, in one result."""
MAX_HITS: Final = 50
MAX_CELL_IMAGES: Final = 8
_CELL_LINE: Final = 120
_BESIDE_HIT: Final = 80
_CELL_ID: Final = re.compile(r"[\w-]{1,64}", re.ASCII)  # as in nbformat
OF_KERNEL: Final = (
    "These are the cells that this kernel ran, in that order: {why}. Markdown cells, "
    "cells that did not run, and later edits are missing. Only the values of last "
    "lines are known as outputs."
)
OF_PAGE: Final = "These are the cells of the open page, including unsaved edits."


def _format_view(cells: NotebookCells) -> str:
    return OF_PAGE if cells.source_view == "page" else OF_KERNEL.format(why=cells.why)


def _format_cell_line(cell: NotebookCell, hide: NotebookSecrets) -> str:
    source = hide(cell.source[:4_000], code=_is_python(cell))  # enough to find the first line
    lines = [line for line in source.split("\n") if line.strip()]
    more = len([line for line in cell.source.split("\n") if line.strip()]) - 1
    begins = one_line(lines[0], limit=_CELL_LINE) if lines else "(empty)"
    noun = "line" if more == 1 else "lines"
    tail = f" (+{more} {noun})" if more > 0 else ""
    facts = ", ".join(_cell_facts(cell))
    return f"{cell.number} [{facts}] {begins}{tail}"


def _is_python(cell: NotebookCell) -> bool:
    return cell.kind == "code" and not cell.source.lstrip().startswith("%%")


def _cell_facts(cell: NotebookCell) -> Iterator[str]:
    yield cell.kind
    if cell.kind == "code":
        run = f" as {cell.execution_count}" if cell.execution_count is not None else ""
        words = {"done": f"ran{run}", "ran": f"ran{run}", "failed": f"failed{run}"}
        words |= {"queued": "waiting to run", "running": "running", "not run": "not run"}
        yield words[cell.state]
        if cell.edited:
            yield "edited since"


def _find_cell(cells: NotebookCells, wanted: int | str) -> NotebookCell:
    for cell in cells.cells:
        if wanted in (cell.number, str(cell.number)) or (cell.cell_id and wanted == cell.cell_id):
            return cell

    raise ToolError(_format_missing_cell(one_line(str(wanted), limit=_CELL_LINE), len(cells.cells)))


def _format_missing_cell(wanted: str, total: int) -> str:
    known = f"numbers are 0 to {total - 1}" if total else "no cells are known"
    return f"There is no cell {wanted}: {known}. List the cells with notebook_cells."


def _format_cell(
    cells: NotebookCells, cell: NotebookCell, part: str, first_line: int, hide: NotebookSecrets
) -> Success:
    name = f", id {cell.cell_id}" if _CELL_ID.fullmatch(cell.cell_id) else ""
    about = f"Cell {cell.number} of {len(cells.cells)}: {', '.join(_cell_facts(cell))}{name}. "
    about += _format_view(cells)
    sections: list[DataSection] = []
    images: list[Image] = []

    if part != "outputs":
        source = hide(cell.source, code=_is_python(cell))
        sections.append(_excerpt("source", source, first_line))

    if part != "source":
        images = _images_of(cell)
        omitted = len(images) - MAX_CELL_IMAGES
        del images[MAX_CELL_IMAGES:]
        sections.append(_excerpt("outputs", _format_outputs(cell, hide), first_line))
        if images:
            more = f" ({omitted} more are omitted)" if omitted > 0 else ""
            about += f" Images with this result: {len(images)}{more}."

    if cell.left_out:
        about += f" The cell is very long: {cell.left_out:,} characters are omitted."

    return Success(frame_sections(about, sections), images=tuple(images))


def _format_outputs(cell: NotebookCell, hide: NotebookSecrets) -> str:
    if not cell.outputs:
        return "(none)"

    parts: list[str] = []
    for number, output in enumerate(cell.outputs, 1):
        with_image = ", with an image" if output.images else ""
        text = hide.text(plain(output.text, limit=len(output.text)))
        part = f"[{number}: {output.kind}{with_image}]\n{text}"
        parts.append(part.rstrip("\n"))
    return "\n".join(parts)


def _images_of(cell: NotebookCell) -> list[Image]:
    images: list[Image] = []
    for output in cell.outputs:
        images += output.images
    return images


def _excerpt(title: str, text: str, first_line: int) -> DataSection:
    # The lines from `first_line` on, up to `MAX_TEXT_CHARS`. The title has their numbers.
    lines = text.split("\n")
    if first_line > len(lines):
        raise ToolError(f"The {title} of that cell has only {len(lines)} lines.")

    room = MAX_TEXT_CHARS
    count = 0
    for line in lines[first_line - 1 :]:
        room -= len(line) + 1
        if room < 0:
            break
        count += 1

    if not count:  # the first line is too long
        line = lines[first_line - 1]
        shown = line[:MAX_TEXT_CHARS]
        cut = len(line) - MAX_TEXT_CHARS
        count = 1
        where = f"line {first_line} of {len(lines)}, its last {cut:,} characters omitted"
    else:
        shown = "\n".join(lines[first_line - 1 : first_line - 1 + count])
        where = f"lines {first_line} to {first_line + count - 1} of {len(lines)}"

    if first_line + count <= len(lines):
        where += f"; for more, use part={title!r}, first_line={first_line + count}"
    whole = first_line == 1 and count == len(lines) and room >= 0
    if not whole:
        title = f"{title}, {where}"
    return DataSection(title, shown)


async def _add_results(
    call: _NotebookCall,
    cells: NotebookCells,
    numbers: Sequence[int],
    side: int,
    hide: NotebookSecrets,
) -> NotebookCells:
    # Results in `Out` as outputs of the cells `numbers`, unless the page reported the outputs.
    def add() -> NotebookCells:
        results = call.notebook.namespace.get("Out")
        if cells.source_view == "page" or not isinstance(results, dict):
            return cells

        max_images = MAX_CELL_IMAGES if side else 0
        budget = ValueBudget(MAX_TEXT_CHARS, side, max_images, privacy=hide)
        found = list(cells.cells)
        for number in numbers:
            count = found[number].execution_count
            if count in results:
                made = describe(results[count], budget)
                outputs = (CellOutput("result", made.text, made.images),)
                found[number] = replace(found[number], outputs=outputs)

        return replace(cells, cells=tuple(found))

    return await call.cell.call(add)


def _search(cells: NotebookCells, text: str, hide: NotebookSecrets) -> Success:
    find = re.compile(re.escape(text), re.IGNORECASE).search
    hits = chain.from_iterable(_find_hits(cell, find, hide) for cell in cells.cells)
    found = list(islice(hits, MAX_HITS + 1))  # one more, to know if there are more
    more = len(found) > MAX_HITS
    del found[MAX_HITS:]

    count = "1 line" if len(found) == 1 else f"{len(found)} lines"
    if more:
        count = f"more than {count}"
    about = f"Found in {count} of {len(cells.cells)} cells. {_format_view(cells)}"
    if more:
        about += f" Only the first {MAX_HITS} are listed: search for a more specific text."
    if cut := [str(cell.number) for cell in cells.cells if cell.left_out][:MAX_HITS]:
        about += f" The end of these very long cells was not searched: {', '.join(cut)}."

    return Success(frame_sections(about, [DataSection("lines", "\n".join(found) or "(none)")]))


def _find_hits(
    cell: NotebookCell, find: Callable[[str], re.Match[str] | None], hide: NotebookSecrets
) -> Iterator[str]:
    texts = [("source", cell.source, _is_python(cell))]
    outputs = enumerate(cell.outputs, 1)
    texts += [(f"output {n}", plain(x.text, limit=len(x.text)), False) for n, x in outputs]

    for where, text, code in texts:
        if not find(text):
            continue

        # Search again without secrets, so that a search cannot confirm a guessed secret.
        shown = hide(text, code=code) if where == "source" else hide.text(text)

        for number, line in enumerate(shown.split("\n"), 1):
            if hit := find(line):
                start = max(0, hit.start() - _BESIDE_HIT)
                end = hit.end() + _BESIDE_HIT
                excerpt = one_line(line[start:end], limit=_CELL_LINE + 2 * _BESIDE_HIT)
                begins = "…" if start else ""
                ends = "…" if end < len(line) else ""
                yield f"cell {cell.number}, {where}, line {number}: {begins}{excerpt}{ends}"


VARIABLES_AT_ONCE: Final = 100
ROWS_AT_ONCE: Final = 20
"""Rows of a frame in one description: a longer one would show only the first and last rows."""
_VALUE_LINE: Final = 160
_EXTRA_CHARS: Final = 400
"""Characters after `_VALUE_LINE` in which secrets are hidden: a partial key is not recognized."""
_NAME: Final = 80
_LIST_TIMEOUT_S: Final = 3.0
_MAX_IMPORTS: Final = 30
_IPYTHON_VARIABLES: Final = frozenset({"In", "Out", "exit", "quit"})
_IPYTHON_FUNCTIONS: Final = frozenset({"get_ipython", "open"})
"""Omitted from the imported names. Variables of the user with these names are listed."""
NO_PATH: Final = (
    "This is not a path to a value. Write a name with attributes and subscripts, "
    "such as table.columns, rows[0], rows[10:20] or config['user']. Function calls "
    "are not possible."
)


def list_variables(
    namespace: Mapping[str, Any], match: str, first: int, hide: NotebookSecrets
) -> Success:
    """Return a line for each of up to `VARIABLES_AT_ONCE` variables, starting with number `first`.

    Only names that contain `match` are counted and listed. Imported names are listed separately.
    Raise a `ToolError` if there is no variable with this number.
    """
    own = [
        (name, value)
        for name, value in list(namespace.items())
        if _is_listed(name) and match.lower() in name.lower()
    ]

    known = sorted(own, key=lambda item: item[0])
    listed = [(name, value) for name, value in known if not _is_imported(value)]

    shown = listed[first : first + VARIABLES_AT_ONCE]
    if first and not shown:
        bound = f"0 to {len(listed) - 1}" if listed else "0"
        raise ToolError(f"There are {len(listed)} variables: `first` must be {bound}.")

    what = "variables whose names contain the text" if match else "variables"
    about = (
        f"{len(listed)} {what}, sorted by name. Names that begin with _ and the names of "
        "IPython are omitted."
    )

    end = first + len(shown)
    if len(shown) < len(listed):
        about += f" This list holds numbers {first} to {end - 1}, counted from 0."
    if end < len(listed):
        about += f" For more, call with first={end}."

    lines = "\n".join(_format_variables(shown, hide))
    sections = [DataSection("variables", lines or "(none)")]
    others = (name for name, value in known if _is_imported(value))
    if imported := [name for name in others if name not in _IPYTHON_FUNCTIONS]:
        omitted = len(imported) - _MAX_IMPORTS
        more = f" and {omitted} more" if omitted > 0 else ""
        names = ", ".join(one_line(name, limit=_NAME) for name in imported[:_MAX_IMPORTS])
        sections.append(DataSection("imported modules, functions, and classes", f"{names}{more}"))

    return Success(frame_sections(about, sections))


def _is_listed(name: object) -> TypeGuard[str]:
    return type(name) is str and not name.startswith("_") and name not in _IPYTHON_VARIABLES


def _is_imported(value: Any) -> bool:
    # True for a module, and for a function or class of a module.
    kind = type(value)
    if issubclass(kind, ModuleType):
        return True

    is_code = kind in (FunctionType, BuiltinFunctionType) or issubclass(kind, type)
    is_code |= kind.__name__ in ("method", "builtin_function_or_method")
    if not is_code:
        return False

    try:
        return bool(getattr(value, "__module__", None) != "__main__")
    except Exception:  # a metaclass may raise anything
        return False


def _format_variables(shown: list[tuple[str, Any]], hide: NotebookSecrets) -> Iterator[str]:
    deadline = time.monotonic() + _LIST_TIMEOUT_S
    for name, value in shown:
        kind = one_line(type(value).__name__, limit=_NAME)
        if hide.name(name, value) is not None:
            text = NOT_SHOWN
        elif time.monotonic() > deadline:
            text = "(not read: the variables above took too long)"
        else:
            text = hide(_describe_value(value, hide, _VALUE_LINE + _EXTRA_CHARS).text)
            text = one_line(text, limit=_VALUE_LINE + 2 * _EXTRA_CHARS)
            text = text if len(text) <= _VALUE_LINE else f"{text[:_VALUE_LINE]}…"
        yield f"{one_line(name, limit=_NAME)} ({kind}): {text}"


def read_variable(
    namespace: Mapping[str, Any],
    expression: str,
    part: tuple[DataPart, int] | None,
    hide: NotebookSecrets,
    side: int = DEFAULT_SIDE,
) -> Success:
    """Return the value at `expression`, or some of its items, or raise a `ToolError`."""
    try:
        with apply_privacy(hide):
            value = follow_data(read_value_path(expression), namespace)
            if part is not None:
                value = take_part(keep_readable_items(value), *part)
        pieces = split_rows(value, ROWS_AT_ONCE) if part else [value]
    except NotAValuePath:
        raise ToolError(NO_PATH) from None
    except NotShown as exc:
        raise ToolError(str(exc)) from None
    except ValuePathError as exc:
        why = DataSection("error", hide(one_line(str(exc), limit=500)))
        raise ToolError(frame_sections("The value cannot be read.", [why])) from exc

    about = "The value"
    if part is not None:
        what = {"head": "The first", "tail": "The last", "sample": "An evenly spread sample of"}
        about = f"{what[part[0]]} {part[1]} items of the value (fewer if it has fewer)"

    descriptions = [
        _describe_value(piece, hide, MAX_TEXT_CHARS // len(pieces), images=4, side=side)
        for piece in pieces
    ]
    text = "\n\n".join(description.text for description in descriptions)
    images = descriptions[0].images
    if images:
        about += f", with {' and '.join(count_images(images))}"
    kind = one_line(type(pieces[0]).__name__, limit=_NAME)
    sections = [DataSection("type", kind), DataSection("value", hide(text))]
    return Success(frame_sections(f"{about}.", sections), images=images)


def _describe_value(
    value: Any, hide: NotebookSecrets, chars: int, images: int = 0, side: int = DEFAULT_SIDE
) -> Description:
    if type(value) is str and len(value) <= 1_000_000:  # hiding takes time in longer texts
        value = hide(value)  # before truncation: only a complete key is recognized
    return describe(value, ValueBudget(chars, side, images, hide))


# --- tools -----------------------------------------------------------------------------------

TOOLSET: Final = "notebook"
MAX_PARTS: Final = 200
MAX_QUERY_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class _NotebookCall:
    """One call of a tool that reads the notebook. `side` is the limit for images in pixels."""

    given: Mapping[str, JsonValue]
    notebook: NotebookAccess
    cell: CellThread
    side: int

    async def read_secrets(self) -> NotebookSecrets:
        return await self.cell.call(lambda: NotebookSecrets(self.notebook.namespace))

    def integer(self, name: str, default: int, *, at_least: int, at_most: int = 10**9) -> int:
        value = self.given.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ToolError(f"`{name}` must be a whole number.")
        if not at_least <= value <= at_most and name in self.given:
            bound = f"{at_least} to {at_most}" if at_most < 10**9 else f"{at_least} or more"
            raise ToolError(f"`{name}` must be {bound}.")
        return value


class NotebookTool(Tool):
    """A tool that reads the notebook."""

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
    first = call.integer("first", 0, at_least=0)
    cells = await call.notebook.cells()
    hide = await call.read_secrets()
    total = len(cells.cells)
    shown = cells.cells[first : first + CELLS_AT_ONCE]
    if not shown:
        raise ToolError(_format_missing_cell(str(first), total))

    last = shown[-1].number
    about = f"Cells {first} to {last} of {total}. {_format_view(cells)}"
    if last + 1 < total:
        about += f" For more, call with first={last + 1}."

    lines = "\n".join(_format_cell_line(cell, hide) for cell in shown)
    return Success(frame_sections(about, [DataSection("cells", lines)]))


async def _read_cell(call: _NotebookCall) -> Success:
    wanted = call.given.get("cell")
    part = call.given.get("part", "all")
    if isinstance(wanted, bool) or not isinstance(wanted, int | str):
        raise ToolError("`cell` must be the number of a cell from notebook_cells, or its id.")
    if part not in ("all", "source", "outputs"):
        raise ToolError('`part` must be "all", "source", or "outputs".')

    first_line = call.integer("first_line", 1, at_least=1)
    if first_line > 1 and part == "all":
        raise ToolError('`first_line` needs `part`: "source" or "outputs".')

    cells = await call.notebook.cells(whole=wanted)
    index = cells.cells.index(_find_cell(cells, wanted))
    hide = await call.read_secrets()
    cells = await _add_results(call, cells, [index], call.side, hide)
    return _format_cell(cells, cells.cells[index], str(part), first_line, hide)


async def _search_cells(call: _NotebookCall) -> Success:
    text = call.given.get("text")
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_QUERY_CHARS or "\n" in text:
        raise ToolError(f"`text` must be one line of 1 to {MAX_QUERY_CHARS} characters.")

    cells = await call.notebook.cells()
    latest = range(max(0, len(cells.cells) - MAX_PARTS), len(cells.cells))
    hide = await call.read_secrets()
    cells = await _add_results(call, cells, latest, 0, hide)
    return await asyncio.to_thread(_search, cells, text, hide)  # may search megabytes of text


async def _list_variables(call: _NotebookCall) -> Success:
    match = call.given.get("match", "")
    first = call.integer("first", 0, at_least=0)
    if not isinstance(match, str):
        raise ToolError("`match` must be a text: a part of the names to list.")

    names = call.notebook.namespace
    return await call.cell.call(lambda: list_variables(names, match, first, NotebookSecrets(names)))


async def _read_variable(call: _NotebookCall) -> Success:
    name = call.given.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ToolError("`name` must be the name of a variable, optionally with a path.")

    kinds: tuple[DataPart, ...] = ("head", "tail", "sample")
    parts = [
        (part, call.integer(part, 0, at_least=1, at_most=MAX_PARTS))
        for part in kinds
        if part in call.given
    ]

    if len(parts) > 1:
        raise ToolError("Give only one of `head`, `tail`, and `sample`.")

    part = parts[0] if parts else None
    names = call.notebook.namespace
    side = call.side
    return await call.cell.call(
        lambda: read_variable(names, name, part, NotebookSecrets(names), side)
    )


NOTEBOOK_TOOLS: Final[Mapping[str, NotebookTool]] = {
    "notebook_cells": NotebookTool(
        _list_cells,
        "List the cells of the current notebook: number, type, run state, and first "
        "line. Returns 50 at a time.",
        {"first": argument("integer", "Number of the first cell to list. Default: 0.")},
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


RUN_PYTHON_DESCRIPTION: Final = """\
Run Python code in the notebook's kernel, like a cell of the notebook. Returns the printed text, \
the value of the last expression, figures, and errors. The code uses the variables of the \
notebook, and its changes remain. Usually the user sees the exact code before it runs, and can \
edit or refuse it. Write short code that does one thing. Print only the data that you need. Change \
nothing that the user did not ask you to change."""

RUN_PYTHON_SCHEMA: Final[dict[str, JsonValue]] = {
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
    schema = RUN_PYTHON_SCHEMA
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
    texts: list[str] = []
    images: list[Image] = []
    for shown in run.outputs:
        text = shown.text.removesuffix("\n")
        if text:
            texts.append(text)
        images += shown.images
    output = "\n".join(texts)

    if run.error is None:
        if not output and not images:
            return Success(NOTHING_SHOWN)
        return Success(output, images=tuple(images))

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
