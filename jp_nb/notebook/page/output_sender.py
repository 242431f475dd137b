"""Send the outputs of running cells to a page that does not show them (message `show`).

A page lacks them if it opened after the cell started, if it was reloaded, or if it was closed when
the cell ended. `Pages.lacking_pages` (`known_pages.py`) has a `LackingPage` for each such page. Its
`request` is "" for a page that has opened, which may lack the outputs of all cells. Otherwise the
page has asked for the outputs of the cell that this Jupyter request runs.

Several pages may share one document (real-time collaboration). Then exactly one page writes the
outputs of a cell into it: the one that ran the cell, or after it has left, its *successor*
(`shared_pages.py`). A cell names the page that ran it by its Jupyter session.

Source: `docs/protocol.md`, "Outputs of a running cell".
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from jp_nb.json_values import JsonObject
from jp_nb.notebook.cell_watch import watch_cells
from jp_nb.notebook.kernel_requests import get_message_id
from jp_nb.notebook.page.known_pages import LackingPage
from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.running_cells import RunningCell


class OutputSender:
    """Sends outputs of the cells of `kernel` to its pages. Only the sending thread uses it."""

    def __init__(self, kernel: Any, link: PageLink) -> None:
        self._kernel = kernel
        self._link = link

    def send_outputs(self, lacking: LackingPage) -> None:
        """Send all outputs that the page lacks."""
        cells = watch_cells(self._kernel)
        if cells is None:  # not a kernel of ipykernel: its cells cannot be watched
            return

        is_new_page = not lacking.request
        if is_new_page:  # send also the outputs of cells that have ended while no page was open
            cells.for_each_unseen(partial(self._send_outputs_of, lacking, is_over=True))

        # Each running cell; only that of the request if there is one.
        send = partial(self._send_outputs_of, lacking, is_over=False)
        cells.for_each_cell(send, lacking.request)

    def _send_outputs_of(self, lacking: LackingPage, cell: RunningCell, *, is_over: bool) -> None:
        """Send the outputs of `cell`, which `is_over` if it does not run any more."""
        link = self._link
        page = lacking.page
        request = get_message_id(cell.request)
        fields: JsonObject = {"request": request, "cell": cell.cell_id, "code": cell.code}
        if is_over:
            fields["over"] = True

        with link.lock:
            if link.pages.is_of_other_notebook(cell.session):
                return
            if self._select_writer(lacking, cell):
                fields["puts"] = True  # the page writes them into the document

            # Text that user code has printed is sent only to a page that can show it.
            with_printed = link.pages.supports_printed(page)
            message = link.numbering.make_message("show", to=page, **fields)

        # No output is published between the reading of the outputs and the message: the page gets
        # each output once.
        with cell.outputs.lock:
            message["outputs"] = cell.outputs.to_json(with_printed=with_printed)
            link.send(message)

    def _select_writer(self, lacking: LackingPage, cell: RunningCell) -> bool:
        """Select the page that writes the outputs into the shared document; True for this page.

        In all other pages, the outputs then appear with the document. A page that has opened
        writes them if the page that ran the cell has left: `take_over_outputs` makes it the
        successor, and returns True, if there is no other one. A page that asks for the outputs of a
        cell also writes them if it ran the cell. Hold the lock of the link.
        """
        pages = self._link.pages
        if not lacking.request:
            return pages.shared.take_over_outputs(lacking.page, cell.session)

        # The page that ran the cell lacks its outputs if the user has run the cell again.
        if pages.shared.has_session(lacking.page, cell.session):
            return True
        if pages.shared.take_over_outputs(lacking.page, cell.session):
            return True

        # Another page should have written them: the one that ran the cell, or its successor. It may
        # have left without a message. The first call returns True: ask all pages for a `hello`. The
        # page that lacks the outputs repeats its request. A later call then removes a page that did
        # not answer, so that this one can take over.
        if pages.note_missing_outputs(cell.session, time.monotonic()):
            self._link.ask_for_hello()
        return pages.shared.take_over_outputs(lacking.page, cell.session)
