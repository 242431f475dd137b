"""Subcommands of `%jp` about tools, code and configuration.

Source: `docs/guide.md`, `docs/configuration.md`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from pydantic import JsonValue

from jp_nb.config.directives import Directive
from jp_nb.config.layers import format_value
from jp_nb.config.masking import format_masked, mask_secrets
from jp_nb.config.partial import get_path
from jp_nb.config.schema import format_path, parse_path
from jp_nb.config.tree.tools import DEFAULTABLE, STAR
from jp_nb.errors import ConfigError, UsageError
from jp_nb.notebook.commands import Invocation, OptionParser, split, unless_cancelled
from jp_nb.notebook.page.locate import is_headless
from jp_nb.record.config_history import BASE, CONVERSATION, Provenance
from jp_nb.record.events import ToolCallRequest
from jp_nb.rendering.markdown import CodeBlock, code_blocks
from jp_nb.rendering.report import table
from jp_nb.rendering.tools import call_source
from jp_nb.rendering.turn import by_tools
from jp_nb.session.bench import find_call, read_assignments, read_object
from jp_nb.session.session import Session
from jp_nb.text import escape_invisible, one_line, plain
from jp_nb.tools.python import REGISTRY


def call(line: Invocation) -> None:
    """Run a tool as a turn would, and show what the model would read."""
    name, _, rest = line.text.partition(" ")
    bench = line.session.bench
    tools = bench.tools()
    if rest.lstrip().startswith("{"):
        bench.call(tools, tools.find(name), read_object(rest))
        return
    options = _options(line)
    known = _recorded(line, options)
    wanted = options.name or (known.name if known else None)
    if wanted is None:
        raise UsageError(f"Name a tool: `{line.subcommand.usage}`. `%jp tools` lists the tools.")
    tool = tools.find(wanted)
    arguments: dict[str, JsonValue] = dict(known.arguments) if known else {}
    arguments |= read_assignments(options.words, tool.definition.parameters)
    with unless_cancelled():
        if known:
            bench.confirm_recorded([ToolCallRequest(id="", name=tool.name, arguments=arguments)])
        bench.call(tools, tool, arguments)


def replay(line: Invocation) -> None:
    """Run the tool calls of a turn again, and show what they answer now beside what they did."""
    from jp_nb.record.marks import last_turn_to_repeat
    from jp_nb.session.bench import TurnReplay

    session, number = line.session, line.number()
    turns = list(session.document.conversation.turns())
    last = last_turn_to_repeat(turns, "There is nothing to replay")
    wanted = last.number if number is None else number
    if wanted >= len(turns):
        raise UsageError(f"There is no turn {wanted}. The last turn is {len(turns) - 1}.")
    options = line.options
    with unless_cancelled():
        TurnReplay(session.bench, turns[wanted]).run(asks=options.ask, strict=options.strict)


def _options(line: Invocation) -> Namespace:
    """Return the options of the line, the name of a tool, and the other words."""
    parser = OptionParser(line.subcommand.options, usage=line.subcommand.usage, words=True)
    found = parser.parse_intermixed_args(split(line.text))
    found.name = found.words.pop(0) if found.words and "=" not in found.words[0] else None
    if found.last and found.id is not None:
        raise UsageError("`--last` and `--id` both name a call. Use one of them.")
    return found


def _recorded(line: Invocation, options: Namespace) -> ToolCallRequest | None:
    """Return the model's call whose arguments are wanted; None if none is.

    Raises:
        UsageError: If there is no such call, or several begin with that id.
    """
    if not options.last and options.id is None:
        return None
    entries = line.session.document.conversation.entries
    calls = [entry for entry in entries if isinstance(entry, ToolCallRequest)]
    if options.name is not None:
        calls = [each for each in calls if each.name == options.name]
    about = f" of {one_line(options.name, limit=80)}" if options.name is not None else ""
    if options.last:
        if not calls:
            raise UsageError(f"This conversation has no tool call{about}.")
        return calls[-1]
    return find_call(calls, options.id, about=about)


MAX_LISTED = 30
"""Number of blocks that an error lists."""


def code(call: Invocation) -> None:
    """Put a block of the last answer, or the call that `--call` names, into a new cell."""
    if call.options.call:
        if call.word is not None:
            raise UsageError("`%jp code` takes a number or `--call`, not both.")
        _insert(call.shell, *_call(call, call.options.call[-1]))
    else:
        _insert(call.shell, *_block(call))


def _block(call: Invocation) -> tuple[str, str]:
    """Return the text of the block that is wanted, and what to say of it."""
    number = call.number(at_least=1)
    turns = call.session.conversations.log(1)
    if not turns:
        raise UsageError("There is no answer yet. Send a request with `%%jp` first.")
    blocks = code_blocks(turns[-1].text)
    if not blocks:
        raise UsageError(f"The last answer (turn {turns[-1].number}) has no code block.")
    if number is None and len(blocks) > 1:
        raise UsageError(
            f"The last answer has {_many(blocks)}. Choose one with `%jp code N`:\n{_list(blocks)}"
        )
    if number is not None and number > len(blocks):
        raise UsageError(
            f"There is no code block {number}. The last answer has {_many(blocks)}:\n"
            f"{_list(blocks)}"
        )
    number = number or 1
    block = blocks[number - 1]
    said = f"code block {number} of the last answer ({_about(block)})"
    if not block.is_python:
        said += f", unchanged. Its language is {block.language}, not Python"
    return block.text, said


def _list(blocks: Sequence[CodeBlock]) -> str:
    rows = [
        f"  {number}  {_about(block)}: {escape_invisible(one_line(block.first_line, limit=60))}"
        for number, block in enumerate(blocks[:MAX_LISTED], start=1)
    ]
    left = len(blocks) - len(rows)
    return "\n".join([*rows, f"  … and {left} more"] if left else rows)


def _about(block: CodeBlock) -> str:
    lines = block.text.count("\n") + 1
    count = f"{lines} line{'' if lines == 1 else 's'}"
    return f"{block.language}, {count}" if block.language else count


def _many(blocks: Sequence[CodeBlock]) -> str:
    return "1 code block" if len(blocks) == 1 else f"{len(blocks)} code blocks"


def _call(call: Invocation, wanted: str | None) -> tuple[str, str]:
    """Return code that calls a tool as the model did, and what to say of it."""
    calls = [made for turn in call.session.conversations.log() for made in turn.tool_calls]
    if not calls:
        raise UsageError("The model has not called a tool in this conversation.")
    made = calls[-1] if wanted is None else find_call(calls, wanted)
    tool = REGISTRY.all().get(made.name)
    source = call_source(made, tool, call.shell.user_ns)
    return source, f"the call {escape_invisible(made.id)} of `{escape_invisible(made.name)}`"


def _insert(shell: Any, text: str, what: str) -> None:
    """Have the front end put `text` into a new cell, which does not run; or print it."""
    kernel = getattr(shell, "kernel", None)
    if kernel is not None and is_headless(kernel):
        print(f"jp_nb: No cell can be inserted in a headless run. This is {what}:\n\n{text}")
        return
    shell.set_next_input(text, replace=False)
    print(f"jp_nb: Inserted a new cell with {what}. The cell has not run.")
    if hidden := _hidden(text):
        print(f"jp_nb: Check the code before you run it: {hidden}.")


def _hidden(text: str) -> str:
    """Say which lines hold characters that nobody sees; "" if none does."""
    numbers = [
        str(number)
        for number, line in enumerate(text.split("\n"), start=1)
        if not line.isascii()
        and escape_invisible(line.replace("\t", " ")) != line.replace("\t", " ")
    ]
    if not numbers:
        return ""
    more = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    which = (
        f"line {numbers[0]} contains"
        if len(numbers) == 1
        else f"lines {', '.join(numbers[:10])}{more} contain"
    )
    return f"{which} characters that are invisible or look like other characters"


MAX_CONFIRMED: Final = 3
"""Paths that the line of a change names."""
MAX_CONFIRMED_CHARS: Final = 80
"""Of a longer value, that line gives the path alone."""
Layer = Literal["user", "workspace"]


def config(call: Invocation) -> None:
    """Show values, say who set them, or change them."""
    options, session = call.options, call.session
    changes: list[Directive] = options.directives
    paths: list[str] = options.words
    if changes and (paths or options.explain):
        raise UsageError(
            f"`%jp config` shows or changes settings, not both: {(paths or options.explain)[0]!r}."
        )
    layers: list[Layer] = [x for x in ("user", "workspace") if getattr(options, x)]
    if len(layers) > 1:
        raise UsageError("Use `--user` or `--workspace`, not both: a change is saved in one file.")
    for layer in layers:
        if not changes:
            raise UsageError(f"`--{layer}` needs a change: `PATH=VALUE`, or `--unset PATH`.")
        session.write_config(layer, *changes)
        said = ", ".join(_as_written(change) for change in changes)
        print(f"Saved in your {layer} configuration file: {said}")
    if layers:
        return
    if changes:
        _change(session, changes)
    elif options.explain:
        _explain(call, [*options.explain, *paths])
    else:
        _show(call, paths or session.settings.set_paths())


def _change(session: Session, changes: Sequence[Directive]) -> None:
    """Change the conversation's configuration, and print its new values in one line."""
    before = len(session.document.conversation.deltas)
    session.configure(*changes)
    deltas = session.document.conversation.deltas[before:]
    claimed = dict.fromkeys(path for delta in deltas for path in delta.claims)
    paths = [path for path in claimed if not any(path.startswith(f"{up}.") for up in claimed)]
    if not paths:
        if not session.notices:  # which say why nothing changed
            print("Nothing changed: the configuration already has these values.")
        return
    value_at = _values(session)
    values = [(path, value_at(path)) for path in paths[:MAX_CONFIRMED]]
    said = [_confirmed(path, now) for path, now in values]
    more = f" and {len(paths) - MAX_CONFIRMED} more" if len(paths) > MAX_CONFIRMED else ""
    print(plain(f"Set for this conversation: {', '.join(said)}{more}"))


def _confirmed(path: str, value: str) -> str:
    if value == "null":
        return f"{path} unset"
    return f"{path} = {value}" if len(value) <= MAX_CONFIRMED_CHARS else path


def _as_written(change: Directive) -> str:
    """Return `change` as the user wrote it, without secrets."""
    path, sign, value = change.text.partition("=")
    if not sign or change.kind == "unset":
        return f"{plain(path)} unset" if change.kind == "unset" else plain(path)
    return plain(f"{path}={format_masked(path.rstrip(':+-'), value)}")


def _show(call: Invocation, paths: Sequence[str]) -> None:
    said, value_at = call.session.settings.explain(paths), _values(call.session)
    rows = [
        (
            path,
            value_at(path),
            _who(decider, path) if (decider := _decider(said[path])) else "default",
        )
        for path in paths
    ]
    call.show(table(("path", "value", "set by"), rows))


def _explain(call: Invocation, paths: Sequence[str]) -> None:
    rows: list[tuple[str, str, str]] = []
    settings, value_at = call.session.settings, _values(call.session)
    for path in paths:
        default = _path_for_all_tools(path)
        applies = default if default and value_at(path) == "null" else None
        for each in (path, applies) if applies else (path,):
            rows += [
                (each, _who(x, each), "reverted" if x.is_reverted else format_masked(each, x.value))
                for x in settings.explain([each])[each]
            ]
        rows.append((path, "effective", value_at(applies or path)))
    call.show(table(("path", "set by", "value"), rows))


def _path_for_all_tools(path: str) -> str | None:
    """Return the path in `conversation.tools.*` that applies if the setting of a tool is unset."""
    match parse_path(path):
        case ("conversation", "tools", name, field, *rest) if name != STAR and field in DEFAULTABLE:
            return format_path(("conversation", "tools", STAR, field, *rest))
    return None


def _values(session: Session) -> Callable[[str], str]:
    """Return what says in words what is in force at a path, also while the whole is not valid."""
    try:
        config = session.config.model_dump(mode="json", exclude_none=True)
    except ConfigError as exc:
        partial = session.settings.readable_partial()
        print(f"jp_nb: The configuration is not valid: {plain(str(exc))}")
        return lambda path: f"{format_masked(path, get_path(partial, path))} (not validated)"
    return lambda path: format_value(mask_secrets(get_path(config, path), parse_path(path)))


def _decider(said: Sequence[Provenance]) -> Provenance | None:
    """Return who a value is from; None if it is nobody's.

    If a conversation began with what a file says, it is the file; likewise if a conversation took
    back what it had set. What it unset is unset by it.
    """
    last = said[-1] if said else None
    below = [x for x in said if x.source not in (BASE, CONVERSATION)]
    if last is None or last.is_reverted:
        return below[-1] if below else None
    begun = last.source == BASE and below and below[-1].value == last.value
    return below[-1] if begun else last


def _who(said: Provenance, path: str) -> str:
    """Return where the value of `path` comes from: layer, and file, variable, turn or tools."""
    where = [said.source, *filter(None, (said.file, said.when))]
    return ", ".join([*where, *by_tools(said.tools(path))])
