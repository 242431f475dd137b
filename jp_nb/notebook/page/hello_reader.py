"""Read a message `hello`, also if its record follows in pieces.

With `hello`, a page of the notebook tells the kernel its id, its features, and the record that it
holds. A record of more than 4 MB follows in messages `chunk`. Pieces of several pages may arrive
at the same time, and those of one page in any order.

    {"type": "hello", "page": "p1", "chunks": 2, …}
    {"type": "chunk", "page": "p1", "i": 1, "text": "…"}

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jp_nb.errors import StorageError
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.pieces import ReceivedPieces
from jp_nb.notebook.page.protocol import PREVIOUS_PROTOCOL

MAX_CHUNKS: Final = 65_536
"""Limit of the pieces of a document."""

MAX_SENDING_PAGES = 8
"""Limit of pages that send a long record at the same time."""


class HelloReader:
    """Reads messages `hello` and `chunk`, and returns each `hello` when it is complete."""

    def __init__(self) -> None:
        # Messages that are not complete, by page.
        self._incomplete: dict[str, tuple[Hello, ReceivedPieces]] = {}

    def read(self, data: Mapping[str, Any]) -> Hello | None:
        """Return the complete `hello`; None until the last piece of its record has arrived.

        `data` is a message `hello` or `chunk` whose fields have the right types.

        Raises:
            StorageError: If the record is too large, or is not JSON.
        """
        page = str(data.get("page", ""))
        if data.get("type") == "chunk":
            return self._add_piece(page, data)

        hello = Hello.read(data)
        count = data.get("chunks")
        if count is None:
            return hello
        if not 0 < count <= MAX_CHUNKS:
            raise StorageError("the page sent its record in too many pieces", place="jp")

        # Removed before it is added: the pages are in the order of their last `hello`.
        self._incomplete.pop(page, None)
        self._incomplete[page] = (hello, ReceivedPieces(count))

        while len(self._incomplete) > MAX_SENDING_PAGES:
            oldest = next(iter(self._incomplete))
            del self._incomplete[oldest]

        return None

    def _add_piece(self, page: str, data: Mapping[str, Any]) -> Hello | None:
        """Add a piece of a record; return the `hello` if it was the last one."""
        if page not in self._incomplete:
            return None  # its `hello` was dropped for those of other pages, or after an error

        hello, pieces = self._incomplete[page]
        try:
            is_complete = pieces.add(data.get("i"), data.get("text"))
        except StorageError:
            del self._incomplete[page]
            raise

        if not is_complete:
            return None

        del self._incomplete[page]
        content = pieces.parse_json()  # the fields `keys` and `carriers` of a `hello`
        if hello.protocol == PREVIOUS_PROTOCOL:
            content = {"doc": content}  # a page of version 1 cuts the value of its field `doc`
        return hello.with_content(content)
