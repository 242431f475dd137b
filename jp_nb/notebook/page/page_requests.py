"""Requests to the pages that do not concern the record: cells, input boxes, and the end of a turn.

Other threads than the control thread send them. The control thread passes the answers to
`receive_cells` and `receive_input`.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.notebook.page.page_cells import PageCells
from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.page.page_refusal import NO_OPEN_PAGE
from jp_nb.notebook.running_cells import RunningCell, get_message_id

if TYPE_CHECKING:
    from jp_nb.rendering.status import TurnCounts

INPUT_S: Final = 2.0
"""Time for a page to tell that it can show an input box."""

SECOND_PAGE_S: Final = 0.3
"""Time for other pages, after the first one has answered that it cannot."""


class PageRequests:
    """Sends requests to the pages of a notebook, and waits for their answers. Thread-safe."""

    def __init__(self, link: PageLink) -> None:
        self._link = link
        self._cells = PageCells()

        # The last question about an input box: its `seq`, and the answers so far.
        self._input_seq = 0
        self._input_answers = 0
        self._can_show_input = False

    def ask_cells(self, whole: int | str | None) -> Future[str]:
        """Ask the page for the short form of its cells, and the long form of the cell `whole`.

        The future gets the JSON text, in the control thread.

        Raises:
            StorageError: If no open page can answer.
        """
        link = self._link
        with link.state:
            hello = link.followed_page
            if hello is None:
                raise StorageError(NO_OPEN_PAGE)
            if not hello.supports_cells:
                raise StorageError(
                    "the open page runs an older jp-nb extension, which cannot report cells: "
                    "reload the page"
                )

            message = link.numbering.make_message("cells", to=hello.page, whole=whole)
            answer = self._cells.expect(link.numbering.last, hello.page)

        link.send(message)
        return answer

    def receive_cells(self, data: Mapping[str, Any]) -> None:
        """Add a piece of an answer to `ask_cells`. The caller holds the lock of the link."""
        self._cells.add_piece(data)

    def can_show_input(self, request: Mapping[str, Any]) -> bool | None:
        """Return True if an open page can show an input box for the `request` of a running cell.

        JupyterLab shows none if the page was reloaded, or has run the cell again. None means that
        no page can tell.
        """
        cell = RunningCell(request)
        link = self._link
        with link.state:
            hello = link.followed_page
            if hello is None or not hello.supports_input:
                return None
            if link.pages.is_of_other_notebook(cell.session):
                return None

            message = link.numbering.make_message("input", request=get_message_id(request))
            self._input_seq = link.numbering.last
            self._input_answers = 0
            self._can_show_input = False

        link.send(message)
        with link.state:
            link.state.wait_for(lambda: self._input_answers, INPUT_S)
            # A second window may have run the cell.
            link.state.wait_for(lambda: self._can_show_input, SECOND_PAGE_S)
            return self._can_show_input

    def receive_input(self, data: Mapping[str, Any]) -> None:
        """Add an answer to `can_show_input`. The caller holds the lock of the link."""
        if data["seq"] != self._input_seq:
            return

        self._input_answers += 1
        if data["can"] is True:
            self._can_show_input = True

    def show_turn_end(self, request: Mapping[str, Any], end: TurnCounts) -> None:
        """Let the page that runs `request` show the end of a turn. It is not in the document."""
        cell = RunningCell(request)
        link = self._link
        with link.state:
            hello = link.followed_page
            if hello is None or not hello.supports_ended or not cell.cell_id:
                return
            if link.pages.is_of_other_notebook(cell.session):
                return

            fields: JsonObject = {"request": get_message_id(request), "cell": cell.cell_id}
            fields |= {"seconds": end.seconds, "sent": end.sent, "received": end.received}
            message = link.numbering.make_message("ended", **fields)

        link.send(message)
