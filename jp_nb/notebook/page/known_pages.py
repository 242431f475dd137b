"""The known pages of a notebook, and the page that the kernel follows.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from jp_nb.errors import StorageError
from jp_nb.notebook.page.protocol import MAX_CHUNKS, Hello, Pieces
from jp_nb.record.document import get_conversation_id

MAX_CLIENTS: Final = 64
"""Limit of known sessions. Each reload of a page counts; the oldest is removed."""

MAX_LACKING: Final = 32
"""Limit of requests of pages for outputs. A page repeats a request that is dropped."""

MAX_SENDING_PAGES = 8
"""Limit of pages that send a long record at the same time."""

MAX_KNOWN_PAGES: Final = 64
"""Limit of the pages of a notebook. The oldest one is forgotten: its next `hello` adds it again."""


class Pages:
    """Known pages of a notebook, and the page that is followed. Not thread-safe.

    The kernel follows one page: it delivers the record to it, and reads its record. A candidate
    replaces it if it does not answer within `patience` seconds.

    Attributes:
        hello: The last `hello` of the followed page; None before the first.
        lacking: Pages that may lack outputs of running cells: the id of the page, and that of the
            request that runs the cell ("" for all cells).
        silent: True if the followed page does not answer.
    """

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self.hello: Hello | None = None
        self.hello_count = 0
        self.lacking: deque[tuple[str, str]] = deque(maxlen=MAX_KNOWN_PAGES)
        # Known pages in the order of their first message. True: the page supports printed text.
        self._pages: dict[str, bool] = {}
        self._clients: deque[str] = deque(maxlen=MAX_CLIENTS)  # sessions of the followed notebook
        self._other_clients: deque[str] = deque(maxlen=MAX_CLIENTS)
        self._pieces: dict[str, tuple[Hello, Pieces]] = {}
        self._candidate: tuple[Hello, float] | None = None  # page, and time to follow it
        self.silent = False
        self._sessions: dict[str, str] = {}  # session by page, if pages share a document
        self._checked: dict[str, float] = {}  # since when a page must show that it is open
        self._departed: deque[str] = deque(maxlen=64)  # the latest ended sessions
        self._output_writers: dict[str, str] = {}  # page that writes outputs, by departed session

    def read(self, data: Mapping[str, Any]) -> Hello | None:
        """Parse a `hello` or `chunk`; return None until the last piece has arrived."""
        page = str(data.get("page", ""))
        if data.get("type") == "chunk":
            if page not in self._pieces:
                return None

            hello, pieces = self._pieces[page]
            try:
                is_complete = pieces.add(data.get("i"), data.get("text"))
            except StorageError:
                del self._pieces[page]
                raise

            if not is_complete:
                return None

            del self._pieces[page]
            return replace(hello, has_document=True, document=pieces.document())

        hello = Hello.read(data)
        count = data.get("chunks")
        if count is None:
            return hello
        if not 0 < count <= MAX_CHUNKS:
            raise StorageError("the page sent its record in too many pieces", place="jp")

        self._pieces.pop(page, None)
        self._pieces[page] = (hello, Pieces(count))

        while len(self._pieces) > MAX_SENDING_PAGES:
            del self._pieces[next(iter(self._pieces))]

        return None

    def should_follow(self, hello: Hello) -> bool:
        """Return True if the page shows the followed notebook; two notebooks may share a kernel.

        The first notebook is followed. It may be reloaded. After a rename, it is a candidate.
        """
        first = self.hello
        return first is None or hello.path == first.path

    def is_reader(self, hello: Hello) -> bool:
        """Return True if the page shares a document with the followed page, which writes it.

        If the followed page is silent, the next page that answers is followed.
        """
        first = self.hello
        if first is None or first.page == hello.page or self.silent:
            return False
        if first.read_only and not hello.read_only:
            return False

        return first.collaborative and hello.collaborative and first.path == hello.path

    def join(self, hello: Hello) -> None:
        """Add a page of the notebook."""
        if hello.page not in self._pages:
            self.lacking.append((hello.page, ""))

        self._pages[hello.page] = hello.supports_printed
        if len(self._pages) > MAX_KNOWN_PAGES:
            self._forget_oldest(hello.page)

        if hello.client and hello.client not in self._clients:
            self._clients.append(hello.client)

        if hello.session:
            self._sessions[hello.page] = hello.session
            if hello.session in self._departed:  # the user canceled the closing of the tab
                self._departed.remove(hello.session)

    def _forget_oldest(self, newest: str) -> None:
        followed = self.hello.page if self.hello is not None else ""
        oldest = next(page for page in self._pages if page not in (followed, newest))
        del self._pages[oldest]
        self._sessions.pop(oldest, None)

    def leave(self, page: str) -> bool:
        """Remove `page`; return True if other pages remain, which should send `hello`.

        One of them takes over writing the record and the outputs of the page's cells.
        """
        session = self._sessions.pop(page, "")
        self._checked.pop(page, None)
        if not session:
            return False

        self._pages.pop(page, None)
        self._departed.append(session)
        self._output_writers = {
            k: v for k, v in self._output_writers.items() if k in self._departed
        }
        if self.hello is not None and page == self.hello.page:
            self.silent = True

        self.lacking.extend((other, "") for other in list(self._sessions)[:1])
        return bool(self._sessions)

    def note_lack(self, page: str, request: str) -> None:
        """Note that nothing in `page` shows the outputs of the cell that `request` runs."""
        lack = page, request
        if not request or page not in self._pages:
            return
        if lack not in self.lacking and len(self.lacking) < MAX_LACKING:
            self.lacking.append(lack)

    def note_other(self, hello: Hello) -> None:
        """Note a page of another notebook on the same kernel."""
        if hello.client and hello.client not in (*self._clients, *self._other_clients):
            self._other_clients.append(hello.client)

    def is_of_other_notebook(self, session: str) -> bool:
        """Return True if `session` runs the cells of another notebook than the followed one."""
        return session in self._other_clients and session not in self._clients

    def has_session(self, page: str, session: str) -> bool:
        """Return True if `page`, which shares a document, has this session."""
        return self._sessions.get(page) == session

    def writes_outputs(self, page: str, session: str) -> bool:
        """Return True if `page` must write the outputs of cells that `session` ran."""
        if session not in self._departed:
            return False
        if self._output_writers.get(session) not in self._sessions:
            self._output_writers[session] = page
        return self._output_writers[session] == page

    def supports_printed(self, page: str) -> bool:
        """Return True if `page` can show the outputs of user code in a running cell."""
        return self._pages.get(page, False)

    def check_presence(self, session: str, now: float) -> bool:
        """Return True if a `pull` must tell whether the page with `session` is still open.

        Another page lacks outputs that this page should have written. If it sends no message within
        `patience` seconds after the first call, it has left without `bye`.
        """
        page = next((key for key, value in self._sessions.items() if value == session), None)
        if page is None:
            return False

        since = self._checked.setdefault(page, now)
        if now - since >= self._patience:
            self.leave(page)

        return since == now

    def __contains__(self, page: object) -> bool:
        """Return True if `page` shows the notebook."""
        return page in self._pages

    def note_candidate(self, hello: Hello, stream: str | None, now: float) -> bool:
        """Note a page with another path that may be followed; return True if it is a candidate.

        If it is a known page, or has the conversation `stream`, it is the notebook after a rename,
        or a copy of it, or a script pretends to be it. It is followed if no page of the followed
        notebook answers.
        """
        has_conversation = stream is not None and stream == get_conversation_id(hello.document)
        if not has_conversation and hello.page not in self._pages:
            return False

        self._candidate = (hello, now + self._patience)
        return True

    @property
    def candidate_due(self) -> float | None:
        """The monotonic time at which the candidate is followed, if there is one."""
        return self._candidate[1] if self._candidate else None

    def take_candidate(self, now: float) -> Hello | None:
        """Return the candidate if the followed page did not answer in time."""
        return self._candidate[0] if self._candidate and now >= self._candidate[1] else None

    def note_message(self, page: str) -> bool:
        """Note a message of `page`; return True if it shows the followed notebook."""
        if page not in self._pages:
            return False

        self._checked.pop(page, None)
        self._candidate = None
        if self.hello is not None and page == self.hello.page:
            self.silent = False

        return True

    def follow(self, hello: Hello) -> None:
        """Follow the page that says `hello`."""
        before = self.hello.page if self.hello is not None and self.silent else hello.page
        self.hello = hello
        self.hello_count += 1
        self._candidate = None
        self.silent = False
        self.join(hello)

        if before != hello.page:
            self.leave(before)  # it sent no `bye`
