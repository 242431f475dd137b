"""The lines of the commands that make another conversation the active one."""

from __future__ import annotations

import pytest

from tests.kit.ipython_shell import IPythonShell
from tests.support.ipython import ipython
from tests.support.sessions import Notebook

__all__ = ["ipython"]


@pytest.fixture
def printed(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> Printed:
    return Printed(notebook, capsys)


class Printed:
    """Runs commands and returns the lines that they print, without the place of the record."""

    def __init__(self, notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
        self._notebook = notebook
        self._capsys = capsys

    def __call__(self, line: str) -> list[str]:
        self._capsys.readouterr()
        self._notebook.jp(line)
        lines = self._capsys.readouterr().out.splitlines()
        return [line.partition(" · kept in ")[0] for line in lines]


def test_each_command_reports_its_effect_and_how_to_go_back(
    notebook: Notebook, printed: Printed
) -> None:
    notebook.ask("Plan a weekend in Delft.\nLook at the forecast, and ask me what I like.")
    notebook.ask("And the next one?")
    first = notebook.ids[0]
    title = "“Plan a weekend in Delft. Look at the …”"
    assert printed("undo") == [
        f"jp_nb: Undid turn 2, “And the next one?”. Go back: `%jp switch {first}`",
        f"jp_nb: Active: {title} · model scripted/talk · conversation (1 turn)",
    ]
    undone = notebook.ids[0]
    assert printed(f"switch {first}") == [
        f"jp_nb: Switched from {title} (1 turn). Go back: `%jp switch {undone}`",
        f"jp_nb: Active: {title} · model scripted/talk · conversation (2 turns)",
    ]
    assert printed(f"switch {first}") == [f"jp_nb: Already active: {title} (2 turns)"]
    assert printed("fork 1") == [
        f"jp_nb: Forked after turn 1. Go back: `%jp switch {first}`",
        f"jp_nb: Active: {title} · model scripted/talk · conversation (1 turn)",
    ]
    forked = notebook.ids[0]
    assert printed("fork")[0] == f"jp_nb: Forked after turn 1. Go back: `%jp switch {forked}`"
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


def test_title_has_no_unprintable_characters(notebook: Notebook, printed: Printed) -> None:
    notebook.ask("\x1b[31mred \u202e text")
    (line, _) = printed("new")
    assert "\x1b" not in line
    assert "\u202e" not in line


def test_new_conversation_reports_the_settings_of_the_previous_one_and_can_keep_them(
    ipython: IPythonShell,
) -> None:
    host = "http://127.0.0.1:8080"
    ipython.run(
        f"%jp config providers.llm.llamacpp.base_url={host} "
        "conversation.tools.t.options.api_key=hush assistant.name=Ada"
    )
    ipython.run("%%jp\nGo.")
    printed = ipython.run("%jp new").printed
    assert f"providers.llm.llamacpp.base_url={host}" in printed
    left = printed.partition("do not apply to the new one: ")[2]
    assert "assistant.name=Ada" in left
    assert "conversation.tools.t.options.api_key=(set, not shown)" in left
    assert "hush" not in printed
    assert ipython.value("assistant.name") is None
    printed = ipython.run("%jp new --keep-config").printed  # nothing was asked in between
    assert "had set" not in printed
    for path in ("assistant.name", "providers.llm.llamacpp.base_url"):
        assert "conversation, for turn 1" in ipython.run(f"%jp config {path}").shown
    ipython.run("%%jp\nGo.")
    printed = ipython.run("%%jp -n -m scripted/talk\nGo.").printed
    assert "assistant.name=Ada" in printed.partition("do not apply")[2]
    assert "assistant.model.id" not in printed.partition("do not apply")[2]
    assert "had set" not in ipython.run("%%jp -n -c assistant.name=Bea\nGo.").printed


def test_notice_about_a_new_conversation_names_tools_without_paths(
    ipython: IPythonShell,
) -> None:
    ipython.run("%%jp -m scripted/talk -t notebook\nGo.")
    printed = ipython.run("%%jp -n\nGo.").printed
    assert "do not apply to the new one: tools on: notebook. Set them again: `-t NAME`" in printed
    assert "conversation.tools" not in printed


def test_titles_and_log_show_requests_as_the_user_typed_them(ipython: IPythonShell) -> None:
    ipython.run("numbers, word = list(range(40)), 'data'")
    for request in ("Describe {{numbers}}.", r"Braces: \{{x}}, {{word}}", "No {{ value"):
        ipython.run(f"%%jp -n\n{request}")
        assert ipython.run("%jp log").shown.startswith(f"1 you: {request}\n")
        assert f"Undid turn 1, “{request}”" in ipython.run("%jp undo").printed
        assert request in ipython.run("%jp switch").shown


def test_titles_and_log_show_the_error_and_the_question_of_why(ipython: IPythonShell) -> None:
    ipython.run("numbers = []\nnumbers.last")
    ipython.run("%jp why")
    ipython.run("%jp why What is missing?")
    shown = ipython.run("%jp log").shown
    why = "why: AttributeError: 'list' object has no attribute 'last'"
    assert f"1 you: {why}\n1 assistant:" in shown
    assert f"2 you: What is missing?\n    {why}\n2 assistant:" in shown
    assert "notebook data" not in shown
    assert f"“What is missing? {why[:12]}" in ipython.run("%jp undo").printed
    assert "“why: AttributeError: 'list' object" in ipython.run("%jp new").printed


def test_log_of_a_syntax_error_names_it(ipython: IPythonShell) -> None:
    ipython.run("x = = 1")
    ipython.run("%jp why")
    assert ipython.run("%jp log").shown.startswith("1 you: why: SyntaxError: invalid syntax\n")


def test_request_that_is_asked_again_keeps_its_words(ipython: IPythonShell) -> None:
    ipython.run("word = 'data'")
    ipython.run("%%jp\nSay {{word}}.")
    ipython.run("%jp retry")
    assert ipython.run("%jp log").shown.startswith("1 you: Say {{word}}.\n")


def test_commands_take_the_numbers_of_turns_that_the_log_shows(ipython: IPythonShell) -> None:
    ipython.run("%%jp\nThe first.")
    ipython.run("%%jp\nThe second.")
    shown = ipython.run("%jp log").shown
    assert shown.startswith("1 you: The first.\n")
    assert "\n2 you: The second.\n" in shown
    assert "The second." in ipython.run("%jp request 2 --full").shown
    assert "The second." not in ipython.run("%jp request 1.1 --full").shown
    for command in ("fork 0", "replay 0", "request 0", "compact --from 0", "compact --to 0"):
        assert "UsageError" in ipython.run(f"%jp {command}").printed
    ipython.run("%jp fork 1")
    shown = ipython.run("%jp log").shown
    assert "The first." in shown
    assert "The second." not in shown
    assert ", turn 1" in ipython.run("%jp switch").shown
    assert "Undid turn 1, “The first.”" in ipython.run("%jp undo").printed
