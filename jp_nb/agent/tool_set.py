"""The tools that a model is offered, each with its settings in force.

Source: `docs/turns.md`, `docs/decisions.md` D11, D22, D37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar, cast

from pydantic import JsonValue

from jp_nb.agent.model_events import ToolDefinition
from jp_nb.agent.tool_sources import ToolSources
from jp_nb.config.grants import Grants
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.command_line import Command
from jp_nb.config.tree.tool_config import (
    CANCELLATION,
    STAR,
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
from jp_nb.tooling.arguments import schema_of
from jp_nb.tooling.base import ArgumentFormatter, Tool
from jp_nb.tooling.command import CommandFormatter, called
from jp_nb.tooling.documentation import document
from jp_nb.tooling.long_results import MAX_RESULT_CHARS
from jp_nb.tooling.sources import ToolSource

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
        return document(
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


def switched_on(config: AppConfig) -> AppConfig:
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
    nobody: str | None = None,
    answered: Callable[[str], bool] = lambda _: False,
) -> ToolSet:
    """Return the tools that `config` enables, and the one it forces unless that is locked off.

    Args:
        config: The configuration in force, registrations included.
        sources: Where tools come from. One that fails leaves the tools of the others.
        nobody: Why nobody can be asked in the running cell; None if somebody may be there. Tools
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
        if nobody is not None and _is_useless_alone(offered) and not answered(name):
            missing[name] = NEEDS_PERSON
        else:
            tools[name] = offered
    return ToolSet(tools, {**missing, **found.missing}, found.clashes, found.problems)


def _is_useless_alone(tool: OfferedTool) -> bool:
    """True if only a person could answer what `tool` asks, and that is all it is for."""
    configured = any(question.answer is not None for question in tool.questions.values())
    return tool.executor.needs_person and not configured


def _is_wanted(name: str, config: AppConfig) -> bool:
    """True if the tool is on, or `assistant.tool_choice` names it and it is not locked off."""
    state, rule = config.conversation.enabling(name)
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
            executor.schema or schema_of(described),
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
            CommandFormatter(style.parameters, called(name, tool))
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
