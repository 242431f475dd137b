"""Reports about tools: all of them in a table, or the whole of one.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from pydantic import JsonValue

from jp_nb.agent.tool_set import OfferedTool, ToolSet, switched_on
from jp_nb.config.grants import asks, names_nothing
from jp_nb.config.layers import to_text
from jp_nb.config.masking import is_secret, masked
from jp_nb.config.secret_names import NOT_SHOWN, without_credentials
from jp_nb.config.tree.access_config import Access, ConfigRule, FileRule, HostRule, VariableRule
from jp_nb.config.tree.app_config import AppConfig
from jp_nb.config.tree.command_line import Command
from jp_nb.config.tree.tool_config import STAR, QuestionConfig
from jp_nb.errors import UsageError
from jp_nb.rendering.markdown import code_block
from jp_nb.rendering.report import Report, table
from jp_nb.safe_text import plain
from jp_nb.tooling.documentation import Parameter, parameters
from jp_nb.tooling.python import PythonTool

MAX_VALUE_CHARS = 2000
"""Of one value of one tool."""

_Rule = ConfigRule | FileRule | HostRule | VariableRule
MakeOffer = Callable[[AppConfig], ToolSet]
_LOCKS: Mapping[str, str] = {
    "any": "-t and -T can switch it",
    "if_named": "-t and -T can switch it only by its name",
    "if_named_or_group": "-t and -T can switch it by its name or its toolset",
}


def tools(config: AppConfig, offer: MakeOffer, toolset: str | None = None) -> Report:
    """Every configured tool: whether the model is offered it, where it comes from, how it runs.

    With `toolset` those of that one alone.
    """
    offered, possible = offer(config), offer(switched_on(config))
    rows = []
    for name, tool in config.conversation.tools.items():
        if name == STAR or toolset not in (None, tool.toolset):
            continue
        found = possible.tools.get(name)
        run, result = (found.run, found.result) if found else (tool.run, tool.result)
        source = tool.source or ""
        if name in offered.clashes:
            source = f"{source}: {offered.clashes[name]}"
        state = _offered(name, config, offered)
        how = (run or "", result or "", grants(tool.access))
        rows.append((name, state, source, tool.toolset or "-", *how))
    return table(("tool", "state", "source", "toolset", "run", "result", "grants"), rows)


def _offered(name: str, config: AppConfig, offered: ToolSet) -> str:
    """Return whether the model is offered the tool: `on`, `off`, `missing: why`."""
    if name in offered.missing:
        return f"missing: {offered.missing[name]}"
    if name not in offered.tools:
        return "off"
    return "on" if config.conversation.enabling(name)[0] else "on: assistant.tool_choice names it"


def tool(name: str, config: AppConfig, offer: MakeOffer) -> Report:
    """All about one tool; of a toolset, its tools.

    Raises:
        UsageError: If there is no such tool; the message offers the nearest.
    """
    configured = config.conversation.tools.get(name)
    if configured is None and config.conversation.toolset(name):
        return tools(config, offer, name)
    if configured is None or name == STAR:
        known = [x for x in config.conversation.tools if x != STAR]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f": did you mean `%jp tools {near[0]}`?" if near else "; `%jp tools` lists them"
        raise UsageError(f"Tool not found: {name}{hint}")
    offered, possible = offer(config), offer(switched_on(config))
    found = possible.tools.get(name)
    facts = [
        ("tool", name),
        ("state", _state(name, config, offered)),
        ("source", configured.source or "not set"),
        *([("toolset", configured.toolset)] if configured.toolset else []),
        *([("name", offered.clashes[name])] if name in offered.clashes else []),
        *([("missing", possible.missing[name])] if name in possible.missing else []),
        *([("command", _command(configured.command))] if configured.command else []),
        *(_settings(found) if found else ()),
        *(("advice", each) for each in _advice(found)),
        ("grants", grants(configured.access)),
    ]
    parts = [table(("setting", "value"), facts, limit=MAX_VALUE_CHARS)]
    if configured.questions:
        rows = [_question(name, *entry) for entry in configured.questions.items()]
        head = ("question", "answered by", "configured answer", "label")
        parts.append(table(head, rows, limit=MAX_VALUE_CHARS))
    if configured.options:
        above = ("conversation", "tools", name, "options")
        options = [(key, _value(value, (*above, key))) for key, value in configured.options.items()]
        parts.append(table(("option", "value"), options, limit=MAX_VALUE_CHARS))
    if found:
        parts += _parameters(found)
        parts.append(_description(found.definition.description))
    return Report(
        "\n\n".join(part.markdown for part in parts), "\n\n".join(part.text for part in parts)
    )


def _advice(found: OfferedTool | None) -> tuple[str, ...]:
    if found is None or not isinstance(found.executor, PythonTool):
        return ()
    from jp_nb.tooling.tool_advice import advice

    return advice(found.executor)


# --- one tool --------------------------------------------------------------------------------


def _state(name: str, config: AppConfig, offered: ToolSet) -> str:
    state, rule = config.conversation.enabling(name)
    word = "on" if state else "off"
    if rule == "never":
        return f"locked-{word}: -t and -T cannot switch it"
    if name in offered.tools and not state:
        return f"{_offered(name, config, offered)}; otherwise off: {_LOCKS[rule]}"
    return f"{word}: {_LOCKS[rule]}"


def _command(command: Command) -> str:
    program, *args = (without_credentials(word) for word in (command.program, *command.args))
    if command.shell:
        return f"sh -c: {program} {shlex.join(args)}".rstrip()
    return shlex.join([program, *args])


def _value(value: JsonValue, path: Sequence[str]) -> str:
    return without_credentials(to_text(masked(value, path)))


def _settings(tool: OfferedTool) -> Iterator[tuple[str, str]]:
    yield "run", tool.run
    yield "format", tool.format
    yield "result", tool.result
    yield "cancellation_response", tool.cancellation_response
    yield "shown", _shown(tool)


def _shown(tool: OfferedTool) -> str:
    """Return how a call looks in the cell."""
    if tool.hidden:
        return "hidden"
    arguments = "by a command" if tool.formatter else tool.parameters or "in the line"
    results = tool.inline_results or "off"
    errors = "" if tool.inline_errors is None else f", errors: {_lines(tool.inline_errors)}"
    return f"arguments: {arguments}, results: {_lines(results)}{errors}"


def _lines(shown: str | int) -> str:
    return f"{shown} lines" if isinstance(shown, int) else shown


def _question(tool: str, key: str, question: QuestionConfig) -> tuple[str, str, str, str]:
    above = ("conversation", "tools", tool, "questions", key)
    who: str = "assistant" if question.asks_assistant else "user"
    if not isinstance(question.target, str):
        overrides: JsonValue = question.target.model_dump(mode="json", exclude_unset=True)
        who += f", with {_value(overrides, above)}"
    answer = "-" if question.answer is None else _value(question.answer, (*above, "answer"))
    return key, who, answer, question.prompt_label or "-"


def _parameters(tool: OfferedTool) -> list[Report]:
    shown, others = parameters(tool.documented_schema)
    rows = [
        (
            ".".join(found.path),
            found.type or "any",
            "yes" if found.required else "no",
            ", ".join(_values(found)).replace("`", "") or "-",
            " ".join(found.texts) or "-",
        )
        for found in shown
    ]
    rows += [(others, "-", "-", "-", "-")] if others else []
    head = ("parameter", "type", "required", "values", "description")
    return [table(head, rows, limit=MAX_VALUE_CHARS)] if rows else []


def _values(parameter: Parameter) -> Iterator[str]:
    for text in parameter.values:
        word = text.partition(" ")[0]
        known = word in ("default", "always") and is_secret(parameter.path)
        yield f"{word} {NOT_SHOWN}" if known else text


def _description(text: str) -> Report:
    head = "Description for the model:" if text else "It has no description for the model."
    if not text:
        return Report(head, head)
    return Report(f"{head}\n\n{code_block(text)}", f"{head}\n{plain(text)}")


# --- grants ----------------------------------------------------------------------------------


def grants(access: Access | None) -> str:
    """Return what `access` lets a tool touch, in words; "-" if nothing is said."""
    if access is None:
        return "-"
    rules: list[_Rule] = [*access.config, *access.fs, *access.net, *access.env]
    return "; ".join(map(_rule, rules)) or "-"


def _rule(rule: _Rule) -> str:
    match rule:
        case ConfigRule():
            return f"config {rule.path}: {_config_verbs(rule)}"
        case FileRule():
            verbs = ("read", "write", "create", "update", "delete", "execute")
            granted = [verb for verb in verbs if getattr(rule, verb)]
            denied = [f"no {verb}" for verb in verbs if getattr(rule, verb) is False]
            outside = ["links that lead outside"] if rule.external else []
            return f"files {rule.path}: {', '.join([*granted, *denied, *outside]) or 'nothing'}"
        case HostRule():
            scheme = f"{rule.scheme}://" if rule.scheme else ""
            port = f":{rule.port}" if rule.port else ""
            place = f"{scheme}{rule.host}{port}{rule.path_prefix or ''}"
            return f"host {place}: {'yes' if rule.allow else 'no'}"
        case VariableRule():
            return f"variable {rule.name}: {'read' if rule.read else 'no'}"
        case _:
            assert_never(rule)


def _config_verbs(rule: ConfigRule) -> str:
    if names_nothing(rule):
        return "matches no setting"
    changes = [
        *(["write, even grants"] if rule.write == "insecure_allow" else []),
        *(["write"] if rule.write is True else []),
        *(["unset"] if rule.delete else []),
    ]
    words = {True: "asks", False: "does not ask", None: "asks about settings with authority"}
    how = words[asks(rule)]
    changed = [f"{' and '.join(changes)} ({how})"] if changes else []
    return ", ".join([*(["read"] if rule.read else []), *changed]) or "nothing"
