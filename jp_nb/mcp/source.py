"""An MCP server as a source of tools.

The source starts the server when its tools are needed (`server_start.py`), and lists its tools
again when they may have changed. It makes an `McpTool` for each tool that the configuration wants.

Source: `docs/mcp.md`, Tools; `docs/extending.md`, `docs/decisions.md` D217, D218.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from jp_nb.config.tree.server_settings import McpServer
from jp_nb.config.tree.tool_settings import RunMode, ToolConfig
from jp_nb.errors import ToolSourceError
from jp_nb.json_writing import hash_json
from jp_nb.mcp.connections.connection import Connection
from jp_nb.mcp.errors import ServerError
from jp_nb.mcp.server_start import NOT_INSTALLED, ServerHost, ServerStarter, has_library
from jp_nb.mcp.tool_calls.calls import ServerCalls
from jp_nb.mcp.tool_calls.mcp_tool import McpTool
from jp_nb.mcp.tool_calls.results import read_contents
from jp_nb.mcp.tool_definitions.definitions import (
    McpDefinition,
    ServerDefinitions,
    find_changes,
    read_definitions,
)
from jp_nb.mcp.tool_definitions.server_instructions import format_instructions
from jp_nb.mcp.tool_definitions.tool_hints import read_hints
from jp_nb.mcp.tool_definitions.tool_names import may_be_name
from jp_nb.mcp.transports.launches import StdioLaunch
from jp_nb.text import MAX_LISTED_LINES, one_line
from jp_nb.toolkit.base import Tool, ToolRegistrations, ToolSource
from jp_nb.toolkit.outcome import Success

PREFIX: Final = "mcp."
"""Start of the name of a source, before the name of its server."""


class McpSource(ToolSource):
    """The tools of one server. It implements `ToolSource` of `jp_nb/toolkit/base.py`.

    The agent's thread calls `start` first, then `renew` for each turn, `discover` and `list` for
    its tools, and `close` at the end. Two sources are equal if the settings of their server are:
    the running server is kept then.

    Attributes:
        server: Name of the server in the configuration.
        connection: The connection to the server; None before the first start.
        calls: The open calls of its tools.
        definitions: The tools as the server listed them last.
    """

    run: RunMode = "ask"  # the default of its tools
    discovers = True  # all tools of the server are found, also if no setting names them
    start_timeout_s = 0  # the connection has other limits, which do not count the user's time

    def __init__(self, server_name: str, settings: McpServer, host: ServerHost) -> None:
        self.name = f"{PREFIX}{server_name}"
        self.server = server_name
        self.settings = settings
        self._starter = ServerStarter(server_name, settings, host)
        # Without the library, no server can run, so its failure does not end the turn.
        self.is_required = not settings.optional and has_library()
        self.connection: Connection | None = None
        self.calls = ServerCalls()
        self.definitions = ServerDefinitions()
        self._tools: dict[str, tuple[McpDefinition, Tool]] = {}  # by the name for the model
        self._notices: list[str] = []  # for the user, until `take_notices`

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, McpSource):
            return NotImplemented
        return (self.name, self.settings) == (other.name, other.settings)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def title(self) -> str:
        """The kind of the tools."""
        return "MCP"

    @property
    def owner(self) -> str:
        """The name of the server in the configuration."""
        return self.server

    @property
    def entry_digest(self) -> str:
        """Digest of the settings of the server, with names of variables in place of values.

        A rule that the user kept for a tool ends with a change of these settings.
        """
        settings: JsonValue = self.settings.model_dump(mode="json", exclude_defaults=True)
        return hash_json([self.server, settings])

    def may_have(self, name: str) -> bool:
        """Return True if `name` is one for a tool of this server."""
        return may_be_name(self.server, name)

    # --- start and end ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the server. The user signs in to it if it needs that.

        Raises:
            ToolSourceError: It did not start.
        """
        if not has_library():
            raise ToolSourceError(NOT_INSTALLED)

        if self.connection is None:
            self.connection = await self._starter.make_connection(on_question=self.calls.ask)
        await self._starter.start(self.connection)
        await self._read_tools()

    async def restart(self) -> None:
        """End the server and start it again, also if it has ended too often.

        Raises:
            ToolSourceError: It did not start.
        """
        if self.connection is not None:
            await self.connection.aclose()
            self.connection = None
            self._tools.clear()
        await self.start()

    async def close(self) -> None:
        """End the server, after its open calls."""
        await self.calls.aclose()
        if self.connection is not None:
            await self.connection.aclose()

    # --- tools -----------------------------------------------------------------------------------

    async def renew(self) -> None:
        """List the tools again if the list has expired.

        Many servers of 2026 give no time, so that each list expires at once.
        """
        await self._refresh(if_expired=True)

    async def discover(self) -> ToolRegistrations:
        """Return the registrations of the server's tools, in the server's order.

        A server that has ended starts again. Its tools are listed again if it announced others.
        """
        await self._refresh(if_expired=False)
        tools = self.definitions.usable
        return {definition.name: self._register(definition) for definition in tools}

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return the wanted tools that the server has."""
        await self._refresh(if_expired=False)
        tools: dict[str, Tool] = {}
        for name, configured in wanted.items():
            # `mcp.SERVER.TOOL`, or `mcp.SERVER` for a tool with the same name there.
            server_tool = (configured.source or "").removeprefix(self.name).removeprefix(".")
            definition = self.definitions.find(server_tool or name)
            if definition is not None:
                tools[name] = self._make_tool(name, definition)
        return tools

    def take_notices(self) -> Sequence[str]:
        """Return the notices since the last call."""
        notices = self._notices
        self._notices = []
        return notices

    async def read_resource(self, uri: str) -> Success:
        """Return the resource at `uri`, as the result of a tool.

        Raises:
            ServerError: The server does not run, or the resource cannot be read.
        """
        assert self.connection is not None
        return read_contents(await self.connection.read_resource(uri))

    @property
    def instructions(self) -> str:
        """The server's instructions for the model, if they are configured; else ""."""
        text = None if self.connection is None else self.connection.instructions
        if not self.settings.instructions or not text:
            return ""
        return format_instructions(self.server, text)

    async def _refresh(self, *, if_expired: bool) -> None:
        """Start the server if it does not run, and list its tools again if it announced others.

        With `if_expired`, they are also listed again if the list has expired.
        """
        connection = self.connection
        if connection is None or connection.state != "running":
            await self.start()
            return

        if connection.needs_sign_in:
            await self._starter.sign_in(connection)
        if connection.announced_changes or (if_expired and connection.is_list_outdated):
            await self._read_tools(refresh=True)

    async def _read_tools(self, *, refresh: bool = False) -> None:
        """Read the definitions of the tools, with `refresh` from the server, and note changes."""
        assert self.connection is not None
        limit = self.settings.startup_timeout_secs
        try:
            async with asyncio.timeout(limit or None):
                tools = await self.connection.list_tools(refresh)
        except ServerError as exc:
            raise ToolSourceError(str(exc)) from exc
        except TimeoutError:
            raise ToolSourceError(
                f"the MCP server {self.server} did not list its tools within {limit:g} s "
                "(startup_timeout_secs)"
            ) from None

        before = self.definitions
        self.definitions = read_definitions(self.server, tools)
        self._note_unusable_tools(before)
        self._note_changes(find_changes(before, self.definitions))

    def _note_unusable_tools(self, before: ServerDefinitions) -> None:
        """Add a notice for each tool that cannot be offered, once."""
        for tool in self.definitions.unusable:
            if tool not in before.unusable:
                self._notices.append(
                    f"the tool {one_line(tool.name, limit=80)!r} of the MCP server {self.server} "
                    f"is not offered: {tool.reason}"
                )

    def _note_changes(self, changed: Sequence[str]) -> None:
        """Add a notice about the tools with these names, which the server has changed."""
        if not changed:
            return

        names = ", ".join(changed[:MAX_LISTED_LINES])
        omitted_count = len(changed) - MAX_LISTED_LINES
        if omitted_count > 0:
            names += f" and {omitted_count} more"

        self._notices.append(
            f"the MCP server {self.server} changed its tools {names}. Permissions for them have "
            f"ended. Show a tool: `%jp tools NAME`"
        )

    def _register(self, definition: McpDefinition) -> Mapping[str, JsonValue]:
        """Return the default settings of a tool, as `conversation.tools.NAME` has them."""
        return {
            "source": f"{self.name}.{definition.tool.name}",
            "toolset": self.name,
            "description": definition.description,
        }

    def _make_tool(self, name: str, definition: McpDefinition) -> Tool:
        """Return the tool of `definition`; the same object until the server changes it.

        Another object would be another tool: permissions for the turn would end.
        """
        known = self._tools.get(name)
        if known is not None:
            known_definition, known_tool = known
            if known_definition.digest == definition.digest:
                return known_tool

        assert self.connection is not None
        tool = McpTool(
            self.connection,
            definition.tool.name,
            self.calls,
            description=definition.description,
            schema=definition.schema,
            output_schema=definition.tool.output_schema,
            check=definition.check_arguments,
        )
        # Kept rules of the user end when the server's settings or its definition change.
        tool.server_entry = hash_json([self.entry_digest, definition.digest])

        # Nothing checks the hints of a server, so each counts only if the user has allowed it.
        tool.hints = read_hints(definition.tool.hints)
        says_read_only = tool.hints.get("read_only", False)
        tool.read_only = self.settings.trust_read_only_hint and says_read_only
        says_idempotent = tool.hints.get("idempotent", False)
        tool.is_repeatable = self.settings.repeat_lost_calls and says_idempotent

        launch = self.connection.launch
        if isinstance(launch, StdioLaunch) and launch.folder is not None:
            tool.folder = str(launch.folder)

        self._tools[name] = (definition, tool)
        return tool
