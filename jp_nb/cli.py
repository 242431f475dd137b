"""The command `jp-nb`: run, check, show, and convert notebooks from a shell.

Each command is a function of a module in `jp_nb/headless` or `jp_nb/batch`, which is imported when
it is needed.

Source: `docs/guide.md`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import jp_nb
from jp_nb.errors import JpNbError, UsageError
from jp_nb.headless.early_interrupts import INTERRUPTED_EXIT_CODE, exit_on_interrupt
from jp_nb.headless.kernels.time_limits import read_seconds
from jp_nb.jsonschema_import import delay_parsers

RUN_COMMAND = "batch.batch_command:run"
BROKEN_PIPE_EXIT_CODE = 128 + 13  # exit code of a command that SIGPIPE ended, as in a shell

# Arguments of argparse's `add_argument`.
_FLAG: dict[str, Any] = {"action": "store_true"}  # for an option without a value
_FILE: dict[str, Any] = {"type": Path, "metavar": "FILE"}  # for the path of a file


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 0 on success, 1 on failure, 2 for wrong arguments, 130 after Ctrl+C, and 141 if the reader
    of the output is gone.
    """
    try:
        options = parse_arguments(arguments)
        # The command as `module:function`, with the module in `jp_nb`.
        module, _, function = options.command.partition(":")
        # Most commands import nbformat, which imports jsonschema with its slow parsers.
        with exit_on_interrupt(), delay_parsers():
            commands = import_module(f"jp_nb.{module}")
        command: Callable[[argparse.Namespace], int] = getattr(commands, function)
        return command(options)
    except KeyboardInterrupt:
        print("jp-nb: interrupted", file=sys.stderr)
        return INTERRUPTED_EXIT_CODE
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard the rest
        return BROKEN_PIPE_EXIT_CODE
    except JpNbError as exc:
        from jp_nb.text import plain  # loads pydantic

        print(f"jp-nb: {plain(str(exc))}", file=sys.stderr)
        return 2 if isinstance(exc, UsageError) else 1


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line; by default, those of this process."""
    parser = _make_parser()
    options, rest = parser.parse_known_args(arguments)
    if not rest:
        return options

    # argparse takes several values of a positional argument only from one place.
    if options.command == RUN_COMMAND and not any(text.startswith("-") for text in rest):
        options.notebooks += rest
        return options
    parser.error(f"unrecognized arguments: {' '.join(rest)}")


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jp-nb", description="Run an assistant's turn loop inside a notebook kernel."
    )
    parser.add_argument("--version", action="version", version=f"jp-nb {jp_nb.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    # In the order of the help text.
    _add_run_commands(commands)
    _add_reading_commands(commands)
    _add_conversion_commands(commands)
    _add_installation_commands(commands)
    return parser


def _add_command(commands: Any, name: str, action: str, text: str) -> Callable[..., None]:
    """Add a command to `commands`, and return a function that adds an argument to it.

    `action` is the function that runs it, as `module:function`.
    """
    added = commands.add_parser(name, help=text)
    added.set_defaults(command=action)

    def add(names: str, text: str, **options: Any) -> None:
        added.add_argument(*names.split(), help=text, **options)

    return add


def _add_run_commands(commands: Any) -> None:
    """Add the commands that run notebooks, or ask what their runs left open."""
    text = "open the tutorials in JupyterLab: offline, no key"
    add = _add_command(commands, "demo", "headless.commands.demo:demo", text)
    add("--headless", "execute it and print its output", **_FLAG)

    text = "execute notebooks headless: no user answers"
    add = _add_command(commands, "run", RUN_COMMAND, text)
    add("notebooks", "notebooks, folders, and patterns", nargs="*", metavar="NOTEBOOK")
    add("-o --out", "output file (default: in place); of several runs: the output folder")
    add("--strict", "fail if a user is needed", **_FLAG)
    add("--continue", "append to the notebook's conversation", dest="go_on", **_FLAG)
    text = "set a configuration value for this run"
    add("-c --cfg", text, metavar="X", action="append", default=[])
    seconds: dict[str, Any] = {"type": read_seconds, "metavar": "SECONDS"}
    add("--timeout", "time limit of each cell (default: none)", **seconds)
    add("--run-timeout", "time limit of the run (default: none)", **seconds)
    add("--junit", "write a JUnit XML report", **_FILE)
    add("--json", "write a JSON report", **_FILE)

    cassettes = commands.choices["run"].add_mutually_exclusive_group()
    for name, text in (
        ("record", "record requests to models and their responses in FILE (default: "
         "NB.cassette.jsonl)"),
        ("replay", "replay responses from FILE instead of models: no key, no network"),
        ("replay-or-record", "replay the responses that FILE contains, and record the others"),
    ):  # fmt: skip
        cassettes.add_argument(f"--{name}", metavar="FILE", nargs="?", const="", help=text)

    text = "in a replay: run the tools (default), or take their results from FILE"
    add("--tools", text, choices=("run", "recorded"))
    add("--answers", "prepared answers and permissions, in TOML", **_FILE)
    text = "write the open decisions to a new answers file, to fill in"
    add("--answers-template", text, **_FILE)
    add("--run-inserted", "run code cells that a tool inserts into the notebook", **_FLAG)
    _add_batch_options(add)

    text = "answer what no user decided in the runs of a batch, as forms in JupyterLab"
    add = _add_command(commands, "inbox", "batch.inboxes.inbox_command:run_inbox", text)
    add("folder", "the output folder of the batch", type=Path, metavar="OUT")
    ways = commands.choices["inbox"].add_mutually_exclusive_group()
    ways.add_argument("--text", help="ask on this terminal", action="store_true")
    ways.add_argument("--list", help="print the open decisions", action="store_true")


def _add_reading_commands(commands: Any) -> None:
    """Add the commands that check, print, clean, and compare notebooks."""
    text = "find API keys, damaged records, and outdated cassettes before you share a notebook"
    add = _add_command(commands, "check", "headless.commands.check:check", text)
    text = "notebooks, cassettes, answers files, or folders that contain them"
    add("files", text, nargs="+", **_FILE)

    text = "print the conversation in a notebook"
    add = _add_command(commands, "show", "headless.commands.show_command:show", text)
    add("notebook", "the notebook", type=Path)
    add("--json", "print the stored JSON object", **_FLAG)
    text = "print the requests and tools of a turn along the time, by default of the last turn"
    add("--timeline", text, nargs="?", type=int, const=-1, metavar="TURN")

    text = "remove the record and outputs from notebooks"
    add = _add_command(commands, "strip", "headless.commands.strip:strip", text)
    add("notebooks", "a notebook; - filters stdin to stdout", type=Path, nargs="+", metavar="NB")
    add("--record", "remove only the record", **_FLAG)
    add("--outputs", "remove only outputs and execution counts", **_FLAG)

    text = "compare the records of two notebooks, turn by turn"
    add = _add_command(commands, "diff", "headless.commands.diff_command:diff_notebooks", text)
    add("notebooks", "the two notebooks: A B", nargs="+", metavar="NB")
    text = "run as an external diff driver of git, with the arguments that git passes"
    add("--git", text, **_FLAG)


def _add_conversion_commands(commands: Any) -> None:
    """Add the commands that import and export conversations of JP, a command-line assistant."""
    text = "import a conversation of JP into a notebook"
    action = "headless.commands.record_import:import_conversation"
    add = _add_command(commands, "import", action, text)
    add("folder", "the conversation's directory", type=Path, metavar="DIR")
    add("notebook", "created if it does not exist", type=Path, metavar="NB")

    text = "export a conversation as a directory of JP"
    action = "headless.commands.record_export:export_conversation"
    add = _add_command(commands, "export", action, text)
    add("notebook", "the notebook", type=Path, metavar="NB")
    add("folder", "the conversation's directory", type=Path, metavar="DIR")
    text = "native (default): the format of jp_nb; jp-head: the format that JP reads"
    add("--dialect", text, choices=("native", "jp-head"), default="native")
    add("--conversation", "export this conversation instead of the active one", metavar="ID")


def _add_installation_commands(commands: Any) -> None:
    """Add the commands about the user's computer and other programs."""
    text = "trust the configuration files of a folder"
    add = _add_command(commands, "trust", "headless.commands.folder_trust:trust_folder", text)
    add("folder", "a notebook's folder", type=Path, metavar="DIR")
    add("--yes", "do not ask for confirmation", **_FLAG)
    add("--revoke", "withdraw the trust", **_FLAG)

    text = "offer the tools of a module or notebook to other MCP clients"
    add = _add_command(commands, "mcp", "headless.tool_server.serve_command:serve", text)
    add("source", "a module, a .py file, or a notebook", metavar="MODULE_OR_NOTEBOOK")
    text = "serve HTTP at this address (default host: 127.0.0.1) instead of stdin and stdout"
    add("--http", text, metavar="[HOST:]PORT")

    text = "check the installation and the configuration"
    _add_command(commands, "doctor", "headless.commands.diagnosis:print_diagnosis", text)


def _add_batch_options(add: Callable[..., None]) -> None:
    """Add the options of `jp-nb run` that run notebooks several times."""
    number: dict[str, Any] = {"type": read_count, "metavar": "N"}

    text = "assign a value in the cell tagged `parameters`"
    pair: dict[str, Any] = {"nargs": 2, "metavar": ("NAME", "VALUE"), "dest": "parameters"}
    add("-p --parameter", text, action="append", default=[], **pair)
    add("--params", "assign the values in a JSON, YAML, or TOML file", **_FILE)
    text = "run each notebook with each set of parameters in a CSV or JSON lines file"
    add("--each", text, **_FILE)
    add("--models", "run each notebook with each of these models", metavar="A,B")
    add("--workers", "runs at the same time (default: by cores and free memory)", **number)
    text = "start kernels as forks of a process that has imported these modules (Linux, macOS)"
    add("--preload", text, metavar="MODULE,…")
    text = "run on a Dask cluster: `local[:N]`, an address, or a scheduler file"
    add("--dask", text, metavar="CLUSTER")
    text = "start runs in the given order, or those first that took longest in an earlier batch"
    add("--order", text, choices=("given", "longest-first"))
    add("-x", "start no further run after a failure", dest="first_failure", **_FLAG)
    add("--max-failures", "start no further run after N failures", **number)
    folder: dict[str, Any] = {"type": Path, "metavar": "OUT"}
    add("--resume", "run what is not done in this output folder", **folder)
    add("--failed", "with --resume: run failed runs again", **_FLAG)
    text = "with --resume: run those again whose id or notebook matches"
    add("--rerun", text, action="append", default=[], metavar="PATTERN")
    text = "start no further run once all runs used N tokens"
    add("--max-total-tokens", text, **number)
    limit: dict[str, Any] = {"type": read_provider_limit, "metavar": "PROVIDER=N"}
    text = "let at most N requests to a provider begin in a minute, of all runs together"
    add("--max-requests-per-minute", text, action="append", default=[], dest="per_minute", **limit)
    text = "let at most N requests to a provider run at once, of all runs together"
    add("--max-concurrent-requests", text, action="append", default=[], dest="concurrent", **limit)


def read_provider_limit(text: str) -> tuple[str, int]:
    """Return the provider and the number of a limit for its requests.

    Raises:
        argparse.ArgumentTypeError: It has another form.
    """
    provider, _, number = text.partition("=")
    if not provider or not number:
        raise argparse.ArgumentTypeError(f"expected PROVIDER=N, such as openai=60, found {text!a}")
    return provider, read_count(number)


def read_count(text: str) -> int:
    """Return the number that an option gives.

    Raises:
        argparse.ArgumentTypeError: It is not a whole number above 0.
    """
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {text!a}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
