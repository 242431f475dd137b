"""MCP servers: where one is listed, how it is started, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from jp_nb.config.tree import server_settings
from jp_nb.mcp.server_start import ServerHost
from jp_nb.mcp.source import McpSource
from jp_nb.mcp.tool_calls.calls import ServerCalls
from jp_nb.mcp.tool_calls.mcp_tool import McpTool
from jp_nb.mcp.tool_calls.results import read_result
from jp_nb.mcp.tool_definitions.definitions import read_definitions
from jp_nb.mcp.transports.launch_resolution import LaunchContext, resolve_launch
from jp_nb.mcp.transports.server_references import find_inputs, find_unset_listed_variables
from jp_nb.storage.server_lists import mcp_entries, mcp_files, server_file_search
from tests.kit.kinds import make


class McpServer:
    """An MCP server with the `settings` of its table: `McpServer({"command": "serve"})`.

    The functions of the class are for any server: files, sign-in, and answers.
    """

    def __init__(self, settings: Mapping[str, Any], *, name: str = "books") -> None:
        self._name = name
        self._settings = server_settings.McpServer.model_validate(settings)

    # --- files of other applications that list it ------------------------------------------------

    @staticmethod
    def find_listed(folder: Path) -> Any:
        """Return the servers that the files around a notebook in `folder` list, and problems."""
        return mcp_files.read_server_files(server_file_search.find_server_files(folder), folder)

    @staticmethod
    def read_file(path: Path) -> list[Any]:
        """Return the servers that the file lists: `name`, `settings`, `problem`, `notes`."""
        file = server_file_search.ServerFile(path, "", "user")
        return list(mcp_files.read_server_file(file, path.parent))

    @staticmethod
    def read_entry(name: str, entry: Any) -> Any:
        """Return the server of one entry of a file, with its `settings`, `problem`, and `notes`."""
        return mcp_entries.read_server_entry(name, entry)

    # --- its start -------------------------------------------------------------------------------

    def launch(
        self, folder: Path, environ: Mapping[str, str], inputs: Mapping[str, str] | None = None
    ) -> Any:
        """Return the launch in the workspace `folder`.

        `environ` are the variables of the kernel, and `inputs` the user's answers. Settings that
        cannot be used are a `ConfigError`.
        """
        context = LaunchContext(folder, environ, Path("/home/jane"), inputs or {})
        return resolve_launch(self._name, self._settings, context)

    def needs(self, environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
        """Return the labels of the inputs that the server needs, and its missing variables."""
        missing = find_unset_listed_variables(self._settings, environ)
        return dict(find_inputs(self._settings)), list(missing)

    def source(self, connection: Any) -> Any:
        """Return the source of its tools, which runs with this `connection`."""

        async def resolve(_: str, server: Any) -> Any:
            raise AssertionError("it runs")

        source = McpSource(self._name, self._settings, ServerHost(resolve))
        source.connection = connection
        return source

    @staticmethod
    def sign_in(launch: Any, show_page: Callable[[Any], Awaitable[str]]) -> Awaitable[None]:
        """Sign in to the server `books`, whose page `show_page` shows to the user."""
        from jp_nb.mcp.oauth.sign_in import sign_in_to_server  # it imports the library of servers

        return sign_in_to_server("books", launch, launch.credentials, show_page)

    # --- its answers -----------------------------------------------------------------------------

    @staticmethod
    def define_tools(server: str, *tools: Any) -> list[dict[str, Any]]:
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

    @staticmethod
    def read_result(
        *blocks: Any, schema: Mapping[str, Any] | None = None, **more: Any
    ) -> tuple[Any, tuple[str, ...]]:
        """Return the outcome of a result with these content blocks, and the texts for the user."""
        read = read_result(make("server_result", blocks, **more), schema)
        return read.outcome, tuple(read.for_user)

    @staticmethod
    def tool(name: str) -> tuple[Callable[[Any], Any], Any]:
        """Return a function that makes the tool `name` of a connection, and the server's calls.

        `calls.ask` is the `on_question` of the connection; close the calls before it.
        """
        calls = ServerCalls()
        schema: Any = {"type": "object", "properties": {}}
        return lambda connection: McpTool(connection, name, calls, schema=schema), calls
