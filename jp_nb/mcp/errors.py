"""Errors of the connection to an MCP server.

`StartError` and `UnreadRequestError` stay inside the package. The others reach the tools and the
user. Their texts contain no secrets. Long reasons of `ServerError` and `ServerNotStarted` are cut.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from jp_nb.errors import JpNbError
from jp_nb.text import one_line, plain

MAX_SERVER_ERROR_CHARS = 4_000
"""Maximum length of a server's error message; the rest is cut."""
STDERR_LINES_SHOWN = 20
"""Lines of a server's stderr in the message about its failed start."""


class SignInError(JpNbError):
    """Raised if signing in to a server fails. The message has the reason, and no token."""


class ServerError(JpNbError):
    """Raised if a call to a server fails, or a request about its tools.

    Attributes:
        server: Name of the server in the configuration.
        tool: Name of the tool, or "" if the request was about none.
        code: Error code of JSON-RPC; 0 if the server sent none.
        message: The reason, without secrets. It may be the server's text.
        data: Further data of the server's error; None if there is none.
        is_lost: True if the server may have run the call, and its answer was lost. The session of
            the server sets it.
    """

    def __init__(
        self, server: str, tool: str, message: str, *, code: int = 0, data: JsonValue = None
    ) -> None:
        self.server = server
        self.tool = tool
        self.code = code
        self.message = plain(message, limit=MAX_SERVER_ERROR_CHARS)
        self.data = data
        self.is_lost = False
        place = f"the MCP server {server}"
        if tool:
            place = f"{one_line(tool, limit=200)} of {place}"
        super().__init__(f"{place}: {self.message}")


class ServerNotStarted(JpNbError):  # noqa: N818 - the user's words for it
    """Raised if a server cannot be started or reached.

    Attributes:
        server: Name of the server in the configuration.
        reason: The cause, without secrets.
        command: The command line or address, without secrets.
        stderr: The last lines that the server wrote to stderr.
    """

    def __init__(self, server: str, reason: str, command: str, stderr: Sequence[str] = ()) -> None:
        self.server = server
        self.reason = plain(reason, limit=MAX_SERVER_ERROR_CHARS)
        self.command = command
        self.stderr = tuple(stderr[-STDERR_LINES_SHOWN:])
        lines = [f"the MCP server {server} did not start: {self.reason} ({command})"]
        if self.stderr:
            lines += ["Its last lines:", *self.stderr]
        super().__init__("\n".join(lines))


class StartError(Exception):
    """A server cannot be started or reached; the message is the reason, without secrets."""


class UnreadRequestError(Exception):
    """The server refused a request unread, so it may be sent again.

    Attributes:
        error: The error for the user, if it is not sent again.
        is_session_lost: True if a new session is necessary first; False if the tools have to be
            listed first.
    """

    def __init__(self, error: ServerError, *, is_session_lost: bool) -> None:
        super().__init__()
        self.error = error
        self.is_session_lost = is_session_lost
