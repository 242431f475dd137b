"""Answers of pages to the question for the cells of the notebook.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final, cast

from jp_nb.errors import StorageError
from jp_nb.notebook.page.protocol import Pieces

MAX_PIECES: Final = 32

MAX_PIECE_CHARS: Final = 2 * 1024 * 1024

MAX_OPEN_REQUESTS: Final = 8
"""If a page leaves more requests unanswered, the oldest are dropped."""

MALFORMED_CELLS: Final = "the open page reported its cells in an unknown format"


class PageCells:
    """Collects the answers of pages to `cells` requests. Not thread-safe, as `Pages`."""

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
        seq = data.get("seq")
        of = data.get("of")
        text = data.get("text")
        page, answer = self._requests.get(seq, ("", None)) if isinstance(seq, int) else ("", None)
        if answer is None or data.get("page") != page or not isinstance(seq, int):
            return

        is_valid = isinstance(of, int) and 0 < of <= MAX_PIECES and isinstance(text, str)
        if not is_valid or len(str(text)) > MAX_PIECE_CHARS:
            self._resolve(seq, StorageError(MALFORMED_CELLS))
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
