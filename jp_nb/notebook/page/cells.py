"""Receive and parse a page's report of its cells. Does no I/O.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final, cast

from jp_nb.errors import StorageError
from jp_nb.images import MEDIA_TYPES, Image
from jp_nb.notebook.page.protocol import Pieces
from jp_nb.tools.notebook_access import CellOutput, CellState, NotebookCell

MAX_PIECES: Final = 32
MAX_PIECE_CHARS: Final = 2 * 1024 * 1024
MAX_OPEN_REQUESTS: Final = 8
"""If a page leaves more requests unanswered, the oldest are dropped."""
_TYPES: Final = ("code", "markdown", "raw")
_KINDS: Final = ("stream", "display", "result", "error")
_MALFORMED: Final = "the open page reported its cells in an unknown format"


class PageCells:
    """Collects the answers of pages to `cells` requests.

    It is not thread-safe: `LiveStore` holds its lock during each call.
    """

    def __init__(self) -> None:
        self._requests: dict[int, tuple[str, Future[str]]] = {}
        self._pieces: dict[int, Pieces] = {}

    def expect(self, seq: int, page: str) -> Future[str]:
        """Return a future for the answer of `page` to the request `seq`, a JSON text."""
        answer: Future[str] = Future()
        self._requests[seq] = (page, answer)
        while len(self._requests) > MAX_OPEN_REQUESTS:
            self._discard(next(iter(self._requests)))
        return answer

    def add_piece(self, data: Mapping[str, Any]) -> None:
        """Add one piece of an answer. Ignore repeated pieces, and answers without a request."""
        seq, of, text = data.get("seq"), data.get("of"), data.get("text")
        page, answer = self._requests.get(seq, ("", None)) if isinstance(seq, int) else ("", None)
        if answer is None or data.get("page") != page or not isinstance(seq, int):
            return
        is_valid = isinstance(of, int) and 0 < of <= MAX_PIECES and isinstance(text, str)
        if not is_valid or len(str(text)) > MAX_PIECE_CHARS:
            self._resolve(seq, StorageError(_MALFORMED))
            return
        pieces = self._pieces.setdefault(seq, Pieces(cast(int, of)))
        if pieces.add(data.get("i"), text):
            self._resolve(seq, pieces.text())

    def _resolve(self, seq: int, answer: str | StorageError) -> None:
        future = self._requests[seq][1]
        self._discard(seq)
        if not future.set_running_or_notify_cancel():
            return  # canceled: the tool stopped waiting
        if isinstance(answer, str):
            future.set_result(answer)
        else:
            future.set_exception(answer)

    def _discard(self, seq: int) -> None:
        self._requests.pop(seq, None)
        self._pieces.pop(seq, None)


def read_cells(text: str, running: frozenset[str]) -> tuple[NotebookCell, ...]:
    """Parse a page's answer.

    Args:
        text: A JSON list of cells.
        running: Ids of the cells that run now. The page cannot tell them from queued cells.

    Raises:
        StorageError: If `text` is not a list of cells.
    """
    try:
        cells = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise StorageError(_MALFORMED) from exc
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise StorageError(_MALFORMED)
    return tuple(_read_cell(number, cell, running) for number, cell in enumerate(cells))


def _read_cell(number: int, cell: Mapping[str, Any], running: frozenset[str]) -> NotebookCell:
    kind, count = cell.get("type"), cell.get("execution_count")
    outputs = tuple(map(_read_output, _objects(cell.get("outputs"))))
    cell_id = _text(cell.get("id"))
    count = count if isinstance(count, int) and not isinstance(count, bool) else None
    omitted = cell.get("left_out")
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
        _text(cell.get("source")),
        kind=kind if kind in _TYPES else "raw",
        cell_id=cell_id,
        execution_count=count,
        state=state,
        outputs=outputs,
        edited=cell.get("edited") is True and count is not None,
        left_out=omitted if isinstance(omitted, int) else 0,
    )


def _read_output(output: Mapping[str, Any]) -> CellOutput:
    kind = output.get("kind")
    images = map(_read_image, _objects(output.get("images")))
    return CellOutput(
        kind if kind in _KINDS else "display",
        _text(output.get("text")),
        tuple(image for image in images if image is not None),
    )


def _read_image(image: Mapping[str, Any]) -> Image | None:
    kind, data = image.get("type"), image.get("data")
    if kind not in MEDIA_TYPES or not isinstance(data, str):
        return None
    try:
        return Image(kind, base64.b64decode(data))
    except (binascii.Error, ValueError):
        return None


def _objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
