"""Sessions of notebooks without a kernel: their settings, `%jp` lines, and sent requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from jp_nb.config.directives import Directive
from jp_nb.notebook.commands import run_subcommand, send_request
from jp_nb.notebook.host import NotebookHost
from jp_nb.session import set_current
from jp_nb.session.error_request import ErrorRequest
from jp_nb.session.host import LastError
from jp_nb.session.requests import PastRequests
from jp_nb.session.session import Session
from jp_nb.toolkit.python import REGISTRY


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


def run_jp_cell(session: Session, shell: Any, line: str, text: str) -> None:
    """Run the cell `%%jp LINE` with the request `text` in `shell`."""
    send_request(shell, session, line, text)


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
    found = PastRequests(session.active, session.turns).find(name)
    changes = len(found.sent.changes)
    body = found.sent.body
    return {"name": found.name, "body": body, "changes": changes, "remarks": found.remarks}


def describe_error(
    error: BaseException,
    labels: Mapping[str, str] | None = None,
    *,
    cell: str | None = None,
    names: Mapping[str, Any] | None = None,
    question: str = "",
    max_chars: int = 20_000,
) -> str:
    """Return the text that `%jp why` sends about `error`.

    `labels` has the label of each cell by the name of its file, `cell` the source that the user
    wrote, and `names` the variables of the notebook.
    """
    last = LastError(error, (labels or {}).get, cell)
    return ErrorRequest(last, names or {}).write(question, room=max_chars)
