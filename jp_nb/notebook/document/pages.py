"""The pages that show this kernel's notebook, and which of them the record follows. Pure.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jp_nb.notebook.document.wire import Hello, Pieces
from jp_nb.record.jp_object import conversation_id

MAX_PAGES = 8
"""That send a long record at the same time."""
MAX_LEFT = 64
"""Pages that said goodbye and may have left cells that run."""


class Pages:
    """Pages that said hello. Not safe from several threads at once.

    Args:
        patience: Seconds that pages of the notebook have to answer before another one that holds
            the same conversation is followed.

    Attributes:
        hello: What the page said that is followed; None before the first.
        hellos: How often one was followed.
        newcomers: Pages that may lack what running cells show.
    """

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self.hello: Hello | None = None
        self.hellos = 0
        self.newcomers: deque[str] = deque()
        self._names: set[str] = set()
        self._pieces: dict[str, tuple[Hello, Pieces]] = {}
        self._suitor: tuple[Hello, float] | None = None  # and when it is followed
        self._silent = False  # the page that is followed
        self._sessions: dict[str, str] = {}  # of pages that share a document
        self._left: deque[str] = deque(maxlen=MAX_LEFT)  # the sessions of those that are gone
        self._substitutes: dict[str, str] = {}  # the page that does it, by session

    def read(self, data: Mapping[str, Any]) -> Hello | None:
        """Return the hello that `data` is or completes; None while pieces of it are to come."""
        if data.get("type") == "chunk":
            return self._complete(data)
        hello, count = Hello.read(data), data.get("chunks")
        if not (isinstance(count, int) and count > 0):
            return hello
        self._pieces.pop(hello.page, None)
        self._pieces[hello.page] = (hello, Pieces(count))
        while len(self._pieces) > MAX_PAGES:
            del self._pieces[next(iter(self._pieces))]
        return None

    def _complete(self, data: Mapping[str, Any]) -> Hello | None:
        page = str(data.get("page", ""))
        if page not in self._pieces:
            return None
        hello, pieces = self._pieces[page]
        if not pieces.add(data.get("i"), data.get("text")):
            return None
        del self._pieces[page]
        return replace(hello, has_document=True, document=pieces.document())

    def are_of_the_notebook(self, hello: Hello) -> bool:
        """Return whether to follow the page that says `hello`: two notebooks may share a kernel.

        The one that was there first is followed. It may be renamed (same page), or reloaded or
        opened again (same path).
        """
        first = self.hello
        return first is None or hello.page in self._names or hello.path == first.path

    def only_reads(self, hello: Hello) -> bool:
        """Return whether the page shares its document with the one that is followed: that writes.

        If that one does not answer, the next one that does is followed.
        """
        first = self.hello
        if first is None or first.page == hello.page or self._silent:
            return False
        if first.read_only and not hello.read_only:
            return False
        return first.collaborative and hello.collaborative and first.path == hello.path

    def join(self, hello: Hello) -> None:
        """Note a page that only reads."""
        if hello.page not in self._names:
            self.newcomers.append(hello.page)
        self._names.add(hello.page)
        if hello.session:
            self._sessions[hello.page] = hello.session
            if hello.session in self._left:  # it stayed
                self._left.remove(hello.session)

    def leave(self, page: str) -> bool:
        """Note that `page` is gone; return whether another one is there to be asked for a sign.

        That one takes over: what the page wrote, and what the cells show that it asked for.
        """
        session = self._sessions.pop(page, "")
        if not session:
            return False
        self._names.discard(page)
        self._left.append(session)
        self._substitutes = {k: v for k, v in self._substitutes.items() if k in self._left}
        if self.hello is not None and page == self.hello.page:
            self._silent = True
        self.newcomers.extend(list(self._sessions)[:1])
        return bool(self._sessions)

    def puts_outputs(self, page: str, session: str) -> bool:
        """Return whether `page` puts in the outputs of what was asked in `session`.

        One page does it for all that share the document: it that asked, or once that is gone
        another one.
        """
        if session not in self._left:
            return False
        if self._substitutes.get(session) not in self._sessions:
            self._substitutes[session] = page
        return self._substitutes[session] == page

    def writer_is_silent(self) -> None:
        """Note that the page that is followed does not answer."""
        self._silent = True

    def court(self, hello: Hello, stream: str | None, now: float) -> bool:
        """Note a page under another path; return whether the others are to be asked for a sign.

        If it has the conversation `stream`, it may be the notebook, renamed and reloaded, or a copy
        of it: it is followed if no page of the first one answers.
        """
        if stream is None or stream != conversation_id(hello.document):
            return False
        self._suitor = (hello, now + self._patience)
        return True

    @property
    def suitor_due(self) -> float | None:
        """The time at which the page under another path is followed, if there is one."""
        return self._suitor[1] if self._suitor else None

    def take_suitor(self, now: float) -> Hello | None:
        """Return the page under another path if the first one did not answer in time."""
        return self._suitor[0] if self._suitor and now >= self._suitor[1] else None

    def heard(self, page: str) -> bool:
        """Note that something came from `page`; return whether the notebook's own answers."""
        if page not in self._names:
            return False
        self._suitor = None
        if self.hello is not None and page == self.hello.page:
            self._silent = False
        return True

    def follow(self, hello: Hello) -> None:
        """Follow the page that says `hello`."""
        before = self.hello.page if self.hello is not None and self._silent else hello.page
        self.hello = hello
        self.hellos += 1
        self._suitor = None
        self._silent = False
        self.join(hello)
        if before != hello.page:
            self.leave(before)  # without a goodbye
