"""Subcommands of `%jp` that run tools outside of a turn: call one, or repeat the calls of a turn.

`session.bench` runs them with the permissions, questions, and display of a turn.

Source: `docs/guide.md`, `docs/tools.md`.
"""

from __future__ import annotations

from argparse import Namespace

from pydantic import JsonValue

from jp_nb.errors import UsageError
from jp_nb.notebook.commands import Invocation, report_cancellation
from jp_nb.notebook.commands.line_parser import OptionParser, split_words
from jp_nb.record.entries.events import ToolCallRequest
from jp_nb.record.entries.turn_numbers import to_stored_turn
from jp_nb.record.reading.marks import find_turn_to_repeat
from jp_nb.session.past_turns.call_ids import find_call
from jp_nb.session.past_turns.turn_replay import replay_turn
from jp_nb.session.past_turns.typed_arguments import read_assignments, read_object
from jp_nb.session.past_turns.untrusted_calls import confirm_untrusted_calls
from jp_nb.text import one_line


def try_tool(call: Invocation) -> None:
    """Run `%jp call`: run a tool as in a turn, and show the result that the model would get.

    The arguments are a JSON object, or words such as `place=Delft`, which may replace some
    arguments of a recorded call (`--last`, `--id`).
    """
    name, _, rest = call.text.partition(" ")
    bench = call.session.bench
    if rest.lstrip().startswith("{"):  # all arguments as one JSON object
        tools = bench.find_tools(name)
        bench.call(tools, tools.find(name), read_object(rest))
        return

    options = _parse_call_options(call)
    recorded = _find_recorded_call(call, options)
    tool_name: str | None = options.name
    if tool_name is None and recorded is not None:
        tool_name = recorded.name
    if tool_name is None:
        raise UsageError(f"Name a tool: `{call.subcommand.usage}`. `%jp tools` lists the tools.")

    tools = bench.find_tools(tool_name)
    tool = tools.find(tool_name)
    arguments: dict[str, JsonValue] = dict(recorded.arguments) if recorded else {}
    arguments |= read_assignments(options.words, tool.definition.parameters)

    with report_cancellation():
        if recorded:
            # Someone else may have written the arguments of an untrusted record: the user sees them
            # and decides. Only this can be canceled; a call that the user stops is an interrupt.
            request = ToolCallRequest(id="", name=tool.name, arguments=arguments)
            confirm_untrusted_calls(bench.active, bench.turns.cell_questions, [request])
        bench.call(tools, tool, arguments)


def _parse_call_options(call: Invocation) -> Namespace:
    """Parse the options of `%jp call`, the `name` of a tool (None without one), and the `words`."""
    parser = OptionParser(call.subcommand.options, usage=call.subcommand.usage, words=True)
    options = parser.parse_intermixed_args(split_words(call.text))

    options.name = None
    if options.words and "=" not in options.words[0]:
        options.name = options.words.pop(0)
    if options.last and options.id is not None:
        raise UsageError("`--last` and `--id` both name a call. Use one of them.")
    return options


def replay_calls(call: Invocation) -> None:
    """Run `%jp replay`: run the tool calls of a turn again, and compare the results."""
    session = call.session
    number = call.number(at_least=1)
    turns = list(session.document.conversation.turns())
    if number is None or not turns:
        turn = find_turn_to_repeat(turns, "There is nothing to replay")
    elif number <= len(turns):
        turn = turns[to_stored_turn(number)]
    else:
        raise UsageError(f"There is no turn {number}. The last turn is {len(turns)}.")

    options = call.options
    with report_cancellation():
        replay_turn(session.bench, turn, asks=options.ask, strict=options.strict)


def _find_recorded_call(call: Invocation, options: Namespace) -> ToolCallRequest | None:
    """Return the model's call of `--last` or `--id`, if one of them is used."""
    if not options.last and options.id is None:
        return None

    entries = call.session.document.conversation.entries
    calls = [entry for entry in entries if isinstance(entry, ToolCallRequest)]
    if options.name is not None:
        calls = [entry for entry in calls if entry.name == options.name]

    about = f" of {one_line(options.name, limit=80)}" if options.name is not None else ""
    if not options.last:
        return find_call(calls, options.id, about=about)
    if not calls:
        raise UsageError(f"This conversation has no tool call{about}.")

    return calls[-1]
