"""`%jp why` and `%jp retry` in cells, and the error that they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import jp_nb
from tests.kit.ipython_shell import IPythonShell
from tests.support.ipython import ipython

__all__ = ["ipython"]

REPLIES = "".join(f'[[replies]]\ntext = "answer {n}"\n' for n in range(6))
BROKEN = "[[replies]]\nerror = { status = 404 }\n"


@pytest.fixture
def folder(folder: Path) -> Path:
    """A workspace with a script that answers and one that fails."""
    (folder / "talk.toml").write_text(REPLIES)
    (folder / "broken.toml").write_text(BROKEN)
    return folder


def requests(ipython: IPythonShell) -> list[str]:
    return [turn.request for turn in ipython.session.conversations.log()]


def test_why_sends_cell_traceback_and_values_and_shows_the_request(ipython: IPythonShell) -> None:
    ipython.run("def share(total, parts, api_key='k'):\n    each = total / parts\n    return each")
    ipython.run("\n\nparts = 0\nshare(12, parts)")
    cell = ipython.run("%jp why Is it the data?")
    sent = requests(ipython)[-1]
    assert sent.startswith("Is it the data?\n\nEverything below, up to the line")
    assert ", which failed at line 2 ---\n  1 parts = 0\n→ 2 share(12, parts)\n---" in sent
    assert ", line 2, in share\n    1 def share" in sent
    assert "→ 2     each = total / parts\n" in sent
    assert "\nZeroDivisionError: division by zero\n---" in sent
    assert ", in share): 12\n" in sent
    quoted = "\n".join(f"> {line}".rstrip() for line in sent.split("\n"))
    assert cell.shown == f"{quoted}\nanswer 0"
    begins = "<details><summary>Request</summary>\n\n```text\nIs it the data?"
    assert cell.markdown.startswith(begins)


def test_why_explains_the_same_error_until_another_one_is_raised(ipython: IPythonShell) -> None:
    assert str(ipython.run("%jp why").error).endswith("no cell of this kernel has failed yet.")
    ipython.run("{}['first']")
    ipython.run("1 + 1")
    assert "KeyError: 'first'" in ipython.run("%jp why").shown
    ipython.run("%%jp -m scripted/broken\nGo.")
    ipython.run("%jp config no.such.path=1")
    assert "KeyError: 'first'" in ipython.run("%jp why").shown
    ipython.run("def f(:\n    pass")
    other = ipython.run("%jp why")
    assert "SyntaxError: invalid syntax" in other.shown
    assert "this cell began" not in other.printed, "another error is another request"


def test_turn_that_explains_an_error_is_replayed_only_by_its_number(ipython: IPythonShell) -> None:
    ipython.run("{}['first']")
    ipython.run("%jp why")
    assert "has only explanations of errors" in str(ipython.run("%jp replay").error)
    assert "turn 1 called no tool" in str(ipython.run("%jp replay 1").error)


def test_why_does_not_explain_errors_of_jp_nb(ipython: IPythonShell) -> None:
    ipython.run("%jp config no.such.path=1")
    assert "the last error came from jp_nb itself. ConfigError" in str(ipython.run("%jp why").error)


def test_why_explains_an_error_from_before_the_extension_was_loaded(folder: Path) -> None:
    ipython = IPythonShell()
    try:
        ipython.run("early = 0\n1 / early")
        ipython.load()
        shown = ipython.run("%jp why").shown
    finally:
        ipython.close()
    assert "→ 2 1 / early" in shown
    assert re.search(r"early \(Cell In\[\d\], line 2\): 0\n", shown)


def test_retry_answers_again_and_says_how_to_go_back(ipython: IPythonShell) -> None:
    ipython.run("%%jp\nFirst.")
    ipython.run("%%jp\nSecond.")
    old = ipython.session.document.conversation.id
    cell = ipython.run("%jp retry")
    assert cell.shown == "> Second.\nanswer 1"
    assert f"all turns: `%jp switch {old}`" in cell.printed
    assert ipython.session.last_turn is not None
    assert (ipython.session.last_turn.number, ipython.session.last_turn.request) == (1, "Second.")
    failed = ipython.run("%jp retry -m scripted/broken")
    assert failed.error is not None
    assert "`%jp switch " in failed.printed
    ipython.run(f"%jp switch {old}")
    assert requests(ipython) == ["First.", "Second."]


TOOL = "import jp_nb\n@jp_nb.tool\ndef weather() -> str:\n    'The weather.'\n    return 'sunny'\n"
CALLS = "[[replies]]\ntool_calls = [{ name = 'weather' }]\n[[replies]]\ntext = 'Sunny.'\n" * 3


@pytest.fixture
def weather(ipython: IPythonShell, folder: Path) -> Iterator[None]:
    for name in ("tools", "other"):
        (folder / f"{name}.toml").write_text(CALLS)
    ipython.run(TOOL)
    yield
    jp_nb.remove_tool("weather")


@pytest.mark.usefixtures("weather")
def test_retry_and_replay_skip_the_explanation_of_an_error(ipython: IPythonShell) -> None:
    assert ipython.run("%jp retry").error is not None
    ipython.run("{}['missing']")
    ipython.run("%jp why")
    for line in ("%jp retry", "%jp replay"):
        assert "explanations of errors" in str(ipython.run(line).error)
    ipython.run("%jp new")
    ipython.run("%%jp -m scripted/tools\nGo out?")
    ipython.run("%jp config assistant.model.id=scripted/other")
    ipython.run("%jp why")
    assert "Turn 1 with the current tools: 1 of 1" in ipython.run("%jp replay").shown
    assert ipython.run("%jp retry").shown.startswith("> Go out?\n")
    last = ipython.session.last_turn
    assert last is not None
    assert (last.number, last.request, last.text) == (0, "Go out?", "Sunny.")
    assert ipython.value("assistant.model.id.name") == "other", "a setting made since counts"


@pytest.mark.req("CELL-36")
def test_fix_names_the_cell_that_failed_by_its_id(ipython: IPythonShell) -> None:
    ipython.shell.run_cell("1 / 0", cell_id="failed-cell")
    ipython.run("%jp fix")
    sent = requests(ipython)[-1]
    assert "The cell that failed has the id `failed-cell` and the version" in sent
    assert "ZeroDivisionError" in sent
