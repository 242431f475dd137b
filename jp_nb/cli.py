"""The command `jp-nb`: run, check, show, and convert notebooks from a shell.

Each command is a function of a module in `jp_nb/headless`, which is imported when it is needed.

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
from jp_nb.headless.time_limits import read_seconds
from jp_nb.jsonschema_import import delay_parsers

INTERRUPTED_EXIT_CODE = 128 + 2  # exit code of a command that SIGINT ended, as in a shell
BROKEN_PIPE_EXIT_CODE = 128 + 13  # exit code of a command that SIGPIPE ended, as in a shell


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 0 on success, 1 on failure, 2 for wrong arguments, and 130 after Ctrl+C.
    """
    try:
        options = _parser().parse_args(arguments)
        module, _, function = options.command.partition(":")
        with delay_parsers():  # nbformat loads jsonschema
            commands = import_module(f"jp_nb.headless.{module}")
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jp-nb", description="Run an assistant's turn loop inside a notebook kernel."
    )
    parser.add_argument("--version", action="version", version=f"jp-nb {jp_nb.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, action: str, text: str) -> Callable[..., None]:
        """Add a command, and return a function that adds an argument to it."""
        added = commands.add_parser(name, help=text)
        added.set_defaults(command=action)

        def add(names: str, text: str, **options: Any) -> None:
            added.add_argument(*names.split(), help=text, **options)

        return add

    flag = {"action": "store_true"}
    file = {"type": Path, "metavar": "FILE"}

    add = command("demo", "demo:demo", "open the tutorials in JupyterLab: offline, no key")
    add("--headless", "execute it and print its output", **flag)

    add = command("run", "run:run", "execute a notebook headless: no user answers")
    add("notebook", "the notebook", type=Path)
    add("-o --out", "output file (default: in place)", type=Path)
    add("--strict", "fail if a user is needed", **flag)
    add("--continue", "append to the notebook's conversation", dest="go_on", **flag)
    text = "set a configuration value for this run"
    add("-c --cfg", text, metavar="X", action="append", default=[])
    seconds: dict[str, Any] = {"type": read_seconds, "metavar": "SECONDS"}
    add("--timeout", "time limit of each cell (default: none)", **seconds)
    add("--run-timeout", "time limit of the run (default: none)", **seconds)
    add("--junit", "write a JUnit XML report", **file)
    add("--json", "write a JSON report", **file)
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
    add("--answers", "prepared answers and permissions, in TOML", **file)
    text = "write the open decisions to a new answers file, to fill in"
    add("--answers-template", text, **file)

    text = "find API keys, damaged records, and outdated cassettes before you share a notebook"
    add = command("check", "check:check", text)
    text = "notebooks, cassettes, answers files, or folders that contain them"
    add("files", text, nargs="+", **file)

    add = command("show", "records:show", "print the conversation in a notebook")
    add("notebook", "the notebook", type=Path)
    add("--json", "print the stored JSON object", **flag)

    add = command("strip", "strip:strip", "remove the record and outputs from notebooks")
    add("notebooks", "a notebook; - filters stdin to stdout", type=Path, nargs="+", metavar="NB")
    add("--record", "remove only the record", **flag)
    add("--outputs", "remove only outputs and execution counts", **flag)

    add = command(
        "diff", "records:diff_notebooks", "compare the records of two notebooks, turn by turn"
    )
    add("notebooks", "the two notebooks: A B", nargs="+", metavar="NB")
    add(
        "--git", "run as an external diff driver of git, with the arguments that git passes", **flag
    )

    text = "import a conversation of JP into a notebook"
    add = command("import", "records:import_conversation", text)
    add("folder", "the conversation's directory", type=Path, metavar="DIR")
    add("notebook", "created if it does not exist", type=Path, metavar="NB")

    text = "export a conversation as a directory of JP"
    add = command("export", "records:export_conversation", text)
    add("notebook", "the notebook", type=Path, metavar="NB")
    add("folder", "the conversation's directory", type=Path, metavar="DIR")
    text = "native (default): the format of jp_nb; jp-head: the format that JP reads"
    add("--dialect", text, choices=("native", "jp-head"), default="native")
    add("--conversation", "export this conversation instead of the active one", metavar="ID")

    add = command(
        "trust", "environment_commands:trust_folder", "trust the configuration files of a folder"
    )
    add("folder", "a notebook's folder", type=Path, metavar="DIR")
    add("--yes", "do not ask for confirmation", **flag)
    add("--revoke", "withdraw the trust", **flag)

    text = "offer the tools of a module or notebook to other MCP clients"
    add = command("mcp", "mcp_server:serve", text)
    add("source", "a module, a .py file, or a notebook", metavar="MODULE_OR_NOTEBOOK")
    text = "serve HTTP at this address (default host: 127.0.0.1) instead of stdin and stdout"
    add("--http", text, metavar="[HOST:]PORT")

    command(
        "doctor",
        "environment_commands:print_diagnosis",
        "check the installation and the configuration",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
