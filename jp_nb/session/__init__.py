"""The session of this kernel, for code in its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jp_nb.errors import UsageError

if TYPE_CHECKING:
    from jp_nb.session.session import Session

_current: Session | None = None


def get_session() -> Session | None:
    """Return the kernel's session; None if the extension is not loaded."""
    return _current


def require_session() -> Session:
    """Return the kernel's session.

    Raises:
        UsageError: The extension is not loaded.
    """
    if _current is None:
        raise UsageError("jp_nb is not loaded in this kernel: run %load_ext jp_nb")
    return _current


def set_current(session: Session | None) -> None:
    """Set the kernel's session; None removes it."""
    global _current
    _current = session
