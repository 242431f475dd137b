"""Send the outputs of running cells to a page that does not show them (message `show`).

A page lacks them if it opened after the cell started, if it was reloaded, or if it was closed when
the cell ended. `Pages.lacking_pages` lists such pages.

Source: `docs/protocol.md`, "Outputs of a running cell".
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from jp_nb.json_values import JsonObject
from jp_nb.notebook.cell_watch import watch_cells
from jp_nb.notebook.page.known_pages import LackingPage
from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.running_cells import RunningCell, get_message_id


class OutputSender:
    """Sends outputs of the cells of `kernel` to its pages. Only the sending thread uses it."""

    def __init__(self, kernel: Any, link: PageLink) -> None:
        self._kernel = kernel
        self._link = link

    def send_outputs(self, lacking: LackingPage) -> None:
        """Send all outputs that the page lacks."""
        cells = watch_cells(self._kernel)
        if cells is None:
            return

        is_new_page = not lacking.request
        if is_new_page:  # cells may have ended while no page was open
            cells.for_each_unseen(partial(self._send_outputs_of, lacking, is_over=True))

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
            if self._decide_to_write(lacking, cell):
                fields["puts"] = True

            with_printed = link.pages.supports_printed(page)
            message = link.numbering.make_message("show", to=page, **fields)

        # No output is published between the reading of the outputs and the message: the page gets
        # each output once.
        with cell.outputs.lock:
            message["outputs"] = cell.outputs.to_json(with_printed=with_printed)
            link.send(message)

    def _decide_to_write(self, lacking: LackingPage, cell: RunningCell) -> bool:
        """Decide if the page writes the outputs into the document that pages share: True if so.

        In all other pages, the outputs then appear with the document. A page that has opened
        writes them if the page that ran the cell has left. A page that asks for the outputs of a
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

        # Another page should have written them: the one that ran the cell, or its successor. If it
        # does not answer, it is removed in a later call, and this page takes over.
        if pages.note_missing_outputs(cell.session, time.monotonic()):
            self._link.ask_for_hello()
        return pages.shared.take_over_outputs(lacking.page, cell.session)
