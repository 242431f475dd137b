"""Find an MCP server by its configured name, for the verbs of `%jp mcp`.

Source: `docs/mcp.md`, See and restart servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation
from jp_nb.session.session import Session
from jp_nb.text import one_line

if TYPE_CHECKING:
    from jp_nb.mcp.connections.connection import Connection
    from jp_nb.mcp.source import McpSource


def find_running(session: Session, name: str) -> McpSource | None:
    """Return the source of the tools of the configured server `name`, if it was started.

    Its `connection` may be None (`find_connection`). `connection.state` tells if the server
    starts, runs, has failed, or has ended. A cassette may replace the server by another kind of
    source: then return None.

    `McpSource` is imported late, because few sessions use MCP servers.
    """
    source = session.turns.resolver.discovery.find_running_server(name)
    if source is None:
        return None

    from jp_nb.mcp.source import McpSource

    return source if isinstance(source, McpSource) else None


def find_connection(session: Session, name: str) -> Connection | None:
    """Return the connection to the configured server `name`; None before its first start."""
    source = find_running(session, name)
    return None if source is None else source.connection


def take_server_name(call: Invocation, words: Sequence[str], verb: str) -> str:
    """Return the only word, the name of a configured server.

    Raises:
        UsageError: There is another number of words, or no such server.
    """
    if len(words) != 1:
        raise UsageError(f"`%jp mcp {verb}` takes the name of one server: `%jp mcp {verb} NAME`")

    (name,) = words
    require_server(call.session, name)
    return name


def require_server(session: Session, name: str) -> None:
    """Check that `name` is a configured server.

    Raises:
        UsageError: It is not.
    """
    servers = session.config.providers.mcp
    if name not in servers:
        known = ", ".join(servers) or "none is configured"
        raise UsageError(f"There is no MCP server {one_line(name, limit=60)!r} ({known}).")
