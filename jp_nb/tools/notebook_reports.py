"""Reports about cells and variables for the model.

Source: `docs/notebook-tools.md`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final, Literal

from jp_nb.config.secrets import NOT_SHOWN
from jp_nb.errors import ToolError
from jp_nb.images import Image
from jp_nb.text import one_line, plain
from jp_nb.tools.notebook_access import (
    CellOutput,
    DataSection,
    NotebookCell,
    NotebookCells,
    frame_sections,
)
from jp_nb.tools.outcome import Success
from jp_nb.tools.secrets import NotebookSecrets
from jp_nb.values.base import DEFAULT_SIDE, Description, ValueBudget, private
from jp_nb.values.containers import Part, part_of, pieces_of
from jp_nb.values.data_path import NotShown, follow_data, readable_items
from jp_nb.values.describe import describe
from jp_nb.values.expressions import NotAValuePath, ValuePathError, read_value_path

CellPart = Literal["all", "source", "outputs"]
CELLS_AT_ONCE: Final = 50
MAX_TEXT: Final = 20_000
"""Characters of a source, and of outputs, in one result."""
MAX_HITS: Final = 50
MAX_CELL_IMAGES: Final = 8
_CELL_LINE: Final = 120
_BESIDE_HIT: Final = 80
_LOOKED_AT: Final = 4_000
"""Characters of a source of which the first line is shown."""
_CELL_ID: Final = re.compile(r"[\w-]{1,64}", re.ASCII)  # as nbformat has it
OF_KERNEL: Final = (
    "These are the cells that this kernel ran, in that order: {why}. Markdown cells, "
    "cells that did not run, and later edits are missing. Only the values of last "
    "lines are known as outputs."
)
OF_PAGE: Final = "These are the cells of the open page, including unsaved edits."


def seen(cells: NotebookCells) -> str:
    """Return how the cells were seen, in a sentence."""
    return OF_PAGE if cells.source_view == "page" else OF_KERNEL.format(why=cells.why)


def listing(cells: NotebookCells, first: int, hide: NotebookSecrets) -> Success:
    """Return a line for each of the cells from `first` on, as many as are listed at once."""
    total = len(cells.cells)
    shown = cells.cells[first : first + CELLS_AT_ONCE]
    if not shown:
        raise ToolError(_no_cell(str(first), total))
    last = shown[-1].number
    about = f"Cells {first} to {last} of {total}. {seen(cells)}"
    if last + 1 < total:
        about += f" For more, call with first={last + 1}."
    lines = "\n".join(_line(cell, hide) for cell in shown)
    return Success(frame_sections(about, [DataSection("cells", lines)]))


def _line(cell: NotebookCell, hide: NotebookSecrets) -> str:
    source = hide(cell.source[:_LOOKED_AT], code=is_python(cell))
    lines = [line for line in source.split("\n") if line.strip()]
    more = len([line for line in cell.source.split("\n") if line.strip()]) - 1
    begins = one_line(lines[0], limit=_CELL_LINE) if lines else "(empty)"
    tail = f" (+{more} line{'' if more == 1 else 's'})" if more > 0 else ""
    return f"{cell.number} [{', '.join(_facts(cell))}] {begins}{tail}"


def is_python(cell: NotebookCell) -> bool:
    """True if the source is Python, not text or a cell magic's own language."""
    return cell.kind == "code" and not cell.source.lstrip().startswith("%%")


def _facts(cell: NotebookCell) -> Iterator[str]:
    """Yield the type of `cell` and what became of its last run."""
    yield cell.kind
    if cell.kind == "code":
        run = f" as {cell.execution_count}" if cell.execution_count is not None else ""
        words = {"done": f"ran{run}", "ran": f"ran{run}", "failed": f"failed{run}"}
        words |= {"queued": "waiting to run", "running": "running", "not run": "not run"}
        yield words[cell.state]
        if cell.edited:
            yield "edited since"


# --- one cell --------------------------------------------------------------------------------


def cell_at(cells: NotebookCells, wanted: int | str) -> NotebookCell:
    """Return the cell with that number or id.

    Raises:
        ToolError: If there is none.
    """
    for cell in cells.cells:
        if wanted in (cell.number, str(cell.number)) or (cell.cell_id and wanted == cell.cell_id):
            return cell
    raise ToolError(_no_cell(one_line(str(wanted), limit=_CELL_LINE), len(cells.cells)))


def _no_cell(wanted: str, total: int) -> str:
    known = f"numbers are 0 to {total - 1}" if total else "no cells are known"
    return f"There is no cell {wanted}: {known}. List the cells with notebook_cells."


def one_cell(
    cells: NotebookCells, cell: NotebookCell, part: CellPart, first_line: int, hide: NotebookSecrets
) -> Success:
    """Return source, outputs or both of `cell`, from a line on if it is one of them."""
    name = f", id {cell.cell_id}" if _CELL_ID.fullmatch(cell.cell_id) else ""
    about = f"Cell {cell.number} of {len(cells.cells)}: {', '.join(_facts(cell))}{name}. "
    about += seen(cells)
    sections: list[DataSection] = []
    images: list[Image] = []
    if part != "outputs":
        source = hide(cell.source, code=is_python(cell))
        sections.append(_excerpt("source", source, first_line))
    if part != "source":
        images = [image for output in cell.outputs for image in output.images][:MAX_CELL_IMAGES]
        sections.append(_excerpt("outputs", _outputs_text(cell, hide), first_line))
        about += _about_images(images, cell)
    if cell.left_out:
        about += f" The cell is very long: {cell.left_out:,} characters are omitted."
    return Success(frame_sections(about, sections), images=tuple(images))


def _about_images(images: Sequence[Image], cell: NotebookCell) -> str:
    total = sum(len(output.images) for output in cell.outputs)
    more = f" ({total - len(images)} more are omitted)" if total > len(images) else ""
    return f" Images with this result: {len(images)}{more}." if images else ""


def _outputs_text(cell: NotebookCell, hide: NotebookSecrets) -> str:
    if not cell.outputs:
        return "(none)"
    return "\n".join(
        f"[{number}: {output.kind}{', with an image' if output.images else ''}]\n"
        f"{hide.text(plain(output.text, limit=len(output.text)))}".rstrip("\n")
        for number, output in enumerate(cell.outputs, 1)
    )


def _excerpt(title: str, text: str, first_line: int) -> DataSection:
    """Return `text` from a line on, as much as there is room for, and in the title where it is."""
    lines = text.split("\n")
    if first_line > len(lines):
        raise ToolError(f"The {title} of that cell has only {len(lines)} lines.")
    room, count = MAX_TEXT, 0
    for line in lines[first_line - 1 :]:
        room -= len(line) + 1
        if room < 0:
            break
        count += 1
    if not count:  # one line that is too long
        line = lines[first_line - 1]
        shown, cut, count = line[:MAX_TEXT], len(line) - MAX_TEXT, 1
        where = f"line {first_line} of {len(lines)}, its last {cut:,} characters omitted"
    else:
        shown = "\n".join(lines[first_line - 1 : first_line - 1 + count])
        where = f"lines {first_line} to {first_line + count - 1} of {len(lines)}"
    if first_line + count <= len(lines):
        where += f"; for more, use part={title!r}, first_line={first_line + count}"
    whole = first_line == 1 and count == len(lines) and room >= 0
    return DataSection(title if whole else f"{title}, {where}", shown)


# --- results that the kernel keeps -----------------------------------------------------------


def with_results(
    cells: NotebookCells,
    namespace: Mapping[str, Any],
    numbers: Sequence[int],
    side: int,
    hide: NotebookSecrets,
) -> NotebookCells:
    """Return `cells` with the values of the last lines of some, where no page tells the outputs.

    Call it on the cell's thread.
    """
    results = namespace.get("Out")
    if cells.source_view == "page" or not isinstance(results, dict):
        return cells
    found = list(cells.cells)
    for number in numbers:
        count = found[number].execution_count
        if count in results:
            budget = ValueBudget(MAX_TEXT, side, MAX_CELL_IMAGES if side else 0, privacy=hide)
            made = describe(results[count], budget)
            outputs = (CellOutput("result", made.text, made.images),)
            found[number] = replace(found[number], outputs=outputs)
    return replace(cells, cells=tuple(found))


# --- searching -------------------------------------------------------------------------------


def search(cells: NotebookCells, text: str, hide: NotebookSecrets) -> Success:
    """Return the lines of sources and outputs that hold `text`, whatever its case."""
    find = re.compile(re.escape(text), re.IGNORECASE).search
    hits = (hit for cell in cells.cells for hit in _hits(cell, find, hide))
    found = list(islice(hits, MAX_HITS + 1))  # what is beyond is not even looked at
    more = len(found) > MAX_HITS
    del found[MAX_HITS:]
    count = f"{'more than ' if more else ''}{len(found)} line{'' if len(found) == 1 else 's'}"
    about = f"Found in {count} of {len(cells.cells)} cells. {seen(cells)}"
    if more:
        about += f" Only the first {MAX_HITS} are listed: search for a more specific text."
    if cut := [str(cell.number) for cell in cells.cells if cell.left_out][:MAX_HITS]:
        about += f" The end of these very long cells was not searched: {', '.join(cut)}."
    return Success(frame_sections(about, [DataSection("lines", "\n".join(found) or "(none)")]))


def _hits(
    cell: NotebookCell, find: Callable[[str], re.Match[str] | None], hide: NotebookSecrets
) -> Iterator[str]:
    places = [("source", cell.source, is_python(cell))]
    outputs = enumerate(cell.outputs, 1)
    places += [(f"output {n}", plain(x.text, limit=len(x.text)), False) for n, x in outputs]
    for where, text, code in places:
        if not find(text):
            continue
        # Hidden before it is searched again: nobody finds a secret by guessing at it.
        shown = hide(text, code=code) if where == "source" else hide.text(text)
        for number, line in enumerate(shown.split("\n"), 1):
            if hit := find(line):
                start = max(0, hit.start() - _BESIDE_HIT)
                end = hit.end() + _BESIDE_HIT
                excerpt = one_line(line[start:end], limit=_CELL_LINE + 2 * _BESIDE_HIT)
                begins, ends = "…" if start else "", "…" if end < len(line) else ""
                yield f"cell {cell.number}, {where}, line {number}: {begins}{excerpt}{ends}"


VARIABLES_AT_ONCE: Final = 100
ROWS_AT_ONCE: Final = 20
"""Of a frame: the description of more shows the first and the last ones alone."""
MAX_CHARS: Final = 20_000
"""Of the description of one value."""
MAX_VALUE_IMAGES: Final = 4
MAX_HIDDEN: Final = 1_000_000
"""Characters of a text that is looked through as a whole."""
_VALUE_LINE: Final = 160
_ROOM: Final = 400
"""Characters of a description beyond those that are shown: a key that is cut is not recognised."""
_NAME: Final = 80
_PATIENCE_S: Final = 3.0
"""Seconds for one list: the texts of some values take long."""
_LISTED: Final = 30
_OF_IPYTHON: Final = frozenset({"In", "Out", "exit", "quit"})
_OF_IPYTHON_TOO: Final = frozenset({"get_ipython", "open"})
"""If nobody bound something of their own to them."""
_ERROR: Final = 500
NO_PATH: Final = (
    "This is not a path to a value. Write a name with attributes and subscripts, "
    "such as table.columns, rows[0], rows[10:20] or config['user']. Function calls "
    "are not possible."
)


# --- all of them -----------------------------------------------------------------------------


def variables(
    namespace: Mapping[str, Any], match: str, first: int, hide: NotebookSecrets
) -> Success:
    """Return a line for each variable whose name holds `match`, from number `first` on."""
    own = [(name, value) for name, value in _own(namespace) if match.lower() in name.lower()]
    known = sorted(own, key=lambda named: named[0])
    listed = [(name, value) for name, value in known if not _is_imported(value)]
    shown = listed[first : first + VARIABLES_AT_ONCE]
    if first and not shown:
        bound = f"0 to {len(listed) - 1}" if listed else "0"
        raise ToolError(f"There are {len(listed)} variables: `first` must be {bound}.")
    about = _about(first, len(shown), len(listed), match)
    sections = [DataSection("variables", "\n".join(_lines(shown, hide)) or "(none)")]
    others = (name for name, value in known if _is_imported(value))
    if imported := [name for name in others if name not in _OF_IPYTHON_TOO]:
        more = f" and {len(imported) - _LISTED} more" if len(imported) > _LISTED else ""
        names = ", ".join(one_line(name, limit=_NAME) for name in imported[:_LISTED])
        sections.append(DataSection("imported modules, functions and classes", f"{names}{more}"))
    return Success(frame_sections(about, sections))


def _about(first: int, shown: int, total: int, match: str) -> str:
    what = "variables whose names contain the text" if match else "variables"
    about = (
        f"{total} {what}, sorted by name. Names that begin with _ and the names of "
        "IPython are omitted."
    )
    if shown < total:
        about += f" This list holds numbers {first} to {first + shown - 1}, counted from 0."
    if first + shown < total:
        about += f" For more, call with first={first + shown}."
    return about


def _own(namespace: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in list(namespace.items()):
        if type(name) is str and not name.startswith("_") and name not in _OF_IPYTHON:
            yield name, value


def _is_imported(value: Any) -> bool:
    """True for a module, and for a function or class of one; those of the notebook are its own."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        return True
    is_code = kind in (FunctionType, BuiltinFunctionType) or issubclass(kind, type)
    is_code |= kind.__name__ in ("method", "builtin_function_or_method")
    if not is_code:
        return False
    try:
        return bool(getattr(value, "__module__", None) != "__main__")
    except Exception:  # of a metaclass: it may do anything
        return False


def _lines(shown: list[tuple[str, Any]], hide: NotebookSecrets) -> Iterator[str]:
    ends = time.monotonic() + _PATIENCE_S
    for name, value in shown:
        kind = one_line(type(value).__name__, limit=_NAME)
        if hide.name(name, value) is not None:
            said = NOT_SHOWN
        elif time.monotonic() > ends:
            said = "(not read: the variables above took too long)"
        else:
            said = _cut(hide(_described(value, hide, _VALUE_LINE + _ROOM).text))
        yield f"{one_line(name, limit=_NAME)} ({kind}): {said}"


def _cut(text: str) -> str:
    line = one_line(text, limit=_VALUE_LINE + 2 * _ROOM)
    return line if len(line) <= _VALUE_LINE else f"{line[:_VALUE_LINE]}…"


# --- one -------------------------------------------------------------------------------------


def variable(
    namespace: Mapping[str, Any],
    expression: str,
    part: tuple[Part, int] | None,
    hide: NotebookSecrets,
    side: int = DEFAULT_SIDE,
) -> Success:
    """Return what the value at `expression` is, or some of its items.

    Raises:
        ToolError: The path leads nowhere, to a secret, or through something that is no data.
    """
    try:
        with private(hide):
            value = follow_data(read_value_path(expression), namespace)
            if part is not None:
                value = part_of(readable_items(value), *part)
        pieces = pieces_of(value, ROWS_AT_ONCE) if part else [value]
    except NotAValuePath:
        raise ToolError(NO_PATH) from None
    except NotShown as exc:
        raise ToolError(str(exc)) from None
    except ValuePathError as exc:
        why = DataSection("error", hide(one_line(str(exc), limit=_ERROR)))
        raise ToolError(frame_sections("The value cannot be read.", [why])) from exc
    about = "The value"
    if part is not None:
        what = {"head": "The first", "tail": "The last", "sample": "An evenly spread sample of"}
        about = f"{what[part[0]]} {part[1]} items of the value (fewer if it has fewer)"
    told = [
        _described(piece, hide, MAX_CHARS // len(pieces), MAX_VALUE_IMAGES, side)
        for piece in pieces
    ]
    made = Description("\n\n".join(each.text for each in told), told[0].images)
    if made.images:
        about += f", with {len(made.images)} image{'s' if made.images[1:] else ''}"
    kind = one_line(type(pieces[0]).__name__, limit=_NAME)
    sections = [DataSection("type", kind), DataSection("value", hide(made.text))]
    return Success(frame_sections(f"{about}.", sections), images=made.images)


def _described(
    value: Any, hide: NotebookSecrets, chars: int, images: int = 0, side: int = DEFAULT_SIDE
) -> Description:
    if type(value) is str and len(value) <= MAX_HIDDEN:
        value = hide(value)  # a key is recognized as a whole only
    return describe(value, ValueBudget(chars, side, images, hide))
