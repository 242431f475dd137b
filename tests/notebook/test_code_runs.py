"""`run_python` in IPython's shell: the executed code, the model's result, and remaining effects."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.ipython_shell import IPythonShell
from tests.support.cells import calls
from tests.support.ipython import ipython

__all__ = ["ipython"]

NO_OUTPUT = "The code ran and showed no output."
UNATTENDED = "-t run_python -c conversation.tools.run_python.run=unattended"


@pytest.fixture(autouse=True)
def half(ipython: IPythonShell) -> None:
    """Define a function that fails for 0, in a cell."""
    ipython.run("def half(x):\n    return 1 / x")


def ask_for(ipython: IPythonShell, *codes: str, options: str = UNATTENDED) -> Any:
    """Run a turn in which the model calls `run_python` with each of `codes`."""
    script = calls(*(("run_python", {"code": code}) for code in codes))
    path: Path = ipython.session.files.folder / "code.toml"
    path.write_text(f'{script}[[replies]]\ntext = "Done."\n', encoding="utf-8")
    cell = ipython.run(f"%%jp -n -m scripted/code {options}\nContinue.")
    assert cell.error is None
    return cell


def results(ipython: IPythonShell) -> list[tuple[str, bool]]:
    """Return what the model reads of each call of the last turn, and whether it is an error."""
    assert ipython.session.last_turn is not None
    return [
        (call.content or "", bool(call.is_error)) for call in ipython.session.last_turn.tool_calls
    ]


def result(ipython: IPythonShell) -> str:
    [(content, _)] = results(ipython)
    return content


def test_prints_are_kept_as_a_terminal_shows_them(ipython: IPythonShell) -> None:
    rows = {
        "print('hi')\nx = 41": "hi",
        "x = 41": NO_OUTPUT,
        "41;": NO_OUTPUT,
        "import sys; print('a'); print('b', file=sys.stderr)": "a\nb",
        "print('10%\\r20%\\r', end=''); print('\\x1b[31m30%\\x1b[0m')": "30%",
        "print('\\u202eback')": "⟨U+202E⟩back",
        "import sys; sys.displayhook = lambda v: print('mine', v)\n1 + 1": "mine 2",
    }
    hook = sys.displayhook
    ask_for(ipython, *rows)
    sys.displayhook = hook
    for (code, read), (content, is_error) in zip(rows.items(), results(ipython), strict=True):
        assert (content, is_error) == (read, False), code


def test_assignment_shows_its_value_if_configured(ipython: IPythonShell) -> None:
    for how, count in (("last_expr", 0), ("last_expr_or_assign", 1)):
        ipython.shell.ast_node_interactivity = how
        shown = ask_for(ipython, "x = 40 + 2").shown
        assert shown.count("42") == count


def test_error_names_the_lines_of_the_code_and_no_file_of_the_machine(
    ipython: IPythonShell, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[str, str]] = [
        (
            "print('before')\nhalf(0)",
            "ZeroDivisionError: division by zero\n\nRaised in the code at:\n"
            "line 2, in <module>: half(0)\nline 2, in half (in a cell): return 1 / x\n\n"
            "Output before the error:\nbefore",
        ),
        (
            "x = = 3",
            "SyntaxError: invalid syntax\n\nRaised in the code at:\n"
            "line 1:\n    x = = 3\n        ^",
        ),
        (
            "raise SystemExit(3)",
            "SystemExit: 3\n\nRaised in the code at:\nline 1, in <module>: raise SystemExit(3)",
        ),
        (
            "import asyncio\nraise asyncio.CancelledError",
            "CancelledError\n\nRaised in the code at:\n"
            "line 2, in <module>: raise asyncio.CancelledError",
        ),
        (
            "raise ValueError('\\x1b[31mred\\u202e')",
            "ValueError: red⟨U+202E⟩\n\nRaised in the code at:\n"
            "line 1, in <module>: raise ValueError('\\x1b[31mred\\u202e')",
        ),
    ]
    for code, read in rows:
        with subtests.test(code=code):
            cell = ask_for(ipython, code)
            assert results(ipython) == [(read, True)]
            name = read.partition(":")[0].partition("\n")[0]
            assert name in cell.printed  # IPython's traceback, for the user
            assert "Raised in the code" not in cell.shown


def test_empty_code_is_refused_without_a_question(ipython: IPythonShell) -> None:
    ask_for(ipython, " \n", options="-t run_python")
    assert results(ipython) == [("`code` is empty. Give the code to run, as a text.", True)]


def test_tool_is_off_until_it_is_named(ipython: IPythonShell) -> None:
    ask_for(ipython, "1", options="-t")
    [(content, is_error)] = results(ipython)
    assert is_error
    assert "is not available" in content


def test_turn_does_not_start_inside_another_turn(ipython: IPythonShell) -> None:
    ask_for(ipython, "%%jp\nAnd again.")
    [(content, is_error)] = results(ipython)
    assert is_error
    assert "a turn is still running in this kernel" in content


def test_code_does_not_count_as_a_cell(ipython: IPythonShell) -> None:
    hooks: list[object] = []
    ipython.shell.events.register("post_run_cell", hooks.append)
    ipython.run("7 * 6")
    names = ipython.shell.user_ns
    before = names["_"], len(names["In"]), list(names["Out"]), len(hooks)
    ask_for(ipython, "1 + 1", "name = 'kept'")
    after = names["_"], len(names["In"]), list(names["Out"]), len(hooks)
    assert after == (before[0], before[1] + 1, before[2], before[3] + 1)  # the turn's own cell
    assert names["name"] == "kept"


def test_frames_of_earlier_code_are_marked(ipython: IPythonShell) -> None:
    ask_for(ipython, "def third(x):\n    return 1 / x", "third(0)")
    content, is_error = results(ipython)[1]
    assert is_error
    assert content.endswith(
        "line 1, in <module>: third(0)\nline 2, in third (in earlier code): return 1 / x"
    )
    frame = sys.last_traceback
    assert frame is not None
    while frame.tb_next is not None:
        frame = frame.tb_next
    assert frame.tb_frame.f_code.co_name == "third"  # where %debug begins


def test_frame_shows_the_line_as_it_ran(ipython: IPythonShell) -> None:
    ask_for(ipython, "\n\nnumber = 0\nhalf(number)")  # IPython drops the blank lines above
    assert "line 2, in <module>: half(number)" in result(ipython)


def test_middle_of_many_frames_is_omitted(ipython: IPythonShell) -> None:
    ask_for(ipython, "def down(n):\n    return down(n - 1) if n else half(0)\ndown(50)")
    frames = result(ipython).partition("Raised in the code at:\n")[2].split("\n")
    assert frames[0] == "line 3, in <module>: down(50)"
    assert frames[10] == "… 33 more frames"
    assert frames[-1].endswith("in half (in a cell): return 1 / x")
    assert len(frames) == 21


def test_error_of_the_code_can_be_explained(ipython: IPythonShell, folder: Path) -> None:
    ipython.run("{}['in a cell']")
    ask_for(ipython, "number = 0\nhalf(number)")
    ipython.run("%jp config assistant.model.id=scripted/talk")
    ipython.run("%jp why")
    sent = ipython.session.conversations.log()[-1].request
    assert (
        "Code that the model ran, which failed at line 2 ---\n  1 number = 0\n→ 2 half(number)"
        in sent
    )
    assert "number (Code that the model ran, line 2): 0\n" in sent
    assert "ZeroDivisionError: division by zero" in sent
    assert "in a cell" not in sent
