"""The pages that the kernel knows: those of the notebook, and of others on the same kernel.

A page *joins* with its first `hello`. A page that shares its document *leaves* with `bye` or when
it stops answering; another one stays known. One page of the notebook is followed
(`followed_page.py`). The others are second windows, and pages of collaborators that share one
document. A page with another path may be the *candidate*: the notebook after a rename.

A page is known by two names. Its id is in each message of the protocol. Its *session* is in the
header of each Jupyter message, also in the request that runs a cell. So it tells which page has run
a cell. A page that shares a document has it also as the `shared_session` of its `Hello`.

A page may lack the outputs of running cells, because it has opened later. `lacking_pages` has these
pages until the outputs are sent to them. In a shared document, the page that ran a cell writes the
cell's outputs. If it has left, a page that lacks them must write them, its *successor*
(`shared_pages.py`).

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from jp_nb.notebook.page.followed_page import FollowedPage
from jp_nb.notebook.page.hello import Hello
from jp_nb.notebook.page.shared_pages import SharedPages
from jp_nb.record.documents.record_shape import get_conversation_id

MAX_KNOWN_PAGES: Final = 64
"""Limit of the pages of a notebook. The oldest one is forgotten: its next `hello` adds it again."""

MAX_CLIENTS: Final = 64
"""Limit of known sessions. Each reload of a page counts; the oldest is removed."""

MAX_LACKING: Final = 32
"""Limit of requests of pages for outputs. A page repeats a request that is dropped."""


@dataclass(frozen=True, slots=True)
class LackingPage:
    """A page that may lack outputs: of the cell that `request` runs, or of all cells if ""."""

    page: str
    request: str = ""


@dataclass(slots=True)
class _KnownPage:
    """A page of the notebook.

    Attributes:
        supports_printed: True if the page can show the text that user code has printed.
        is_editor: True if the page shares a document, and can edit its cells.
    """

    supports_printed: bool
    is_editor: bool = False


class Pages:
    """Known pages of a notebook, and the page that is followed.

    Not thread-safe: hold the lock of the link in all methods.

    Attributes:
        followed: The page that the kernel follows.
        shared: Those of the pages that share a document.
        lacking_pages: Pages to which the outputs of running cells must be sent, oldest first.
        has_met_page: True once a page has shown the notebook, also if it has left since.
    """

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self.has_met_page = False
        self.followed = FollowedPage(patience=patience)
        self.shared = SharedPages()
        self.lacking_pages: deque[LackingPage] = deque(maxlen=MAX_KNOWN_PAGES)

        # Pages of the notebook by their ids, in the order of their first message.
        self._known: dict[str, _KnownPage] = {}

        # Sessions in the message headers of pages, of this notebook and of others.
        self._sessions: deque[str] = deque(maxlen=MAX_CLIENTS)
        self._other_sessions: deque[str] = deque(maxlen=MAX_CLIENTS)

        # True if a page has left, and no page has joined since that can be its successor.
        self._lacks_successor = False

    def is_known(self, page: str) -> bool:
        """Return True if `page` shows the notebook."""
        return page in self._known

    def record_message(self, page: str, path: str | None = None) -> bool:
        """Record that `page` sent a message; return True if it shows the notebook.

        A message `hello` also has the `path` that the page shows.
        """
        if not self.is_known(page):
            return False

        self.shared.record_message(page)
        self.followed.record_message(page, path)
        return True

    # --- joining and leaving -----------------------------------------------------------------

    def follow(self, hello: Hello) -> None:
        """Follow the page that says `hello`. A followed page that is silent leaves."""
        was_silent = self.followed.is_silent
        previous = self.followed.page
        self.followed.follow(hello)
        self.join(hello)

        if was_silent and previous != hello.page:
            self.leave(previous, successor=hello.page)  # it sent no `bye`

    def join(self, hello: Hello) -> None:
        """Add a page of the notebook, or update it."""
        self.has_met_page = True
        # A new page does not show the outputs of running cells, and a successor must write them.
        if not self.is_known(hello.page) or self._lacks_successor:
            self.lacking_pages.append(LackingPage(hello.page))
            self._lacks_successor = False

        known = self._known.setdefault(hello.page, _KnownPage(hello.supports_printed))
        known.supports_printed = hello.supports_printed
        shares_document = bool(hello.shared_session)
        known.is_editor = shares_document and hello.supports_edits and not hello.read_only
        if len(self._known) > MAX_KNOWN_PAGES:
            self._forget_oldest(hello.page)

        if hello.session and hello.session not in self._sessions:
            self._sessions.append(hello.session)

        if shares_document:
            self.shared.join(hello.page, hello.shared_session)

    def find_editor(self, session: str) -> str | None:
        """Return the page of `session` if it shares the document and can edit its cells."""
        for page, known in self._known.items():
            if known.is_editor and self.shared.has_session(page, session):
                return page
        return None

    def _forget_oldest(self, newest: str) -> None:
        kept = (self.followed.page, newest)
        oldest = next(page for page in self._known if page not in kept)
        del self._known[oldest]
        self.shared.forget(oldest)

    def leave(self, page: str, successor: str = "") -> bool:
        """Remove `page`; return True if other pages remain, which should send `hello`.

        The `successor` takes over writing the record and the outputs of the page's cells. By
        default, it is the first page that joins again (`join`), because the caller then asks all
        pages for a `hello`: the others may be gone without `bye`. A page that shares no document
        stays known: nothing must be taken over from it.
        """
        if page not in self.shared:
            return False

        del self._known[page]
        self.shared.leave(page)
        if page == self.followed.page:
            self.followed.is_silent = True

        if not self.shared.are_open:
            return False

        if successor:
            self.lacking_pages.append(LackingPage(successor))
        else:
            self._lacks_successor = True

        return True

    # --- other notebooks on the same kernel --------------------------------------------------

    def add_other_notebook(self, hello: Hello) -> None:
        """Add a page with another path, whose cells are probably of another notebook."""
        if hello.session and hello.session not in (*self._sessions, *self._other_sessions):
            self._other_sessions.append(hello.session)

    def is_of_other_notebook(self, session: str) -> bool:
        """Return True if `session` runs the cells of another notebook than the followed one."""
        return session in self._other_sessions and session not in self._sessions

    def consider_candidate(self, hello: Hello, conversation_id: str | None, now: float) -> bool:
        """Make a page with another path the candidate if it may be the notebook after a rename.

        That is so if it is a known page, or has this conversation. But it can also be a
        copy of the notebook, or a script that pretends to be its page.

        Return True if it is the candidate. The pages of the old path must then be asked.
        """
        shown_id = get_conversation_id(hello.document)
        has_conversation = conversation_id is not None and conversation_id == shown_id
        if not has_conversation and not self.is_known(hello.page):
            return False

        self.followed.set_candidate(hello, now)
        return True

    # --- outputs of running cells ------------------------------------------------------------

    def add_lacking_page(self, page: str, request: str) -> None:
        """Note that `page` does not show the outputs of the cell that `request` runs.

        The requests have a lower limit than the queue, so that pages which join find a place.
        """
        lacking_page = LackingPage(page, request)
        if not request or not self.is_known(page):
            return
        if lacking_page not in self.lacking_pages and len(self.lacking_pages) < MAX_LACKING:
            self.lacking_pages.append(lacking_page)

    def take_lacking_page(self) -> LackingPage | None:
        """Remove and return the first page to which outputs must be sent, if there is one."""
        return self.lacking_pages.popleft() if self.lacking_pages else None

    def supports_printed(self, page: str) -> bool:
        """Return True if `page` can show the outputs of user code in a running cell."""
        known = self._known.get(page)
        return known is not None and known.supports_printed

    def note_missing_outputs(self, session: str, now: float) -> bool:
        """Note that a page lacks outputs that the page with `session` should have written.

        Return True if that page must now be asked if it is still open. If it has left, its
        successor should have written them, and is asked instead. A page that sends no message
        within `patience` seconds after the first call has left without `bye`, and is removed.
        """
        writer = self.shared.find_writer(session)
        if writer is None:
            return False

        waited = self.shared.await_message(writer, now)
        if waited is None:  # the first call: the page has not been asked yet
            return True

        if waited >= self._patience:
            self.leave(writer)

        return False
