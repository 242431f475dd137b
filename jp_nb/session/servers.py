"""The MCP servers of a session, as sources of tools.

The modules of servers are loaded when one is configured.

Source: `docs/mcp.md`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from jp_nb.config.tree.app import AppConfig
from jp_nb.session.conversation import ActiveConversation
from jp_nb.storage import environment
from jp_nb.tools.base import ToolSource

if TYPE_CHECKING:
    from jp_nb.session.cassettes import OpenCassette
    from jp_nb.session.mcp_launches import AskInputs, ServerLaunches


class ServerSources:
    """Makes a source for each server of a configuration.

    Attributes:
        ask: Asks the user for the inputs of a server; None if no user is available.
    """

    def __init__(self, active: ActiveConversation) -> None:
        self._active = active
        self.ask: AskInputs | None = None

    @cached_property
    def _launches(self) -> ServerLaunches:
        from jp_nb.session.mcp_launches import ServerLaunches

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
            from jp_nb.session.recorded_servers import RecordedServer

            return [RecordedServer(name, cassette.content) for name in servers]
        from jp_nb.mcp.source import McpSource, ServerHost

        has_user = self._has_user(config)
        host = ServerHost(self._launches.resolve, asks_users=has_user)
        return [McpSource(name, each, host) for name, each in servers.items()]

    def _has_user(self, config: AppConfig) -> bool:
        """Return True if a user, or prepared answers, can answer questions of servers."""
        answers = os.environ.get(environment.ANSWERS) or config.prompt.answers
        return not self._active.headless or bool(answers)
