"""Subcommands of `%jp` for tools, code, and the configuration.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import JsonValue

from jp_nb.config.assignments import format_setting_value
from jp_nb.config.directives import Directive
from jp_nb.config.partial import get_path
from jp_nb.config.schema import format_masked, format_path, mask_secrets, parse_path
from jp_nb.config.tree.tool_settings import DEFAULTABLE, STAR
from jp_nb.errors import ConfigError, UsageError
from jp_nb.notebook.commands import Invocation, OptionParser, report_cancellation, split_words
from jp_nb.notebook.page.stores import is_headless
from jp_nb.record.config_history import BASE, CONVERSATION, Provenance
from jp_nb.record.events import ToolCallRequest
from jp_nb.record.marks import find_turn_to_repeat
from jp_nb.record.turn_numbers import to_shown_turn, to_stored_turn
from jp_nb.record.turn_view import ToolCall
from jp_nb.rendering.log import format_proposing_tools
from jp_nb.rendering.markdown import CodeBlock, find_code_blocks
from jp_nb.rendering.report import make_table
from jp_nb.rendering.tool_text import find_call_source
from jp_nb.session.bench import find_call, read_assignments, read_object, replay_turn
from jp_nb.session.session import Session
from jp_nb.session.settings import write_config_file
from jp_nb.text import escape_invisible, one_line, plain
from jp_nb.toolkit.python import REGISTRY


def call(line: Invocation) -> None:
    """Run `%jp call`: run a tool as in a turn, and show the result that the model would get."""
    name, _, rest = line.text.partition(" ")
    bench = line.session.bench
    if rest.lstrip().startswith("{"):
        tools = bench.tools(name)
        bench.call(tools, tools.find(name), read_object(rest))
        return

    parser = OptionParser(line.subcommand.options, usage=line.subcommand.usage, words=True)
    options = parser.parse_intermixed_args(split_words(line.text))
    words = options.words
    options.name = words.pop(0) if words and "=" not in words[0] else None
    if options.last and options.id is not None:
        raise UsageError("`--last` and `--id` both name a call. Use one of them.")

    recorded = _find_recorded_call(line, options)
    wanted = options.name
    if not wanted and recorded:
        wanted = recorded.name
    if wanted is None:
        raise UsageError(f"Name a tool: `{line.subcommand.usage}`. `%jp tools` lists the tools.")

    tools = bench.tools(wanted)
    tool = tools.find(wanted)
    arguments: dict[str, JsonValue] = dict(recorded.arguments) if recorded else {}
    arguments |= read_assignments(words, tool.definition.parameters)

    with report_cancellation():
        if recorded:
            bench.confirm_recorded([ToolCallRequest(id="", name=tool.name, arguments=arguments)])
        bench.call(tools, tool, arguments)


def replay(line: Invocation) -> None:
    """Run `%jp replay`: run the tool calls of a turn again, and compare the results."""
    session = line.session
    number = line.number(at_least=1)
    turns = list(session.document.conversation.turns())
    last = find_turn_to_repeat(turns, "There is nothing to replay")
    wanted = last.number if number is None else to_stored_turn(number)
    if wanted >= len(turns):
        raise UsageError(f"There is no turn {number}. The last turn is {len(turns)}.")

    options = line.options
    with report_cancellation():
        replay_turn(session.bench, turns[wanted], asks=options.ask, strict=options.strict)


def _find_recorded_call(line: Invocation, options: Namespace) -> ToolCallRequest | None:
    """Return the model's call of `--last` or `--id`, if one of them is used."""
    if not options.last and options.id is None:
        return None

    entries = line.session.document.conversation.entries
    calls = [entry for entry in entries if isinstance(entry, ToolCallRequest)]
    if options.name is not None:
        calls = [each for each in calls if each.name == options.name]

    about = f" of {one_line(options.name, limit=80)}" if options.name is not None else ""
    if not options.last:
        return find_call(calls, options.id, about=about)
    if not calls:
        raise UsageError(f"This conversation has no tool call{about}.")

    return calls[-1]


MAX_LISTED = 30  # limit of code blocks that an error lists


def code(call: Invocation) -> None:
    """Run `%jp code`: insert a code block of the last answer, or a tool call, as a new cell."""
    if not call.options.call:
        text, description = _find_code_block(call)
    elif call.word is not None:
        raise UsageError("`%jp code` takes a number or `--call`, not both.")
    else:
        calls: list[ToolCall] = []
        for turn in call.session.conversations.log():
            calls += turn.tool_calls
        if not calls:
            raise UsageError("The model has not called a tool in this conversation.")

        call_id = call.options.call[-1]
        made = calls[-1] if call_id is None else find_call(calls, call_id)
        text = find_call_source(made, REGISTRY.all().get(made.name), call.shell.user_ns)
        description = f"the call {escape_invisible(made.id)} of `{escape_invisible(made.name)}`"

    kernel = getattr(call.shell, "kernel", None)
    if kernel is not None and is_headless(kernel):
        print(f"jp_nb: No cell can be inserted in a headless run. This is {description}:\n\n{text}")
        return

    call.shell.set_next_input(text, replace=False)
    print(f"jp_nb: Inserted a new cell with {description}. The cell has not run.")
    lines = enumerate(text.replace("\t", " ").split("\n"), start=1)
    hidden = [str(n) for n, line in lines if not line.isascii() and escape_invisible(line) != line]

    if hidden:
        more = f" and {len(hidden) - 10} more" if len(hidden) > 10 else ""
        contain = f"lines {', '.join(hidden[:10])}{more} contain"
        if len(hidden) == 1:
            contain = f"line {hidden[0]} contains"

        print(
            f"jp_nb: Check the code before you run it: {contain} characters that are invisible or "
            "look like other characters."
        )


def _find_code_block(call: Invocation) -> tuple[str, str]:
    """Return the text of the code block, and its description."""
    number = call.number(at_least=1)
    turns = call.session.conversations.log(1)
    if not turns:
        raise UsageError("There is no answer yet. Send a request with `%%jp` first.")

    blocks = find_code_blocks(turns[-1].text)
    if not blocks:
        last = to_shown_turn(turns[-1].number)
        raise UsageError(f"The last answer (turn {last}) has no code block.")

    count = "1 code block" if len(blocks) == 1 else f"{len(blocks)} code blocks"
    problem = ""
    if number is None and len(blocks) > 1:
        problem = f"The last answer has {count}. Choose one with `%jp code N`"
    elif number is not None and number > len(blocks):
        problem = f"There is no code block {number}. The last answer has {count}"

    if problem:
        raise UsageError(f"{problem}:\n{_list_blocks(blocks)}")

    number = number or 1
    block = blocks[number - 1]
    description = f"code block {number} of the last answer ({_describe_block(block)})"
    if not block.is_python:
        description += f", unchanged. Its language is {block.language}, not Python"

    return block.text, description


def _list_blocks(blocks: Sequence[CodeBlock]) -> str:
    rows = []
    for number, block in enumerate(blocks[:MAX_LISTED], start=1):
        first_line = escape_invisible(one_line(block.first_line, limit=60))
        rows.append(f"  {number}  {_describe_block(block)}: {first_line}")
    omitted = len(blocks) - len(rows)
    if omitted:
        rows.append(f"  … and {omitted} more")

    return "\n".join(rows)


def _describe_block(block: CodeBlock) -> str:
    lines = block.text.count("\n") + 1
    count = "1 line" if lines == 1 else f"{lines} lines"
    return f"{block.language}, {count}" if block.language else count


MAX_CONFIRMED: Final = 3  # limit of paths in the confirmation of a change
Layer = Literal["user", "workspace"]


def config(call: Invocation) -> None:
    """Run `%jp config`: show values and their sources, or change values."""
    options = call.options
    session = call.session
    changes: list[Directive] = options.directives
    paths: list[str] = options.words
    if changes and (paths or options.explain):
        raise UsageError(
            f"`%jp config` shows or changes settings, not both: {(paths or options.explain)[0]!r}."
        )
    if options.user and options.workspace:
        raise UsageError("Use `--user` or `--workspace`, not both: a change is saved in one file.")

    if options.user or options.workspace:
        layer: Layer = "user" if options.user else "workspace"
        if not changes:
            raise UsageError(f"`--{layer}` needs a change: `PATH=VALUE`, or `--unset PATH`.")

        session.active.refuse_while_running()
        projection = session.settings.projection
        session.notices += write_config_file(layer, changes, projection, session.files)
        session.notices += session.files.take_notices()
        print(
            f"Saved in your {layer} configuration file: {', '.join(map(_format_change, changes))}"
        )
    elif changes:
        _change_conversation(session, changes)
    elif options.explain:
        _show_provenance(call, [*options.explain, *paths])
    else:
        _show_values(call, paths or session.settings.set_paths())


def _change_conversation(session: Session, changes: Sequence[Directive]) -> None:
    before = len(session.document.conversation.deltas)
    session.configure(*changes)
    deltas = session.document.conversation.deltas[before:]
    claimed: dict[str, None] = {}
    for delta in deltas:
        claimed |= dict.fromkeys(delta.claims)

    parents = tuple(f"{path}." for path in claimed)
    paths = [path for path in claimed if not path.startswith(parents)]
    if not paths:
        if not session.notices:  # a notice explains why nothing changed
            print("Nothing changed: the configuration already has these values.")
        return

    value_at = _value_reader(session)
    new = []

    for path in paths[:MAX_CONFIRMED]:
        value = value_at(path)
        if value == "null":
            new.append(f"{path} unset")
        elif len(value) <= 80:
            new.append(f"{path} = {value}")
        else:
            new.append(path)

    more = f" and {len(paths) - MAX_CONFIRMED} more" if len(paths) > MAX_CONFIRMED else ""
    print(plain(f"Set for this conversation: {', '.join(new)}{more}"))


def _format_change(change: Directive) -> str:
    """Return the text of `change` without secrets."""
    path, sign, value = change.text.partition("=")
    if change.kind == "unset":
        return f"{plain(path)} unset"
    if not sign:
        return plain(path)

    return plain(f"{path}={format_masked(path.rstrip(':+-'), value)}")


def _show_values(call: Invocation, paths: Sequence[str]) -> None:
    sources = call.session.settings.explain(paths)
    value_at = _value_reader(call.session)
    rows = []

    for path in paths:
        source = _effective_source(sources[path])
        set_by = _describe_source(source, path) if source else "default"
        rows.append((path, value_at(path), set_by))

    call.show(make_table(("path", "value", "set by"), rows))


def _show_provenance(call: Invocation, paths: Sequence[str]) -> None:
    rows: list[tuple[str, str, str]] = []
    settings = call.session.settings
    value_at = _value_reader(call.session)

    for path in paths:
        default = _path_for_all_tools(path)
        applies = default if default and value_at(path) == "null" else None

        shown = [path]
        if applies:
            shown.append(applies)
        for each in shown:
            for source in settings.explain([each])[each]:
                value = "reverted" if source.is_reverted else format_masked(each, source.value)
                rows.append((each, _describe_source(source, each), value))

        rows.append((path, "effective", value_at(applies or path)))

    call.show(make_table(("path", "set by", "value"), rows))


def _path_for_all_tools(path: str) -> str | None:
    """Return the path in `conversation.tools.*` that applies if the setting of a tool is unset."""
    match parse_path(path):
        case ("conversation", "tools", name, field, *rest) if name != STAR and field in DEFAULTABLE:
            return format_path(("conversation", "tools", STAR, field, *rest))
    return None


def _value_reader(session: Session) -> Callable[[str], str]:
    """Return a function that formats the effective value at a path, without secrets."""
    try:
        config = session.config.model_dump(mode="json", exclude_none=True)
    except ConfigError as exc:
        partial = session.settings.readable_partial()
        print(f"jp_nb: The configuration is not valid: {plain(str(exc))}")
        return lambda path: f"{format_masked(path, get_path(partial, path))} (not validated)"

    return lambda path: format_setting_value(mask_secrets(get_path(config, path), parse_path(path)))


def _effective_source(sources: Sequence[Provenance]) -> Provenance | None:
    """Return the last of `sources` that determines the value, if there is one.

    A file has precedence over the base configuration of a conversation that began with the file's
    value. If the conversation reverted its own value, the source below applies.
    """
    last = sources[-1] if sources else None
    below = [x for x in sources if x.source not in (BASE, CONVERSATION)]
    if last is None or last.is_reverted:
        return below[-1] if below else None

    is_copy = last.source == BASE and below and below[-1].value == last.value
    return below[-1] if is_copy else last


def _describe_source(source: Provenance, path: str) -> str:
    """Return the layer, and the file, variable, turn, or tools that set `path`."""
    parts = [source.source, *filter(None, (source.file, source.when))]
    return ", ".join([*parts, *format_proposing_tools(source.tools(path))])
