"""The sources of tools that run, and what they have of the tools that are wanted.

Source: `docs/extending.md`, `docs/turns.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.tool_config import ToolConfig
from jp_nb.tooling.base import Tool
from jp_nb.tooling.faults import is_cancelled, summary
from jp_nb.tooling.sources import ToolSource

log = logging.getLogger(__name__)

LONGEST: Final = 30.0
"""Seconds that a source has to start and to list its tools."""


@dataclass(frozen=True, slots=True)
class FoundTools:
    """The tools that are wanted, as far as the sources have them.

    Attributes:
        tools: Each tool, and the source that it is from, by name.
        missing: Why the others are not there, by name.
        clashes: Of each name that two sources have: which tool counts.
        problems: One text for each source that failed; it names the source.
    """

    tools: Mapping[str, tuple[Tool, ToolSource]]
    missing: Mapping[str, str]
    clashes: Mapping[str, str]
    problems: tuple[str, ...] = ()


class ToolSources:
    """Runs the sources of one session, on the event loop of its turns.

    A source starts when the first of its tools is wanted. It is closed when its configuration
    changes or is gone, when it cannot list its tools, and in the end.

    Args:
        available: Returns the sources that a configuration has.
    """

    def __init__(self, available: Callable[[AppConfig], Sequence[ToolSource]]) -> None:
        self._available = available
        self._running: dict[str, ToolSource] = {}
        self._lock = asyncio.Lock()

    async def find(self, config: AppConfig, wanted: Mapping[str, ToolConfig]) -> FoundTools:
        """Ask all sources of `config` at once for their part of the `wanted` tools.

        A source that fails leaves the tools of the others.
        """
        sources = {source.name: source for source in self._available(config)}
        shares: dict[str, dict[str, ToolConfig]] = {}
        missing: dict[str, str] = {}
        for name, tool in wanted.items():
            if (own := _source_of(tool, sources)) is not None:
                shares.setdefault(own, {})[name] = tool
            else:
                missing[name] = _not_there(tool)
        async with self._lock:
            await self._close(*(x for x in self._running.values() if sources.get(x.name) != x))
            lists = await asyncio.gather(*(self._list(sources[x], shares[x]) for x in shares))
        tools: dict[str, tuple[Tool, ToolSource]] = {}
        for (own, share), found in zip(shares.items(), lists, strict=True):
            for name, tool in share.items():
                if isinstance(found, str):
                    missing[name] = found
                elif name in found:
                    tools[name] = found[name], sources[own]
                else:
                    missing[name] = _not_there(tool)
        clashes: dict[str, str] = {}
        for source in sources.values():
            clashes |= source.clashes(config.conversation.tools)
        problems = tuple(found for found in lists if isinstance(found, str))
        return FoundTools(tools, missing, clashes, problems)

    async def aclose(self) -> None:
        """Close every source that runs."""
        async with self._lock:
            await self._close(*self._running.values())

    async def _list(
        self, source: ToolSource, wanted: Mapping[str, ToolConfig]
    ) -> Mapping[str, Tool] | str:
        """Return the tools of `source`, which is started if need be; a text if it fails."""
        failed, limit = "did not start", asyncio.timeout(LONGEST)
        try:
            async with limit:
                if source.name not in self._running:
                    self._running[source.name] = source
                    await source.start()
                failed = "did not list its tools"
                return await self._running[source.name].list(wanted)
        except (Exception, asyncio.CancelledError) as exc:
            await self._close(source)
            if is_cancelled():
                raise
            log.debug("A tool source failed", exc_info=True)
            why = f"no response within {LONGEST:g} s" if limit.expired() else summary(exc)
        return f"the tool source {source.name!r} {failed}: {why}"

    async def _close(self, *sources: ToolSource) -> None:
        """Close those of `sources` that run, all at once: one that hangs leaves the others time."""
        running = [each for x in sources if (each := self._running.pop(x.name, None)) is not None]
        await asyncio.gather(*map(_close_one, running))


async def _close_one(source: ToolSource) -> None:
    try:
        async with asyncio.timeout(LONGEST):
            await source.close()
    except (Exception, asyncio.CancelledError):  # it must not keep others from their end
        if is_cancelled():
            raise
        log.warning("The tool source %r did not close", source.name, exc_info=True)


def _source_of(tool: ToolConfig, names: Mapping[str, object]) -> str | None:
    """Return the longest of `names` that the configured source of `tool` begins with."""
    parts = (tool.source or "").split(".")
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in names), None)


def _not_there(tool: ToolConfig) -> str:
    return f"the source {tool.source!r} has no tool of this name"
