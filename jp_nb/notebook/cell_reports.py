"""Parse the cells that a page reports, for a tool that reads the notebook.

A report is a JSON list of cells. It comes from a browser, so each field may be missing or have
another type. An unusable field becomes the value of an empty cell:

    [{"id": "a1", "type": "code", "source": "1 + 1", "execution_count": 3, "outputs": […]}]

Source: `docs/protocol.md`, `docs/notebook-tools.md`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from jp_nb.errors import StorageError
from jp_nb.image_headers import MEDIA_TYPES
from jp_nb.images import Image
from jp_nb.notebook.page.page_cells import MALFORMED_CELLS
from jp_nb.toolkit.notebook_access import CellOutput, CellState, NotebookCell

_CELL_TYPES: Final = ("code", "markdown", "raw")
_OUTPUT_KINDS: Final = ("stream", "display", "result", "error")


def read_cells(text: str, running: frozenset[str]) -> tuple[NotebookCell, ...]:
    """Parse a page's answer, a JSON list of cells.

    `running` are the ids of running cells. The page cannot distinguish these from queued cells.

    Raises:
        StorageError: It is not such a list.
    """
    try:
        cells = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise StorageError(MALFORMED_CELLS) from exc

    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise StorageError(MALFORMED_CELLS)

    return tuple(_read_cell(number, cell, running) for number, cell in enumerate(cells, 1))


def _read_cell(number: int, cell: Mapping[str, Any], running: frozenset[str]) -> NotebookCell:
    """Parse the report of a cell. A page calls a cell busy if it runs, or waits for its turn."""
    kind: Any = cell.get("type")
    if kind not in _CELL_TYPES:
        kind = "raw"

    count = cell.get("execution_count")
    if not isinstance(count, int) or isinstance(count, bool):
        count = None

    omitted = cell.get("left_out")  # the number of characters that the page has omitted
    if not isinstance(omitted, int):
        omitted = 0

    cell_id = _read_text(cell.get("id"))
    outputs = tuple(map(_read_output, _list_objects(cell.get("outputs"))))
    state: CellState
    if cell_id in running:
        state = "running"
    elif cell.get("busy") is True:
        state = "queued"
    elif any(output.kind == "error" for output in outputs):
        state = "failed"
    else:
        state = "done" if count is not None else "not run"

    return NotebookCell(
        number,
        _read_text(cell.get("source")),
        kind=kind,
        cell_id=cell_id,
        execution_count=count,
        state=state,
        outputs=outputs,
        # A cell that never ran cannot differ from the source that ran.
        edited=cell.get("edited") is True and count is not None,
        left_out=omitted,
    )


def _read_output(output: Mapping[str, Any]) -> CellOutput:
    kind: Any = output.get("kind")
    if kind not in _OUTPUT_KINDS:
        kind = "display"
    images = filter(None, map(_read_image, _list_objects(output.get("images"))))
    return CellOutput(kind, _read_text(output.get("text")), tuple(images))


def _read_image(image: Mapping[str, Any]) -> Image | None:
    """Return an image of an output; None if it has another type, or is no Base64."""
    kind = image.get("type")
    data = image.get("data")
    if kind not in MEDIA_TYPES or not isinstance(data, str):
        return None

    try:
        return Image(kind, base64.b64decode(data))
    except (binascii.Error, ValueError):  # `ValueError`: the text is not ASCII
        return None


def _list_objects(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def _read_text(value: Any) -> str:
    return value if isinstance(value, str) else ""
