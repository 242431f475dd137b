"""Read the results in IPython's `Out` as the outputs of cells, if no page has reported the outputs.

Source: `docs/notebook-tools.md`, `docs/decisions.md` D91 to D93.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jp_nb.toolkit.builtin.notebook_cells import MAX_CELL_IMAGES, MAX_TEXT_CHARS
from jp_nb.toolkit.cell_thread import CellThread
from jp_nb.toolkit.notebook_access import CellOutput, NotebookCells
from jp_nb.toolkit.secrets.notebook_secrets import NotebookSecrets
from jp_nb.values.base import ValueBudget
from jp_nb.values.describe import describe


async def add_results(
    cell_thread: CellThread,
    namespace: Mapping[str, Any],
    cells: NotebookCells,
    *,
    indexes: Sequence[int],
    side: int,
    hide: NotebookSecrets,
) -> NotebookCells:
    """Return `cells` with results in `Out` as outputs of the cells at `indexes`.

    `Out` is IPython's dictionary of the values of last lines, by execution count. Nothing changes
    if the page reported the outputs. Images have at most `side` pixels, and are
    omitted if `side` is 0.
    """

    def add() -> NotebookCells:
        results = namespace.get("Out")
        if cells.source_view == "page" or not isinstance(results, dict):
            return cells

        max_images = MAX_CELL_IMAGES if side else 0
        budget = ValueBudget(MAX_TEXT_CHARS, side, max_images, privacy=hide)
        new_cells = list(cells.cells)
        for index in indexes:
            count = new_cells[index].execution_count
            if count in results:
                description = describe(results[count], budget)
                output = CellOutput("result", description.text, description.images)
                new_cells[index] = replace(new_cells[index], outputs=(output,))

        return replace(cells, cells=tuple(new_cells))

    return await cell_thread.call(add)  # describing a value may run code of its class
