"""Convert the errors of a session with an MCP server to errors for the user, without secrets.

An error may come from the library `mcp`, from the HTTP client, or from a process. If the connection
itself is broken (`Transport.fault`), this is the reason of all errors that follow from it.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

from jp_nb.mcp.errors import ServerError, StartError
from jp_nb.mcp.transports.launches import Launch
from jp_nb.mcp.transports.transport_interface import Transport


def convert_session_error(
    exc: Exception, *, server: str, tool: str, launch: Launch, transport: Transport | None
) -> ServerError:
    """Return the error for the user; the first one of a group, and a `ServerError` as it is.

    Args:
        exc: An error of a request, or the one that ended the session.
        server: The name of the server in the configuration.
        tool: The name of the tool; "" for a request about no tool.
        launch: The command or address of the server. It hides the secrets in it.
        transport: The connection to the server; None before it starts.
    """
    while isinstance(exc, ExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, ServerError):
        return exc
    if transport is not None and transport.fault:
        return ServerError(server, tool, launch.hide(transport.fault))

    # Errors of the library have both. Its types cannot be named here, because it is imported late.
    code = getattr(exc, "code", 0)
    data = getattr(getattr(exc, "error", None), "data", None)
    reason = launch.hide(_describe(exc, transport))
    return ServerError(server, tool, reason, code=code, data=data)


def _describe(exc: Exception, transport: Transport | None) -> str:
    """Return the reason of an error in words."""
    if isinstance(exc, StartError):
        return str(exc)
    if type(exc).__name__ == "ValidationError":  # of pydantic, for an answer that does not fit
        return "its answer does not follow the protocol"
    if transport is not None:
        return transport.explain(exc)
    return str(exc) or type(exc).__name__
