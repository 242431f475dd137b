"""Reports about tools: settings and parameters, a call outside of a conversation, a replayed turn.

Source: `docs/guide.md`, `docs/turns.md`.
"""

from __future__ import annotations

import difflib
import json
import keyword
import math
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from pydantic import JsonValue

from jp_nb.agent.bench_run import CallOutcome
from jp_nb.agent.prompts import ProposedChange
from jp_nb.agent.tool_set import OfferedTool, ToolSet, with_all_tools_enabled
from jp_nb.config.access_rules import is_user_asked, matches_nothing
from jp_nb.config.assignments import format_setting_value
from jp_nb.config.schema import is_secret_path, mask_secrets
from jp_nb.config.secrets import NOT_SHOWN, hide_credentials
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.tool_settings import (
    STAR,
    Access,
    Command,
    ConfigRule,
    FileRule,
    HostRule,
    QuestionConfig,
    VariableRule,
)
from jp_nb.errors import UsageError
from jp_nb.json_values import indented_json
from jp_nb.record.turn_numbers import to_shown_turn
from jp_nb.record.turn_view import ToolCall
from jp_nb.rendering.change_text import summarize_changes
from jp_nb.rendering.markdown import make_code_span
from jp_nb.rendering.report import (
    MAX_LINE_CHARS,
    Report,
    join_reports,
    make_block,
    make_line,
    make_table,
)
from jp_nb.text import escape_invisible, one_line, pluralize
from jp_nb.toolkit.parameters import Parameter, list_parameters
from jp_nb.toolkit.python import PythonTool, suggest_improvements

_Rule = ConfigRule | FileRule | HostRule | VariableRule


class MakeOffer(Protocol):
    """Returns the tools that a configuration enables. `may_start` is as in `SourceAttempt`."""

    def __call__(self, config: AppConfig, *, may_start: bool = True) -> ToolSet:
        """Return the tools of `config`."""
        ...


_SWITCH_TEXTS: Mapping[str, str] = {
    "any": "-t and -T can switch it",
    "if_named": "-t and -T can switch it only by its name",
    "if_named_or_group": "-t and -T can switch it by its name or its toolset",
}


def render_tools(config: AppConfig, offer: MakeOffer, toolset: str | None = None) -> Report:
    """Return all configured tools with their state, source and settings.

    With `toolset`, return only its tools.
    """
    offered = offer(config)
    config = offered.config or config
    possible = offer(with_all_tools_enabled(config), may_start=False)

    rows = []
    for name, tool in config.conversation.tools.items():
        if name == STAR or toolset not in (None, tool.toolset):
            continue

        found = possible.tools.get(name) or tool
        source = tool.source or ""
        if name in offered.clashes:
            source = f"{source}: {offered.clashes[name]}"
        state = _describe_state(name, config, offered)
        how = (found.run or "", found.result or "", _format_grants(tool.access))
        rows.append((name, state, source, tool.toolset or "-", *how))

    for name in config.conversation.list_source_toolsets():
        is_shown = toolset in (None, name) and not config.conversation.list_toolset_tools(name)
        if is_shown:
            state = _describe_source(name, config, offered)
            rows.append((f"{name}.*", state, name, name, "", "", ""))

    return make_table(("tool", "state", "source", "toolset", "run", "result", "grants"), rows)


def _describe_source(name: str, config: AppConfig, offered: ToolSet) -> str:
    """Return the state of a source whose tools are not known."""
    failed = [text for text in (*offered.failures, *offered.problems) if name in text]
    if failed:
        return f"missing: {failed[0]}"
    if config.conversation.toolsets[name].state:
        return "on"
    return f"off: {name} has not started. List its tools: `%jp tools {name}`"


def _describe_state(name: str, config: AppConfig, offered: ToolSet) -> str:
    if name in offered.missing:
        return f"missing: {offered.missing[name]}"
    if name not in offered.tools:
        return "off"

    is_on, _ = config.conversation.get_tool_state(name)
    return "on" if is_on else "on: assistant.tool_choice names it"


RuleRow = tuple[str, str]
"""A rule of the configuration, and its source; or a rule that the user kept, and its removal."""


def render_tool(
    name: str, config: AppConfig, offer: MakeOffer, rules: Sequence[RuleRow] = ()
) -> Report:
    """Return all details of one tool, with its `rules`; for a toolset, its tools.

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
    known = [each for each in config.conversation.tools if each != STAR]
    near = difflib.get_close_matches(name, known, n=1)
    if not near:
        return "; `%jp tools` lists them"

    return f": did you mean `%jp tools {near[0]}`?"


def _list_facts(
    name: str, config: AppConfig, offered: ToolSet, possible: ToolSet
) -> list[tuple[str, str]]:
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
    facts.append(("grants", _format_grants(configured.access)))

    return facts


def _describe_switch(name: str, config: AppConfig, offered: ToolSet) -> str:
    state, rule = config.conversation.get_tool_state(name)
    word = "on" if state else "off"

    if rule == "never":
        return f"locked-{word}: -t and -T cannot switch it"
    if name in offered.tools and not state:
        return f"{_describe_state(name, config, offered)}; otherwise off: {_SWITCH_TEXTS[rule]}"

    return f"{word}: {_SWITCH_TEXTS[rule]}"


def _format_command(command: Command) -> str:
    program, *args = (hide_credentials(word) for word in (command.program, *command.args))
    if command.shell:
        return f"sh -c: {program} {shlex.join(args)}".rstrip()

    return shlex.join([program, *args])


def _format_value(value: JsonValue, path: Sequence[str]) -> str:
    return hide_credentials(format_setting_value(mask_secrets(value, path)))


def _list_settings(tool: OfferedTool) -> Iterator[tuple[str, str]]:
    yield "run", tool.run
    yield "format", tool.format
    yield "result", tool.result
    yield "cancellation_response", tool.cancellation_response
    yield "shown", _describe_display(tool)


def _describe_display(tool: OfferedTool) -> str:
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
        for each in suggest_improvements(tool.executor):
            yield "advice", each


def _make_question_row(tool: str, key: str, question: QuestionConfig) -> tuple[str, str, str, str]:
    above = ("conversation", "tools", tool, "questions", key)

    who: str = "assistant" if question.is_answered_by_model else "user"
    if not isinstance(question.target, str):
        overrides: JsonValue = question.target.model_dump(mode="json", exclude_unset=True)
        who += f", with {_format_value(overrides, above)}"

    answer = "-"
    if question.answer is not None:
        answer = _format_value(question.answer, (*above, "answer"))

    return key, who, answer, question.prompt_label or "-"


def _make_parameter_tables(tool: OfferedTool) -> list[Report]:
    shown, others = list_parameters(tool.documented_schema)
    rows = [_make_parameter_row(parameter) for parameter in shown]
    if others:
        rows.append((others, "-", "-", "-", "-"))
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
    for text in parameter.values:
        word = text.partition(" ")[0]
        known = word in ("default", "always") and is_secret_path(parameter.path)
        yield f"{word} {NOT_SHOWN}" if known else text


def _format_grants(access: Access | None) -> str:
    if access is None:
        return "-"

    rules: list[_Rule] = [*access.config, *access.fs, *access.net, *access.env]
    return "; ".join(map(_format_rule, rules)) or "-"


def _format_rule(rule: _Rule) -> str:
    match rule:
        case ConfigRule():
            return f"config {rule.path}: {_format_config_verbs(rule)}"
        case FileRule():
            verbs = ("read", "write", "create", "update", "delete", "execute")
            granted = [verb for verb in verbs if getattr(rule, verb)]
            denied = [f"no {verb}" for verb in verbs if getattr(rule, verb) is False]
            outside = ["links that lead outside"] if rule.external else []
            words = ", ".join([*granted, *denied, *outside]) or "nothing"
            return f"files {rule.path}: {words}"
        case HostRule():
            scheme = f"{rule.scheme}://" if rule.scheme else ""
            port = f":{rule.port}" if rule.port else ""
            place = f"{scheme}{rule.host}{port}{rule.path_prefix or ''}"
            allowed = "yes" if rule.allow else "no"
            return f"host {place}: {allowed}"
        case VariableRule():
            access = "read" if rule.read else "no"
            return f"variable {rule.name}: {access}"
        case _:
            assert_never(rule)


_ASKS: Mapping[bool | None, str] = {
    True: "asks",
    False: "does not ask",
    None: "asks about settings with authority",
}


def _format_config_verbs(rule: ConfigRule) -> str:
    if matches_nothing(rule):
        return "matches no setting"

    verbs = ["read"] if rule.read else []

    changes = []
    if rule.write == "insecure_allow":
        changes.append("write, including grants")
    elif rule.write is True:
        changes.append("write")
    if rule.delete:
        changes.append("unset")
    if changes:
        changed = " and ".join(changes)
        verbs.append(f"{changed} ({_ASKS[is_user_asked(rule)]})")

    return ", ".join(verbs) or "nothing"


DEBUG_HINT = "%debug opens the debugger where it failed"
NOT_OFFERED_NOTE = "The tool {} is not offered to the model: {}. It was called anyway."


def render_call_outcome(outcome: CallOutcome, *, timed: bool) -> Report:
    """Return the input and output of the call's processes, and its result for the model.

    `timed` adds the duration, which differs in each run.
    """
    parts = [*_list_processes(outcome)]

    count = len(outcome.content)
    facts = [f"{count:,} {pluralize('character', count)}"]
    if outcome.is_cut:
        facts.append(f"truncated: the whole result has {outcome.whole_chars:,}")
    if timed:
        facts.append(f"{outcome.seconds:.1f} s")

    kind = " as an error" if outcome.is_error else ""
    size = ", ".join(facts)
    parts.append(make_line(f"The model reads{kind} ({size}):"))
    if outcome.content.strip():
        parts.append(make_block(outcome.content))
    else:
        parts.append(make_line("(nothing)"))

    if outcome.structured is not None:
        parts.append(make_line("The record would also keep:"))
        parts.append(make_block(indented_json(outcome.structured), "json"))
    parts += (make_line(f"The model also sees {image.words_with_size}") for image in outcome.images)

    if outcome.exception is not None:
        parts.append(make_line(DEBUG_HINT))
    return join_reports(parts)


def _list_processes(outcome: CallOutcome) -> Iterator[Report]:
    several = sum(not run.formats for run in outcome.processes) > 1
    number = 0

    for run in outcome.processes:
        if run.formats:
            about = "Its formatter"
        else:
            number += 1
            about = f"Run {number}" if several else "The command"

        yield make_line(f"{about} got on stdin:")
        yield make_block(run.stdin, "json")
        for name, text in (("stdout", run.stdout), ("stderr", run.stderr)):
            if text.strip():
                yield make_line(f"printed on {name}:")
                yield make_block(text)

        nothing = "" if (run.stdout + run.stderr).strip() else "printed nothing and "
        code = run.exit_code
        ended = f"exit status {code}" if code >= 0 else f"signal {-code}"
        yield make_line(f"{nothing}ended with {ended}")


@dataclass(frozen=True, slots=True)
class Replayed:
    """One result of a replayed turn, recorded (`then`) and of the current tools (`now`).

    A missing result is None. `note` is the reason why the results cannot be equal. The `name` of
    the tool is `configuration` for the changes of all calls of a batch.
    """

    name: str
    then: str | None
    now: str | None
    note: str = ""

    @property
    def same(self) -> bool:
        """True if both results are equal."""
        return not self.note and self.then == self.now


def render_replay(number: int, results: Sequence[Replayed], note: str = "") -> Report:
    """Return the differences, a table of all results, and `note`."""
    parts = list[Report]()
    rows = []

    for place, each in enumerate(results, 1):
        state = "same" if each.same else "differs"
        then = "-" if each.then is None else each.then
        now = "-" if each.now is None else each.now
        rows.append((str(place), each.name, then, now, each.note or state))

        if not (each.same or each.then is None or each.now is None):
            label = f"{place} {one_line(each.name, limit=80)}"
            change = ProposedChange(label, json.dumps(each.then), json.dumps(each.now))
            [shown] = summarize_changes((change,))
            parts.append(Report(f"≠ {make_code_span(shown.line)}", f"≠ {shown.line}"))
            if shown.difference:
                parts.append(make_block("\n".join(shown.difference), "diff"))

    same = sum(each.same for each in results)
    parts.append(
        make_line(
            f"Turn {to_shown_turn(number)} with the current tools: {same} of {len(results)} "
            "results are the same. The conversation is unchanged."
        )
    )
    parts.append(make_table(("call", "tool", "then", "now", "same?"), rows, limit=80))
    if note:
        parts.append(make_line(note))

    return join_reports(parts)


def find_call_source(call: ToolCall, tool: PythonTool | None, namespace: Mapping[str, Any]) -> str:
    """Return Python code that repeats `call` with the arguments of its run.

    A function of the notebook is called directly if its arguments are JSON values. Otherwise the
    code uses `jp.call`, which converts the arguments, for example to dates and models.
    """
    source = _write_function_call(call, tool, namespace) if tool is not None else None
    lines = [source or _write_tool_call(call, namespace)]
    if call.is_error and call.content:
        first = call.content.partition("\n")[0]
        error = escape_invisible(one_line(first, limit=200))
        lines.insert(0, f"# failed: {error}")
    return "\n".join(lines)


def _write_function_call(
    call: ToolCall, tool: PythonTool, namespace: Mapping[str, Any]
) -> str | None:
    # None if the function has no name in the namespace, or an argument is not a literal.
    name = _find_name((tool, tool.function), tool.__name__, namespace)
    values = tool.validate_arguments(call.arguments)
    if name is None or values is None or not all(map(_is_literal, values.values())):
        return None

    given = [f"{key}={value!r}" for key, value in values.items()]
    importing = ""
    if tool.context_name is not None:
        module, importing = _find_module(namespace)
        given.append(f"{tool.context_name}={module}.ToolContext({call.name!r})")

    called = f"await {name}" if tool.is_async else name
    return importing + _format_call(called, given)


def _write_tool_call(call: ToolCall, namespace: Mapping[str, Any]) -> str:
    module, importing = _find_module(namespace)
    given = [repr(call.name)]

    # The names of the parameters of `jp.call` cannot be keyword arguments for the tool.
    clash = "tool" in call.arguments or "arguments" in call.arguments
    names_fit = all(key.isidentifier() and not keyword.iskeyword(key) for key in call.arguments)
    if names_fit and not clash:
        given += [f"{key}={value!r}" for key, value in call.arguments.items()]
    else:
        given.append(repr(dict(call.arguments)))

    return importing + _format_call(f"{module}.call", given)


def _format_call(called: str, given: list[str]) -> str:
    line = f"{called}({', '.join(given)})"
    if len(line) <= 88:
        return line

    lines = (f"    {each}," for each in given)
    return "\n".join([f"{called}(", *lines, ")"])


def _is_literal(value: JsonValue) -> bool:
    # `repr` must give Python code for an equal value.
    match value:
        case float():
            return math.isfinite(value)
        case list():
            return type(value) is list and all(map(_is_literal, value))
        case dict():
            return type(value) is dict and all(
                type(key) is str and _is_literal(below) for key, below in value.items()
            )
        case _:
            return type(value) in (str, int, bool, type(None))


def _find_name(sought: Iterable[object], first: str, namespace: Mapping[str, Any]) -> str | None:
    wanted = set(map(id, sought))
    if id(namespace.get(first)) in wanted:
        return first
    names = (n for n, v in namespace.items() if id(v) in wanted and not n.startswith("_"))
    return next(names, None)


def _find_module(namespace: Mapping[str, Any]) -> tuple[str, str]:
    # The name of the package in the namespace, and the line that imports it if it has none.
    known = _find_name([sys.modules["jp_nb"]], "jp", namespace)
    return (known, "") if known is not None else ("jp", "import jp_nb as jp\n\n")
