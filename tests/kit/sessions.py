"""Sessions of notebooks without a kernel: their settings, `%jp` lines, and sent requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from jp_nb.config.directives import Directive
from jp_nb.notebook.commands import run_subcommand
from jp_nb.notebook.commands.ask_commands import send_request
from jp_nb.notebook.host import NotebookHost
from jp_nb.session import set_current
from jp_nb.session.past_turns.traced_requests import TracedRequests
from jp_nb.session.session import Session
from jp_nb.toolkit.function_tools.tool_registry import REGISTRY


def new_session(
    shell: Any = None, *, host: Any = None, days: int = 0, previous: Session | None = None
) -> Session:
    """Return a session of the notebook in `shell`, or of `host`, that begins in so many `days`."""

    def later() -> datetime:
        return datetime.now(UTC) + timedelta(days=days)

    if host is None:
        host = NotebookHost(shell)
    return Session(host, clock=later, previous=previous)


def run_jp(session: Session, shell: Any, line: str, request: str | None = None) -> None:
    """Run `%jp LINE` in `shell`, or the cell `%%jp LINE` with the text of a `request`."""
    if request is not None:
        send_request(shell, session, line, request)
        return

    name, _, rest = line.partition(" ")
    run_subcommand(shell, session, name, rest)


def directive(kind: Any, text: str) -> Any:
    """Return the change of an option: `directive("cfg", "user.name=Ada")` is `-c user.name=Ada`."""
    return Directive(kind, text)


@contextmanager
def current_session(session: Any) -> Iterator[None]:
    """Let `jp.query` use `session` in the block. Tools that the block defines are removed."""
    known = {*REGISTRY.all()}
    set_current(session)
    try:
        yield
    finally:
        set_current(None)
        for name in {*REGISTRY.all()} - known:
            REGISTRY.remove(name)


def find_request(session: Any, name: str | None = None) -> dict[str, Any]:
    """Return the request that `%jp request NAME` describes: its `name`, `body`,
    `remarks`, and the number of its appended `changes`.
    """
    found = TracedRequests(session.active, session.turns).find(name)
    changes = len(found.sent.changes)
    body = found.sent.body
    return {"name": found.name, "body": body, "changes": changes, "remarks": found.remarks}
