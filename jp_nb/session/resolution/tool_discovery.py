"""Run the tool sources of a session, and keep the tools that they find.

A tool source, such as an MCP server, may *discover* tools that the configuration does not name. The
discovered tools of this kernel (`ActiveConversation.discovered`) are a layer of the settings. Each
method here that asks sources for tools updates that layer. It notes the sources that failed in the
`SourceAttempt` of the turn (`agent/offered_tools/tool_sources.py`), and does not ask them again.

Source: `docs/mcp.md`, `docs/extending.md`, `docs/decisions.md` D217.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from jp_nb.agent.offered_tools.tool_set import ToolSet, offer_tools
from jp_nb.agent.offered_tools.tool_sources import SourceAttempt, ToolSources
from jp_nb.config.tree.app import AppConfig
from jp_nb.session.conversation import ActiveConversation
from jp_nb.toolkit.base import ToolSource


class ToolDiscovery:
    """Asks the tool sources of a session for tools, on the agent's event loop."""

    def __init__(self, active: ActiveConversation, sources: ToolSources) -> None:
        self._active = active
        self._sources = sources

    async def offer(
        self,
        config: AppConfig,
        *,
        unavailable_reason: str | None,
        answered: Callable[[str], bool],
        attempt: SourceAttempt | None,
    ) -> ToolSet:
        """Return the tools that `config` enables; see `offer_tools`.

        Without a user (`unavailable_reason`), tools that ask questions are omitted, unless
        `answered` returns True for their name, because an answers file has the answers.
        """
        try:
            return await offer_tools(
                config,
                self._sources,
                unavailable_reason=unavailable_reason,
                answered=answered,
                attempt=attempt,
            )
        finally:
            # Also after a failure: another source may have found its tools before.
            self._update_discovered(config)

    async def discover(
        self,
        config: AppConfig,
        attempt: SourceAttempt,
        *,
        names: Collection[str] = (),
        only_named: bool = False,
    ) -> bool:
        """Let the sources that `config` uses find their tools; return True if any have changed.

        A source is also asked if `names` has its name or one of its tools. With `only_named`, other
        sources are not asked.
        """
        sources = self._list_discovering_sources(config)
        named = [source.name for source in sources if _has_any_of(source, names)]
        await self._sources.discover(config, attempt, named=named, only_named=only_named)
        return self._update_discovered(config)

    def may_discover(self, config: AppConfig) -> bool:
        """Return True if a source of `config` discovers tools, or one has done so before."""
        return self._has_discovered or bool(self._list_discovering_sources(config))

    @property
    def _has_discovered(self) -> bool:
        return bool(self._active.discovered.state.toolsets)

    def _list_discovering_sources(self, config: AppConfig) -> list[ToolSource]:
        return [source for source in self._sources.available(config) if source.discovers]

    def _update_discovered(self, config: AppConfig) -> bool:
        """Take over the tools that the sources have found; return True if any have changed."""
        names = [source.name for source in self._list_discovering_sources(config)]
        # If no source is left, the update removes the tools of earlier ones.
        if not names and not self._has_discovered:
            return False
        return self._active.discovered.update(names, self._sources.discovered)

    def find_running_server(self, name: str) -> ToolSource | None:
        """Return the source of the MCP server `name`, if it runs or starts."""
        return self._sources.find_running(f"mcp.{name}")

    def find_server_failure(self, name: str) -> str:
        """Return why the MCP server `name` did not start when it was last tried; else ""."""
        return self._sources.last_failures.get(f"mcp.{name}", "")

    async def end_server(self, name: str) -> bool:
        """End the MCP server `name`; return False if it does not run."""
        return await self._sources.end(f"mcp.{name}")

    def list_awaited_servers(self) -> list[str]:
        """Return the names of the servers that start or list their tools now."""
        return self._sources.list_awaited()

    async def aclose(self) -> None:
        """Close all sources."""
        await self._sources.aclose()


def _has_any_of(source: ToolSource, names: Collection[str]) -> bool:
    """Return True if one of `names` is `source`, or may be one of its tools."""
    return any(_is_tool_of(source, name) for name in names)


def _is_tool_of(source: ToolSource, name: str) -> bool:
    is_source = name == source.name or name.startswith(f"{source.name}.")
    return is_source or source.may_have(name)
