"""Which tools a model is offered, and the settings in force for each.

Source: `spec/tools-and-turn-loop.md` section 1, `design/architecture.md` D11, D22, D37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from jp_nb.agent.ports import ToolDefinition
from jp_nb.config.app_config import (
    CANCELLATION,
    STAR,
    AppConfig,
    QuestionConfig,
    enabling,
)
from jp_nb.config.app_config import Tool as ToolConfig
from jp_nb.config.tool_config import FormatMode, ResultMode, RunMode
from jp_nb.tools.arguments import schema_of
from jp_nb.tools.base import ArgumentFormatter, NotFound, Tool

RUN_BY_SOURCE: dict[str, RunMode] = {"python": "unattended", "builtin": "unattended"}


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that may run: its executor and everything configured about it, resolved.

    Attributes:
        format: Whether `formatter` may run before anybody permitted the call.
        formatter: Writes arguments for the person, if a command is configured for that.
        parameters: How arguments are shown without a formatter; None: in the line of the call.
        inline_results: How much of a result is shown; None: nothing.
        inline_errors: How much of an error is shown below its line; None: nothing.
        access: Grants as configured, for the tool to look at; None if it has none.
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
    source: str
    format: FormatMode = "ask"
    formatter: ArgumentFormatter | None = None
    parameters: Literal["json", "function_call", "off"] | None = None
    inline_results: Literal["off", "full"] | int | None = None
    inline_errors: Literal["off", "full"] | int | None = None
    access: JsonValue = None

    @property
    def kind(self) -> str:
        """`builtin`, `python`, `local` or `mcp`."""
        return self.source.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools on offer by name, and why configured ones are not among them."""

    tools: dict[str, OfferedTool]
    missing: dict[str, str]


def is_enabled(tool: ToolConfig, star: ToolConfig) -> bool:
    """The tool's own state, else that of `*`, else on."""
    return enabling(tool, star)[0]


def offer(config: AppConfig, executors: Mapping[str, Mapping[str, Tool]]) -> Offer:
    """The tools that `config` enables.

    Args:
        config: The configuration in force, registrations included.
        executors: Tools by kind of source and name.
    """
    star = config.conversation.tools.get(STAR, ToolConfig())
    tools: dict[str, OfferedTool] = {}
    missing: dict[str, str] = {}
    for name, tool in config.conversation.tools.items():
        if name == STAR or not is_enabled(tool, star):
            continue
        if tool.source is None:
            missing[name] = f"conversation.tools.{name}.source is not set"
            continue
        kind, _, wanted = tool.source.partition(".")
        # A builtin is looked up by its configuration key alone (R083-52).
        executor = executors.get(kind, {}).get(wanted if kind == "python" and wanted else name)
        if executor is None and kind == "builtin":
            executor = NotFound(name)
        if executor is None:
            missing[name] = f"its source {tool.source!r} has no such tool here"
            continue
        tools[name] = _resolve(name, tool, star, executor)
    return Offer(tools, missing)


def _resolve(name: str, tool: ToolConfig, star: ToolConfig, executor: Tool) -> OfferedTool:
    source = tool.source or ""
    hidden = tool.style.hidden if tool.style.hidden is not None else star.style.hidden
    by_source = RUN_BY_SOURCE.get(source.partition(".")[0], "ask")
    run = tool.run or star.run or by_source
    return OfferedTool(
        name=name,
        executor=executor,
        definition=ToolDefinition(
            name,
            tool.summary or tool.description or "",
            executor.schema or schema_of(_parameters(tool)),
        ),
        run=run,
        result=tool.result or star.result or "unattended",
        cancellation_response=(
            tool.cancellation_response or star.cancellation_response or CANCELLATION
        ),
        hidden=bool(hidden),
        questions=tool.questions,
        options=tool.options,
        source=source,
        format=tool.format or star.format or ("unattended" if run == "unattended" else "ask"),
    )


def _parameters(tool: ToolConfig) -> dict[str, JsonValue]:
    """The parameters as they were configured, without what nobody set."""
    return {
        name: node.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        for name, node in tool.parameters.items()
    }
