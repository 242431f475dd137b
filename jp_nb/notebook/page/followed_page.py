"""The page that the kernel follows: it reads that page's record, and delivers entries to it.

Several pages can send `hello`: windows of the notebook, pages of collaborators, and those of other
notebooks on the same kernel. The first one is followed, and later each page with the same path that
sends `hello`, unless it is a *reader*: in real-time collaboration, several pages share one document
of the server. The followed page writes the record into it, and the other pages only read it. Here,
the `page` of a message is the id of a page.

A page with another path may be the same notebook after a rename. It becomes the *candidate*. It is
followed when no page has said the old path for `patience` seconds.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

from jp_nb.notebook.page.hello import Hello


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A page with another path, and the monotonic time at which it is followed."""

    hello: Hello
    due_at: float


class FollowedPage:
    """The followed page, and the candidate that may replace it. Not thread-safe.

    Attributes:
        hello: The last `hello` of the followed page; None before the first.
        hello_count: Number of messages `hello` of followed pages so far.
        is_silent: True if the followed page did not answer in time, or has left.
    """

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self.hello: Hello | None = None
        self.hello_count = 0
        self.is_silent = False
        self._candidate: _Candidate | None = None

    @property
    def page(self) -> str:
        """The id of the followed page; "" before the first."""
        return self.hello.page if self.hello is not None else ""

    def has_path(self, path: str) -> bool:
        """Return True if a page with this path shows the notebook. The first page defines it."""
        return self.hello is None or path == self.hello.path

    def is_reader(self, hello: Hello) -> bool:
        """Return True if the page that says `hello` is not followed, because it is a reader.

        No page is a reader if the followed page is silent, or cannot write and this page can.
        """
        followed = self.hello
        if followed is None or followed.page == hello.page or self.is_silent:
            return False
        if followed.read_only and not hello.read_only:
            return False

        both_collaborate = followed.collaborative and hello.collaborative
        return both_collaborate and followed.path == hello.path

    def follow(self, hello: Hello) -> None:
        """Follow the page that says `hello`."""
        self.hello = hello
        self.hello_count += 1
        self.is_silent = False
        self._candidate = None

    def record_message(self, page: str, path: str | None) -> None:
        """Record that the page with the id `page` has sent a message. It shows the notebook.

        Only `hello` names a `path`. If it is that of the notebook, the notebook was not renamed,
        and there is no candidate any more. Other messages do not show this: a page that was renamed
        sends them as well.
        """
        if page == self.page:
            self.is_silent = False
        if path is not None and self.has_path(path):
            self._candidate = None

    def set_candidate(self, hello: Hello, now: float) -> None:
        """Make the page the candidate: it is followed if no page of the old path answers."""
        self._candidate = _Candidate(hello, now + self._patience)

    @property
    def candidate_due(self) -> float | None:
        """The monotonic time at which the candidate is followed, if there is one."""
        return self._candidate.due_at if self._candidate is not None else None

    def find_due_candidate(self, now: float) -> Hello | None:
        """Return the candidate if the followed page did not answer in time."""
        if self._candidate is None or now < self._candidate.due_at:
            return None
        return self._candidate.hello
