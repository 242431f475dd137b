"""Run a configured command line for a tool, or for the formatting of its arguments.

The command gets a document about the call, from which its words are also rendered (`command.py` has
an example). `command_results.py` reads its outcome.

Source: `docs/turns.md`, `docs/guide.md`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from pydantic import JsonValue

from jp_nb.config.tree.command_settings import Command
from jp_nb.json_values import as_object
from jp_nb.json_writing import compact_json
from jp_nb.storable_json import encode_utf8
from jp_nb.toolkit.command_tools.command_results import read_command_result
from jp_nb.toolkit.command_tools.processes import OutputError, SpawnError, run_process
from jp_nb.toolkit.outcome import Outcome, ToolFailure
from jp_nb.toolkit.tool_context import ToolContext

CallDocument = dict[str, JsonValue]


def make_document(
    name: str, arguments: Mapping[str, JsonValue], context: ToolContext
) -> CallDocument:
    """Return the document for a run of the tool `name`, or for the formatting of its arguments."""
    tool: CallDocument = {"name": name, "arguments": dict(arguments)}
    about: CallDocument = {"root": context.root, "action": context.action}
    is_run = context.action == "run"

    if is_run:
        tool["answers"] = dict(context.answers)
        about["access"] = context.access

    tool["options"] = dict(context.options)
    # Commands written for JP, the program for terminals, expect it. A folder of notebooks has none.
    about["workspace_id"] = ""
    about["conversation_id"] = context.conversation_id

    if is_run and context.config is not None:
        about["config"] = context.config

    # The tool runs again if its configuration change (a *delta*) was rejected in the run before.
    rejection = context.delta_rejection
    if is_run and rejection is not None:
        about["delta_rejection"] = {
            "reason": rejection.reason,
            "fields": list(rejection.fields),
            "detail": rejection.detail,
        }

    return {"tool": tool, "context": about}


async def run_command(command: Command, document: CallDocument, subject: str, root: str) -> Outcome:
    """Run `command` in the folder `root`. Messages about a failed run begin with `subject`."""
    argv = render_argv(command, document)
    if isinstance(argv, ToolFailure):
        return argv

    stdin = encode_utf8(compact_json(document) + "\n")
    # The log of processes tells runs of tools from the formatting of their arguments.
    formats = as_object(document["context"]).get("action") != "run"
    try:
        process_run = await run_process(argv, stdin=stdin, cwd=root, formats=formats)
    except SpawnError as exc:
        # The templates, not the rendered words: they may contain an answer to a secret question.
        line = " ".join([command.program, *command.args])
        reason = f": {exc}" if str(exc) else ""
        return ToolFailure(f"Failed to spawn command: {line}{reason}")
    except OutputError as exc:
        return ToolFailure(f"{subject} was stopped because it printed more than {exc}.")

    return read_command_result(process_run, subject, shell=command.shell)


def render_argv(command: Command, document: CallDocument) -> list[str] | ToolFailure:
    """Return the rendered words of `command`, or those of a shell that runs it."""
    from jp_nb.toolkit.command_tools.templates import TemplateError, render  # jinja2 loads slowly

    try:
        program, *args = (render(word, document) for word in (command.program, *command.args))
    except TemplateError as exc:
        return ToolFailure(str(exc))

    if not command.shell:
        return [program, *args]
    # The program is not quoted: it may be a whole line for the shell.
    return ["sh", "-c", " ".join([program, *map(shlex.quote, args)])]
