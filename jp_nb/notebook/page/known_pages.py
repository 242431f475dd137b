"""The pages that the kernel knows: those of the notebook, and of others on the same kernel.

A page *joins* with its first `hello`, and *leaves* with `bye` or when it stops answering. One page
of the notebook is followed (`followed_page.py`). The others are second windows, and pages of
collaborators that share one document.

In a shared document, only the page that ran a cell writes the cell's outputs, because two pages
would show each output twice. If that page has left, another page must write them: this module
selects it. `LiveStore` calls it with its lock held.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from jp_nb.notebook.page.followed_page import FollowedPage
from jp_nb.notebook.page.hello import Hello
from jp_nb.record.documents.document import get_conversation_id

MAX_KNOWN_PAGES: Final = 64
"""Limit of the pages of a notebook. The oldest one is forgotten: its next `hello` adds it again."""

MAX_CLIENTS: Final = 64
"""Limit of known sessions. Each reload of a page counts; the oldest is removed."""

MAX_LACKING: Final = 32
"""Limit of requests of pages for outputs. A page repeats a request that is dropped."""

MAX_DEPARTED: Final = 64
"""Limit of the sessions of pages that have left; the oldest is removed."""


@dataclass(frozen=True, slots=True)
class LackingPage:
    """A page that may lack outputs: of the cell that `request` runs, or of all cells if ""."""

    page: str
    request: str = ""


class Pages:
    """Known pages of a notebook, and the page that is followed. Not thread-safe.

    Attributes:
        followed: The page that the kernel follows.
        lacking: Pages to which the outputs of running cells must be sent, oldest first.
        has_met_page: True once a page has shown the notebook, also if it has left since.
    """

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self.has_met_page = False
        self.followed = FollowedPage(patience=patience)
        self.lacking: deque[LackingPage] = deque(maxlen=MAX_KNOWN_PAGES)

        # Pages of the notebook, in the order of their first message, and those of them that can
        # show the text that user code has printed.
        self._supports_printed: dict[str, bool] = {}

        # Sessions in the message headers of pages, of this notebook and of others.
        self._clients: deque[str] = deque(maxlen=MAX_CLIENTS)
        self._other_clients: deque[str] = deque(maxlen=MAX_CLIENTS)

        # Pages that share a document: their sessions, and the time since when a page that should
        # have written outputs must show that it is open.
        self._sessions: dict[str, str] = {}
        self._presence_asked_at: dict[str, float] = {}

        # Pages that share a document, and can edit its cells.
        self._editors: set[str] = set()

        # Sessions of pages that have left, and the page that writes the outputs of their cells.
        self._departed: deque[str] = deque(maxlen=MAX_DEPARTED)
        self._output_writers: dict[str, str] = {}
        self._lacks_successor = False  # True until a page takes over from one that has left

    def is_known(self, page: str) -> bool:
        """Return True if `page` shows the notebook."""
        return page in self._supports_printed

    def record_message(self, page: str, path: str | None = None) -> bool:
        """Record that `page` sent a message; return True if it shows the notebook.

        A message `hello` also has the `path` that the page shows.
        """
        if not self.is_known(page):
            return False

        self._presence_asked_at.pop(page, None)
        self.followed.record_message(page, path)

        return True

    # --- joining and leaving -----------------------------------------------------------------

    def follow(self, hello: Hello) -> None:
        """Follow the page that says `hello`. A followed page that is silent leaves."""
        silent_page = self.followed.page if self.followed.is_silent else hello.page
        self.followed.follow(hello)
        self.join(hello)

        if silent_page != hello.page:
            self.leave(silent_page, successor=hello.page)  # it sent no `bye`

    def join(self, hello: Hello) -> None:
        """Add a page of the notebook, or update it."""
        self.has_met_page = True
        if not self.is_known(hello.page) or self._lacks_successor:
            self.lacking.append(LackingPage(hello.page))
            self._lacks_successor = False

        self._supports_printed[hello.page] = hello.supports_printed
        if len(self._supports_printed) > MAX_KNOWN_PAGES:
            self._forget_oldest(hello.page)

        if hello.client and hello.client not in self._clients:
            self._clients.append(hello.client)

        self._editors.discard(hello.page)
        if hello.supports_edits and hello.session and not hello.read_only:
            self._editors.add(hello.page)

        if hello.session:
            self._sessions[hello.page] = hello.session
            if hello.session in self._departed:  # the user canceled the closing of the tab
                self._departed.remove(hello.session)

    def find_editor(self, session: str) -> str | None:
        """Return the page of `session` if it shares the document and can edit its cells."""
        for page, known in self._sessions.items():
            if known == session and page in self._editors:
                return page
        return None

    def _forget_oldest(self, newest: str) -> None:
        kept = (self.followed.page, newest)
        oldest = next(page for page in self._supports_printed if page not in kept)
        del self._supports_printed[oldest]
        self._sessions.pop(oldest, None)
        self._editors.discard(oldest)

    def leave(self, page: str, successor: str = "") -> bool:
        """Remove `page`; return True if other pages remain, which should send `hello`.

        The `successor` takes over writing the record and the outputs of the page's cells. By
        default, it is the first page that answers: the others may be gone without `bye`. A page
        that shares no document stays known: nothing must be taken over from it.
        """
        session = self._sessions.pop(page, "")
        self._presence_asked_at.pop(page, None)
        self._editors.discard(page)
        if not session:
            return False

        self._supports_printed.pop(page, None)
        self._departed.append(session)
        for departed in [*self._output_writers]:
            if departed not in self._departed:
                del self._output_writers[departed]
        if page == self.followed.page:
            self.followed.is_silent = True

        if not self._sessions:
            return False

        if successor:
            self.lacking.append(LackingPage(successor))
        else:
            self._lacks_successor = True

        return True

    # --- other notebooks on the same kernel --------------------------------------------------

    def add_other_notebook(self, hello: Hello) -> None:
        """Add a page with another path, whose cells are probably of another notebook."""
        if hello.client and hello.client not in (*self._clients, *self._other_clients):
            self._other_clients.append(hello.client)

    def is_of_other_notebook(self, session: str) -> bool:
        """Return True if `session` runs the cells of another notebook than the followed one."""
        return session in self._other_clients and session not in self._clients

    def consider_candidate(self, hello: Hello, stream: str | None, now: float) -> bool:
        """Make a page with another path the candidate if it may be the notebook after a rename.

        That is so if it is a known page, or has the conversation `stream`. But it can also be a
        copy of the notebook, or a script that pretends to be its page.

        Return True if it is the candidate. The pages of the old path must then be asked.
        """
        has_conversation = stream is not None and stream == get_conversation_id(hello.document)
        if not has_conversation and not self.is_known(hello.page):
            return False

        self.followed.set_candidate(hello, now)
        return True

    # --- outputs of running cells ------------------------------------------------------------

    def add_lacking(self, page: str, request: str) -> None:
        """Send `page` the outputs of the cell that `request` runs: it does not show them."""
        lacking_page = LackingPage(page, request)
        if not request or not self.is_known(page):
            return
        if lacking_page not in self.lacking and len(self.lacking) < MAX_LACKING:
            self.lacking.append(lacking_page)

    def supports_printed(self, page: str) -> bool:
        """Return True if `page` can show the outputs of user code in a running cell."""
        return self._supports_printed.get(page, False)

    def has_session(self, page: str, session: str) -> bool:
        """Return True if `page`, which shares a document, has this session."""
        return self._sessions.get(page) == session

    def writes_outputs(self, page: str, session: str) -> bool:
        """Return True if `page` must write the outputs of cells that `session` ran.

        The page that ran them has left. The first page for which this is asked writes them.
        """
        if session not in self._departed:
            return False
        if self._output_writers.get(session) not in self._sessions:
            self._output_writers[session] = page

        return self._output_writers[session] == page

    def must_prove_presence(self, session: str, now: float) -> bool:
        """Return True if the page with `session` must be asked whether it is still open.

        Call it when another page lacks outputs that this page should have written. If it has left,
        its successor should have written them, and is asked instead. A page that sends no message
        within `patience` seconds after the first call has left without `bye`, and is removed.
        """
        page = next((page for page, known in self._sessions.items() if known == session), None)
        if page is None:
            page = self._output_writers.get(session)
        if page not in self._sessions:
            return False

        if page not in self._presence_asked_at:
            self._presence_asked_at[page] = now
            return True

        if now - self._presence_asked_at[page] >= self._patience:
            self.leave(page)

        return False
