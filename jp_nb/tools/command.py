"""Command-line tools: configuration, command line, one run.

A command gets the document of its call on stdin, and the words of its command line are templates
over the same document (`jp_nb/tools/templates.py`).

Source: `docs/turns.md`.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from jp_nb.config.tree.tools import Command, Covers, ToolConfig
from jp_nb.errors import ToolError
from jp_nb.json_values import as_object, compact_json, to_utf8
from jp_nb.tools import process
from jp_nb.tools.base import (
    CellThread,
    CommandLine,
    SourceDefaults,
    Tool,
    ToolContext,
    ToolDefaults,
)
from jp_nb.tools.outcome import Failure, NeedsInput, Outcome, Success, keep_end, read_outcome
from jp_nb.tools.parameters import fill_defaults, format_argument_problems
from jp_nb.tools.process import log_process

NO_COMMAND: Final = "Command missing for local tool"

_KNOWN_LATER: Final = re.compile(r"\banswers\b|rejection|\b(tool|context)\b(?!\s*[.\[])")
"""In a template: what a tool is told when it runs once more, or all that it is told."""
MAX_LAST_WORDS: Final = 200
"""Of the last line of stderr, which stands beside the exit status."""
MAX_PRINTED_CHARS: Final = 10_000
"""Of what a process that failed printed, on stdout and on stderr each: the end says most."""
SHELL_SIGNALS: Final = 128
"""A shell adds this to the signal that ended what it ran."""
_SHELL_SAYS: Final = {126: "it is not executable", 127: "the command was not found"}

Document = dict[str, JsonValue]


class CommandTool(ToolDefaults):
    """A configured command as a tool (`source = "local"`).

    Args:
        name: Its key in the configuration, by which the model calls it.
        config: What is configured about it.
    """

    may_propose = True

    def __init__(self, name: str, config: ToolConfig) -> None:
        self.name = name
        self.command = config.command
        self.name_in_source = name_in_source(name, config)

    @property
    def covers(self) -> Covers:  # type: ignore[override]
        """`arguments` if a template fills in code, a program or a command line that then runs."""
        return "arguments" if self.command and runs_arguments(self.command) else "tool"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommandTool) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.name, self.name_in_source))

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | Failure:
        """Return the arguments with defaults; a failure if some are missing or unknown."""
        filled = fill_defaults(arguments, schema)
        problem = format_argument_problems(name, filled, schema)
        return filled if problem is None else Failure(problem)

    def command_line(
        self, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> CommandLine | Failure | None:
        """Return the command line with everything filled in; a failure if that cannot be done."""
        from jp_nb.tools.templates import TemplateError

        if self.command is None:
            return Failure(NO_COMMAND)
        try:
            argv = _argv(self.command, run_document(self.name_in_source, arguments, context))
        except TemplateError as exc:
            return Failure(str(exc))
        text = argv[-1] if self.command.shell else shlex.join(argv)
        words = (self.command.program, *self.command.args)
        first = any(map(_KNOWN_LATER.search, words))
        return CommandLine(text, context.root or os.getcwd(), self.command.shell, first)

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Run the command and read what it printed. Cancelling it ends its process group.

        Raises:
            ToolError: If it asked a question that is malformed.
        """
        if self.command is None:
            return Failure(NO_COMMAND)
        document = run_document(self.name_in_source, arguments, context)
        return await _run(self.command, document, f"Tool '{self.name}'", context.root)


class CommandTools(SourceDefaults):
    """The configured commands (`source = "local"`): a tool is made of what is configured."""

    name = "local"

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return a command for every tool that is wanted."""
        return {name: CommandTool(name, tool) for name, tool in wanted.items()}


def runs_arguments(command: Command) -> bool:
    """Return True if words of a call are run by `command`, as a program, code or a query.

    That is so for a template in the program, which a shell reads if there is one, and in an
    argument of a program that runs its arguments. An interpreter with a script runs the script.
    """
    if _ARGUMENTS.search(command.program):
        return True
    words = [command.program, *command.args]
    names = [_program_name(word) for word in words]
    for place, word in enumerate(words):
        if not place or not _ARGUMENTS.search(word):
            continue
        before = names[:place]
        if _RUNNERS.intersection(before) or _CODE_OPTIONS.intersection(words[:place]):
            return True
        scripts = [name for name in before[1:] if not name.startswith("-")]
        if before[0] in _INTERPRETERS and not scripts:
            return True
    return False


def _program_name(word: str) -> str:
    """Return the name of a program without its folder and version, such as `python`."""
    name = word.rpartition("/")[2].rpartition("\\")[2].lower().removesuffix(".exe")
    return name.rstrip("0123456789.") or name


_ARGUMENTS: Final = re.compile(r"\{[{%].*(?:arguments|\btool\b(?!\s*[.\[]))", re.DOTALL)
"""A template that fills in arguments of the call, or all that the tool is told."""
_CODE_OPTIONS: Final = frozenset(
    ("-c", "-e", "-r", "-p", "--eval", "--exec", "--command", "--print", "/c", "-command", "-ec")
)
"""Options of interpreters whose value is code."""
_INTERPRETERS: Final = frozenset(
    (
        *("sh", "bash", "zsh", "dash", "ksh", "fish", "pwsh", "powershell", "cmd", "python", "py"),
        *("pypy", "ipython", "node", "deno", "bun", "perl", "ruby", "php", "lua", "julia", "r"),
        *("rscript", "osascript", "awk", "gawk", "sed", "jq", "make", "uv", "npx", "pipx"),
    )
)
"""Programs that run their first argument."""
_RUNNERS: Final = frozenset(
    (
        *("sudo", "doas", "env", "xargs", "nice", "nohup", "timeout", "time", "exec", "eval"),
        *("ssh", "docker", "podman", "kubectl", "find", "parallel", "watch", "strace"),
        *("psql", "mysql", "mariadb", "sqlite", "duckdb", "sqlcmd", "mongosh", "mongo"),
        *("redis-cli", "clickhouse", "clickhouse-client", "bq", "snowsql"),
    )
)
"""Programs that run other programs or queries in any of their arguments."""


class CommandFormatter:
    """A command that writes the arguments of a call for the person.

    Args:
        command: What to run.
        tool: The name that it is told; None: the name by which the tool was called.
    """

    def __init__(self, command: Command, tool: str | None = None) -> None:
        self._command = command
        self._called = tool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommandFormatter) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self._called)

    async def format(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> str:
        """Return the text below the call's header; "" for none.

        Raises:
            ToolError: If the command fails, or asks something.
        """
        document = format_document(self._called or context.name, arguments, context)
        match await _run(self._command, document, "its command", context.root):
            case Success(content=content):
                return content.strip()
            case Failure(message=message):
                raise ToolError(message)
            case NeedsInput():
                raise ToolError("it asked a question, which a formatter must not do")


def name_in_source(name: str, config: ToolConfig) -> str:
    """Return the name that the process of tool `name` is told: that in its source, if any."""
    kind, _, wanted = (config.source or "").partition(".")
    return wanted if kind == "local" and wanted else name


# --- what a command is told ------------------------------------------------------------------


def run_document(name: str, arguments: Mapping[str, JsonValue], context: ToolContext) -> Document:
    """Return the document of a run."""
    about: Document = {
        "root": context.root,
        "action": "run",
        "access": context.access,
        "workspace_id": "",
        "conversation_id": context.conversation_id,
    }
    if context.config is not None:
        about["config"] = context.config
    if (rejection := context.delta_rejection) is not None:
        about["delta_rejection"] = {
            "reason": rejection.reason,
            "fields": list(rejection.fields),
            "detail": rejection.detail,
        }
    tool: Document = {
        "name": name,
        "arguments": dict(arguments),
        "answers": dict(context.answers),
        "options": dict(context.options),
    }
    return {"tool": tool, "context": about}


def format_document(
    name: str, arguments: Mapping[str, JsonValue], context: ToolContext
) -> Document:
    """Return the document of a call that is only to be shown."""
    return {
        "tool": {"name": name, "arguments": dict(arguments), "options": dict(context.options)},
        "context": {
            "root": context.root,
            "action": "format_arguments",
            "workspace_id": "",
            "conversation_id": context.conversation_id,
        },
    }


# --- one run ---------------------------------------------------------------------------------


async def _run(command: Command, document: Document, subject: str, root: str) -> Outcome:
    from jp_nb.tools.templates import TemplateError  # loads jinja2: not before a command runs

    stdin = to_utf8(compact_json(document) + "\n")
    try:
        done = await process.run(_argv(command, document), stdin=stdin, cwd=root)
    except TemplateError as exc:
        return Failure(str(exc))
    except process.SpawnError as exc:
        # As configured: filled in, it may hold an answer that no model may see.
        line = " ".join([command.program, *command.args])
        return Failure(f"Failed to spawn command: {line}{f': {exc}' if str(exc) else ''}")
    except process.OutputError:
        size = process.MAX_OUTPUT_BYTES // 2**20
        return Failure(f"{subject} was stopped because it printed more than {size} MiB.")
    formats = as_object(document["context"]).get("action") != "run"
    log_process(stdin, done, formats=formats)
    return _outcome(done, subject, shell=command.shell)


def _argv(command: Command, document: Document) -> list[str]:
    from jp_nb.tools.templates import render

    program, *args = (render(word, document) for word in (command.program, *command.args))
    if not command.shell:
        return [program, *args]
    return ["sh", "-c", " ".join([program, *map(shlex.quote, args)])]


def _outcome(done: process.FinishedProcess, subject: str, *, shell: bool) -> Outcome:
    """Return the outcome of a process that exited; its exit code counts for plain text alone."""
    outcome = read_outcome(done.stdout)
    if isinstance(outcome, Failure):
        return Failure(_error_text(outcome, done.stdout))
    if outcome is not None:
        return outcome
    if done.exit_code == 0:
        return Success(done.stdout)
    return Failure(_failed(done, f"{subject} {_ended(done.exit_code, shell=shell)}"))


def _ended(code: int, *, shell: bool) -> str:
    """Say how the process ended; the status of a shell also tells how what it ran ended."""
    if code < 0:
        return f"was ended by {_signal(-code)}"
    meaning = ""
    if shell and code in _SHELL_SAYS:
        meaning = f" ({_SHELL_SAYS[code]})"
    elif shell and code - SHELL_SIGNALS in set(signal.Signals):
        meaning = f" (as if by {_signal(code - SHELL_SIGNALS)})"
    return f"failed with exit status {code}{meaning}"


def _signal(number: int) -> str:
    known = number in set(signal.Signals)
    return f"signal {number}, {signal.Signals(number).name}" if known else f"signal {number}"


def _failed(done: process.FinishedProcess, head: str) -> str:
    """Return the text of a failure: how it ended, its last words, then all that it printed."""
    stderr, stdout = done.stderr.strip(), done.stdout.strip()
    last = stderr.rpartition("\n")[2].strip()
    said = f": {last}" if 0 < len(last) <= MAX_LAST_WORDS else "."
    parts = [f"{head}{said}"]
    if stderr and said != f": {stderr}":
        parts.append(_printed("stderr", stderr))
    if stdout:
        parts.append(_printed("stdout", stdout))
    return "\n\n".join(parts)


def _printed(name: str, text: str) -> str:
    end = keep_end(text, MAX_PRINTED_CHARS)
    left = len(text) - len(end)
    return f"{name}{f' (without its first {left} characters)' if left else ''}:\n{end}"


def _error_text(failure: Failure, stdout: str) -> str:
    """Return what the model reads of an error that the tool reported itself."""
    if failure.transient:
        return compact_json({"message": failure.message, "trace": list(failure.trace)})
    return stdout
