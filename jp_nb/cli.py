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

import jp_nb
from jp_nb.errors import JpNbError, UsageError
from jp_nb.packages import without_parsers

INTERRUPTED = 128 + 2  # exit code of a command that SIGINT ended, as in a shell

BROKEN_PIPE = 128 + 13  # exit code of a command that SIGPIPE ended, as in a shell


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 0 on success, 1 on failure, 2 for wrong arguments, and 130 after Ctrl+C.
    """
    try:
        options = _parser().parse_args(arguments)
        module, _, function = options.command.partition(":")
        with without_parsers():  # nbformat loads jsonschema
            commands = import_module(f"jp_nb.headless.{module}")
        command: Callable[[argparse.Namespace], int] = getattr(commands, function)
        return command(options)
    except KeyboardInterrupt:
        print("jp-nb: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard the rest
        return BROKEN_PIPE
    except UsageError as exc:
        return _print_error(exc, 2)
    except JpNbError as exc:
        return _print_error(exc, 1)


def _print_error(exc: JpNbError, code: int) -> int:
    from jp_nb.text import plain  # loads pydantic

    print(f"jp-nb: {plain(str(exc))}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jp-nb", description="Run an assistant's turn loop inside a notebook kernel."
    )
    parser.add_argument("--version", action="version", version=f"jp-nb {jp_nb.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="open the quickstart in JupyterLab: offline, no key")
    demo.add_argument("--headless", action="store_true", help="execute it and print its output")
    demo.set_defaults(command="environment:demo")

    run = commands.add_parser("run", help="execute a notebook headless: no user answers")
    run.add_argument("notebook", type=Path, help="the notebook")
    run.add_argument("-o", "--out", type=Path, help="output file (default: in place)")
    run.add_argument("--strict", action="store_true", help="fail if a user is needed")
    run.add_argument(
        "--continue",
        action="store_true",
        dest="go_on",
        help="append to the notebook's conversation",
    )
    run.add_argument(
        "-c",
        "--cfg",
        metavar="X",
        action="append",
        default=[],
        help="set a configuration value for this run",
    )
    run.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit XML report")
    run.add_argument("--json", type=Path, metavar="FILE", help="write a JSON report")
    _add_cassette_options(run)
    run.add_argument(
        "--answers", type=Path, metavar="FILE", help="prepared answers and permissions, in TOML"
    )
    run.add_argument(
        "--answers-template",
        type=Path,
        metavar="FILE",
        help="write the open decisions to a new answers file, to fill in",
    )
    run.set_defaults(command="run:run")

    check = commands.add_parser(
        "check",
        help="find API keys, damaged records, and outdated cassettes before you share a notebook",
    )
    check.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="notebooks, cassettes, answers files, or folders that contain them",
    )
    check.set_defaults(command="check:check")

    show = commands.add_parser("show", help="print the conversation in a notebook")
    show.add_argument("notebook", type=Path, help="the notebook")
    show.add_argument("--json", action="store_true", help="print the stored JSON object")
    show.set_defaults(command="records:show")

    strip = commands.add_parser("strip", help="remove the record and outputs from notebooks")
    strip.add_argument(
        "notebooks",
        type=Path,
        nargs="+",
        metavar="NB",
        help="a notebook; - filters stdin to stdout",
    )
    strip.add_argument("--record", action="store_true", help="remove only the record")
    strip.add_argument(
        "--outputs", action="store_true", help="remove only outputs and execution counts"
    )
    strip.set_defaults(command="strip:strip")

    diff = commands.add_parser("diff", help="compare the records of two notebooks, turn by turn")
    diff.add_argument("notebooks", nargs="+", metavar="NB", help="the two notebooks: A B")
    diff.add_argument(
        "--git",
        action="store_true",
        help="run as an external diff driver of git, with the arguments that git passes",
    )
    diff.set_defaults(command="records:diff")

    bring = commands.add_parser("import", help="import a conversation of JP into a notebook")
    bring.add_argument("folder", type=Path, metavar="DIR", help="the conversation's directory")
    bring.add_argument("notebook", type=Path, metavar="NB", help="created if it does not exist")
    bring.set_defaults(command="records:import_conversation")

    export = commands.add_parser("export", help="export a conversation as a directory of JP")
    export.add_argument("notebook", type=Path, metavar="NB", help="the notebook")
    export.add_argument("folder", type=Path, metavar="DIR", help="the conversation's directory")
    export.add_argument(
        "--dialect",
        choices=("native", "jp-head"),
        default="native",
        help="native (default): the format of jp_nb; jp-head: the format that JP reads",
    )
    export.add_argument(
        "--conversation", metavar="ID", help="export this conversation instead of the active one"
    )
    export.set_defaults(command="records:export_conversation")

    trust = commands.add_parser("trust", help="trust the configuration files of a folder")
    trust.add_argument("folder", type=Path, metavar="DIR", help="a notebook's folder")
    trust.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    trust.add_argument("--revoke", action="store_true", help="withdraw the trust")
    trust.set_defaults(command="environment:trust")

    doctor = commands.add_parser("doctor", help="check the installation and the configuration")
    doctor.set_defaults(command="environment:doctor")
    return parser


def _add_cassette_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    for flag, text in (
        (
            "--record",
            "record requests to models and their responses in FILE (default: NB.cassette.jsonl)",
        ),
        ("--replay", "replay responses from FILE instead of models: no key, no network"),
        ("--replay-or-record", "replay the responses that FILE contains, and record the others"),
    ):
        group.add_argument(flag, metavar="FILE", nargs="?", const="", help=text)
    parser.add_argument(
        "--tools",
        choices=("run", "recorded"),
        help="in a replay: run the tools (default), or take their results from FILE",
    )


if __name__ == "__main__":
    sys.exit(main())
