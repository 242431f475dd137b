"""Merge the settings of a tool: its own, those of `*` (of all tools), and the defaults.

The result is an `OfferedTool`, which has a value for each setting. Configured texts go before those
of the tool. The schema is the tool's own; the setting `parameters` describes a tool that has none.

Source: `docs/turns.md`, `docs/decisions.md` D11, D22.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import JsonValue

from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.provider import ToolDefinition
from jp_nb.config.access_rules import Grants
from jp_nb.config.tool_rules import join_rules
from jp_nb.config.tree.command_settings import Command
from jp_nb.config.tree.tool_settings import CANCELLATION, FormatMode, ToolConfig
from jp_nb.toolkit.arguments.parameters import make_parameters_schema
from jp_nb.toolkit.base import Tool, ToolSource
from jp_nb.toolkit.command_tools.command import CommandFormatter, name_in_source
from jp_nb.toolkit.truncation import MAX_RESULT_CHARS

T = TypeVar("T")


def make_offered_tool(
    name: str, tool: ToolConfig, star: ToolConfig, executor: Tool, origin: ToolSource
) -> OfferedTool:
    """Return the tool with its settings: its own, else those of `*`, else the default.

    `or` selects the first setting that is neither unset nor empty. `_first_set` also accepts 0 and
    False, which switch off a setting of `*`.
    """
    style = tool.style
    star_style = star.style
    run = tool.run or star.run or origin.run
    # The formatter of a tool that asks must not run before the user has decided.
    format_mode: FormatMode = "unattended" if run == "unattended" else "ask"

    # A command in this setting formats the arguments. Other values are styles of their display.
    parameters = _first_set(style.parameters, star_style.parameters, None)
    formatter: CommandFormatter | None = None
    if isinstance(parameters, Command):
        formatter = CommandFormatter(parameters, name_in_source(name, tool))
        parameters = None

    # The definition for the model: configured texts go before those of the tool.
    description = tool.description
    if not tool.summary and not description:
        description = executor.description or None
    configured_parameters = _dump_parameters(tool)
    schema = executor.schema or make_parameters_schema(configured_parameters)
    definition = ToolDefinition(name, tool.summary or description or "", schema)

    # Settings that the tool itself gets, as JSON.
    command: JsonValue = None
    if tool.command is not None:
        command = tool.command.model_dump(mode="json")
    access: JsonValue = None
    grants: Grants | None = None
    if tool.access is not None:
        access = tool.access.model_dump(mode="json", exclude_none=True)
        grants = Grants(tool.access.config) if tool.access.config else None

    return OfferedTool(
        name=name,
        executor=executor,
        definition=definition,
        run=run,
        result=tool.result or star.result or "unattended",
        result_max_chars=_first_set(tool.result_max_chars, star.result_max_chars, MAX_RESULT_CHARS),
        cancellation_response=(
            tool.cancellation_response or star.cancellation_response or CANCELLATION
        ),
        hidden=_first_set(style.hidden, star_style.hidden, False),
        questions=tool.questions,
        options=tool.options,
        origin=origin.title,
        rules=join_rules(tool, star),
        source=tool.source or "",
        command=command,
        owner=origin.owner,
        covers=tool.covers or star.covers or executor.covers,
        # Without `*`: that a tool changes nothing is known of each tool only.
        read_only=_first_set(tool.read_only, None, executor.read_only),
        format=tool.format or star.format or format_mode,
        formatter=formatter,
        parameters=parameters,
        inline_results=_first_set(style.inline_results, star_style.inline_results, None),
        inline_errors=_first_set(style.error.inline_results, star_style.error.inline_results, None),
        access=access,
        grants=grants,
        summary=tool.summary,
        description=description,
        examples=tool.examples,
        configured_parameters=configured_parameters,
    )


def _dump_parameters(tool: ToolConfig) -> dict[str, JsonValue]:
    """Return the parameters that the configuration describes, as JSON, by name."""
    return {
        parameter: node.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        for parameter, node in tool.parameters.items()
    }


def _first_set(own: T | None, star: T | None, default: T) -> T:
    """Return the first of these values that is set (not None)."""
    if own is not None:
        return own
    return default if star is None else star
