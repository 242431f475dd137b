"""The MCP servers of a session, as sources of tools.

The modules of servers are loaded when one is configured.

Source: `docs/mcp.md`.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from jp_nb.config.tree.app import AppConfig
from jp_nb.session.conversation import ActiveConversation
from jp_nb.storage import environment
from jp_nb.toolkit.base import ToolSource

if TYPE_CHECKING:
    from jp_nb.mcp.transports.launches import HttpLaunch
    from jp_nb.session.mcp_servers.mcp_launches import AskInputs, ServerLaunches
    from jp_nb.session.model_access.open_cassette import OpenCassette

SignIn = Callable[[str, "HttpLaunch"], Awaitable[bool]]
"""Let the user sign in to the server of that name; return False if no user is available."""


class ServerSources:
    """Makes a source for each server of a configuration.

    `TurnRunner` sets the attributes when it is made.

    Attributes:
        ask: Asks the user for the inputs of a server; None if no user is available.
        sign_in: Lets the user sign in to a server; None if no user is available.
    """

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self.ask: AskInputs | None = None
        self.sign_in: SignIn | None = None

    @cached_property
    def launches(self) -> ServerLaunches:
        """Resolves the servers to commands and addresses; it remembers the user's answers."""
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

        from jp_nb.mcp.server_start import ServerHost
        from jp_nb.mcp.source import McpSource

        has_user = self._has_user(config)
        host = ServerHost(self.launches.resolve, asks_users=has_user, sign_in=self.sign_in)
        return [McpSource(name, server, host) for name, server in servers.items()]

    def _has_user(self, config: AppConfig) -> bool:
        """Return True if a user, or prepared answers, can answer questions of servers."""
        answers = os.environ.get(environment.ANSWERS_VARIABLE) or config.prompt.answers
        return not self._active.headless or bool(answers)
