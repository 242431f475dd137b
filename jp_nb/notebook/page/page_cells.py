"""Collect the answers of pages to requests about cells: to read, edit, or run them.

A page answers each of these requests (`cells`, `document`, `edit`, `ran`) with a JSON text in
pieces (`cells {seq, i, of, text}`). `seq` is the number of the request. `cell_reports.py` and
`document_answers.py` in `jp_nb/notebook/` parse the text.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from jp_nb.errors import StorageError
from jp_nb.notebook.page.pieces import ReceivedPieces

MAX_PIECES: Final = 32
"""Limit of the pieces of an answer."""

MAX_PIECE_CHARS: Final = 2 * 1024 * 1024
"""Limit of one piece; with more, the answer is an error."""

MAX_OPEN_REQUESTS: Final = 8
"""If a page leaves more requests unanswered, the oldest are dropped."""

MALFORMED_CELLS: Final = "the open page reported its cells in an unknown format"


@dataclass(slots=True)
class _CellsRequest:
    """A request to `page`, and its answer so far; `pieces` is None before the first piece."""

    page: str
    answer: Future[str] = field(default_factory=Future)
    pieces: ReceivedPieces | None = None


class PageCells:
    """The requests about cells that wait for an answer. Not thread-safe: hold the link's lock."""

    def __init__(self) -> None:
        self._requests: dict[int, _CellsRequest] = {}  # without a complete answer, by `seq`

    def expect(self, seq: int, page: str) -> Future[str]:
        """Return a future for the answer of `page` to the request `seq`, a JSON text.

        Wait for it with a time limit: it may never get a result.
        """
        request = _CellsRequest(page)
        self._requests[seq] = request

        while len(self._requests) > MAX_OPEN_REQUESTS:
            oldest = next(iter(self._requests))
            del self._requests[oldest]

        return request.answer

    def add_piece(self, data: Mapping[str, Any]) -> None:
        """Add one piece of an answer. Ignore repeated pieces, and answers without a request."""
        seq: int = data["seq"]
        request = self._requests.get(seq)
        if request is None or data.get("page") != request.page:
            return

        count = data["of"]
        text = data["text"]
        is_valid = 0 < count <= MAX_PIECES and isinstance(text, str)
        if not is_valid or len(text) > MAX_PIECE_CHARS:
            self._resolve(seq, StorageError(MALFORMED_CELLS))
            return

        if request.pieces is None:
            request.pieces = ReceivedPieces(count)
        if request.pieces.add(data["i"], text):
            self._resolve(seq, request.pieces.join())

    def _resolve(self, seq: int, result: str | StorageError) -> None:
        answer = self._requests.pop(seq).answer
        if not answer.set_running_or_notify_cancel():
            return  # canceled: the tool stopped waiting

        if isinstance(result, str):
            answer.set_result(result)
        else:
            answer.set_exception(result)
