"""Registry of the kernel's open pages: their users' names, and two requests to them.

The storage backend of an open notebook (`page/live_store.py`) receives the pages' messages and
fills in this registry, one for each kernel. Prompts and displays use it, and so need not know the
storage backend. `%load_ext` loads this module, so it imports little.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jp_nb.rendering.turn_counts import TurnCounts

MAX_SESSIONS: Final = 64
"""Limit of known pages. Each reload of a page counts; the oldest is removed."""

_KERNEL_ATTRIBUTE: Final = "_jp_nb_pages"

CanShowInput = Callable[[Mapping[str, Any]], bool | None]
ShowTurnEnd = Callable[[Mapping[str, Any], "TurnCounts"], None]


class KernelPages:
    """The pages of a kernel: the names of their users, and requests to the pages. Thread-safe.

    A page can claim any name, so no permission depends on it.

    Attributes:
        has_page: True after a page sent `hello` or showed a form.
        can_show_input: Returns True if a page can show an input box for this request, and None if
            no page can tell. The storage backend of an open notebook sets it.
        show_turn_end: Shows the end of a turn below the cell of this request, in a page that can do
            so. The storage backend of an open notebook sets it.
    """

    def __init__(self) -> None:
        self.has_page = False
        self.can_show_input: CanShowInput = _cannot_tell
        self.show_turn_end: ShowTurnEnd = _show_nothing
        self._lock = Lock()  # `hello` arrives in the control thread
        # Names of users, by the Jupyter session in the header of their page's messages.
        self._names: dict[str, str] = {}
        self._answered = ""  # session of the page that sent the last answer of a form

    @classmethod
    def of(cls, kernel: Any) -> KernelPages:
        """Return the pages of `kernel`."""
        pages = getattr(kernel, _KERNEL_ATTRIBUTE, None)
        if not isinstance(pages, cls):
            pages = cls()
            setattr(kernel, _KERNEL_ATTRIBUTE, pages)
        return pages

    def set_requests(self, can_show_input: CanShowInput, show_turn_end: ShowTurnEnd) -> None:
        """Use these functions of the storage backend for requests to the pages."""
        self.can_show_input = can_show_input
        self.show_turn_end = show_turn_end

    def reset_requests(self, can_show_input: CanShowInput, show_turn_end: ShowTurnEnd) -> None:
        """Stop using these functions, unless a later storage backend has set its own.

        Methods of one object are equal, so a backend passes the same methods as to `set_requests`.
        """
        if self.can_show_input == can_show_input:
            self.can_show_input = _cannot_tell
        if self.show_turn_end == show_turn_end:
            self.show_turn_end = _show_nothing

    def add_page(self, session: str, name: str | None) -> None:
        """Add a page that sent `hello`, with the name of its user, if the page has one."""
        self.has_page = True
        with self._lock:
            self._names.pop(session, None)
            if session and name is not None:
                self._names[session] = name

            while len(self._names) > MAX_SESSIONS:
                oldest = next(iter(self._names))
                del self._names[oldest]

    def note_answer(self, message: Mapping[str, Any]) -> None:
        """Note that a page sent the answer of a form with `message`."""
        session = (message.get("header") or {}).get("session")
        with self._lock:
            self._answered = session if isinstance(session, str) else ""

    @property
    def answered_session(self) -> str:
        """The session of the page that sent the last answer of a form; "" if none did."""
        with self._lock:
            return self._answered

    def list_other_users(self, session: str) -> list[str]:
        """Return the names of the users of other pages than that of `session`."""
        with self._lock:
            own = self._names.get(session)
            names = [name for name in self._names.values() if name != own]
        return list(dict.fromkeys(names))

    def find_sender(self, message: Mapping[str, Any]) -> str | None:
        """Return the name of the user whose page sent `message`, if it is known."""
        session = (message.get("header") or {}).get("session")
        with self._lock:
            return self._names.get(session) if isinstance(session, str) else None


def _cannot_tell(request: Mapping[str, Any]) -> bool | None:
    return None


def _show_nothing(request: Mapping[str, Any], end: TurnCounts) -> None:
    pass
