"""Ask the pages of a notebook if one of them can show an input box for a running cell.

The kernel asks before it reads from stdin. Without an input box, it would wait forever.

The cell's thread asks. The control thread passes the answers to `receive_answer`.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jp_nb.notebook.kernel_requests import get_message_id
from jp_nb.notebook.page.page_link import PageLink
from jp_nb.notebook.running_cells import RunningCell

INPUT_S: Final = 2.0
"""Time for a page to tell that it can show an input box."""
SECOND_PAGE_S: Final = 0.3
"""Time for other pages, after the first one has answered that it cannot."""


class InputBoxQuestion:
    """The question to all pages about an input box, and their answers. Thread-safe."""

    def __init__(self, link: PageLink) -> None:
        self._link = link

        # The last question: its `seq`, and the answers so far. The lock of the link guards them.
        self._seq = 0
        self._answer_count = 0
        self._is_possible = False

    def can_show_input(self, request: Mapping[str, Any]) -> bool | None:
        """Return True if an open page can show an input box for the `request` of a running cell.

        JupyterLab shows none if the page was reloaded, or has run the cell again. The result is
        also False if no page answers in time. None means that no page can be asked.
        """
        cell = RunningCell(request)
        link = self._link
        with link.lock:
            hello = link.followed_hello
            if hello is None or not hello.supports_input:
                return None
            if link.pages.is_of_other_notebook(cell.session):
                return None

            message = link.numbering.make_message("input", request=get_message_id(request))
            self._seq = link.numbering.last
            self._answer_count = 0
            self._is_possible = False

        link.send(message)
        with link.lock:
            # The lock is a condition. The link notifies it after each message of a page.
            link.lock.wait_for(lambda: self._answer_count, INPUT_S)
            # A second window may have run the cell.
            link.lock.wait_for(lambda: self._is_possible, SECOND_PAGE_S)
            return self._is_possible

    def receive_answer(self, data: Mapping[str, Any]) -> None:
        """Add an answer to the last question. The caller holds the lock of the link."""
        if data["seq"] != self._seq:
            return

        self._answer_count += 1
        if data["can"] is True:
            self._is_possible = True
