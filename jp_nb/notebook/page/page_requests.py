"""Requests to the pages that do not concern the record: cells, input boxes, and the end of a turn.

Other threads than the control thread send them. The control thread passes the answers to
`receive_cells` and `receive_input`.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from jp_nb.errors import StorageError
from jp_nb.json_values import JsonObject
from jp_nb.notebook.kernel_pages import KernelPages
from jp_nb.notebook.page.page_cells import PageCells
from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.page.page_refusal import NO_OPEN_PAGE
from jp_nb.notebook.running_cells import RunningCell, get_message_id

if TYPE_CHECKING:
    from jp_nb.rendering.status import TurnCounts

INPUT_S: Final = 2.0
"""Time for a page to tell that it can show an input box."""

NO_PAGE_TO_EDIT: Final = (
    "The cells cannot be edited: no page is open that shows this notebook. Do not try again."
)
OLDER_PAGE: Final = (
    "The cells cannot be edited: the open page runs an older jp-nb extension. Ask the user to "
    "reload the page. Do not try again in this turn."
)
READ_ONLY_PAGE: Final = (
    "The cells cannot be edited: this notebook is read-only. Ask the user to save a copy and open "
    "it. Do not try again."
)
OTHER_WINDOW: Final = (
    "The cells cannot be edited: this cell runs in another window of the same notebook. Ask the "
    "user to reload this window. Do not try again in this turn."
)

SECOND_PAGE_S: Final = 0.3
"""Time for other pages, after the first one has answered that it cannot."""


class PageRequests:
    """Sends requests to the pages of a notebook, and waits for their answers. Thread-safe."""

    def __init__(self, link: PageLink, kernel_pages: KernelPages) -> None:
        self._link = link
        self._kernel_pages = kernel_pages
        self._cells = PageCells()
        self._reviewing_session = ""  # session of the page that ran the last cell with edits

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
        with self._link.state:
            hello = self._link.followed_page
            if hello is not None and not hello.supports_cells:
                raise StorageError(
                    "the open page runs an older jp-nb extension, which cannot report cells: "
                    "reload the page"
                )
        return self._ask("cells", whole=whole)

    def _ask(self, kind: str, **fields: JsonValue) -> Future[str]:
        """Send a request to the followed page, and return a future for the text of its answer."""
        return self._ask_page(None, kind, **fields)

    def _ask_editor(self, kind: str, **fields: JsonValue) -> Future[str]:
        """Send a request to the page that edits cells, by default the followed one."""
        return self._ask_page(self._find_editor(), kind, **fields)

    def _find_editor(self) -> str | None:
        """Return the page of the user's last click, if pages share the document; else None."""
        session = self._kernel_pages.answered_session
        with self._link.state:
            hello = self._link.followed_page
            if hello is None or not hello.collaborative:
                return None
            return self._link.pages.find_editor(session)

    @property
    def is_shared(self) -> bool:
        """True if several pages may show and change the document."""
        with self._link.state:
            hello = self._link.followed_page
            return hello is not None and hello.collaborative

    def list_other_users(self) -> list[str]:
        """Return the names of the users that share the document with the user of the last click."""
        return self._kernel_pages.list_other_users(self._kernel_pages.answered_session)

    def _ask_page(self, page: str | None, kind: str, **fields: JsonValue) -> Future[str]:
        """Send a request to `page`, by default the followed one; the future gets the answer."""
        link = self._link
        with link.state:
            hello = link.followed_page
            if hello is None:
                raise StorageError(NO_OPEN_PAGE)

            receiver = hello.page if page is None else page
            message = link.numbering.make_message(kind, to=receiver, **fields)
            answer = self._cells.expect(link.numbering.last, receiver)

        link.send(message)
        return answer

    def find_edit_refusal(self, session: str) -> str | None:
        """Return why cells cannot be edited in a cell that a page of this `session` runs."""
        with self._link.state:
            hello = self._link.followed_page
            if hello is None:
                return NO_PAGE_TO_EDIT
            if not hello.supports_edits:
                return OLDER_PAGE
            if hello.read_only:
                return READ_ONLY_PAGE

            # A page that is reloaded in the review has another session than the one that ran the
            # cell, which then was the session of the followed page.
            if not session or hello.collaborative or hello.client == session:
                self._reviewing_session = session
                return None
            return None if session == self._reviewing_session else OTHER_WINDOW

    def ask_document(self) -> Future[str]:
        """Ask the page for all cells with their whole sources.

        Raises:
            StorageError: If no page is open.
        """
        return self._ask_editor("document")

    def ask_edit(
        self, operation: str, steps: list[JsonValue], expected: list[JsonValue]
    ) -> Future[str]:
        """Ask the page to apply `steps` as one operation, if its cells are as `expected`.

        Raises:
            StorageError: If no page is open.
        """
        return self._ask_editor("edit", operation=operation, steps=steps, expected=expected)

    def show_run(self, cell: str, source: str) -> bool:
        """Let the page show that a cell with this source runs; return False if no page can."""
        editor = self._find_editor()
        with self._link.state:
            hello = self._link.followed_page
            if hello is None or not hello.supports_runs:
                return False
            page = hello.page if editor is None else editor
            message = self._link.numbering.make_message("run", to=page, cell=cell, source=source)

        self._link.send(message)
        return True

    def ask_to_store_run(
        self, cell: str, source: str, count: int, outputs: list[JsonValue]
    ) -> Future[str]:
        """Ask the page to store the outputs of a cell that has run, and its execution count.

        Raises:
            StorageError: If no page is open.
        """
        return self._ask_editor("ran", cell=cell, source=source, count=count, outputs=outputs)

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
