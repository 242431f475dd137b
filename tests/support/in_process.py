"""A session without a kernel, in this process: what its cells show is collected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from jp_nb.notebook.notebook_host import NotebookHost
from jp_nb.session.session import Session


class FakeShell:
    """What a session uses of an IPython shell.

    Attributes:
        user_ns: The user's variables.
        shown: What was displayed, as plain text, in order.
    """

    def __init__(self, **user_ns: Any) -> None:
        self.user_ns = user_ns
        self.shown: list[str] = []
        self.display_pub = self
        self.InteractiveTB = SimpleNamespace(mode="", tb=None)

    def publish(self, data: dict[str, str], metadata: Any = None, **_: Any) -> None:
        self.shown.append(data.get("text/plain", ""))


def shell_of(session: Session) -> FakeShell:
    """Return the shell around `session`, which `new_session` made."""
    assert isinstance(session.host, NotebookHost)
    shell: FakeShell = session.host.shell
    return shell


def new_session(**user_ns: Any) -> Session:
    """Return a session in a shell of its own that has these variables."""
    return Session(NotebookHost(FakeShell(**user_ns)))
