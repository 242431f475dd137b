"""Command `jp-nb mcp`: offer the tools of a module or notebook to other MCP clients.

The server answers over stdin and stdout, or over HTTP with `--http`. The tools are loaded while it
already answers.

Source: `docs/mcp.md` (our tools for others), `docs/decisions.md` D231.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Final

from jp_nb.errors import UsageError
from jp_nb.headless.tool_server.mcp_server import ToolServer, make_server, print_notice
from jp_nb.headless.tool_server.served_source import open_served_source

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

MAX_WAITING_LINES: Final = 100
"""Number of messages of the client that are read before the first of them is handled."""
STDIN_CHUNK_BYTES: Final = 65_536
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
LIBRARY_NOT_INSTALLED: Final = "`jp-nb mcp` needs the library `mcp`: `pip install 'jp-nb[mcp]'`"


@dataclass(frozen=True, slots=True)
class Wire:
    """The streams of the protocol, which nothing else can reach. `stdin` is a descriptor."""

    stdin: int
    stdout: TextIOWrapper


def serve(options: argparse.Namespace) -> int:
    """Run `jp-nb mcp`: serve the tools until the client ends, or until Ctrl+C."""
    address = _read_address(options.http)
    wire = _take_wire() if address is None else None  # before a tool can print
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


def _take_wire() -> Wire:
    """Return stdin and stdout, and put others in their place, also for child processes.

    What tools print goes to stderr. They read an empty stdin.
    """
    sys.stdout.flush()
    wire_in = os.dup(0)
    wire_out = os.dup(1)

    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    return Wire(wire_in, TextIOWrapper(os.fdopen(wire_out, "wb"), encoding="utf-8"))


class Lines:
    """The lines of a descriptor. Unlike a file, it does not keep a program from ending."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue(MAX_WAITING_LINES)
        threading.Thread(target=self._read, name="jp-nb mcp stdin", daemon=True).start()

    def _read(self) -> None:
        """Read the descriptor to its end, in the thread."""
        parts: list[bytes] = []  # of the line that is not complete yet
        with suppress(RuntimeError, OSError):  # the event loop has ended, or the descriptor
            while chunk := os.read(self._descriptor, STDIN_CHUNK_BYTES):
                *line_ends, line_start = chunk.split(b"\n")
                for line_end in line_ends:
                    line = b"".join([*parts, line_end])
                    parts.clear()
                    self._put(line.decode("utf-8", errors="replace"))
                parts.append(line_start)
            self._put(None)  # the end of the lines

    def _put(self, line: str | None) -> None:
        """Put a line into the queue, and wait while the queue is full."""
        asyncio.run_coroutine_threadsafe(self._queue.put(line), self._loop).result()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the lines, without their ends."""
        while (line := await self._queue.get()) is not None:
            yield line


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
    serving = _serve_http(server, *address) if address is not None else _serve_stdio(server, wire)
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


async def _serve_stdio(server: Server[Any], wire: Wire | None) -> None:
    """Serve one client over stdin and stdout, until stdin ends."""
    import anyio
    from mcp.server.stdio import stdio_server

    assert wire is not None  # it was taken before the tools were loaded
    stdin: Any = Lines(wire.stdin)
    stdout = anyio.wrap_file(wire.stdout)
    async with stdio_server(stdin, stdout) as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


async def _serve_http(server: Server[Any], host: str, port: int) -> None:
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
            host = hosts[-1]
        print_notice(f"listens on http://{host}:{number}/mcp")
        config = uvicorn.Config(app, log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listening])


def _format_host(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _find_family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
