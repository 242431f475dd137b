"""Who is who among the people that share a notebook, as their pages say.

A page whose document others have, too, says hello with the name of its user and the session that
stands in the header of whatever it sends. So what arrives has a name, whichever page sent it: a
click, a change of a widget, a request to run a cell. A name is what a page claims; nothing is
permitted because of one.

Source: `docs/protocol.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any, Final

from jp_nb.safe_text import MAX_NAME_CHARS, spell_unseen

MAX_SESSIONS: Final = 64
"""Pages that are known, each reload of one counted: the oldest is forgotten."""


class People:
    """The names of a kernel's pages, by session. Safe from any thread.

    Attributes:
        has_page: True once a page said hello or showed a form: a front end that shows forms exists.
    """

    def __init__(self) -> None:
        self.has_page = False
        self._lock = Lock()  # hellos come in the control thread
        self._names: dict[str, str] = {}

    @classmethod
    def of(cls, kernel: Any) -> People:
        """Return those of `kernel`."""
        found = getattr(kernel, _KEPT, None)
        if not isinstance(found, cls):
            found = cls()
            setattr(kernel, _KEPT, found)
        return found

    def greet(self, session: str, name: str | None) -> None:
        """Note that a page said hello, and the user name of its `session`, if it has one."""
        self.has_page = True
        with self._lock:
            self._names.pop(session, None)
            if session and name is not None:
                self._names[session] = name
                while len(self._names) > MAX_SESSIONS:
                    del self._names[next(iter(self._names))]

    def sender_of(self, message: Mapping[str, Any]) -> str | None:
        """Return whose page sent `message`; None if none said."""
        session = (message.get("header") or {}).get("session")
        with self._lock:
            return self._names.get(session) if isinstance(session, str) else None


_KEPT: Final = "_jp_nb_people"


def read_name(value: Any) -> str | None:
    """Return the name that a page gave, in one line that hides nothing; None if it gave none."""
    text = value[: 4 * MAX_NAME_CHARS].strip() if isinstance(value, str) else ""
    return spell_unseen(text[:MAX_NAME_CHARS])[: 2 * MAX_NAME_CHARS] or None
