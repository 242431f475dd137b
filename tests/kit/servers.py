"""MCP servers: how they are started, and what they answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from jp_nb.config.tree.server_settings import McpServer
from jp_nb.mcp.calls import McpTool, ServerCalls
from jp_nb.mcp.definitions import read_definitions
from jp_nb.mcp.launch import LaunchContext, find_inputs, find_missing_variables, resolve_launch
from jp_nb.mcp.results import read_result
from jp_nb.mcp.source import McpSource, ServerHost
from tests.kit.kinds import make


def launch_of(
    settings: Mapping[str, Any],
    folder: Path,
    environ: Mapping[str, str],
    inputs: Mapping[str, str] | None = None,
) -> Any:
    """Return the launch of the server `books` in the workspace `folder`.

    `environ` are the variables of the kernel, and `inputs` the user's answers. Settings that
    cannot be used are a `ConfigError`.
    """
    context = LaunchContext(folder, environ, Path("/home/jane"), inputs or {})
    return resolve_launch("books", McpServer.model_validate(settings), context)


def find_server_needs(
    settings: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the labels of the inputs that a server needs, and its missing variables."""
    server = McpServer.model_validate(settings)
    return dict(find_inputs(server)), list(find_missing_variables(server, environ))


def define_server_tools(server: str, *tools: Any) -> list[dict[str, Any]]:
    """Return what the model gets of the `tools` of a server: `make("server_tool", …)`.

    A usable tool has `tool`, `name`, `description`, `schema`, and the function `check`, which
    returns the problem of arguments. The others have `tool` and `reason`.
    """
    found = read_definitions(server, tools)
    usable = [
        {
            "tool": each.tool.name,
            "name": each.name,
            "description": each.description,
            "schema": each.schema,
            "check": each.check_arguments,
        }
        for each in found.usable
    ]
    return [*usable, *({"tool": each.name, "reason": each.reason} for each in found.unusable)]


def read_server_result(
    *blocks: Any, schema: Mapping[str, Any] | None = None, **more: Any
) -> tuple[Any, tuple[str, ...]]:
    """Return the outcome of a result with these content blocks, and the texts for the user."""
    read = read_result(make("server_result", blocks, **more), schema)
    return read.outcome, tuple(read.for_user)


def server_tool(name: str) -> tuple[Callable[[Any], Any], Any]:
    """Return a function that makes the tool `name` of a connection, and the calls of the server.

    `calls.ask` is the `on_question` of the connection; close the calls before it.
    """
    calls = ServerCalls()
    schema: Any = {"type": "object", "properties": {}}
    return lambda connection: McpTool(connection, name, calls, schema=schema), calls


def server_source(connection: Any, name: str = "books", **settings: Any) -> Any:
    """Return the source of the tools of a server, which runs with this `connection`."""

    async def resolve(_: str, server: Any) -> Any:
        raise AssertionError("it runs")

    own = McpServer.model_validate({"command": "serve", **settings})
    source = McpSource(name, own, ServerHost(resolve))
    source.connection = connection
    return source


def sign_in(launch: Any, show_page: Callable[[Any], Awaitable[str]]) -> Awaitable[None]:
    """Sign in to the server `books`, whose page `show_page` shows to the user."""
    from jp_nb.mcp.sign_in import sign_in_to_server  # it imports the library of servers

    return sign_in_to_server("books", launch, launch.credentials, show_page)
