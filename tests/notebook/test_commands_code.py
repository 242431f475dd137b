"""`%jp code`: code of an answer, or a call of the model, as a new cell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb
from tests.kit.ipython_shell import IPythonShell
from tests.support.cells import calls
from tests.support.ipython import ipython

__all__ = ["ipython"]

ONE = "Try this:\n\n```python\nx = 40 + 2\nx\n```\n"
TWO = "First:\n```python\na = 1\n```\nthen\n```bash\necho \u202ehi\n```\n"
TOOLS = """
import jp_nb as jp
from datetime import date

@jp.tool
def weather(city: str, days: int = 1) -> str:
    if city == "Atlantis":
        raise ValueError("no such city")
    return f"sunny in {city} for {days}"

@jp.tool
def on(day: date) -> str:
    return f"{day.year}"
"""
SCRIPTS = {
    "one": f"[[replies]]\ntext = {json.dumps(ONE)}\n",
    "two": f"[[replies]]\ntext = {json.dumps(TWO)}\n",
    "calls": calls(
        ("weather", {"city": "Delft", "days": "2"}),
        ("weather", {"city": "Atlantis"}),
        ("on", {"day": "2026-11-23"}),
    )
    + '[[replies]]\ntext = "Done."\n',
}


@pytest.fixture
def folder(folder: Path) -> Path:
    """A workspace with scripts that answer with code."""
    for name, text in SCRIPTS.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


def run_code(ipython: IPythonShell, line: str) -> tuple[str | None, Any]:
    """Run `%jp code LINE`; return the text of the new cell, if there is one."""
    ipython.shell.rl_next_input = None
    cell = ipython.run(f"%jp code {line}".strip())
    return ipython.shell.rl_next_input, cell


def test_only_block_becomes_a_cell_unchanged(ipython: IPythonShell) -> None:
    ipython.run("%%jp -m scripted/one\nGo.")
    text, cell = run_code(ipython, "")
    assert text == "x = 40 + 2\nx"
    assert cell.printed == (
        "jp_nb: Inserted a new cell with code block 1 of the last answer (python, 2 lines). "
        "The cell has not run.\n"
    )
    assert run_code(ipython, "1")[0] == text


def test_one_of_several_blocks_is_chosen_by_its_number(ipython: IPythonShell) -> None:
    ipython.run("%%jp -m scripted/two\nGo.")
    text, cell = run_code(ipython, "")
    assert text is None
    assert str(cell.error) == (
        "The last answer has 2 code blocks. Choose one with `%jp code N`:\n"
        "  1  python, 1 line: a = 1\n  2  bash, 1 line: echo ⟨U+202E⟩hi"
    )
    assert "There is no code block 3. The last answer has 2 code blocks:" in str(
        run_code(ipython, "3")[1].error
    )
    text, cell = run_code(ipython, "2")
    assert text == "echo \u202ehi"
    assert "unchanged. Its language is bash, not Python." in cell.printed
    assert "before you run it: line 1 contains characters that are invisible" in cell.printed


def test_line_that_names_no_code_is_refused(ipython: IPythonShell) -> None:
    ipython.run("%%jp\nGo.")
    for line, said in {
        "": "has no code block",
        "0": "takes the number of a code block, at least 1, but got '0'",
        "x": "takes the number of a code block",
        "--call": "The model has not called a tool in this conversation",
        "1 --call": "not both",
        "--call x 2": "not both",
    }.items():
        text, cell = run_code(ipython, line)
        assert text is None
        assert said in str(cell.error), line


class Headless:
    """A kernel in a run that takes no input."""

    _allow_stdin = False


def test_code_is_printed_in_a_headless_run(
    ipython: IPythonShell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ipython.run("%%jp -m scripted/one\nGo.")
    monkeypatch.setattr("jp_nb.notebook.commands.code_cells.is_headless", lambda kernel: True)
    monkeypatch.setattr(type(ipython.shell), "kernel", Headless(), raising=False)
    text, cell = run_code(ipython, "")
    assert text is None
    assert "No cell can be inserted in a headless run" in cell.printed
    assert cell.printed.endswith(":\n\nx = 40 + 2\nx\n")


@pytest.fixture
def tools(ipython: IPythonShell) -> Iterator[None]:
    ipython.run(TOOLS)
    yield
    for name in ("weather", "on"):
        jp_nb.remove_tool(name)


@pytest.mark.usefixtures("tools")
def test_call_becomes_a_cell_that_runs(ipython: IPythonShell) -> None:
    ipython.run("%%jp -m scripted/calls\nGo.")
    assert ipython.session.last_turn is not None
    ids = [call.id for call in ipython.session.last_turn.tool_calls]
    written = [run_code(ipython, f"--call {name}")[0] or "" for name in ids]
    assert written == [
        "weather(city='Delft', days=2)",
        "# failed: ValueError: no such city\nweather(city='Atlantis')",
        "jp.call('on', day='2026-11-23')",
    ]
    assert run_code(ipython, "--call")[0] == written[-1]
    assert ipython.run(f"print({written[0]})").printed == "sunny in Delft for 2\n"
    assert isinstance(ipython.run(written[1]).error, ValueError)
    printed = ipython.run(f"outcome = {written[2]}\nprint(outcome.content)").printed
    assert printed.endswith("2026\n")
    error = run_code(ipython, "--call zzz")[1].error
    assert "no call in this conversation has an id that begins with zzz" in str(error)
