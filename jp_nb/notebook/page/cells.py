"""Hears what a page tells of its cells, and reads that. Pure.

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
MAX_ASKED: Final = 8
"""Questions that a page may leave open; older ones are forgotten."""
_TYPES: Final = ("code", "markdown", "raw")
_KINDS: Final = ("stream", "display", "result", "error")
_MALFORMED: Final = "the open page reported its cells in an unknown format"


class PageCells:
    """Puts the answers of pages together. Not safe from several threads at once."""

    def __init__(self) -> None:
        self._asked: dict[int, tuple[str, Future[str]]] = {}
        self._pieces: dict[int, Pieces] = {}

    def expect(self, seq: int, page: str) -> Future[str]:
        """Return what gets the JSON with which `page` answers message `seq`."""
        answer: Future[str] = Future()
        self._asked[seq] = (page, answer)
        while len(self._asked) > MAX_ASKED:
            self._forget(next(iter(self._asked)))
        return answer

    def hear(self, data: Mapping[str, Any]) -> None:
        """Take one piece of an answer; what nobody asked for, or comes twice, changes nothing."""
        seq, of, text = data.get("seq"), data.get("of"), data.get("text")
        page, answer = self._asked.get(seq, ("", None)) if isinstance(seq, int) else ("", None)
        if answer is None or data.get("page") != page or not isinstance(seq, int):
            return
        sizes = isinstance(of, int) and 0 < of <= MAX_PIECES and isinstance(text, str)
        if not sizes or len(str(text)) > MAX_PIECE_CHARS:
            self._end(seq, StorageError(_MALFORMED))
            return
        pieces = self._pieces.setdefault(seq, Pieces(cast(int, of)))
        if pieces.add(data.get("i"), text):
            self._end(seq, pieces.text())

    def _end(self, seq: int, answer: str | StorageError) -> None:
        future = self._asked[seq][1]
        self._forget(seq)
        if not future.set_running_or_notify_cancel():
            return  # nobody waits any more
        if isinstance(answer, str):
            future.set_result(answer)
        else:
            future.set_exception(answer)

    def _forget(self, seq: int) -> None:
        self._asked.pop(seq, None)
        self._pieces.pop(seq, None)


def read_cells(text: str, running: frozenset[str]) -> tuple[NotebookCell, ...]:
    """Return the cells that the JSON `text` tells; those with an id in `running` run now.

    Raises:
        StorageError: If it is not a list of cells.
    """
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise StorageError(_MALFORMED) from exc
    if not isinstance(told, list) or not all(isinstance(cell, dict) for cell in told):
        raise StorageError(_MALFORMED)
    return tuple(_cell(number, cell, running) for number, cell in enumerate(told))


def _cell(number: int, told: Mapping[str, Any], running: frozenset[str]) -> NotebookCell:
    kind, count = told.get("type"), told.get("execution_count")
    read = tuple(_output(x) for x in _objects(told.get("outputs")))
    cell_id = _text(told.get("id"))
    count = count if isinstance(count, int) and not isinstance(count, bool) else None
    left_out = told.get("left_out")
    return NotebookCell(
        number,
        _text(told.get("source")),
        kind=kind if kind in _TYPES else "raw",
        cell_id=cell_id,
        execution_count=count,
        state=_state(told, cell_id, count, read, running),
        outputs=read,
        edited=told.get("edited") is True and count is not None,
        left_out=left_out if isinstance(left_out, int) else 0,
    )


def _state(
    told: Mapping[str, Any],
    cell_id: str,
    count: int | None,
    outputs: tuple[CellOutput, ...],
    running: frozenset[str],
) -> CellState:
    if cell_id in running:
        return "running"
    if told.get("busy") is True:
        return "queued"
    if any(output.kind == "error" for output in outputs):
        return "failed"
    return "done" if count is not None else "not run"


def _output(told: Mapping[str, Any]) -> CellOutput:
    kind = told.get("kind")
    read = [_image(x) for x in _objects(told.get("images"))]
    return CellOutput(
        kind if kind in _KINDS else "display",
        _text(told.get("text")),
        tuple(image for image in read if image is not None),
    )


def _image(told: Mapping[str, Any]) -> Image | None:
    kind, data = told.get("type"), told.get("data")
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
