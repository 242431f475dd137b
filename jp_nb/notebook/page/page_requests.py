"""Requests to the page that do not concern the record: cells, and the end of a turn.

Other threads than the control thread send them. The control thread passes the answers to
`receive_cells`. `input_box_question.py` has the question about input boxes.

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
from jp_nb.notebook.kernel_requests import get_message_id
from jp_nb.notebook.page.page_cells import PageCells
from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.page.record_location import NO_OPEN_PAGE
from jp_nb.notebook.running_cells import RunningCell

if TYPE_CHECKING:
    from jp_nb.rendering.turn_counts import TurnCounts

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


class PageRequests:
    """Sends requests to the pages of a notebook, and waits for their answers. Thread-safe."""

    def __init__(self, link: PageLink, kernel_pages: KernelPages) -> None:
        self._link = link
        self._kernel_pages = kernel_pages
        self._cells = PageCells()
        # The session of the page that ran the last cell with edits, which the user may review.
        self._reviewing_session = ""

    def ask_cells(self, whole: int | str | None) -> Future[str]:
        """Ask the page for its cells: shortened, except the cell with the number or id `whole`.

        The future gets the JSON text, in the control thread.

        Raises:
            StorageError: If no open page can answer.
        """
        with self._link.lock:
            hello = self._link.followed_hello
            if hello is not None and not hello.supports_cells:
                raise StorageError(
                    "the open page runs an older jp-nb extension, which cannot report cells: "
                    "reload the page"
                )
        return self._ask_page(None, "cells", whole=whole)

    @property
    def is_shared(self) -> bool:
        """True if several pages may show and change the document."""
        with self._link.lock:
            hello = self._link.followed_hello
            return hello is not None and hello.collaborative

    def list_other_users(self) -> list[str]:
        """Return the names of the users that share the document with the user of the last click."""
        return self._kernel_pages.list_other_users(self._kernel_pages.answered_session)

    def check_edits(self, session: str) -> str | None:
        """Return why cells cannot be edited in a cell that a page of this `session` runs.

        None means that they can. Then the session stays accepted after the page is reloaded.
        """
        with self._link.lock:
            hello = self._link.followed_hello
            if hello is None:
                return NO_PAGE_TO_EDIT
            if not hello.supports_edits:
                return OLDER_PAGE
            if hello.read_only:
                return READ_ONLY_PAGE

            # The cell must run in the followed page, which has the cells that are edited. In a
            # shared document, all pages have the same cells.
            runs_in_followed_page = hello.session == session
            if not session or hello.collaborative or runs_in_followed_page:
                self._reviewing_session = session
                return None

            # If the page is reloaded during the review, its session changes. So the session that
            # ran the cell, as it was before, stays accepted.
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
        """Let the page show that a cell with this id and source runs; return False if none can."""
        editor = self._find_editor()
        with self._link.lock:
            hello = self._link.followed_hello
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

    def show_turn_end(self, request: Mapping[str, Any], end: TurnCounts) -> None:
        """Let the page that runs `request` show the end of a turn. It is not in the document."""
        cell = RunningCell(request)
        link = self._link
        with link.lock:
            hello = link.followed_hello
            if hello is None or not hello.supports_ended or not cell.cell_id:
                return
            if link.pages.is_of_other_notebook(cell.session):
                return

            fields: JsonObject = {"request": get_message_id(request), "cell": cell.cell_id}
            fields |= {"seconds": end.seconds, "sent": end.sent, "received": end.received}
            message = link.numbering.make_message("ended", **fields)

        link.send(message)

    def _ask_editor(self, kind: str, **fields: JsonValue) -> Future[str]:
        """Send a request to the page that edits cells, by default the followed one."""
        return self._ask_page(self._find_editor(), kind, **fields)

    def _ask_page(self, page: str | None, kind: str, **fields: JsonValue) -> Future[str]:
        """Send a request to `page`, by default the followed one; the future gets the answer."""
        link = self._link
        with link.lock:
            hello = link.followed_hello
            if hello is None:
                raise StorageError(NO_OPEN_PAGE)

            receiver = hello.page if page is None else page
            message = link.numbering.make_message(kind, to=receiver, **fields)
            answer = self._cells.expect(link.numbering.last, receiver)

        link.send(message)
        return answer

    def _find_editor(self) -> str | None:
        """Return the page that edits cells if pages share the document; else None.

        It is the page of the last click in a form. That user has decided about the edits.
        """
        session = self._kernel_pages.answered_session
        with self._link.lock:
            hello = self._link.followed_hello
            if hello is None or not hello.collaborative:
                return None
            return self._link.pages.find_editor(session)
