"""Run the sources of tools: start them, list their tools, and close them.

A source, such as an MCP server, may be slow or fail. It starts when a turn first needs one of its
tools, and a failure affects only this source: its tools are missing, each with the reason.

`find` returns tools that the configuration lists. Some sources also *discover* tools, which the
configuration then gets (`discover`): an MCP server tells its tools only after its start.

Source: `docs/turns.md`, `docs/extending.md`, `docs/decisions.md` D37, D217.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from jp_nb.agent.offered_tools.configured_tools import find_source_name, is_used
from jp_nb.agent.offered_tools.tool_registrations import add_registrations
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import ToolConfig
from jp_nb.errors import ToolSourceError
from jp_nb.toolkit.base import SOURCE_TIMEOUT_S, Tool, ToolRegistrations, ToolSource
from jp_nb.toolkit.cancellation import is_cancelled
from jp_nb.toolkit.function_tools.tool_errors import summarize_error

log = logging.getLogger(__name__)

T = TypeVar("T")

NOT_STARTED_REASON: Final = "the tool source {!r} has not started. It starts with the next turn"


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A source that has no tools now, with the reason. A required one ends the turn."""

    text: str
    is_required: bool = False


@dataclass(slots=True)
class SourceAttempt:
    """One attempt to get the tools of a turn, in which each source is tried once.

    A turn may resolve its configuration several times. A source that failed is not tried again.

    Attributes:
        may_start: False if sources that discover tools must not start, as for a preview.
        renewed: Names of the sources that have renewed their tools, once for each attempt.
        failures: The failed sources, by name.
    """

    may_start: bool = True
    renewed: set[str] = field(default_factory=set)
    failures: dict[str, SourceFailure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundTools:
    """The wanted tools that exist, each with its source, and reasons for the others.

    Attributes:
        tools: The tools by their names for the model.
        missing: The reason why there is no such tool, by name.
        clashes: Description of each name that two sources have.
        problems: One text for each optional source that failed, with its name.
        failures: The same for required sources.
        failed_sources: The text of each failed source, by its name.
        notices: Texts for the user about the sources.
        instructions: Texts for the model about the use of the tools.
    """

    tools: dict[str, tuple[Tool, ToolSource]]
    missing: dict[str, str]
    clashes: Mapping[str, str]
    problems: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    failed_sources: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()


class ToolSources:
    """Runs the sources of a session on the agent's event loop.

    A source starts with the first request for one of its tools. It is closed when its configuration
    changes or is removed, when it cannot list its tools, and with the session.

    Attributes:
        available: Returns the sources of a configuration. They are not started.
        discovered: The tools that sources have found, by the name of the source.
        last_failures: The failure of each source that has not worked since, by its name.
    """

    def __init__(self, available: Callable[[AppConfig], Sequence[ToolSource]]) -> None:
        self.available = available
        self.discovered: Mapping[str, ToolRegistrations] = {}
        self.last_failures: dict[str, str] = {}
        # By the name of the source. `_running` also has those that start now.
        self._running: dict[str, ToolSource] = {}
        # Those that start or list their tools now: the server, or else the name of the source.
        self._awaited: dict[str, str] = {}
        self._lock = asyncio.Lock()  # held while sources start, are asked, or end

    async def discover(
        self,
        config: AppConfig,
        attempt: SourceAttempt,
        *,
        named: Collection[str] = (),
        only_named: bool = False,
    ) -> AppConfig:
        """Return `config` with the tools that its sources find, and remember these tools.

        A source is asked if `config` uses one of its tools, or if its name is in `named`. With
        `only_named`, the use in `config` does not matter.
        """
        sources = self.available(config)
        discovering = [source for source in sources if source.discovers]
        asked = [
            source
            for source in discovering
            if source.name in named or (not only_named and is_used(source, config))
        ]

        async with self._lock:
            await self._close_outdated(sources)
            answers = await asyncio.gather(
                *(self._discover_tools(source, attempt) for source in asked)
            )

        # A source that was not asked, or failed (None), keeps the tools of the last time.
        configured = {source.name for source in discovering}
        discovered = {name: tools for name, tools in self.discovered.items() if name in configured}
        for source, tools in zip(asked, answers, strict=True):
            if tools is not None:
                discovered[source.name] = tools
        self.discovered = discovered

        if not discovering:
            return config
        return add_registrations(config, discovered, discovering)

    async def find(
        self, config: AppConfig, wanted: Mapping[str, ToolConfig], attempt: SourceAttempt
    ) -> FoundTools:
        """Return the `wanted` tools that exist.

        The sources are asked concurrently. A failure affects only its source.
        """
        sources = {source.name: source for source in self.available(config)}
        wanted_by_source, others = _group_by_source(wanted, sources)
        missing = {name: _describe_missing(tool) for name, tool in others.items()}

        async with self._lock:
            await self._close_outdated(sources.values())
            lists = await asyncio.gather(
                *(
                    self._list_tools(sources[source_name], of_source, attempt)
                    for source_name, of_source in wanted_by_source.items()
                )
            )

        tools: dict[str, tuple[Tool, ToolSource]] = {}
        for (source_name, of_source), listed in zip(wanted_by_source.items(), lists, strict=True):
            for name, tool in of_source.items():
                if listed is None:  # the source failed
                    missing[name] = attempt.failures[source_name].text
                elif name in listed:
                    tools[name] = listed[name], sources[source_name]
                else:
                    missing[name] = _describe_missing(tool)

        clashes: dict[str, str] = {}
        for source in sources.values():
            clashes |= source.clashes(config.conversation.tools)

        failed = {name: failure for name, failure in attempt.failures.items() if name in sources}
        used_names = {source.name for _, source in tools.values()}
        return FoundTools(
            tools,
            missing,
            clashes,
            problems=_list_texts(failed.values(), are_required=False),
            failures=_list_texts(failed.values(), are_required=True),
            failed_sources={name: failure.text for name, failure in failed.items()},
            notices=self._take_notices(),
            instructions=self._list_instructions(used_names),
        )

    def _take_notices(self) -> tuple[str, ...]:
        notices: list[str] = []
        for source in self._running.values():
            notices += source.take_notices()
        return tuple(notices)

    def _list_instructions(self, source_names: Collection[str]) -> tuple[str, ...]:
        """Return the instructions of the running sources with these names, in a stable order."""
        texts = [
            source.instructions for source in self._running.values() if source.name in source_names
        ]
        return tuple(sorted(text for text in texts if text))

    def list_awaited(self) -> list[str]:
        """Return the names of the servers, or of the sources, that start or list their tools now.

        A source that has no own server runs in this process.
        """
        return list(self._awaited.values())

    def find_running(self, name: str) -> ToolSource | None:
        """Return the running source of that name."""
        return self._running.get(name)

    async def end(self, name: str) -> bool:
        """Close the running source of that name; return False if there is none.

        It starts again with the next request for one of its tools.
        """
        async with self._lock:
            source = self._running.get(name)
            if source is None:
                return False

            await self._close(source)
            return True

    async def aclose(self) -> None:
        """Close all running sources."""
        async with self._lock:
            await self._close(*self._running.values())

    async def _discover_tools(
        self, source: ToolSource, attempt: SourceAttempt
    ) -> ToolRegistrations | None:
        return await self._ask(source, attempt, lambda running: running.discover())

    async def _list_tools(
        self, source: ToolSource, wanted: Mapping[str, ToolConfig], attempt: SourceAttempt
    ) -> Mapping[str, Tool] | None:
        return await self._ask(source, attempt, lambda running: running.list(wanted))

    async def _ask(
        self,
        source: ToolSource,
        attempt: SourceAttempt,
        ask: Callable[[ToolSource], Awaitable[T]],
    ) -> T | None:
        """Start `source` if necessary, and ask it; None after a failure, which is noted.

        Start, renewal, and answer share one time limit. A source that fails is closed, so that it
        starts anew the next time. Called with the lock.
        """
        if source.name in attempt.failures:
            return None

        is_running = source.name in self._running
        if source.discovers and not is_running and not attempt.may_start:
            attempt.failures[source.name] = SourceFailure(NOT_STARTED_REASON.format(source.name))
            return None

        failed_step = "did not start"
        self._awaited[source.name] = source.owner or source.name
        limit = asyncio.timeout(source.start_timeout_s or None)

        try:
            async with limit:
                if not is_running:
                    self._running[source.name] = source
                    await source.start()

                failed_step = "did not list its tools"
                running = self._running[source.name]  # or an equal one, which started earlier
                if is_running and source.name not in attempt.renewed:
                    await running.renew()
                attempt.renewed.add(source.name)
                answer = await ask(running)
                self.last_failures.pop(source.name, None)
                return answer
        except (Exception, BaseExceptionGroup, asyncio.CancelledError) as exc:
            # A `CancelledError` may also be that of a future for which the source waits. Only the
            # cancellation of this task is raised.
            cause = _find_cause(exc)
            log.debug("A tool source failed", exc_info=True)
            await self._close(source)
            if is_cancelled():
                raise asyncio.CancelledError from exc
        finally:
            self._awaited.pop(source.name, None)

        # Only a failure gets here.
        text = _describe_failure(source, failed_step, cause, timed_out=limit.expired())
        attempt.failures[source.name] = SourceFailure(text, source.is_required)
        self.last_failures[source.name] = text
        return None

    async def _close_outdated(self, sources: Collection[ToolSource]) -> None:
        """Close the running sources that are not among `sources`, or have other settings there."""
        current = {source.name: source for source in sources}
        outdated = [
            source for source in self._running.values() if current.get(source.name) != source
        ]
        await self._close(*outdated)

    async def _close(self, *sources: ToolSource) -> None:
        """Close `sources` concurrently, because one may hang."""
        popped = [self._running.pop(source.name, None) for source in sources]
        running = [source for source in popped if source is not None]
        await asyncio.gather(*map(_close_one, running))


async def _close_one(source: ToolSource) -> None:
    """Close `source` in bounded time. An error is only logged."""
    try:
        async with asyncio.timeout(SOURCE_TIMEOUT_S):
            await source.close()
    except (Exception, BaseExceptionGroup, asyncio.CancelledError):  # the others must be closed too
        if is_cancelled():
            raise
        log.warning("The tool source %r did not close", source.name, exc_info=True)


def _describe_failure(
    source: ToolSource, failed_step: str, cause: BaseException, *, timed_out: bool
) -> str:
    if isinstance(cause, ToolSourceError):
        return str(cause)  # it names the source itself

    reason = summarize_error(cause)
    if timed_out:
        reason = f"no response within {source.start_timeout_s:g} s"
    return f"the tool source {source.name!r} {failed_step}: {reason}"


def _find_cause(exc: BaseException) -> BaseException:
    """Return the first single exception in a group of exceptions."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


def _list_texts(failures: Iterable[SourceFailure], *, are_required: bool) -> tuple[str, ...]:
    """Return the texts of the failures of required sources, or of the others, without duplicates.

    Several sources may fail with the same text, for example if they need the same program.
    """
    texts = [failure.text for failure in failures if failure.is_required is are_required]
    return tuple(dict.fromkeys(texts))


def _group_by_source(
    wanted: Mapping[str, ToolConfig], source_names: Collection[str]
) -> tuple[dict[str, dict[str, ToolConfig]], dict[str, ToolConfig]]:
    """Return the `wanted` tools by the name of their source, and those without a known source."""
    groups: dict[str, dict[str, ToolConfig]] = {}
    others: dict[str, ToolConfig] = {}
    for name, tool in wanted.items():
        source_name = find_source_name(tool, source_names)
        if source_name is None:
            others[name] = tool
        else:
            groups.setdefault(source_name, {})[name] = tool
    return groups, others


def _describe_missing(tool: ToolConfig) -> str:
    return f"the source {tool.source!r} has no tool of this name"
