"""Values that the connection to an MCP server exchanges with the program: tools, calls, questions.

`ConnectionLimits` and `ConnectionState` are about the connection itself.

They are plain Python and JSON, so that other modules do not import the library `mcp`. Each text in
them comes from a server: treat it as hostile.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

Era = Literal["2025", "2026"]
"""Generation of the protocol. Servers of 2025 start with a handshake and send requests of their
own; servers of 2026 keep no session, and return their questions as results."""
ConnectionState = Literal["new", "starting", "running", "ended", "failed"]
AnswerAction = Literal["accept", "decline", "cancel"]
QuestionMode = Literal["form", "url"]


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
        mode: `form` for fields that the user fills in, `url` for an address to open.
        message: The question in the words of the server.
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
class CallRequest:
    """One request of a call.

    Attributes:
        tool: Name of the tool at the server.
        arguments: The arguments of the call.
        report: Receives the server's reports about its progress.
        answers: Answers to the questions that ended the last request; None in the first request.
        state: State that the server sent with these questions; None if there is none.
    """

    tool: str
    arguments: Mapping[str, JsonValue]
    report: ProgressHandler
    answers: Mapping[str, ServerAnswer] | None = None
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
