"""Describe the cells of the notebook for the model, and search them.

Source: `docs/notebook-tools.md`, `docs/decisions.md` D91 to D93.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Final

from jp_nb.errors import ToolError
from jp_nb.images import Image
from jp_nb.text import one_line, plain
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.data_sections import DataSection, frame_sections
from jp_nb.toolkit.notebook_access import CellOutput, NotebookCell, NotebookCells
from jp_nb.toolkit.outcome import Success
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets
from jp_nb.values.base import ValueBudget
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
    source = hide(cell.source[:4_000], code=_is_python(cell))  # enough to find the first line
    lines = [line for line in source.split("\n") if line.strip()]
    more = len([line for line in cell.source.split("\n") if line.strip()]) - 1
    begins = one_line(lines[0], limit=_CELL_LINE) if lines else "(empty)"
    noun = "line" if more == 1 else "lines"
    tail = f" (+{more} {noun})" if more > 0 else ""
    facts = ", ".join([*_cell_facts(cell), *_edit_facts(cell)])
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


def _edit_facts(cell: NotebookCell) -> Iterator[str]:
    """Yield the id and the version of a cell, which an edit needs."""
    if not _CELL_ID.fullmatch(cell.cell_id):
        return
    yield f"id {cell.cell_id}"
    if cell.version:
        yield f"version {cell.version}"


def find_cell(cells: NotebookCells, wanted: int | str) -> NotebookCell:
    """Return the cell with the number or the id `wanted`, or raise a `ToolError`."""
    for cell in cells.cells:
        if wanted in (cell.number, str(cell.number)) or (cell.cell_id and wanted == cell.cell_id):
            return cell

    name = one_line(str(wanted), limit=_CELL_LINE)
    raise ToolError(format_missing_cell(name, len(cells.cells)))


def format_missing_cell(wanted: str, total: int) -> str:
    """Return the error about a cell that does not exist."""
    known = f"numbers are 0 to {total - 1}" if total else "no cells are known"
    return f"There is no cell {wanted}: {known}. List the cells with notebook_cells."


def format_cell(
    cells: NotebookCells, cell: NotebookCell, part: str, first_line: int, hide: NotebookSecrets
) -> Success:
    """Return a `part` of `cell`: `all`, `source`, or `outputs`, from `first_line` on."""
    facts = ", ".join([*_cell_facts(cell), *_edit_facts(cell)])
    about = f"Cell {cell.number} of {len(cells.cells)}: {facts}. "
    about += format_view(cells)
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


async def add_results(
    cell_thread: CellThread,
    namespace: Mapping[str, Any],
    cells: NotebookCells,
    numbers: Sequence[int],
    side: int,
    hide: NotebookSecrets,
) -> NotebookCells:
    """Return `cells` with results in `Out` as outputs of the cells `numbers`.

    Nothing changes if the page reported the outputs. Images have at most `side` pixels.
    """

    def add() -> NotebookCells:
        results = namespace.get("Out")
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

    return await cell_thread.call(add)


def search_cells(cells: NotebookCells, text: str, hide: NotebookSecrets) -> Success:
    """Return the lines of sources and outputs that contain `text`, ignoring case."""
    find = re.compile(re.escape(text), re.IGNORECASE).search
    hits = chain.from_iterable(_find_hits(cell, find, hide) for cell in cells.cells)
    found = list(islice(hits, MAX_HITS + 1))  # one more, to know if there are more
    more = len(found) > MAX_HITS
    del found[MAX_HITS:]

    count = "1 line" if len(found) == 1 else f"{len(found)} lines"
    if more:
        count = f"more than {count}"
    about = f"Found in {count} of {len(cells.cells)} cells. {format_view(cells)}"
    if more:
        about += f" Only the first {MAX_HITS} are listed: search for a more specific text."
    if cut := [str(cell.number) for cell in cells.cells if cell.left_out][:MAX_HITS]:
        about += f" The end of these very long cells was not searched: {', '.join(cut)}."

    if names := _list_found_cells(found):
        about += f" Cells: {names}."

    lines = "\n".join(line for _, line in found) or "(none)"
    return Success(frame_sections(about, [DataSection("lines", lines)]))


def _list_found_cells(found: Sequence[tuple[NotebookCell, str]]) -> str:
    """Return number, id, and version of each cell with a line in `found`."""
    named: dict[int, str] = {}
    for cell, _ in found:
        facts = ", ".join(_edit_facts(cell))
        if facts:
            named[cell.number] = f"{cell.number} ({facts})"
    return "; ".join(named.values())


def _find_hits(
    cell: NotebookCell, find: Callable[[str], re.Match[str] | None], hide: NotebookSecrets
) -> Iterator[tuple[NotebookCell, str]]:
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
                place = f"cell {cell.number}, {where}, line {number}"
                yield cell, f"{place}: {begins}{excerpt}{ends}"
