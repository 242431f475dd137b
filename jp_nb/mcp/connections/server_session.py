"""One session with an MCP server, from its start to its end.

A session starts the server, or connects to it, lists its tools, and sends requests until it is
stopped, or its transport has a fault. `connection.py` starts another one then.

The library `mcp` is imported while the first server starts, in a worker thread, because its import
takes about a second.

Source: `docs/mcp.md`, Protocols, transports, limits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import version as version_of
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from jp_nb.mcp.connections.server_description import ServerDescription
from jp_nb.mcp.connections.session_errors import convert_session_error
from jp_nb.mcp.errors import ServerError, StartError, UnreadRequestError
from jp_nb.mcp.exchange import (
    CallRequest,
    ConnectionLimits,
    InputRequired,
    ServerAnswer,
    ServerResult,
)
from jp_nb.mcp.transports.launches import HttpLaunch, Launch, StdioLaunch
from jp_nb.mcp.transports.library_log import without_library_log
from jp_nb.mcp.transports.transport import StdioTransport
from jp_nb.mcp.transports.transport_interface import Transport

if TYPE_CHECKING:
    from jp_nb.mcp.connections import client as library
    from jp_nb.mcp.oauth.stored_tokens import StoredTokens
    from jp_nb.mcp.transports.repaired_transport import RepairedTransport

OWNER_CLOSE_SECONDS: Final = 5.0
LIBRARY: Final = "jp_nb.mcp.connections.client"
"""The module that imports the library `mcp`."""


class ServerSession:
    """One run of the client of the library, from the start of the server to its end.

    The client of the library has to be entered and left by the same task. This is the *owner*: it
    waits in the client until `_stop` is set. Requests may come from any task of the loop.

    Args:
        name: Name of the server in the configuration.
        server: Description of the server, which the session completes.
        asks_users: True if a user can answer questions of the server while the kernel runs.
        ask: Returns the answer to a question of a server of 2025, given its parameters.
        on_end: Receives this session, and the reason why it ended. It is not called if the task of
            the owner is cancelled by another one than `close`, as when the loop ends.

    Attributes:
        transport: The connection to the server; None before it starts.
        tokens: Tokens of a sign-in; None if the server can have none.
        ended: Is done when the server has ended, after `on_end`.
    """

    def __init__(
        self,
        *,
        name: str,
        launch: Launch,
        limits: ConnectionLimits,
        server: ServerDescription,
        asks_users: bool,
        ask: Callable[[Any], Awaitable[ServerAnswer]],
        on_end: Callable[[ServerSession, str], None],
    ) -> None:
        self.transport: Transport | None = None
        self.tokens: StoredTokens | None = None
        self._name = name
        self._launch = launch
        self._limits = limits
        self._server = server
        self._asks_users = asks_users
        self._ask = ask
        self._on_end = on_end
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests: set[asyncio.Task[ServerResult | InputRequired]] = set()  # that run
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()  # tells the owner to leave the client
        # Ends when the tools are listed, or with the reason why the server did not start.
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(_retrieve_error)

        # Both are set from the start of the client on. The client gets its messages through
        # `_repaired`, which changes those that the library would refuse.
        self._client: library.Client | None = None
        self._repaired: RepairedTransport | None = None

    async def connect(self) -> None:
        """Start the owner, and wait until the tools are listed."""
        self._owner = asyncio.create_task(self._run_until_stopped())
        await asyncio.shield(self._ready)

    async def close(self) -> None:
        """End the owner, and with it the server. A cancellation does not stop that."""
        self._stop.set()
        if self._owner is None:
            return
        if not self._ready.done():  # it does not wait for `_stop` yet
            self._owner.cancel()

        ending = asyncio.create_task(self._end_owner(self._owner))
        await asyncio.shield(ending)

    async def _end_owner(self, owner: asyncio.Task[None]) -> None:
        """Wait until the owner has ended, and cancel it if it takes too long."""
        await asyncio.wait([owner], timeout=OWNER_CLOSE_SECONDS)
        if not owner.done():
            owner.cancel()
            await asyncio.wait([owner], timeout=OWNER_CLOSE_SECONDS)

    async def _run_until_stopped(self) -> None:
        """Run the session in its owner, and report its end: the body of the owner's task."""
        reason = ""
        try:
            with without_library_log():
                await self._run()
        except asyncio.CancelledError:
            if not self._stop.is_set():
                raise
        except Exception as exc:
            error = self._convert_error("", exc)
            reason = error.message
            if not self._ready.done():
                self._ready.set_exception(error)
        finally:
            if not self._ready.done():  # it was cancelled before the tools were listed
                self._ready.set_exception(ServerError(self._name, "", "it was closed"))

        if not reason and self.transport is not None:
            reason = self.transport.fault
        self._on_end(self, reason or "the connection ended")
        self.ended.set_result(None)

    async def _run(self) -> None:
        """Run the server, or connect to it, until the session ends.

        Raises:
            StartError: It cannot be started or reached.
        """
        if find_spec("mcp") is None:
            raise StartError("the library `mcp` is not installed: `pip install 'jp-nb[mcp]'`")

        if isinstance(self._launch, StdioLaunch):
            await self._run_process(self._launch)
        else:
            await self._run_http(self._launch)

    async def _run_process(self, launch: StdioLaunch) -> None:
        """Run the server as a process, which ends with the session."""
        limit = self._limits.max_response_bytes
        process = StdioTransport(launch, limit, on_end=self._stop.set)
        self.transport = process
        try:
            await process.spawn()
            # The process starts while the library is imported, which takes about a second.
            await asyncio.to_thread(import_module, LIBRARY)
            await self._serve(process)
        finally:
            await process.stop()

    async def _run_http(self, launch: HttpLaunch) -> None:
        """Connect to the server at an address. Its modules import the library, so they are lazy."""
        limit = self._limits.max_response_bytes
        await asyncio.to_thread(import_module, LIBRARY)
        from jp_nb.mcp.connections import client as library
        from jp_nb.mcp.oauth import stored_tokens
        from jp_nb.mcp.transports.http_address import check_address
        from jp_nb.mcp.transports.http_client import ServerHttpClient

        check_address(launch)
        self.tokens = stored_tokens.make_auth(self._name, launch)
        async with ServerHttpClient(launch, limit, self.tokens) as client:
            self.transport = client
            transport = library.connect_http(launch.url, client, limit)
            await self._serve(transport)

    async def _serve(self, transport: Any) -> None:
        """Enter the client for `transport`, list the tools, and wait in it for the end."""
        from jp_nb.mcp.connections import client as library
        from jp_nb.mcp.transports.repaired_transport import RepairedTransport

        server = self._server
        self._repaired = RepairedTransport(transport, asks_users=self._asks_users)
        mode = "auto"
        if server.era == "2025":
            mode = "legacy"  # the era is a property of the server; this saves the probe

        client = library.make_client(
            self._repaired,
            mode=mode,
            version=version_of("jp-nb"),
            elicit=self._ask,
            on_tools_changed=self._note_changed_tools,
        )

        async with client:
            self._client = client
            server.version = client.protocol_version
            server.instructions = client.instructions
            info = client.server_info
            if info is not None:
                server.title = f"{info.title or info.name} {info.version}".strip()

            await self.list_tools()
            self._mark_started()
            await self._stop.wait()

    def _mark_started(self) -> None:
        if self.transport is not None:
            self.transport.mark_started()
        if not self._ready.done():
            self._ready.set_result(None)

    def _note_changed_tools(self) -> None:
        self._server.has_changed_tools = True

    # --- requests --------------------------------------------------------------------------

    async def list_tools(self) -> None:
        """List the tools of the server in its description."""
        from jp_nb.mcp.connections import client as library

        assert self._client is not None
        assert self._repaired is not None
        server = self._server
        self._repaired.notes = []  # the transport adds notes while the list passes it
        server.has_changed_tools = False

        try:
            tools, valid_s = await library.list_tools(self._client)
        except Exception as exc:
            server.has_changed_tools = True  # list them again
            raise self._handle_failure("", exc) from exc

        server.tools = tuple(tools)
        server.list_notes = tuple(self._repaired.notes)
        server.tools_expire = None
        if server.era == "2026" and valid_s is not None:
            server.tools_expire = asyncio.get_running_loop().time() + valid_s

    async def call(self, request: CallRequest) -> ServerResult | InputRequired:
        """Send one request of a call.

        A cancellation returns at once, and notifies the server in the background.

        Raises:
            ServerError: The server or the connection failed.
            UnreadRequestError: The server has not read the request, which may be sent again.
        """
        from jp_nb.mcp.connections import client as library

        assert self._client is not None
        sending = asyncio.create_task(library.call_tool(self._client, request))
        self._requests.add(sending)  # asyncio keeps no task alive
        sending.add_done_callback(self._requests.discard)
        sending.add_done_callback(_retrieve_error)

        try:
            await asyncio.wait([sending])
        except asyncio.CancelledError:
            # Only once: another cancellation would stop the library before it has told the server.
            sending.cancel()
            raise

        try:
            return sending.result()
        except Exception as exc:
            error = self._handle_failure(request.tool, exc)
            error.is_lost = library.is_lost_answer(exc)
            if error.code == library.LOST_SESSION:
                raise UnreadRequestError(error, is_session_lost=True) from exc
            # The library makes headers from the list of tools. If it is outdated, the server
            # refuses them, and after a new list the same request is right.
            if error.code == library.HEADER_MISMATCH:
                raise UnreadRequestError(error, is_session_lost=False) from exc
            raise error from exc

    async def read_resource(self, uri: str) -> list[dict[str, JsonValue]]:
        """Return the contents of the resource at `uri`."""
        from jp_nb.mcp.connections import client as library

        assert self._client is not None
        try:
            return await library.read_resource(self._client, uri)
        except Exception as exc:
            raise self._handle_failure("", exc) from exc

    def _handle_failure(self, tool: str, exc: Exception) -> ServerError:
        """End the session if its transport has a fault; return the error for the user.

        The fault is the reason then. Otherwise, `exc` ends only its request.
        """
        if self.transport is not None and self.transport.fault:
            self._stop.set()
        return self._convert_error(tool, exc)

    def _convert_error(self, tool: str, exc: Exception) -> ServerError:
        """Return the error for the user; `tool` is "" for a request about no tool."""
        return convert_session_error(
            exc, server=self._name, tool=tool, launch=self._launch, transport=self.transport
        )


def _retrieve_error(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()  # asyncio logs an exception that is never retrieved
