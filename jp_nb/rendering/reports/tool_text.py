"""Report of one configured tool: its settings, rules, questions, and parameters: `%jp tools NAME`.

`tool_table.py` lists all tools. As it does, the report asks twice for the offer (`MakeOffer`): as
the configuration is, and with all tools enabled (`possible`), because a tool that is off has no
definition otherwise.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from jp_nb.agent.offered_tools.configured_tools import with_all_tools_enabled
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.config.assignments import format_setting_value
from jp_nb.config.masked_settings import is_secret_path, mask_secrets
from jp_nb.config.secrets.api_keys import hide_credentials
from jp_nb.config.secrets.replacements import NOT_SHOWN
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.command_settings import Command
from jp_nb.config.tree.tool_settings import STAR, QuestionConfig
from jp_nb.errors import UsageError
from jp_nb.rendering.prompt_texts.grant_text import format_grants
from jp_nb.rendering.report import (
    MAX_LINE_CHARS,
    Report,
    join_reports,
    make_block,
    make_line,
    make_table,
)
from jp_nb.rendering.reports.tool_table import MakeOffer, describe_tool_state, render_tools
from jp_nb.toolkit.arguments.parameter_docs import Parameter, list_parameters
from jp_nb.toolkit.function_tools.python_tool import PythonTool
from jp_nb.toolkit.function_tools.tool_advice import suggest_improvements

_SWITCH_TEXTS: Mapping[str, str] = {
    "any": "-t and -T can switch it",
    "if_named": "-t and -T can switch it only by its name",
    "if_named_or_group": "-t and -T can switch it by its name or its toolset",
}

RuleRow = tuple[str, str]
"""The words of a rule, and who set it: its layer, or the command that removes it."""


def render_tool(
    name: str, config: AppConfig, offer: MakeOffer, rules: Sequence[RuleRow] = ()
) -> Report:
    """Return all details of one tool, with its `rules`; for a toolset, its tools.

    `config` already has the tools of sources: `%jp tools NAME` lets them find their tools first.

    Raises:
        UsageError: There is no such tool; the message suggests the nearest one.
    """
    configured = config.conversation.tools.get(name)
    is_source = name in config.conversation.list_source_toolsets()
    if configured is None and (is_source or config.conversation.list_toolset_tools(name)):
        return render_tools(config, offer, name)

    if configured is None or name == STAR:
        raise UsageError(f"Tool not found: {name}{_suggest_tool(name, config)}")

    offered = offer(config)
    possible = offer(with_all_tools_enabled(config), may_start=False)
    found = possible.tools.get(name)
    facts = _list_facts(name, config, offered, possible)

    parts = [make_table(("setting", "value"), facts, limit=MAX_LINE_CHARS)]
    if rules:
        titles = ("rule: the first one that matches a call applies", "set by")
        parts.append(make_table(titles, rules, limit=MAX_LINE_CHARS))

    if configured.questions:
        rows = [_make_question_row(name, *entry) for entry in configured.questions.items()]
        head = ("question", "answered by", "configured answer", "label")
        parts.append(make_table(head, rows, limit=MAX_LINE_CHARS))

    if configured.options:
        above = ("conversation", "tools", name, "options")
        options = [
            (key, _format_value(value, (*above, key))) for key, value in configured.options.items()
        ]
        parts.append(make_table(("option", "value"), options, limit=MAX_LINE_CHARS))

    if found:
        parts += _make_parameter_tables(found)
        if text := found.definition.description:
            parts.append(join_reports(["Description for the model:", make_block(text)]))
        else:
            parts.append(make_line("It has no description for the model."))

    return join_reports(parts, between="\n\n")


def _suggest_tool(name: str, config: AppConfig) -> str:
    known = [tool for tool in config.conversation.tools if tool != STAR]
    near = difflib.get_close_matches(name, known, n=1)
    if not near:
        return "; `%jp tools` lists them"

    return f": did you mean `%jp tools {near[0]}`?"


def _list_facts(
    name: str, config: AppConfig, offered: ToolSet, possible: ToolSet
) -> list[tuple[str, str]]:
    """Return the settings of a tool, each with its value, in the order of the table."""
    configured = config.conversation.tools[name]
    found = possible.tools.get(name)

    facts = [
        ("tool", name),
        ("state", _describe_switch(name, config, offered)),
        ("source", configured.source or "not set"),
    ]
    if configured.toolset:
        facts.append(("toolset", configured.toolset))
    if name in offered.clashes:
        facts.append(("name", offered.clashes[name]))
    if name in possible.missing:
        facts.append(("missing", possible.missing[name]))
    if configured.command:
        facts.append(("command", _format_command(configured.command)))
    if found:
        facts += _list_settings(found)
        facts += _list_advice(found)
    facts.append(("grants", format_grants(configured.access)))

    return facts


def _describe_switch(name: str, config: AppConfig, offered: ToolSet) -> str:
    """Return the state of a tool, and how `-t` and `-T` can switch it."""
    is_on, rule = config.conversation.get_tool_state(name)  # `rule`: an `allow_toggle`
    word = "on" if is_on else "off"

    if rule == "never":
        return f"locked-{word}: -t and -T cannot switch it"
    if name in offered.tools and not is_on:  # `assistant.tool_choice` names it
        return f"{describe_tool_state(name, config, offered)}; otherwise off: {_SWITCH_TEXTS[rule]}"

    return f"{word}: {_SWITCH_TEXTS[rule]}"


def _format_command(command: Command) -> str:
    program, *args = (hide_credentials(word) for word in (command.program, *command.args))
    if command.shell:
        return f"sh -c: {program} {shlex.join(args)}".rstrip()

    return shlex.join([program, *args])


def _format_value(value: JsonValue, path: Sequence[str]) -> str:
    """Return the value of the setting at `path` as JSON, without secrets."""
    return hide_credentials(format_setting_value(mask_secrets(value, path)))


def _list_settings(tool: OfferedTool) -> Iterator[tuple[str, str]]:
    yield "run", tool.run
    yield "format", tool.format
    yield "result", tool.result
    yield "read_only", "yes" if tool.read_only else "no"
    yield "cancellation_response", tool.cancellation_response
    yield "shown", _describe_display(tool)


def _describe_display(tool: OfferedTool) -> str:
    """Return how the calls of a tool are shown: `arguments: json, results: 10 lines`."""
    if tool.hidden:
        return "hidden"

    arguments = "by a command" if tool.formatter else tool.parameters or "in the line"
    words = [f"arguments: {arguments}", f"results: {_format_limit(tool.inline_results or 'off')}"]
    if tool.inline_errors is not None:
        words.append(f"errors: {_format_limit(tool.inline_errors)}")

    return ", ".join(words)


def _format_limit(lines: int | str) -> str:
    return f"{lines} lines" if isinstance(lines, int) else lines


def _list_advice(tool: OfferedTool) -> Iterator[tuple[str, str]]:
    if isinstance(tool.executor, PythonTool):
        for advice in suggest_improvements(tool.executor):
            yield "advice", advice


def _make_question_row(tool: str, key: str, question: QuestionConfig) -> tuple[str, str, str, str]:
    above = ("conversation", "tools", tool, "questions", key)

    answered_by = "assistant" if question.is_answered_by_model else "user"
    if not isinstance(question.target, str):  # an assistant with its own settings
        overrides: JsonValue = question.target.model_dump(mode="json", exclude_unset=True)
        answered_by += f", with {_format_value(overrides, above)}"

    answer = "-"
    if question.answer is not None:
        answer = _format_value(question.answer, (*above, "answer"))

    return key, answered_by, answer, question.prompt_label or "-"


def _make_parameter_tables(tool: OfferedTool) -> list[Report]:
    listed = list_parameters(tool.documented_schema)
    rows = [_make_parameter_row(parameter) for parameter in listed.parameters]
    if listed.note:
        rows.append((listed.note, "-", "-", "-", "-"))
    if not rows:
        return []

    head = ("parameter", "type", "required", "values", "description")
    return [make_table(head, rows, limit=MAX_LINE_CHARS)]


def _make_parameter_row(parameter: Parameter) -> tuple[str, str, str, str, str]:
    required = "yes" if parameter.required else "no"
    values = ", ".join(_list_parameter_values(parameter)).replace("`", "")
    description = " ".join(parameter.texts)
    return (
        ".".join(parameter.path),
        parameter.type or "any",
        required,
        values or "-",
        description or "-",
    )


def _list_parameter_values(parameter: Parameter) -> Iterator[str]:
    """Yield the possible values of a parameter: `default 5`, `from 1 to 10`, without secrets."""
    for text in parameter.values:
        word = text.partition(" ")[0]
        is_secret = word in ("default", "always") and is_secret_path(parameter.path)
        yield f"{word} {NOT_SHOWN}" if is_secret else text
