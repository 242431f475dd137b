"""`%jp call` and `%jp replay`: tools run outside of the conversation.

Source: `docs/guide.md`.
"""

from __future__ import annotations

from argparse import Namespace

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation, unless_cancelled
from jp_nb.notebook.options import OptionParser, split
from jp_nb.record.events import ToolCallRequest
from jp_nb.safe_text import one_line
from jp_nb.session.bench_arguments import read_assignments, read_object
from jp_nb.session.recorded_calls import call_with_id


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
    from jp_nb.record.turn_marks import last_turn_to_repeat
    from jp_nb.session.tool_replay import TurnReplay

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
    return call_with_id(calls, options.id, about=about)
