"""Servers that are written with the library `mcp`, in both protocols and over both transports."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("mcp")

from typing import Any

from mcp.server import MCPServer

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.mcp.helpers import connected, text_of

PROGRAM = '''
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("library", version="2")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def work(ctx: Context) -> str:
    """Report progress."""
    await ctx.report_progress(1, 2, "half")
    return "done"


@server.resource("note://one")
def note() -> str:
    """Return a note."""
    return "text of the note"
'''


def write_server(folder: Path) -> Any:
    """Return the launch of a server over stdio."""
    file = folder / "server.py"
    file.write_text(f"{PROGRAM}\nserver.run('stdio')\n", encoding="utf-8")
    return make("stdio_launch", sys.executable, (str(file),))


async def test_server_of_the_library_over_stdio(tmp_path: Path) -> None:
    reports: list[Any] = []
    async with connected(write_server(tmp_path)) as connection:
        assert (connection.era, connection.server_title) == ("2026", "library 2")
        tools = {tool.name: tool for tool in await connection.list_tools()}
        assert tools["add"].description == "Add two numbers."
        assert tools["add"].input_schema["required"] == ["a", "b"]

        result = await connection.call("1", "add", {"a": 1, "b": 2})
        assert is_kind(result, "server_result")
        assert (text_of(result), result.structured) == ("3", {"result": 3})
        failed = await connection.call("2", "add", {"a": "x"})
        assert is_kind(failed, "server_result")
        assert failed.is_error
        done = await connection.call("3", "work", {}, on_progress=reports.append)
        assert text_of(done) == "done"
        assert reports == [make("server_progress", "half", 1.0, 2.0)]

        [content] = await connection.read_resource("note://one")
        assert content["text"] == "text of the note"
        with pytest.raises(jp.JpNbError):
            await connection.read_resource("note://two")


@asynccontextmanager
async def serve_http(program: str) -> AsyncIterator[Any]:
    """Run the server of `program` over HTTP."""
    uvicorn = pytest.importorskip("uvicorn")
    names: dict[str, MCPServer] = {}
    exec(compile(program, "server.py", "exec"), names)
    app = names["server"].streamable_http_app()
    config = uvicorn.Config(app, port=0, log_level="critical", lifespan="on")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it reports nothing else
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield make("http_launch", f"http://127.0.0.1:{port}/mcp")
    finally:
        server.should_exit = True
        await serving


async def test_server_of_the_library_over_http() -> None:
    async with serve_http(PROGRAM) as launch, connected(launch) as connection:
        assert connection.era == "2026"
        assert text_of(await connection.call("1", "add", {"a": 1, "b": 2})) == "3"
        [content] = await connection.read_resource("note://one")
        assert content["text"] == "text of the note"
