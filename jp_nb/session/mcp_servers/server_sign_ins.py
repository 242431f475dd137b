"""Sign the user in to MCP servers, and out: `%jp mcp sign-in`, `%jp mcp sign-out`.

A turn also signs in, when a server asks for it (`sign_in_forms.py`). These commands replace or
delete the stored tokens at any time.

Source: `docs/mcp.md`, Sign in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jp_nb.config.tree.server_settings import McpServer
from jp_nb.errors import PromptUnavailable, UsageError
from jp_nb.session.mcp_servers.servers import ServerSources

if TYPE_CHECKING:
    from jp_nb.mcp.transports.launches import HttpLaunch

IS_A_PROGRAM: Final = (
    "The MCP server {} is a program on this computer. Only servers with a `url` need a sign-in."
)
NO_USER: Final = (
    "No user is available to sign in to the MCP server {}. Sign in on a notebook of the same "
    "computer and user: runs without a user use the same tokens."
)
HAS_HEADER: Final = (
    "The settings of the MCP server {} have an `Authorization` header, which is used in place of a "
    "sign-in. Remove it first: `%jp config --unset providers.mcp.{}.headers`"
)


class ServerSignIns:
    """Signs the user in to the servers of a session, on the agent's event loop."""

    def __init__(self, servers: ServerSources) -> None:
        self._servers = servers

    async def sign_in_to(self, name: str, server: McpServer) -> None:
        """Let the user sign in to a server, with new tokens in place of the stored ones.

        Raises:
            ConfigError: Its address cannot be resolved.
            PromptCancelled: The user did not finish it.
            PromptUnavailable: No user is available.
            SignInError: It failed.
            UsageError: It needs no sign-in.
        """
        launch = await self._resolve_remote(name, server)
        # `SignInForms.sign_in`, which returns False if no user is available.
        sign_in = self._servers.sign_in
        if sign_in is None or not await sign_in(name, launch):
            raise PromptUnavailable(NO_USER.format(name), reason="no user is available")

    async def sign_out_of(self, name: str, server: McpServer) -> bool:
        """Delete the stored tokens of a server; return False if there are none.

        Raises:
            ConfigError: Its address cannot be resolved.
            UsageError: It needs no sign-in.
        """
        launch = await self._resolve_remote(name, server)
        return launch.credentials is not None and launch.credentials.forget()

    async def _resolve_remote(self, name: str, server: McpServer) -> HttpLaunch:
        """Return the address of a server that needs a sign-in, or raise `UsageError`."""
        from jp_nb.mcp.server_start import NOT_INSTALLED, has_library
        from jp_nb.mcp.transports.launches import HttpLaunch

        if not has_library():
            raise UsageError(NOT_INSTALLED)
        if server.transport != "http":
            raise UsageError(IS_A_PROGRAM.format(name))

        launch = await self._servers.launches.resolve(name, server)
        assert isinstance(launch, HttpLaunch)
        if launch.has_authorization:
            raise UsageError(HAS_HEADER.format(name, name))
        return launch
