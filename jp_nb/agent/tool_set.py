"""Tools that are offered to the model in one cycle, and the sources they come from.

Source: `docs/turns.md`, `docs/decisions.md` D11, D22, D37, `docs/extending.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar, cast

from pydantic import JsonValue

from jp_nb.agent.provider import ToolDefinition
from jp_nb.config.access_rules import Grants
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tools import (
    CANCELLATION,
    STAR,
    Command,
    Covers,
    Enable,
    ErrorStyle,
    FormatMode,
    QuestionConfig,
    ResultMode,
    RunMode,
    ToolConfig,
    ToolStyle,
)
from jp_nb.tools.base import ArgumentFormatter, Tool, ToolSource, error_summary, is_cancelled
from jp_nb.tools.command import CommandFormatter, name_in_source
from jp_nb.tools.outcome import MAX_RESULT_CHARS
from jp_nb.tools.parameters import format_documentation, parameters_schema

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
            why = f"no response within {LONGEST:g} s" if limit.expired() else error_summary(exc)
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


T = TypeVar("T")

NEEDS_PERSON = "it needs a user, and no user is available"


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that may run: its executor and everything configured about it, resolved.

    Attributes:
        origin: Where it comes from, as a person reads it: `Python`, `built-in`.
        covers: The calls that a permission for a turn covers.
        format: `unattended` if `formatter` may run before anybody permitted the call.
        formatter: Writes arguments for the person, if a command is configured for that.
        parameters: How arguments are shown without a formatter; None: in the line of the call.
        inline_results: How much of a result is shown; None: nothing.
        result_max_chars: How many characters of a result the model reads; 0: all.
        inline_errors: How much of an error is shown below its line; None: nothing.
        access: Grants as configured, for the tool to look at; None if it has none.
        grants: What it may see and change of the configuration; None if nothing is granted.
        summary: What the model is told with every request, if not the description.
        description: What the tool does, at length.
        examples: How it is used.
        described: Its parameters as they were configured.
    """

    name: str
    executor: Tool
    definition: ToolDefinition
    run: RunMode
    result: ResultMode
    cancellation_response: str
    hidden: bool
    questions: Mapping[str, QuestionConfig]
    options: Mapping[str, JsonValue]
    origin: str
    covers: Covers = "tool"
    format: FormatMode = "ask"
    formatter: ArgumentFormatter | None = None
    parameters: Literal["json", "function_call", "off"] | None = None
    inline_results: Literal["off", "full"] | int | None = None
    inline_errors: Literal["off", "full"] | int | None = None
    access: JsonValue = None
    grants: Grants | None = None
    summary: str | None = None
    description: str | None = None
    examples: str | None = None
    result_max_chars: int = MAX_RESULT_CHARS
    described: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def documentation(self) -> str:
        """All there is to say about it, in Markdown; "" if that is nothing."""
        return format_documentation(
            self.name, self.summary, self.description, self.examples, self.documented_schema
        )

    @property
    def documented_schema(self) -> Mapping[str, JsonValue]:
        """The schema of its arguments with all that is said about them, beyond what is sent."""
        if self.executor.schema is None:
            return {"properties": dict(self.described)}
        return _described(self.executor.schema, self.described)

    @property
    def rights(self) -> Grants:
        """Its grants; without any it may not change a thing."""
        return self.grants or Grants(())


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools on offer by name, and why configured ones are not among them.

    Attributes:
        tools: What the model may call.
        missing: Why a tool that is on is not among them.
        clashes: Of each name that two sources have: which tool counts, in words.
        problems: What is wrong with a source of tools, one text for each.
    """

    tools: dict[str, OfferedTool]
    missing: dict[str, str]
    clashes: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def documentation(self) -> Mapping[str, str]:
        """Documentation by name; each is written when it is looked up."""
        return _Documentation(self.tools)


class _Documentation(Mapping[str, str]):
    def __init__(self, tools: Mapping[str, OfferedTool]) -> None:
        self._tools = tools

    def __getitem__(self, name: str) -> str:
        return self._tools[name].documentation

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def with_all_tools_enabled(config: AppConfig) -> AppConfig:
    """Return `config` with every tool on: what those that are off would be like."""
    on = {"enable": Enable(state=True)}
    switched = {
        name: tool if name == STAR else tool.model_copy(update=on)
        for name, tool in config.conversation.tools.items()
    }
    conversation = config.conversation.model_copy(update={"tools": switched})
    return config.model_copy(update={"conversation": conversation})


async def offer_tools(
    config: AppConfig,
    sources: ToolSources,
    *,
    unavailable_reason: str | None = None,
    answered: Callable[[str], bool] = lambda _: False,
) -> ToolSet:
    """Return the tools that `config` enables, and the one it forces unless that is locked off.

    Args:
        config: The configuration in force, registrations included.
        sources: Where tools come from. One that fails leaves the tools of the others.
        unavailable_reason: None if a user may be available. Tools
            that need a person are not offered without one.
        answered: Tells if questions of the tool of that name were answered beforehand.
    """
    star = config.conversation.tools.get(STAR, ToolConfig())
    wanted: dict[str, ToolConfig] = {}
    missing: dict[str, str] = {}
    for name, tool in config.conversation.tools.items():
        if name == STAR or not _is_wanted(name, config):
            continue
        if tool.source is None:
            missing[name] = f"conversation.tools.{name}.source is not set"
        else:
            wanted[name] = tool
    found = await sources.find(config, wanted)
    tools: dict[str, OfferedTool] = {}
    for name, tool in wanted.items():
        if name not in found.tools:
            continue
        offered = _resolve(name, tool, star, *found.tools[name])
        if unavailable_reason is not None and _is_useless_alone(offered) and not answered(name):
            missing[name] = NEEDS_PERSON
        else:
            tools[name] = offered
    return ToolSet(tools, {**missing, **found.missing}, found.clashes, found.problems)


def _is_useless_alone(tool: OfferedTool) -> bool:
    """True if only a person could answer what `tool` asks, and that is all it is for."""
    configured = any(question.answer is not None for question in tool.questions.values())
    return tool.executor.needs_user and not configured


def _is_wanted(name: str, config: AppConfig) -> bool:
    """True if the tool is on, or `assistant.tool_choice` names it and it is not locked off."""
    state, rule = config.conversation.get_tool_state(name)
    choice = config.assistant.tool_choice
    is_named = name == choice and choice not in ("auto", "none", "required")
    return state or (is_named and rule != "never")


def _resolve(
    name: str, tool: ToolConfig, star: ToolConfig, executor: Tool, origin: ToolSource
) -> OfferedTool:
    style = _style(tool.style, star.style)
    run = tool.run or star.run or origin.run
    described = _parameters(tool)
    return OfferedTool(
        name=name,
        executor=executor,
        definition=ToolDefinition(
            name,
            tool.summary or tool.description or "",
            executor.schema or parameters_schema(described),
        ),
        run=run,
        result=tool.result or star.result or "unattended",
        result_max_chars=_first(tool.result_max_chars, star.result_max_chars, MAX_RESULT_CHARS),
        cancellation_response=(
            tool.cancellation_response or star.cancellation_response or CANCELLATION
        ),
        hidden=bool(style.hidden),
        questions=tool.questions,
        options=tool.options,
        origin=origin.title,
        covers=tool.covers or star.covers or executor.covers,
        format=tool.format or star.format or ("unattended" if run == "unattended" else "ask"),
        formatter=(
            CommandFormatter(style.parameters, name_in_source(name, tool))
            if isinstance(style.parameters, Command)
            else None
        ),
        parameters=None if isinstance(style.parameters, Command) else style.parameters,
        inline_results=style.inline_results,
        inline_errors=style.error.inline_results,
        access=_access(tool),
        grants=Grants(tool.access.config) if tool.access and tool.access.config else None,
        summary=tool.summary,
        description=tool.description,
        examples=tool.examples,
        described=described,
    )


def _first(own: int | None, star: int | None, default: int) -> int:
    return next((value for value in (own, star) if value is not None), default)


def _style(own: ToolStyle, star: ToolStyle) -> ToolStyle:
    """Return a style with each field of `own`, else of `star`."""

    def first(mine: T | None, default: T | None) -> T | None:
        return default if mine is None else mine

    return ToolStyle.model_construct(
        hidden=first(own.hidden, star.hidden),
        inline_results=first(own.inline_results, star.inline_results),
        parameters=first(own.parameters, star.parameters),
        error=ErrorStyle.model_construct(
            inline_results=first(own.error.inline_results, star.error.inline_results)
        ),
    )


def _access(tool: ToolConfig) -> JsonValue:
    """Return the grants as a tool reads them: every kind of rule, and what each rule says."""
    if tool.access is None:
        return None
    return cast(JsonValue, tool.access.model_dump(mode="json", exclude_none=True))


def _described(
    schema: Mapping[str, JsonValue], parameters: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return `schema` with what the configuration says in words about its properties."""
    properties = schema.get("properties")
    nodes = dict(properties) if isinstance(properties, dict) else {}
    for name, said in parameters.items():
        node = nodes.get(name)
        if isinstance(node, dict) and isinstance(said, dict):
            words = ("summary", "description", "examples")
            nodes[name] = {**node, **{key: text for key, text in said.items() if key in words}}
    return {**schema, "properties": nodes}


def _parameters(tool: ToolConfig) -> dict[str, JsonValue]:
    """Return the parameters as they were configured, without what nobody set."""
    return {
        name: node.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        for name, node in tool.parameters.items()
    }
