"""Sessions of notebooks without a kernel, and their `%jp` lines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from jp_nb.notebook.commands import run_subcommand
from jp_nb.notebook.host import NotebookHost
from jp_nb.session.session import Session


def new_session(
    shell: Any = None, *, host: Any = None, days: int = 0, previous: Session | None = None
) -> Session:
    """Return a session of the notebook in `shell`, or of `host`, that begins in so many `days`."""

    def later() -> datetime:
        return datetime.now(UTC) + timedelta(days=days)

    if host is None:
        host = NotebookHost(shell)
    return Session(host, clock=later, previous=previous)


def run_jp(session: Session, shell: Any, line: str) -> None:
    """Run `%jp LINE` in `shell`."""
    name, _, rest = line.partition(" ")
    run_subcommand(shell, session, name, rest)
