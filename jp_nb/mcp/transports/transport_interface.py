"""Interface of the connection to a server, for its session: a process, or an HTTP client.

The messages themselves go through the library `mcp`, which has its own interface for them.
"""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """The part of a transport that a session and its connection use.

    `StdioTransport` and `ServerHttpClient` implement it.

    Attributes:
        fault: The reason why it must not be used any more; "" while it works.
        discarded_lines: Number of lines on the server's stdout that were no messages.
    """

    fault: str
    discarded_lines: int

    @property
    def pid(self) -> int | None:
        """Process id of the server; None if it does not run on this computer."""
        ...

    def stderr_lines(self) -> tuple[str, ...]:
        """Return the last lines that the server wrote to stderr, without secrets."""
        ...

    def mark_started(self) -> None:
        """Note that the handshake has ended."""
        ...

    def explain(self, exc: Exception) -> str:
        """Return the reason of an error of the connection, without secrets."""
        ...
