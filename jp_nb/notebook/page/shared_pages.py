"""The pages that share one document, and the one that writes the outputs of each cell into it.

Only the page that ran a cell writes the cell's outputs, because two pages would show each output
twice. If that page has left, another page must write them, its *successor*: the first page that
lacks these outputs, because it has opened, or because it asks for them. It is the successor until
it leaves too.

The message that runs a cell names the page by its *session*. All other messages name it by its id,
which is `page` here. `OutputSender` (`output_sender.py`) asks which page writes.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

MAX_DEPARTED: Final = 64
"""Limit of the sessions of pages that have left; the oldest is removed."""


@dataclass(slots=True)
class _SharedPage:
    """An open page.

    Attributes:
        session: The session of the page.
        awaited_since: The monotonic time since when the page must show that it is still open,
            because it should have written outputs. None if no message is awaited.
    """

    session: str
    awaited_since: float | None = None


class SharedPages:
    """The open pages that share the document, and those that have left. Not thread-safe."""

    def __init__(self) -> None:
        self._open: dict[str, _SharedPage] = {}  # by the ids of the pages

        # The sessions of pages that have left. For each, the id of the successor that writes the
        # outputs of its cells, once there is one.
        self._departed: deque[str] = deque(maxlen=MAX_DEPARTED)
        self._successors: dict[str, str] = {}

    def __contains__(self, page: str) -> bool:
        """Return True if `page` is open and shares the document."""
        return page in self._open

    @property
    def are_open(self) -> bool:
        """True if at least one page is open."""
        return bool(self._open)

    def join(self, page: str, session: str) -> None:
        """Add `page`, or update its session."""
        known = self._open.setdefault(page, _SharedPage(session))
        known.session = session
        if session in self._departed:  # the user canceled the closing of the tab
            self._departed.remove(session)

    def leave(self, page: str) -> None:
        """Remove `page`: from now on, another page can become its successor."""
        left = self._open.pop(page)
        self._departed.append(left.session)
        # The limit may have removed a session from `_departed`. It needs no successor any more.
        for session in [*self._successors]:
            if session not in self._departed:
                del self._successors[session]

    def forget(self, page: str) -> None:
        """Remove `page`, which may still be open, so that its outputs get no successor."""
        self._open.pop(page, None)

    def has_session(self, page: str, session: str) -> bool:
        """Return True if `page` is open and has this session."""
        known = self._open.get(page)
        return known is not None and known.session == session

    # --- outputs -----------------------------------------------------------------------------

    def take_over_outputs(self, page: str, session: str) -> bool:
        """Let `page` write the outputs of the cells that `session` ran, if no page does that.

        Return True if `page` must write them: the page that ran the cells has left, and no open
        page has taken over, or `page` is the one that has.
        """
        if session not in self._departed:
            return False

        if self._successors.get(session) not in self._open:
            self._successors[session] = page

        return self._successors[session] == page

    def find_writer(self, session: str) -> str | None:
        """Return the open page that should write the outputs of the cells that `session` ran.

        It is the page of `session`, or its successor. None if neither is open.
        """
        for page, known in self._open.items():
            if known.session == session:
                return page

        successor = self._successors.get(session)
        return successor if successor in self._open else None

    def await_message(self, page: str, now: float) -> float | None:
        """Note that an open page must show, by any message, that it is still open.

        Return the seconds since the first call; None if this is the first one.
        """
        known = self._open[page]
        if known.awaited_since is None:
            known.awaited_since = now
            return None

        return now - known.awaited_since

    def record_message(self, page: str) -> None:
        """Record that `page` sent a message: none is awaited any more."""
        if page in self._open:
            self._open[page].awaited_since = None
