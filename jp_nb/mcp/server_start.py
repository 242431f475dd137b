"""Start an MCP server for its source of tools, with the inputs and the sign-in of the user.

`source.py` decides when a server starts. Everything that the user may be asked for goes through
the `ServerHost`, which the session of the kernel makes.

Source: `docs/mcp.md`, `docs/decisions.md` D218.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from jp_nb.config.tree.server_settings import McpServer
from jp_nb.errors import ConfigError, PromptCancelled, ToolSourceError
from jp_nb.mcp.connections.connection import Connection
from jp_nb.mcp.errors import ServerNotStarted, SignInError
from jp_nb.mcp.exchange import ConnectionLimits, QuestionHandler
from jp_nb.mcp.transports.launches import HttpLaunch, Launch

NOT_INSTALLED: Final = (
    "MCP servers need the library `mcp`, which is not installed: `pip install 'jp-nb[mcp]'`. "
    "Then restart the kernel"
)


def has_library() -> bool:
    """Return True if the library `mcp` is installed."""
    return find_spec("mcp") is not None


@dataclass(frozen=True, slots=True)
class ServerHost:
    """Services of the kernel that all its servers share.

    Attributes:
        resolve: Returns the command or address of a server, and asks the user for its inputs.
        asks_users: True if a user can answer questions of servers while the kernel runs.
        sign_in: Lets the user sign in to a server; returns False if no user is available.
    """

    resolve: Callable[[str, McpServer], Awaitable[Launch]]
    asks_users: bool = False
    sign_in: Callable[[str, HttpLaunch], Awaitable[bool]] | None = None


class ServerStarter:
    """Makes and starts the connection to one server.

    Each method raises a `ToolSourceError` that names the server, because the server's tools are
    then missing for the turn.
    """

    def __init__(self, server_name: str, settings: McpServer, host: ServerHost) -> None:
        self._server = server_name
        self._settings = settings
        self._host = host

    async def make_connection(self, *, on_question: QuestionHandler) -> Connection:
        """Return a connection that is not started. The user may be asked for inputs.

        `on_question` gets the questions of the server during a call.

        Raises:
            ToolSourceError: The command or address cannot be resolved.
        """
        settings = self._settings
        try:
            launch = await self._host.resolve(self._server, settings)
        except ConfigError as exc:
            raise ToolSourceError(f"the MCP server {self._server} did not start: {exc}") from exc

        limits = ConnectionLimits(
            settings.startup_timeout_secs,
            settings.call_timeout_secs,
            settings.max_response_bytes,
        )
        return Connection(
            self._server,
            launch,
            limits,
            asks_users=self._host.asks_users,
            on_question=on_question,
        )

    async def start(self, connection: Connection) -> None:
        """Start the connection, a second time after a sign-in if the server needs one.

        Raises:
            ToolSourceError: The server did not start, or the user did not sign in.
        """
        try:
            await self._start_signed_in(connection)
        except ServerNotStarted as exc:
            raise ToolSourceError(str(exc)) from exc

    async def _start_signed_in(self, connection: Connection) -> None:
        try:
            await connection.start()
        except ServerNotStarted:
            has_signed_in = connection.needs_sign_in and await self.sign_in(connection)
            if not has_signed_in:
                raise
            await connection.start()

    async def sign_in(self, connection: Connection) -> bool:
        """Let the user sign in; return False if no user is available.

        Raises:
            ToolSourceError: The user canceled the sign-in, or it failed.
        """
        launch = connection.launch
        if self._host.sign_in is None or not isinstance(launch, HttpLaunch):
            return False

        try:
            return await self._host.sign_in(self._server, launch)
        except (PromptCancelled, SignInError) as exc:
            again = f"Sign in with `%jp mcp sign-in {self._server}`"
            raise ToolSourceError(
                f"the MCP server {self._server} needs a sign-in. {exc} {again}"
            ) from exc
