"""Command-line tools: configuration, command line, one run.

A command receives a JSON document about its call on stdin. The words of its command line are
templates over the same document (`jp_nb/tools/templates.py`).

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
from jp_nb.json_values import as_object, compact_json, encode_utf8
from jp_nb.tools import process
from jp_nb.tools.base import CellThread, CommandLine, Tool, ToolContext, ToolSource
from jp_nb.tools.outcome import Failure, NeedsInput, Outcome, Success, keep_end, read_outcome
from jp_nb.tools.parameters import fill_defaults, format_argument_problems
from jp_nb.tools.process import log_process

NO_COMMAND: Final = "Command missing for local tool"

_VARIES_BY_RUN: Final = re.compile(r"\banswers\b|rejection|\b(tool|context)\b(?!\s*[.\[])")
"""Template variables that differ in later runs of a call, or objects that contain them."""
MAX_SUMMARY_CHARS: Final = 200
"""Limit for the last line of stderr, which follows the exit status."""
MAX_PRINTED_CHARS: Final = 10_000
"""Limit for stdout and stderr each, after a failure. The end is kept: it usually has the error."""
SHELL_SIGNALS: Final = 128
"""A shell adds this number to the signal that ended its command."""
_SHELL_CODES: Final = {126: "it is not executable", 127: "the command was not found"}

Document = dict[str, JsonValue]


class CommandTool(Tool):
    """A configured command as a tool (`source = "local"`)."""

    may_propose = True

    def __init__(self, name: str, config: ToolConfig) -> None:
        self.name = name
        self.command = config.command
        self.source_name = name_in_source(name, config)

    @property
    def covers(self) -> Covers:  # type: ignore[override]
        """`arguments` if an argument of the call is executed (`runs_arguments`)."""
        return "arguments" if self.command and runs_arguments(self.command) else "tool"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommandTool) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.name, self.source_name))

    def prepare(
        self, name: str, arguments: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
    ) -> Mapping[str, JsonValue] | Failure:
        """Return the arguments with defaults, or a failure if some are missing or unknown."""
        filled = fill_defaults(arguments, schema)
        problem = format_argument_problems(name, filled, schema)
        return filled if problem is None else Failure(problem)

    def command_line(
        self, arguments: Mapping[str, JsonValue], context: ToolContext
    ) -> CommandLine | Failure | None:
        """Return the rendered command line, or a failure if a template is invalid."""
        from jp_nb.tools.templates import TemplateError

        if self.command is None:
            return Failure(NO_COMMAND)
        try:
            argv = _render_argv(self.command, make_document(self.source_name, arguments, context))
        except TemplateError as exc:
            return Failure(str(exc))
        text = argv[-1] if self.command.shell else shlex.join(argv)
        words = (self.command.program, *self.command.args)
        varies = any(map(_VARIES_BY_RUN.search, words))
        return CommandLine(text, context.root or os.getcwd(), self.command.shell, varies)

    async def run(
        self, arguments: Mapping[str, JsonValue], context: ToolContext, cell: CellThread
    ) -> Outcome:
        """Run the command and read its output. Cancellation ends its process group.

        Raises:
            ToolError: The command asked an invalid question.
        """
        if self.command is None:
            return Failure(NO_COMMAND)
        document = make_document(self.source_name, arguments, context)
        return await _run(self.command, document, f"Tool '{self.name}'", context.root)


class CommandTools(ToolSource):
    """Source of the configured commands (`source = "local"`)."""

    name = "local"

    async def list(self, wanted: Mapping[str, ToolConfig]) -> Mapping[str, Tool]:
        """Return a command for each of the wanted tools."""
        return {name: CommandTool(name, tool) for name, tool in wanted.items()}


def runs_arguments(command: Command) -> bool:
    """Return True if `command` executes arguments of a call, as a program, code, or a query.

    This applies to a template in the program, and in an argument of a program that runs its
    arguments. It does not apply to the arguments of an interpreter's script.
    """
    if _ARGUMENTS.search(command.program):
        return True
    words = [command.program, *command.args]
    names = [_program_name(word) for word in words]
    for index, word in enumerate(words[1:], 1):
        if not _ARGUMENTS.search(word):
            continue
        before = names[:index]
        if _RUNNERS.intersection(before) or _CODE_OPTIONS.intersection(words[:index]):
            return True
        scripts = [name for name in before[1:] if not name.startswith("-")]
        if before[0] in _INTERPRETERS and not scripts:
            return True
    return False


def _program_name(word: str) -> str:
    # Without folder and version: `/usr/bin/python3.12` is `python`.
    name = word.rpartition("/")[2].rpartition("\\")[2].lower().removesuffix(".exe")
    return name.rstrip("0123456789.") or name


_ARGUMENTS: Final = re.compile(r"\{[{%].*(?:arguments|\btool\b(?!\s*[.\[]))", re.DOTALL)
"""A template that contains arguments of the call, or the complete `tool` object."""
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
    """A command that formats the arguments of a call for the user.

    Args:
        command: The command to run.
        tool: Name of the tool in the document; None for the name in the call.
    """

    def __init__(self, command: Command, tool: str | None = None) -> None:
        self._command = command
        self._tool = tool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CommandFormatter) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self._tool)

    async def format(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> str:
        """Return the text below the call's header; "" for none.

        Raises:
            ToolError: The command fails, or asks a question.
        """
        document = make_document(self._tool or context.name, arguments, context, formats=True)
        match await _run(self._command, document, "its command", context.root):
            case Success(content=content):
                return content.strip()
            case Failure(message=message):
                raise ToolError(message)
            case NeedsInput():
                raise ToolError("it asked a question, which a formatter must not do")


def name_in_source(name: str, config: ToolConfig) -> str:
    """Return the name after the dot of the setting `source`; `name` if there is none."""
    kind, _, own_name = (config.source or "").partition(".")
    return own_name if kind == "local" and own_name else name


# --- documents -------------------------------------------------------------------------------


def make_document(
    name: str, arguments: Mapping[str, JsonValue], context: ToolContext, *, formats: bool = False
) -> Document:
    """Return the document for a run of the tool `name`, or for the formatting of its arguments."""
    tool: Document = {"name": name, "arguments": dict(arguments)}
    about: Document = {"root": context.root, "action": "format_arguments" if formats else "run"}
    if not formats:
        tool["answers"], about["access"] = dict(context.answers), context.access
    tool["options"] = dict(context.options)
    about |= {"workspace_id": "", "conversation_id": context.conversation_id}
    if context.config is not None and not formats:
        about["config"] = context.config
    if (rejection := context.delta_rejection) is not None and not formats:
        about["delta_rejection"] = {
            "reason": rejection.reason,
            "fields": list(rejection.fields),
            "detail": rejection.detail,
        }
    return {"tool": tool, "context": about}


# --- one run ---------------------------------------------------------------------------------


async def _run(command: Command, document: Document, subject: str, root: str) -> Outcome:
    from jp_nb.tools.templates import TemplateError  # loads jinja2: not before a command runs

    stdin = encode_utf8(compact_json(document) + "\n")
    try:
        done = await process.run(_render_argv(command, document), stdin=stdin, cwd=root)
    except TemplateError as exc:
        return Failure(str(exc))
    except process.SpawnError as exc:
        # The templates, not the rendered words: they may contain an answer to a secret question.
        line = " ".join([command.program, *command.args])
        return Failure(f"Failed to spawn command: {line}{f': {exc}' if str(exc) else ''}")
    except process.OutputError:
        size = process.MAX_OUTPUT_BYTES // 2**20
        return Failure(f"{subject} was stopped because it printed more than {size} MiB.")
    formats = as_object(document["context"]).get("action") != "run"
    log_process(stdin, done, formats=formats)
    outcome = read_outcome(done.stdout)
    if isinstance(outcome, Failure):
        if outcome.transient:
            details = {"message": outcome.message, "trace": list(outcome.trace)}
            return Failure(compact_json(details))
        return Failure(done.stdout)
    if outcome is not None:
        return outcome
    if done.exit_code == 0:
        return Success(done.stdout)
    return Failure(_format_failure(done, subject, shell=command.shell))


def _render_argv(command: Command, document: Document) -> list[str]:
    from jp_nb.tools.templates import render

    program, *args = (render(word, document) for word in (command.program, *command.args))
    if not command.shell:
        return [program, *args]
    return ["sh", "-c", " ".join([program, *map(shlex.quote, args)])]


def _format_failure(done: process.FinishedProcess, subject: str, *, shell: bool) -> str:
    stderr, stdout = done.stderr.strip(), done.stdout.strip()
    last = stderr.rpartition("\n")[2].strip()
    summary = f": {last}" if 0 < len(last) <= MAX_SUMMARY_CHARS else "."
    parts = [f"{subject} {_format_exit(done.exit_code, shell=shell)}{summary}"]
    if stderr and summary != f": {stderr}":
        parts.append(_format_printed("stderr", stderr))
    if stdout:
        parts.append(_format_printed("stdout", stdout))
    return "\n\n".join(parts)


def _format_exit(code: int, *, shell: bool) -> str:
    if code < 0:
        return f"was ended by {_format_signal(-code)}"
    meaning = ""
    if shell and code in _SHELL_CODES:
        meaning = f" ({_SHELL_CODES[code]})"
    elif shell and code - SHELL_SIGNALS in set(signal.Signals):
        meaning = f" (as if by {_format_signal(code - SHELL_SIGNALS)})"
    return f"failed with exit status {code}{meaning}"


def _format_signal(number: int) -> str:
    known = number in set(signal.Signals)
    return f"signal {number}, {signal.Signals(number).name}" if known else f"signal {number}"


def _format_printed(name: str, text: str) -> str:
    end = keep_end(text, MAX_PRINTED_CHARS)
    left = len(text) - len(end)
    return f"{name}{f' (without its first {left} characters)' if left else ''}:\n{end}"
