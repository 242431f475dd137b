"""Command-line tools: configuration, command line, and subprocesses.

A command receives a JSON document about its call on stdin. The words of its command line are
templates over the same document (`jp_nb/toolkit/templates.py`).

Transports and protocols report the exit of a process at once. `asyncio.subprocess` also waits for
the end of the pipes, which a grandchild may hold open. It can replace them once every supported
Python has the fix of https://github.com/python/cpython/issues/119710.

Source: `docs/turns.md`, `docs/guide.md`,
https://docs.python.org/3/library/asyncio-protocol.html#subprocess-transports.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, cast
from weakref import WeakKeyDictionary

from pydantic import JsonValue

from jp_nb.config.tree.tool_settings import Command, RuleCoverage, ToolConfig
from jp_nb.errors import ToolError
from jp_nb.json_values import as_object, compact_json, encode_utf8
from jp_nb.toolkit.base import CellThread, CommandLine, Tool, ToolContext, ToolSource
from jp_nb.toolkit.outcome import Failure, NeedsInput, Outcome, Success, keep_end, read_outcome
from jp_nb.toolkit.parameters import fill_defaults, format_argument_problems
from jp_nb.toolkit.process_guard import ProcessGuard

NO_COMMAND: Final = "Command missing for local tool"

_VARIES_BY_RUN: Final = re.compile(r"\banswers\b|rejection|\b(tool|context)\b(?!\s*[.\[])")
"""Template variables that differ in later runs of a call, or objects that contain them."""
SHELL_SIGNALS: Final = 128  # a shell adds this number to the signal that ended its command
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
    def covers(self) -> RuleCoverage:  # type: ignore[override]
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
        if self.command is None:
            return Failure(NO_COMMAND)
        argv = _render_argv(self.command, make_document(self.source_name, arguments, context))
        if isinstance(argv, Failure):
            return argv
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


@dataclass(frozen=True)
class CommandFormatter:
    """A command that formats the arguments of a call for the user (`style.parameters`)."""

    command: Command
    tool: str | None = None

    async def format(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> str:
        """Return the text below the call's header; "" for none.

        Raises:
            ToolError: The command fails, or asks a question. The tool does not run then.
        """
        document = make_document(self.tool or context.name, arguments, context)
        match await _run(self.command, document, "its command", context.root):
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


def make_document(name: str, arguments: Mapping[str, JsonValue], context: ToolContext) -> Document:
    """Return the document for a run of the tool `name`, or for the formatting of its arguments."""
    tool: Document = {"name": name, "arguments": dict(arguments)}
    about: Document = {"root": context.root, "action": context.action}
    runs = context.action == "run"
    if runs:
        tool["answers"], about["access"] = dict(context.answers), context.access
    tool["options"] = dict(context.options)
    about |= {"workspace_id": "", "conversation_id": context.conversation_id}
    if runs and context.config is not None:
        about["config"] = context.config
    if runs and (rejection := context.delta_rejection) is not None:
        about["delta_rejection"] = {
            "reason": rejection.reason,
            "fields": list(rejection.fields),
            "detail": rejection.detail,
        }
    return {"tool": tool, "context": about}


async def _run(command: Command, document: Document, subject: str, root: str) -> Outcome:
    argv = _render_argv(command, document)
    if isinstance(argv, Failure):
        return argv
    stdin = encode_utf8(compact_json(document) + "\n")
    formats = as_object(document["context"]).get("action") != "run"
    try:
        done = await run_process(argv, stdin=stdin, cwd=root, formats=formats)
    except SpawnError as exc:
        # The templates, not the rendered words: they may contain an answer to a secret question.
        line = " ".join([command.program, *command.args])
        return Failure(f"Failed to spawn command: {line}{f': {exc}' if str(exc) else ''}")
    except OutputError:
        size = MAX_OUTPUT_BYTES // 2**20
        return Failure(f"{subject} was stopped because it printed more than {size} MiB.")
    outcome = read_outcome(done.stdout)
    if isinstance(outcome, Failure):
        details = {"message": outcome.message, "trace": list(outcome.trace)}
        return Failure(compact_json(details) if outcome.transient else done.stdout)
    if outcome is not None:
        return outcome
    if done.exit_code == 0:
        return Success(done.stdout)
    stderr = done.stderr.strip()
    stdout = done.stdout.strip()
    last = stderr.rpartition("\n")[2].strip()
    summary = f": {last}" if 0 < len(last) <= 200 else "."  # a longer line is no summary
    parts = [f"{subject} {_format_exit(done.exit_code, shell=command.shell)}{summary}"]
    if stderr and summary != f": {stderr}":
        parts.append(_format_printed("stderr", stderr))
    if stdout:
        parts.append(_format_printed("stdout", stdout))
    return Failure("\n\n".join(parts))


def _render_argv(command: Command, document: Document) -> list[str] | Failure:
    from jp_nb.toolkit.templates import TemplateError, render  # jinja2 loads slowly

    try:
        program, *args = (render(word, document) for word in (command.program, *command.args))
    except TemplateError as exc:
        return Failure(str(exc))
    if not command.shell:
        return [program, *args]
    return ["sh", "-c", " ".join([program, *map(shlex.quote, args)])]


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
    name = f", {signal.Signals(number).name}" if number in set(signal.Signals) else ""
    return f"signal {number}{name}"


def _format_printed(name: str, text: str) -> str:
    end = keep_end(text, 10_000)  # the end usually has the error
    left = len(text) - len(end)
    return f"{name}{f' (without its first {left} characters)' if left else ''}:\n{end}"


# --- subprocesses ------------------------------------------------------------------------------

STDIN, STDOUT, STDERR = range(3)
MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024  # limit for stdout and stderr together
PIPE_GRACE: Final = 1.0
"""Seconds to wait for the pipes of a process that exited: its descendants may hold them open."""
MAX_RUNNING: Final = 16
"""Limit for concurrent processes, each of which has three pipes. Further ones wait in a queue."""
STOP_GRACE: Final = 1.0
"""Seconds to wait at most after SIGTERM, and once more after SIGKILL.

The agent waits two seconds for cancelled tools (`STOP_GRACE` in `jp_nb/agent/batch.py`), as long as
both waits together: change the constants together.
"""


class SpawnError(Exception):
    """The process did not start. The message is the reason, or "". It contains no arguments."""


class OutputError(Exception):
    """The process printed more than `MAX_OUTPUT_BYTES` and was killed."""


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """A process that exited. Bytes that are not UTF-8 are replaced in input and output.

    A negative `exit_code` is a signal. `formats` if the process only formatted the arguments of a
    call for the user.
    """

    stdin: str
    stdout: str
    stderr: str
    exit_code: int
    formats: bool = False


PROCESS_LOG: ContextVar[list[ProcessRun] | None] = ContextVar("jp_nb_process_log", default=None)
"""Log of the processes of commands, in the order in which they exited. None: no log."""


async def run_process(
    argv: Sequence[str], *, stdin: bytes, cwd: str, formats: bool = False
) -> ProcessRun:
    """Run `argv` in the folder `cwd` ("" for the current one) until it exits, and log it.

    The process inherits the environment and gets a new process group. Cancellation sends SIGTERM
    to the group, then SIGKILL. So does the end of the kernel, however it ends. After the process
    exited, its background processes continue, unless they hold the pipes open.

    Raises:
        SpawnError: The process did not start.
        OutputError: The process printed too much.
    """
    loop = asyncio.get_running_loop()
    if loop not in _SLOTS:
        _SLOTS[loop] = asyncio.Semaphore(MAX_RUNNING)
    async with _SLOTS[loop]:
        output = _ProcessOutput()
        supervisor = asyncio.create_task(_supervise(argv, stdin, cwd, output))
        _SUPERVISORS.add(supervisor)
        supervisor.add_done_callback(_forget_supervisor)
        try:
            await asyncio.wait([supervisor])
        except asyncio.CancelledError:
            output.must_end.set()
            await asyncio.wait([supervisor])
            raise
        code = supervisor.result()
    shown = stdin.decode(errors="replace")
    done = ProcessRun(shown, output.take_text(STDOUT), output.take_text(STDERR), code, formats)
    if (log := PROCESS_LOG.get()) is not None:
        log.append(done)
    return done


SHARED_GUARD: Final = ProcessGuard()
"""Ends the processes of commands and of MCP servers with the kernel."""
_SLOTS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
_SUPERVISORS: set[asyncio.Task[int]] = set()
"""A task for each process. These tasks are never cancelled, so each process is reaped."""


def _forget_supervisor(supervisor: asyncio.Task[int]) -> None:
    _SUPERVISORS.discard(supervisor)
    if not supervisor.cancelled():
        supervisor.exception()  # asyncio logs an exception that is never retrieved


async def _supervise(argv: Sequence[str], stdin: bytes, cwd: str, output: _ProcessOutput) -> int:
    SHARED_GUARD.start()
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: output,
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd or None,
            start_new_session=os.name == "posix",
        )
    except (OSError, ValueError, NotImplementedError) as exc:  # ValueError: a NUL, half a surrogate
        raise SpawnError(_explain_spawn_error(exc, argv[0], cwd)) from exc
    pipe = cast(asyncio.WriteTransport, transport.get_pipe_transport(STDIN))
    group = transport.get_pid()
    try:
        SHARED_GUARD.add(group)
        pipe.write(stdin)
        pipe.close()
        await output.must_end.wait()
        if output.exited.is_set():
            await _wait_for(PIPE_GRACE, output.drained)
    finally:
        try:
            if not (output.exited.is_set() and output.drained.is_set()):
                await _end_group(transport, output)
        finally:
            SHARED_GUARD.remove(group)
            if pipe.get_write_buffer_size():  # the process did not read all of stdin
                pipe.abort()
            transport.close()
    if output.overflowed:
        raise OutputError
    code = transport.get_returncode()
    return -1 if code is None else code


def _explain_spawn_error(exc: Exception, program: str, cwd: str) -> str:
    if isinstance(exc, FileNotFoundError | NotADirectoryError) and cwd and not os.path.isdir(cwd):
        return "its working directory does not exist"
    if isinstance(exc, FileNotFoundError):
        path = os.path.join(cwd, program) if os.sep in program else shutil.which(program)
        if path is not None and os.path.exists(path):
            return "the interpreter in its first line does not exist"
        return "there is no such program"
    if isinstance(exc, PermissionError):
        return "it is not executable"
    code = exc.errno if isinstance(exc, OSError) else None
    return os.strerror(code) if code else ""


class _ProcessOutput(asyncio.SubprocessProtocol):
    """Output and state of a process.

    Attributes:
        exited: The process exited and was reaped.
        drained: All processes that had stdout and stderr closed them.
        must_end: The process exited, printed too much, or was cancelled.
    """

    def __init__(self) -> None:
        self.exited, self.drained, self.must_end = (asyncio.Event() for _ in range(3))
        self.overflowed = False
        self._read = {STDOUT: bytearray(), STDERR: bytearray()}
        self._open = {STDOUT, STDERR}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if self.overflowed:
            return
        self._read[fd] += data
        if sum(map(len, self._read.values())) > MAX_OUTPUT_BYTES:
            self.overflowed = True
            self._read.clear()
            self.must_end.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.must_end.set()

    def take_text(self, fd: int) -> str:
        """Return the output, and free its bytes."""
        return self._read.pop(fd).decode("utf-8", "replace")


async def _end_group(transport: asyncio.SubprocessTransport, output: _ProcessOutput) -> None:
    _signal_group(transport, "SIGTERM")
    try:
        # Nothing reports the end of a group, so the end of the pipes has to do.
        await _wait_for(STOP_GRACE, output.exited, output.drained)
    finally:
        _signal_group(transport, "SIGKILL")
    await _wait_for(STOP_GRACE, output.exited)


async def _wait_for(seconds: float, *events: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            for event in events:
                await event.wait()


def _signal_group(transport: asyncio.SubprocessTransport, name: str) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(transport.get_pid(), signal.Signals[name])
        else:  # Windows has no process groups
            transport.terminate()
