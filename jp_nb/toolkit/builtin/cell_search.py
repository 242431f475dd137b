"""Search the sources and outputs of the notebook's cells for the model.

The results contain no secrets of the user. `hide(source)` returns a source without them, and
`hide.text(output)` the text of an output (`notebook_secrets.py`).

Source: `docs/notebook-tools.md`, `docs/decisions.md` D91 to D93.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from jp_nb.text import one_line, plain, pluralize
from jp_nb.toolkit.builtin.notebook_cells import (
    CELL_LINE_CHARS,
    format_view,
    is_python,
    list_edit_facts,
)
from jp_nb.toolkit.data_sections import DataSection, frame_sections
from jp_nb.toolkit.notebook_access import NotebookCell, NotebookCells
from jp_nb.toolkit.outcome import Success
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets

MAX_HITS: Final = 50
_BESIDE_HIT: Final = 80
"""Characters of the line that are shown before and after the text."""


class _Hit(NamedTuple):
    """A cell, and a line of it that contains the text, with its place."""

    cell: NotebookCell
    line: str


def search_cells(cells: NotebookCells, text: str, hide: NotebookSecrets) -> Success:
    """Return the lines of sources and outputs that contain `text`, ignoring case."""
    find = re.compile(re.escape(text), re.IGNORECASE).search
    all_hits = chain.from_iterable(_find_hits(cell, find, hide) for cell in cells.cells)
    hits = list(islice(all_hits, MAX_HITS + 1))  # one more, to know if there are more
    has_more = len(hits) > MAX_HITS
    del hits[MAX_HITS:]

    about = _describe_hits(cells, hits, has_more=has_more)
    lines = "\n".join(hit.line for hit in hits) or "(none)"
    return Success(frame_sections(about, [DataSection("lines", lines)]))


def _describe_hits(cells: NotebookCells, hits: Sequence[_Hit], *, has_more: bool) -> str:
    """Return the sentences above the lines: their number, the limits of the search, the cells."""
    count = f"{len(hits)} {pluralize('line', len(hits))}"
    if has_more:
        count = f"more than {count}"
    about = f"Found in {count} of {len(cells.cells)} cells. {format_view(cells)}"
    if has_more:
        about += f" Only the first {MAX_HITS} are listed: search for a more specific text."

    shortened = [str(cell.number) for cell in cells.cells if cell.left_out]
    if shortened:
        numbers = ", ".join(shortened[:MAX_HITS])
        about += f" The end of these very long cells was not searched: {numbers}."

    names = _format_found_cells(hits)
    if names:
        about += f" Cells: {names}."
    return about


def _format_found_cells(hits: Sequence[_Hit]) -> str:
    """Return number, id, and version of each cell with a hit."""
    named: dict[int, str] = {}
    for cell, _ in hits:
        facts = ", ".join(list_edit_facts(cell))
        if facts:
            named[cell.number] = f"{cell.number} ({facts})"
    return "; ".join(named.values())


def _find_hits(
    cell: NotebookCell, find: Callable[[str], re.Match[str] | None], hide: NotebookSecrets
) -> Iterator[_Hit]:
    """Yield the lines of a cell and of its outputs in which `find` finds the text."""
    # Only lines that match without the secrets are hits: a search must not confirm a guessed
    # secret. The search before that is for speed, because hiding secrets takes time.
    if find(cell.source):
        source = hide(cell.source, code=is_python(cell))
        yield from _find_lines(cell, "source", source, find)

    for number, output in enumerate(cell.outputs, 1):
        text = plain(output.text, limit=len(output.text))
        if find(text):
            yield from _find_lines(cell, f"output {number}", hide.text(text), find)


def _find_lines(
    cell: NotebookCell, part: str, text: str, find: Callable[[str], re.Match[str] | None]
) -> Iterator[_Hit]:
    """Yield the lines of `text`, a `part` of the cell such as `source`, with a short excerpt."""
    for number, line in enumerate(text.split("\n"), 1):
        match = find(line)
        if match is None:
            continue

        start = max(0, match.start() - _BESIDE_HIT)
        end = match.end() + _BESIDE_HIT
        excerpt = one_line(line[start:end], limit=CELL_LINE_CHARS + 2 * _BESIDE_HIT)
        before = "…" if start else ""
        after = "…" if end < len(line) else ""
        place = f"cell {cell.number}, {part}, line {number}"
        yield _Hit(cell, f"{place}: {before}{excerpt}{after}")
