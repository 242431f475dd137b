"""The two magics in IPython's shell: loading, their lines, and errors in one line."""

from __future__ import annotations

import re

import pytest

import jp_nb
from tests.kit.ipython_shell import IPythonShell
from tests.support.ipython import ipython

__all__ = ["ipython"]


def test_empty_tool_name_does_not_mean_all_tools(
    ipython: IPythonShell, subtests: pytest.Subtests
) -> None:
    for name in ["", " "]:
        for option in ["-t", "-T", "--tool", "--no-tool"]:
            with subtests.test(option=option, name=name):
                said = ipython.run(f"%%jp {option} {name!r}\nGo.").printed
                assert f"`{option}` takes the name of a tool or toolset, or no name" in said


@pytest.mark.parametrize("line", ["config user.name", "config\tuser.name", "config \t user.name "])
def test_any_space_ends_the_subcommand(line: str, ipython: IPythonShell) -> None:
    assert ipython.run(f"%jp {line}").shown.startswith("path       value")


ASKED = "get_ipython().run_line_magic('jp', 'q Why?')\n"


SHELL_LINE = "get_ipython().system('echo don\\'t \"\"\"')\n"
ROWS: list[tuple[str, str]] = [
    ("%jp q Why?\n", ASKED),
    ("x = 1\n%jp q Why? \n", f"x = 1\n{ASKED}"),
    ("if x:\n    %jp q Why?\n", f"if x:\n    {ASKED}"),
    ('!echo don\'t """\n%jp q Why?\n', f"{SHELL_LINE}{ASKED}"),
    ('x = """\n%jp q Why?\n"""\n%jp q Why?\n', f'x = """\n%jp q Why?\n"""\n{ASKED}'),
    ('x = f"""\n%jp q Why?\n"""\n', 'x = f"""\n%jp q Why?\n"""\n'),
    ("x = (5\n%jp q Why?\n", "get_ipython().run_line_magic('pinfo', 'Why')\n"),
    ("%%jp\n%jp q Why?\n", "get_ipython().run_cell_magic('jp', '', '%jp q Why?\\n')\n"),
    ("%jp q Why\n", "get_ipython().run_line_magic('jp', 'q Why')\n"),
    ("%jp what is this?\n", "get_ipython().run_line_magic('jp', 'what is this?')\n"),
    ("%jp config?\n", "get_ipython().run_line_magic('jp', 'config?')\n"),
    ("%jp?\n", "get_ipython().run_line_magic('pinfo', '%jp')\n"),
    ("?%jp\n", "get_ipython().run_line_magic('pinfo', '%jp')\n"),
    ("%%jp?\n", "get_ipython().run_line_magic('pinfo', '%%jp')\n"),
    ("x = 'a\n%jp q Why?\n", f"x = 'a\n{ASKED}"),
]
"""Cells, and the Python code that IPython makes of each."""


def test_question_mark_is_kept_where_a_statement_may_begin(
    ipython: IPythonShell, subtests: pytest.Subtests
) -> None:
    for cell, transformed in ROWS:
        with subtests.test(cell=cell):
            assert ipython.shell.transform_cell(cell) == transformed


# --- in IPython's shell ------------------------------------------------------------------------


def test_mistake_is_one_line_that_gives_the_remedy_and_nothing_is_recorded(
    ipython: IPythonShell, subtests: pytest.Subtests
) -> None:
    ipython.run("%%jp\nHello.")
    before = list(ipython.session.document.conversation.raw)
    rows: list[tuple[str, str, list[str]]] = [
        ("%%jp\n  \n", "UsageError", ["the request is empty", "%%jp"]),
        ("%%jp --fast\nx", "UsageError", ["--fast", "-m MODEL"]),
        ("%%jp -o 1x\nx", "UsageError", ["1x"]),
        ("%%jp -o class\nx", "UsageError", ["class"]),
        ("%%jp -c 'x\ny", "UsageError", ["quot"]),
        ("%%jp\n{{nobody}}", "UsageError", ["nobody"]),
        ("%%jp\n{{print(1)}}", "UsageError", ["Function calls are not possible"]),
        ("%%jp -m nowhere/x\nx", "ConfigError", ["nowhere", "anthropic, "]),
        ("%%jp -m fast\nx", "ConfigError", ["fast", "alias"]),
        ("%%jp -c assistant.modle.id=x\nx", "ConfigError", ["assistant.model"]),
        ("%%jp -c prompt.channel=loud\nx", "ConfigError", ["prompt.channel", "widget"]),
        ("%%jp -n -m nowhere/x\nx", "ConfigError", ["nowhere"]),
        ("%%jp -n -c assistant.tool_choice=typo\nx", "ConfigError", ["typo"]),
        ("%jp log ²", "UsageError", ["²"]),
        ("%jp lgo", "UsageError", ["%jp log", "%%jp"]),
        ("%jp config assistant.modle", "ConfigError", ["assistant.model"]),
    ]
    for code, name, words in rows:
        with subtests.test(code=code):
            cell = ipython.run(code)
            assert type(cell.error).__name__ == name
            assert len(cell.printed.splitlines()) == 1
            assert cell.printed.startswith(f"{name}: ")
            assert all(word in cell.printed for word in words)
            assert ipython.session.document.conversation.raw == before


def test_braces_and_dollars_are_sent_as_written(ipython: IPythonShell) -> None:
    ipython.run("name = {'k': ['v']}; dollar = 1")
    ipython.run('%%jp\nA {name} $dollar {{name["k"][0]}} \\{{name}} {"json": 1}')
    assert ipython.session.last_turn is not None
    assert ipython.session.last_turn.request == 'A {name} $dollar v {{name}} {"json": 1}'


def test_turn_is_the_result_of_its_cell(ipython: IPythonShell) -> None:
    cell = ipython.run("%%jp -o answer\nHello.")
    assert (cell.shown, cell.markdown) == ("one", "one")
    ipython.run("import jp_nb as jp; same = answer is _jp and answer is jp.last")
    assert ipython.shell.user_ns["same"] is True
    assert ipython.shell.user_ns["answer"].text == "one"


def test_name_of_a_result_is_the_one_that_code_reads(ipython: IPythonShell) -> None:
    ipython.run("%%jp -o \u00b5\nHello.")  # Python reads the micro sign as the letter mu
    ipython.run("text = \u00b5.text")
    assert ipython.shell.user_ns["text"] == "one"


def test_reloaded_extension_keeps_the_conversation_and_unloaded_one_has_no_magics(
    ipython: IPythonShell,
) -> None:
    ipython.run("%%jp\nHello.")
    before = ipython.session.document.conversation.id
    ipython.unload()
    assert "not found" in ipython.run("%jp log").printed
    assert ipython.shell.Completer.custom_matchers == []
    assert "conversation (1 turn)" in ipython.load()
    ipython.load()
    assert len(ipython.shell.Completer.custom_matchers) == 1
    assert ipython.run("%%jp\nAnd more?").shown == "two"
    assert ipython.session.document.conversation.id == before


def test_subcommands_show_their_reports(ipython: IPythonShell) -> None:
    ipython.run("%%jp\nHello.")
    for line, word in {
        "%jp": "config",
        "%jp tools": "ask_user",
        "%jp log": "Hello.",
        "%jp config": "assistant.model.id",
        "%jp config prompt.channel": "auto",
        "%jp doctor": "scripted/talk",
    }.items():
        assert word in ipython.run(line).shown, line
    said = ipython.run("%jp config style.update_interval_ms=250").printed
    assert said == "Set for this conversation: style.update_interval_ms = 250\n"
    assert "250" in ipython.run("%jp config style.update_interval_ms").shown


def split_rows(table: str) -> list[list[str]]:
    """Return the cells of each row of a table of commands."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]
    return [row for row in rows if len(row) == 2]


@pytest.fixture
def paged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that IPython shows in its pager."""
    texts: list[str] = []
    monkeypatch.setattr(
        "IPython.core.page.page", lambda data, **_: texts.append(data["text/plain"])
    )
    return texts


def test_question_mark_after_the_line_magic_shows_each_command(
    ipython: IPythonShell, paged: list[str]
) -> None:
    rows = [row for row in split_rows(ipython.run("%jp").shown) if row[0] != "%jp"]
    commands = {syntax.split()[0] for syntax, _ in rows}
    assert {f"%jp {command}" for command in commands} == set(ipython.tab("%jp |"))

    for code in ("%jp?", "?%jp"):
        paged.clear()
        ipython.run(code)
        (shown,) = paged
        for row in rows:
            assert all(text in shown for text in row)


def test_question_mark_after_the_cell_magic_shows_each_option(
    ipython: IPythonShell, paged: list[str]
) -> None:
    for code in ("%%jp?", "?%%jp"):
        paged.clear()
        ipython.run(code)
        (shown,) = paged
        assert max(map(len, shown.splitlines())) <= 100
        assert "%jp fork" not in shown
        for title in ("Model and configuration:", "Tools:", "Data:", "Conversation:"):
            assert shown.count(f"\n{title}\n") == 1

        lines = [line for line in shown.splitlines() if line.startswith("  -")]
        for option in ipython.tab("%%jp -|"):
            flag = option.removeprefix("%%jp ")
            described = [line for line in lines if flag in line.replace(",", " ").split()]
            assert [len(line.split()) > 3 for line in described] == [True], flag


def test_question_mark_after_a_subcommand_shows_its_rows(ipython: IPythonShell) -> None:
    shown = ipython.run("%jp config?").shown
    assert "--explain PATH" in shown
    assert "doctor" not in shown
    for code in ("%jp", "%jp ?"):
        assert "doctor" in ipython.run(code).shown


def test_words_that_are_not_a_subcommand_are_offered_as_a_request(ipython: IPythonShell) -> None:
    said = ipython.run("%jp what is this?").printed
    assert "There is no subcommand `%jp what`" in said
    assert "below `%%jp`" in said
    assert "or `%jp q what is this?`." in said
    ipython.run("%jp q what?")
    assert ipython.session.last_turn is not None
    assert ipython.session.last_turn.request == "what?"


def test_second_tool_of_one_name_is_reported_by_the_cell_that_defines_it(
    ipython: IPythonShell,
) -> None:
    define = "import jp_nb as jp\n@jp.tool\ndef ask_user() -> str:\n    return ''"
    try:
        assert "instead of the built-in tool of that name" in ipython.run(define).printed
        assert "two tools" not in ipython.run(define).printed
    finally:
        jp_nb.remove_tool("ask_user")


def test_cell_that_asks_inside_a_tool_is_refused(ipython: IPythonShell) -> None:
    (ipython.session.files.folder / "nested.toml").write_text(
        '[[replies]]\ntool_calls = [{ name = "nests" }]\n[[replies]]\ntext = "Done."\n'
    )
    ipython.run(
        "import jp_nb as jp\n@jp.tool\ndef nests() -> str:\n    return jp.query('again').text"
    )
    try:
        ipython.run("%%jp -m scripted/nested\nGo.")
        assert ipython.session.last_turn is not None
        (call,) = ipython.session.last_turn.tool_calls
        assert "a turn is still running" in (call.content or "")
    finally:
        jp_nb.remove_tool("nests")
