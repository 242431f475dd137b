"""The user names of a kernel's pages, and the abilities of the pages.

`%load_ext` loads this module, so it imports little.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from jp_nb.text import MAX_USER_NAME_CHARS, spell_invisible

if TYPE_CHECKING:
    from jp_nb.rendering.status import TurnCounts

MAX_SESSIONS: Final = 64
"""Limit of known pages. Each reload of a page counts; the oldest is removed."""
_KERNEL_ATTRIBUTE: Final = "_jp_nb_collaborators"

ShowEnd = Callable[[Mapping[str, Any], "TurnCounts"], None]


class Collaborators:
    """The user names of a kernel's pages, by the session in the header of their messages.

    A page can claim any name, so no permission depends on it. Thread-safe.

    Attributes:
        has_page: True after a page sent `hello` or showed a form.
        find_input: Returns True if a page can show an input box for this request, and None if no
            page can tell. The storage backend of an open notebook sets it.
        show_end: Shows the end of a turn below the cell of this request, in a page that can do so.
            The storage backend of an open notebook sets it.
    """

    def __init__(self) -> None:
        self.has_page = False
        self.find_input: Callable[[Mapping[str, Any]], bool | None] = lambda request: None
        self.show_end: ShowEnd = lambda request, end: None
        self._lock = Lock()  # `hello` arrives in the control thread
        self._names: dict[str, str] = {}

    @classmethod
    def of(cls, kernel: Any) -> Collaborators:
        """Return the collaborators of `kernel`."""
        collaborators = getattr(kernel, _KERNEL_ATTRIBUTE, None)
        if not isinstance(collaborators, cls):
            collaborators = cls()
            setattr(kernel, _KERNEL_ATTRIBUTE, collaborators)
        return collaborators

    def add_page(self, session: str, name: str | None) -> None:
        """Add a page that sent `hello`, with the name of its user, if the page has one."""
        self.has_page = True
        with self._lock:
            self._names.pop(session, None)
            if session and name is not None:
                self._names[session] = name
                while len(self._names) > MAX_SESSIONS:
                    del self._names[next(iter(self._names))]

    def sender_of(self, message: Mapping[str, Any]) -> str | None:
        """Return the name of the user whose page sent `message`, if it is known."""
        session = (message.get("header") or {}).get("session")
        with self._lock:
            return self._names.get(session) if isinstance(session, str) else None


def read_user_name(value: Any) -> str | None:
    """Return a user name from a page, bounded and escaped; None if it is empty."""
    text = value[: 4 * MAX_USER_NAME_CHARS].strip() if isinstance(value, str) else ""
    return spell_invisible(text[:MAX_USER_NAME_CHARS])[: 2 * MAX_USER_NAME_CHARS] or None
