"""Values that the connection to an MCP server exchanges with the rest of the program.

They are plain Python and JSON, so that other modules do not import the library `mcp`. Each text in
them comes from a server: treat it as hostile.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from pydantic import JsonValue

from jp_nb.config.redactor import Redactor
from jp_nb.config.secrets import NOT_SHOWN, hide_secrets, is_secret
from jp_nb.errors import JpNbError
from jp_nb.json_values import JsonObject
from jp_nb.text import one_line, plain

Era = Literal["2025", "2026"]
"""Generation of the protocol. Servers of 2025 start with a handshake and send requests of their
own; servers of 2026 keep no session, and return their questions as results."""
ConnectionState = Literal["new", "starting", "running", "ended", "failed"]
AnswerAction = Literal["accept", "decline", "cancel"]
QuestionMode = Literal["form", "url"]

MAX_SERVER_ERROR_CHARS = 4_000
"""Maximum length of a server's error message; the rest is cut."""
STDERR_LINES_SHOWN = 20
"""Lines of a server's stderr in the message about its failed start."""


@dataclass(frozen=True, slots=True)
class StdioLaunch:
    """The command of a server on this computer, with resolved variables.

    Attributes:
        environment: Variables in addition to the short list that each server inherits.
        folder: Working directory; None for that of the kernel.
        secrets: Values that are hidden in messages, such as those of `${VAR}`.
    """

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def __repr__(self) -> str:
        names = ", ".join(sorted(self.environment))
        return f"StdioLaunch({self.masked!r}, environment=[{names}], folder={self.folder})"

    @property
    def masked(self) -> str:
        """The command line without secrets, for messages."""
        return self.hide(hide_secrets(shlex.join([self.command, *self.arguments])))

    def hide(self, text: str) -> str:
        """Return `text` without the secrets of this launch."""
        values = [value for name, value in self.environment.items() if is_secret(name, value)]
        return Redactor(NOT_SHOWN, *self.secrets, *values).hide(text)


class CredentialStore(Protocol):
    """Private storage of the credentials for one server, by issuer."""

    def load(self) -> JsonObject | None:
        """Return the credentials of the issuer that was used last, or None."""
        ...

    def save(self, issuer: str, credentials: JsonObject) -> None:
        """Store the credentials of `issuer`, and use them from now on."""
        ...

    def forget(self) -> bool:
        """Remove all credentials. Return False if there were none."""
        ...

    def list_secrets(self) -> Sequence[str]:
        """Return the stored tokens, to hide them in messages."""
        ...


@dataclass(frozen=True, slots=True)
class HttpLaunch:
    """The address of a server on the network, with resolved variables.

    Attributes:
        insecure: True if plain HTTP to another computer is allowed.
        secrets: Values that are hidden in messages. Values of headers and tokens always are.
        credentials: Tokens of a sign-in to this address; None if there can be none.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    insecure: bool = False
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    credentials: CredentialStore | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        names = ", ".join(sorted(self.headers))
        return f"HttpLaunch({self.masked!r}, headers=[{names}], insecure={self.insecure})"

    @property
    def has_authorization(self) -> bool:
        """True if a configured header replaces a sign-in."""
        return any(name.lower() == "authorization" for name in self.headers)

    @property
    def masked(self) -> str:
        """The address without secrets, for messages."""
        return self.hide(hide_secrets(self.url))

    def hide(self, text: str) -> str:
        """Return `text` without the secrets of this launch."""
        headers = list(self.headers.values())
        parts: list[str] = []
        for value in headers:
            parts += value.split()
        tokens = [] if self.credentials is None else self.credentials.list_secrets()
        return Redactor(NOT_SHOWN, *self.secrets, *headers, *parts, *tokens).hide(text)


Launch = StdioLaunch | HttpLaunch


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a connection; 0 means no limit for the two times."""

    startup_timeout_secs: float = 60
    call_timeout_secs: float = 300
    max_response_bytes: int = 16 * 2**20


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool as its server describes it. `hints` are its annotations, the server's own claims."""

    name: str
    title: str | None
    description: str | None
    input_schema: Mapping[str, JsonValue]
    output_schema: Mapping[str, JsonValue] | None
    hints: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ServerQuestion:
    """A question of a server to the user.

    Attributes:
        key: Name of the question in its call: `elicitation`, `elicitation-2` for servers of 2025.
        schema: JSON Schema of the answer's content; None for `url`.
        url: Address that the user should open; None for `form`.
        elicitation_id: The server's id of a `url` question of 2025; else None.
    """

    key: str
    mode: QuestionMode
    message: str
    schema: Mapping[str, JsonValue] | None = None
    url: str | None = None
    elicitation_id: str | None = None


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The user's answer to a `ServerQuestion`; `content` only for `accept` of a form."""

    action: AnswerAction
    content: Mapping[str, JsonValue] | None = None


CANCEL: Final = ServerAnswer("cancel")
"""The answer if the user gave none."""


@dataclass(frozen=True, slots=True)
class ServerResult:
    """The result of a call. The content blocks are JSON objects as the protocol defines them."""

    content: tuple[Mapping[str, JsonValue], ...]
    structured: JsonValue = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class InputRequired:
    """The server needs answers before it continues the call. Only servers of 2026 return it.

    Repeat the call with the answers and with `state`, which is in no record, log, or message.
    """

    questions: Mapping[str, ServerQuestion]
    state: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """A server's report about a running call. `total` is None if the server does not know it."""

    message: str | None
    done: float
    total: float | None


QuestionHandler = Callable[[ServerQuestion, Sequence[str]], Awaitable[ServerAnswer]]
"""Asks the user a question of a server of 2025. The ids are those of the open calls, oldest first.

The question may belong to any of them. Their clocks stand still until the handler returns.
"""
ProgressHandler = Callable[[Progress], None]


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
        is_lost: True if the server may have run the call, and its answer was lost.
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
