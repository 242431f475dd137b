"""The table of subcommands and options."""

from __future__ import annotations

import inspect
from itertools import pairwise
from typing import Final

import pytest

import jp_nb
from tests.kit.ipython_shell import IPythonShell
from tests.support.ipython import ipython

__all__ = ["ipython"]

LINES: Final = (
    "q Hello.",
    "config",
    "tools",
    "log",
    "qna",
    "models scripted",
    "mcp",
    "cassette",
    "usage",
    "call describe_tools",
    "request",
    "why",
    "retry",
    "resume",
    "code",
    "replay",
    "new",
    "fork",
    "compact",
    "undo",
    "switch",
    "drop jp-c1",
    "save",
    "export out",
    "import out",
    "trust",
    "doctor",
    "fix",
    "revert",
    "timeline",
)
"""A line of each subcommand."""


def list_flags(ipython: IPythonShell, name: str) -> list[str]:
    """Return the flags of a subcommand, as Tab offers them."""
    return [line.split()[-1] for line in ipython.tab(f"%jp {name} -|")]


def test_every_subcommand_runs_and_its_options_are_described(
    ipython: IPythonShell, subtests: pytest.Subtests
) -> None:
    names = {line.removeprefix("%jp ") for line in ipython.tab("%jp |")}
    assert {line.split()[0] for line in LINES} == names

    for line in LINES:
        name = line.split()[0]
        with subtests.test(line=line):
            described = ipython.run(f"%jp {name}?").shown
            assert f"\n{name}" in described
            words = described.replace(",", " ").split()
            for short, flag in pairwise(["", *list_flags(ipython, name)]):
                # The long flag of an option is offered after its short one, and not described.
                assert flag in words or (len(short) == 2 and short in words), flag

            error = ipython.run(f"%jp {line}").error
            assert error is None or isinstance(error, jp_nb.JpNbError)


def test_groups_begin_with_the_commands_of_the_first_day(ipython: IPythonShell) -> None:
    shown = ipython.run("%jp").shown
    places = [shown.index(text) for text in ("First steps", "Asking", "Conversations")]
    assert places == sorted(places)


def test_query_takes_the_options_of_the_cell_magic(ipython: IPythonShell) -> None:
    keywords = set(inspect.signature(jp_nb.query).parameters) - {"text", "interpolate"}
    flags = [line.split()[-1] for line in ipython.tab("%%jp --|")]
    names = {flag.removeprefix("--").replace("-", "_") for flag in flags}
    assert keywords - {"attach", "display"} <= names
    assert "attachment" in names
