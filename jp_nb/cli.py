"""`jp-nb`: run, show and try notebooks from a shell.

Each command is a function in `jp_nb/headless`, whose module is loaded when it is called.

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
from jp_nb.headless.answers_options import add_answers_options
from jp_nb.headless.cassette_options import add_cassette_options
from jp_nb.jsonschema_import import without_parsers

INTERRUPTED = 128 + 2
"""The exit code of what SIGINT ended, as shells have it."""


BROKEN_PIPE = 128 + 13
"""Likewise of what SIGPIPE would have ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code.

    That is 0 if it is done, 1 if it failed, 2 if it was called wrongly, 130 after Ctrl+C.
    """
    try:
        options = _parser().parse_args(arguments)
        module, _, function = options.command.partition(":")
        with without_parsers():  # nbformat loads jsonschema
            room = import_module(f"jp_nb.headless.{module}")
        command: Callable[[argparse.Namespace], int] = getattr(room, function)
        return command(options)
    except KeyboardInterrupt:
        print("jp-nb: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # who reads it, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
        return BROKEN_PIPE
    except UsageError as exc:
        return _complain(exc, 2)
    except JpNbError as exc:
        return _complain(exc, 1)


def _complain(exc: JpNbError, code: int) -> int:
    from jp_nb.safe_text import plain  # with it pydantic is loaded

    print(f"jp-nb: {plain(str(exc))}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jp-nb", description="An assistant's turn loop inside a notebook kernel."
    )
    parser.add_argument("--version", action="version", version=f"jp-nb {jp_nb.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="open the quickstart in JupyterLab: offline, no key")
    demo.add_argument("--headless", action="store_true", help="execute it and print what it shows")
    demo.set_defaults(command="demo_command:demo")

    run = commands.add_parser("run", help="execute a notebook with nobody there")
    run.add_argument("notebook", type=Path)
    run.add_argument("-o", "--out", type=Path, help="write here instead of in place")
    run.add_argument("--strict", action="store_true", help="fail where a person is needed")
    run.add_argument(
        "--continue", action="store_true", dest="go_on", help="append to its conversation"
    )
    run.add_argument(
        "-c", "--cfg", metavar="X", action="append", default=[], help="configuration of the run"
    )
    run.add_argument("--junit", type=Path, metavar="FILE", help="write a report as JUnit's XML")
    run.add_argument("--json", type=Path, metavar="FILE", help="write a report as JSON")
    add_cassette_options(run)
    add_answers_options(run)
    run.set_defaults(command="run_command:run")

    check = commands.add_parser(
        "check", help="look for keys, damaged records and outdated cassettes before you share"
    )
    check.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="notebooks, their cassettes and answers, folders",
    )
    check.set_defaults(command="check_command:check")

    show = commands.add_parser("show", help="print the conversation in a notebook")
    show.add_argument("notebook", type=Path)
    show.add_argument("--json", action="store_true", help="as the stored JSON object")
    show.set_defaults(command="record_commands:show")

    strip = commands.add_parser("strip", help="take record and outputs out of notebooks")
    strip.add_argument(
        "notebooks", type=Path, nargs="+", metavar="NB", help="a notebook; -: from stdin to stdout"
    )
    strip.add_argument("--record", action="store_true", help="the record alone")
    strip.add_argument("--outputs", action="store_true", help="outputs and their numbers alone")
    strip.set_defaults(command="strip_command:strip")

    diff = commands.add_parser("diff", help="compare the records of two notebooks, turn by turn")
    diff.add_argument("notebooks", nargs="+", metavar="NB", help="A B")
    diff.add_argument("--git", action="store_true", help="called by git, with its own arguments")
    diff.set_defaults(command="diff_command:diff")

    bring = commands.add_parser("import", help="put a conversation of JP into a notebook")
    bring.add_argument("folder", type=Path, metavar="DIR", help="the conversation's directory")
    bring.add_argument("notebook", type=Path, metavar="NB", help="made if it is not there")
    bring.set_defaults(command="record_commands:import_conversation")

    export = commands.add_parser("export", help="write a conversation as a directory of JP")
    export.add_argument("notebook", type=Path, metavar="NB")
    export.add_argument("folder", type=Path, metavar="DIR", help="the conversation's directory")
    export.add_argument(
        "--dialect", choices=("native", "jp-head"), default="native", help="jp-head: what JP reads"
    )
    export.add_argument("--conversation", metavar="ID", help="not the active one, but this")
    export.set_defaults(command="record_commands:export_conversation")

    trust = commands.add_parser("trust", help="let what the files of a folder configure count")
    trust.add_argument("folder", type=Path, metavar="DIR", help="a notebook's folder")
    trust.add_argument("--yes", action="store_true", help="do not ask")
    trust.add_argument("--revoke", action="store_true", help="take that back")
    trust.set_defaults(command="folder_command:trust")

    doctor = commands.add_parser("doctor", help="what works here, and why not")
    doctor.set_defaults(command="doctor_command:doctor")
    return parser


if __name__ == "__main__":
    sys.exit(main())
