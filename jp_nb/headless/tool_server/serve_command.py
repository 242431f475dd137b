"""Command `jp-nb mcp`: offer the tools of a module or notebook to other MCP clients.

The server answers over stdin and stdout (`stdio_service.py`), or over HTTP with `--http`
(`http_service.py`). The tools are loaded while it already answers.

Source: `docs/mcp.md` (our tools for others), `docs/decisions.md` D231.
"""

from __future__ import annotations

import argparse
import asyncio
from importlib import import_module
from typing import Final

from jp_nb.errors import UsageError
from jp_nb.headless.tool_server.http_service import serve_http
from jp_nb.headless.tool_server.mcp_server import ToolServer, make_server, print_notice
from jp_nb.headless.tool_server.served_source import open_served_source
from jp_nb.headless.tool_server.stdio_service import Wire, serve_stdio, take_wire

LIBRARY_NOT_INSTALLED: Final = "`jp-nb mcp` needs the library `mcp`: `pip install 'jp-nb[mcp]'`"


def serve(options: argparse.Namespace) -> int:
    """Run `jp-nb mcp`: serve the tools until the client ends, or until Ctrl+C."""
    address = _read_address(options.http)
    wire = take_wire() if address is None else None  # before a tool can print
    _require_library()

    try:
        asyncio.run(_serve(str(options.source), wire, address))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None  # the other task was only cancelled
    return 0


def _require_library() -> None:
    try:
        import_module("mcp.server")
    except ImportError as exc:
        raise UsageError(LIBRARY_NOT_INSTALLED) from exc


def _read_address(text: str | None) -> tuple[str, int] | None:
    """Return host and port of `[HOST:]PORT`; None without a text.

    Raises:
        UsageError: It is no address.
    """
    if text is None:
        return None

    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--http takes [HOST:]PORT, such as 8000 or 127.0.0.1:8000: {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)


async def _serve(source: str, wire: Wire | None, address: tuple[str, int] | None) -> None:
    """Answer the client at once, and load the tools meanwhile: clients wait only some seconds."""
    tools = ToolServer()
    server = make_server(source, tools)
    if address is not None:
        serving = serve_http(server, *address)
    else:
        assert wire is not None  # it was taken before the tools were loaded
        serving = serve_stdio(server, wire)

    async with asyncio.TaskGroup() as group:
        transport = group.create_task(serving)
        loading = group.create_task(_load(source, tools, transport))
        await transport
        loading.cancel()


async def _load(source: str, tools: ToolServer, transport: asyncio.Task[None]) -> None:
    """Load the tools of `source`, and keep their kernel for as long as the transport runs."""
    async with open_served_source(source) as host:
        offered = await host.load()
        for name, why in host.refused.items():
            print_notice(f"the tool {name} is not offered: {why}")
        if not offered:
            raise UsageError(f"{source} has no tool to offer. Define one with `@jp.tool`")
        print_notice(f"offers {', '.join(tool.name for tool in offered)}")
        tools.set_host(host, offered)
        await asyncio.wait([transport])
