"""Serve an MCP server to its clients over HTTP.

Source: `docs/mcp.md` (our tools for others), `docs/decisions.md` D231.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from jp_nb.errors import UsageError
from jp_nb.headless.tool_server.mcp_server import print_notice

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


async def serve_http(server: Server[Any], host: str, port: int) -> None:
    """Serve clients over HTTP until Ctrl+C. The port 0 is a free one.

    Raises:
        UsageError: The address cannot be used.
    """
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    names = [*LOOPBACK, host]
    hosts = [_format_host(name) for name in dict.fromkeys(names)]
    # A page of another site could otherwise reach the server through a host name of that site (DNS
    # rebinding).
    security = TransportSecuritySettings(
        allowed_hosts=[f"{name}:*" for name in hosts],
        allowed_origins=[f"http://{name}:*" for name in hosts],
    )
    app = server.streamable_http_app(host=host, transport_security=security)
    try:
        listening = socket.create_server((host, port), family=_find_family(host))
    except OSError as exc:
        raise UsageError(f"--http {host}:{port}: {exc.strerror or exc}") from exc

    with listening:
        number = listening.getsockname()[1]
        if host not in LOOPBACK:
            print_notice(
                f"every computer that reaches {host} can run the tools: there is no sign-in"
            )
        print_notice(f"listens on http://{_format_host(host)}:{number}/mcp")
        config = uvicorn.Config(app, log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listening])


def _format_host(name: str) -> str:
    """Return `name` as it is in a URL and in the header `Host`: an IPv6 address in brackets."""
    return f"[{name}]" if ":" in name else name


def _find_family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
