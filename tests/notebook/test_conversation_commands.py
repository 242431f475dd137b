"""The lines of the commands that make another conversation the active one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.magic_shell import Notebook, folder

__all__ = ["folder"]


@pytest.fixture
def notebook(folder: Path) -> Iterator[Notebook]:
    made = Notebook(folder)
    yield made
    made.session.close()


@pytest.fixture
def printed(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> Printed:
    return Printed(notebook, capsys)


class Printed:
    """Runs commands and returns the lines that they print, without the place of the record."""

    def __init__(self, notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
        self._notebook, self._capsys = notebook, capsys

    def __call__(self, line: str) -> list[str]:
        self._capsys.readouterr()
        self._notebook.jp(line)
        lines = self._capsys.readouterr().out.splitlines()
        return [line.partition(" · kept in ")[0] for line in lines]


def test_each_command_says_what_it_did_and_how_to_go_back(
    notebook: Notebook, printed: Printed
) -> None:
    notebook.ask("Plan a weekend in Delft.\nLook at the forecast, and ask me what I like.")
    notebook.ask("And the next one?")
    first = notebook.ids[0]
    title = "“Plan a weekend in Delft. Look at the …”"
    assert printed("undo") == [
        f"jp_nb: Undid turn 1, “And the next one?”. Go back: `%jp switch {first}`",
        f"jp_nb: Active: {title} · model scripted/talk · conversation (1 turn)",
    ]
    undone = notebook.ids[0]
    assert printed(f"switch {first}") == [
        f"jp_nb: Switched from {title} (1 turn). Go back: `%jp switch {undone}`",
        f"jp_nb: Active: {title} · model scripted/talk · conversation (2 turns)",
    ]
    assert printed(f"switch {first}") == [f"jp_nb: {title} (2 turns) is already active"]
    assert printed("fork 0") == [
        f"jp_nb: Forked after turn 0. Go back: `%jp switch {first}`",
        f"jp_nb: Active: {title} · model scripted/talk · conversation (1 turn)",
    ]
    forked = notebook.ids[0]
    assert printed("fork")[0] == f"jp_nb: Forked after turn 0. Go back: `%jp switch {forked}`"
    copied = notebook.ids[0]
    assert printed("new") == [
        f"jp_nb: Left {title} (1 turn). Go back: `%jp switch {copied}`",
        "jp_nb: Active: model scripted/talk · new conversation",
    ]
    assert printed("new")[0] == "jp_nb: Left an empty conversation"
    assert printed(f"drop {first}") == [
        f"jp_nb: Dropped {title} (2 turns) from this notebook. This cannot be undone",
        "jp_nb: Active: model scripted/talk · new conversation",
    ]


def test_switch_without_an_id_lists_the_conversations(notebook: Notebook, printed: Printed) -> None:
    notebook.ask("First.")
    notebook.jp("new")
    notebook.ask("Second.")
    shown = notebook.jp("switch")
    rows = [line.split() for line in shown.splitlines()]
    assert [row[0] for row in rows[-2:]] == notebook.ids
    assert "Second. (active)" in shown
    assert "First." in shown


def test_an_unprintable_request_is_no_title(notebook: Notebook, printed: Printed) -> None:
    notebook.ask("\x1b[31mred \u202e text")
    (line, _) = printed("new")
    assert "\x1b" not in line
    assert "\u202e" not in line
