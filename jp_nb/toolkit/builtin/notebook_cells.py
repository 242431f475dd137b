"""Describe the cells of the notebook for the model.

`hide` are the user's secrets (`notebook_secrets.py`). `hide(text)` is a source without them, and
`hide.text(text)` an output without them.

Source: `docs/notebook-tools.md`, `docs/decisions.md` D91 to D93.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from jp_nb.errors import ToolError
from jp_nb.images import Image
from jp_nb.text import one_line, plain, pluralize
from jp_nb.toolkit.data_sections import DataSection, frame_sections
from jp_nb.toolkit.notebook_access import NotebookCell, NotebookCells
from jp_nb.toolkit.outcome import Success
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets

CELLS_AT_ONCE: Final = 50
MAX_TEXT_CHARS: Final = 20_000
"""Limit for the characters of a source, of outputs, and of a value, in one result."""
MAX_CELL_IMAGES: Final = 8
CELL_LINE_CHARS: Final = 120
"""Length of the line that describes a cell in a list."""
_CELL_ID: Final = re.compile(r"[\w-]{1,64}", re.ASCII)  # as in nbformat
OF_KERNEL: Final = (
    "These are the cells that this kernel ran, in that order: {why}. Markdown cells, "
    "cells that did not run, and later edits are missing. Only the values of last "
    "lines are known as outputs."
)
OF_FILE: Final = (
    "These are the cells of the notebook file in this run. Only the values of last lines are known "
    "as outputs."
)
OF_PAGE: Final = "These are the cells of the open page, including unsaved edits."


def format_view(cells: NotebookCells) -> str:
    """Return the sentence about the source of the cells, and the parts that they lack."""
    match cells.source_view:
        case "page":
            return OF_PAGE
        case "file":
            return OF_FILE
        case "kernel":
            return OF_KERNEL.format(why=cells.why)


def format_cell_line(cell: NotebookCell, hide: NotebookSecrets) -> str:
    """Return number, type, run state, id, version, and first line of `cell`."""
    source = hide(cell.source[:4_000], code=is_python(cell))  # enough to find the first line
    first_lines = [line for line in source.split("\n") if line.strip()]
    first_line = one_line(first_lines[0], limit=CELL_LINE_CHARS) if first_lines else "(empty)"

    line_count = len([line for line in cell.source.split("\n") if line.strip()])
    more_count = line_count - 1
    more = f" (+{more_count} {pluralize('line', more_count)})" if more_count > 0 else ""
    return f"{cell.number} [{_format_facts(cell)}] {first_line}{more}"


def is_python(cell: NotebookCell) -> bool:
    """Return True if the source is Python code, not Markdown or the text of a cell magic."""
    return cell.kind == "code" and not cell.source.lstrip().startswith("%%")


def _format_facts(cell: NotebookCell) -> str:
    return ", ".join([*_list_state_facts(cell), *list_edit_facts(cell)])


def _list_state_facts(cell: NotebookCell) -> Iterator[str]:
    """Yield the type of a cell, and the run state of a code cell."""
    yield cell.kind
    if cell.kind != "code":
        return

    count = f" as {cell.execution_count}" if cell.execution_count is not None else ""
    match cell.state:
        case "done" | "ran":  # "ran": the kernel does not know if the cell failed
            yield f"ran{count}"
        case "failed":
            yield f"failed{count}"
        case "queued":
            yield "waiting to run"
        case "running" | "not run":
            yield cell.state

    if cell.edited:
        yield "edited since"


def list_edit_facts(cell: NotebookCell) -> Iterator[str]:
    """Yield the id and the version of a cell, which an edit needs."""
    if not _CELL_ID.fullmatch(cell.cell_id):
        return
    yield f"id {cell.cell_id}"
    if cell.version:
        yield f"version {cell.version}"


def find_cell(cells: NotebookCells, wanted: int | str) -> NotebookCell:
    """Return the cell with the number or the id `wanted`, or raise a `ToolError`."""
    for cell in cells.cells:
        has_number = wanted in (cell.number, str(cell.number))
        has_id = bool(cell.cell_id) and wanted == cell.cell_id
        if has_number or has_id:
            return cell

    name = one_line(str(wanted), limit=CELL_LINE_CHARS)
    raise ToolError(format_missing_cell(name, len(cells.cells)))


def format_missing_cell(wanted: str, total: int) -> str:
    """Return the error about a cell that does not exist."""
    known = f"numbers are 1 to {total}" if total else "no cells are known"
    return f"There is no cell {wanted}: {known}. List the cells with notebook_cells."


def format_cell(
    cells: NotebookCells,
    cell: NotebookCell,
    *,
    part: str,
    first_line: int,
    hide: NotebookSecrets,
) -> Success:
    """Return a `part` of `cell`: `all`, `source`, or `outputs`, from `first_line` on."""
    about = f"Cell {cell.number} of {len(cells.cells)}: {_format_facts(cell)}. "
    about += format_view(cells)
    sections: list[DataSection] = []
    images: list[Image] = []

    if part != "outputs":
        source = hide(cell.source, code=is_python(cell))
        sections.append(_make_excerpt("source", source, first_line))

    if part != "source":
        sections.append(_make_excerpt("outputs", _format_outputs(cell, hide), first_line))
        all_images = _list_images(cell)
        images = all_images[:MAX_CELL_IMAGES]
        omitted_count = len(all_images) - len(images)
        if images:
            more = f" ({omitted_count} more are omitted)" if omitted_count else ""
            about += f" Images with this result: {len(images)}{more}."

    if cell.left_out:
        about += f" The cell is very long: {cell.left_out:,} characters are omitted."

    return Success(frame_sections(about, sections), images=tuple(images))


def _format_outputs(cell: NotebookCell, hide: NotebookSecrets) -> str:
    """Return the texts of all outputs, each below its number and kind."""
    if not cell.outputs:
        return "(none)"

    parts: list[str] = []
    for number, output in enumerate(cell.outputs, 1):
        with_image = ", with an image" if output.images else ""
        text = hide.text(plain(output.text, limit=len(output.text)))
        part = f"[{number}: {output.kind}{with_image}]\n{text}"
        parts.append(part.rstrip("\n"))
    return "\n".join(parts)


def _list_images(cell: NotebookCell) -> list[Image]:
    images: list[Image] = []
    for output in cell.outputs:
        images += output.images
    return images


def _make_excerpt(part: str, text: str, first_line: int) -> DataSection:
    """Return the lines of `text` from number `first_line` on, up to `MAX_TEXT_CHARS`.

    The title of an incomplete excerpt has the numbers of its lines.
    """
    lines = text.split("\n")
    total = len(lines)
    if first_line > total:
        raise ToolError(f"The {part} of that cell has only {total} lines.")

    following = lines[first_line - 1 :]
    count = _count_fitting(following)
    if first_line == 1 and count == total:
        return DataSection(part, text)

    if count:
        shown = "\n".join(following[:count])
        last_line = first_line + count - 1
        where = f"lines {first_line} to {last_line} of {total}"
    else:
        shown = following[0][:MAX_TEXT_CHARS]
        cut = len(following[0]) - MAX_TEXT_CHARS
        last_line = first_line
        where = f"line {first_line} of {total}, its last {cut:,} characters omitted"

    if last_line < total:
        where += f"; for more, use part={part!r}, first_line={last_line + 1}"
    return DataSection(f"{part}, {where}", shown)


def _count_fitting(lines: Sequence[str]) -> int:
    """Return how many whole lines from the first one fit into `MAX_TEXT_CHARS`."""
    remaining_chars = MAX_TEXT_CHARS
    for count, line in enumerate(lines):
        remaining_chars -= len(line) + 1
        if remaining_chars < 0:
            return count
    return len(lines)
