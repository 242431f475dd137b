"""The MCP servers of a session, as sources of tools.

The modules of servers are loaded when one is configured.

Source: `docs/mcp.md`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.server_settings import McpServer
from jp_nb.errors import PromptUnavailable, UsageError
from jp_nb.session.conversation import ActiveConversation
from jp_nb.storage import environment
from jp_nb.toolkit.base import ToolSource

if TYPE_CHECKING:
    from jp_nb.mcp.transports.launches import HttpLaunch
    from jp_nb.session.mcp_servers.mcp_launches import AskInputs, ServerLaunches
    from jp_nb.session.model_access.open_cassette import OpenCassette

SignIn = Callable[[str, "HttpLaunch"], Awaitable[bool]]
"""Let the user sign in to the server of that name; return False if no user is available."""
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


class ServerSources:
    """Makes a source for each server of a configuration.

    `TurnRunner` sets the attributes at the first turn of a kernel.

    Attributes:
        ask: Asks the user for the inputs of a server; None if no user is available.
        sign_in: Lets the user sign in to a server; None if no user is available.
    """

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self.ask: AskInputs | None = None
        self.sign_in: SignIn | None = None

    @cached_property
    def _launches(self) -> ServerLaunches:
        from jp_nb.session.mcp_servers.mcp_launches import ServerLaunches

        return ServerLaunches(self._active.files, self._ask_inputs)

    async def _ask_inputs(self, server: str, labels: Mapping[str, str]) -> Mapping[str, str]:
        return {} if self.ask is None else await self.ask(server, labels)

    def list(self, config: AppConfig, cassette: OpenCassette | None) -> Sequence[ToolSource]:
        """Return the sources of the servers of `config`, in their order. None starts.

        A `cassette` that replaces all results of tools also replaces the servers.
        """
        servers = config.providers.mcp
        if not servers:
            return ()

        if cassette is not None and cassette.is_offline and cassette.choice.tools == "recorded":
            from jp_nb.session.mcp_servers.recorded_servers import RecordedServer

            return [RecordedServer(name, cassette.content) for name in servers]

        from jp_nb.mcp.source import McpSource, ServerHost

        has_user = self._has_user(config)
        host = ServerHost(self._launches.resolve, asks_users=has_user, sign_in=self.sign_in)
        return [McpSource(name, server, host) for name, server in servers.items()]

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
        if self.sign_in is None or not await self.sign_in(name, launch):
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
        from jp_nb.mcp.source import NOT_INSTALLED, has_library
        from jp_nb.mcp.transports.launches import HttpLaunch

        if not has_library():
            raise UsageError(NOT_INSTALLED)
        if server.transport != "http":
            raise UsageError(IS_A_PROGRAM.format(name))

        launch = await self._launches.resolve(name, server)
        assert isinstance(launch, HttpLaunch)
        if launch.has_authorization:
            raise UsageError(HAS_HEADER.format(name, name))
        return launch

    def _has_user(self, config: AppConfig) -> bool:
        """Return True if a user, or prepared answers, can answer questions of servers."""
        answers = os.environ.get(environment.ANSWERS_VARIABLE) or config.prompt.answers
        return not self._active.headless or bool(answers)
