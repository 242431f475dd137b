"""The two magics in IPython's shell: loading, their lines, and errors in one line."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import chain
from types import SimpleNamespace

import pytest

import jp_nb
from jp_nb.notebook import commands
from jp_nb.notebook.commands import parse_ask_options
from jp_nb.notebook.magic_help import ASK_GROUPS, list_groups
from jp_nb.notebook.magics import JpMagics, keep_question_marks
from jp_nb.notebook.subcommands import ASK_OPTIONS
from jp_nb.session.turn_line import TurnLine
from tests.notebook.ipython_shell import IPythonShell, ipython

__all__ = ["ipython"]


def test_empty_tool_name_does_not_mean_all_tools(subtests: pytest.Subtests) -> None:
    for name in ["", " "]:
        for option in ["-t", "-T", "--tool", "--no-tool"]:
            with subtests.test(option=option, name=name):
                with pytest.raises(
                    jp_nb.UsageError,
                    match=rf"^`{option}` takes the name of a tool or toolset, or no name",
                ):
                    parse_ask_options(f"{option} {name!r}")
                (everything,) = parse_ask_options(option).directives
                assert everything.text == ""


@pytest.mark.parametrize("line", ["config x", "config\tx", "config \t x "])
def test_any_space_ends_the_subcommand(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        commands, "run_subcommand", lambda _shell, _session, *said: ran.append(said)
    )

    magics = JpMagics.__new__(JpMagics)
    session = SimpleNamespace(report_errors=nullcontext, active=SimpleNamespace(line=TurnLine()))
    vars(magics).update(_session=session, _shell=None)
    magics.command(line)
    assert ran == [("config", "x")]


ASKED = "get_ipython().run_line_magic('jp', 'q Why?')\n"


def test_question_mark_is_kept_where_a_statement_may_begin(subtests: pytest.Subtests) -> None:
    for cell, kept in [
        ("%jp q Why?\n", ASKED),
        ("x = 1\n%jp q Why? \n", f"x = 1\n{ASKED}"),
        ("if x:\n    %jp q Why?\n", f"if x:\n    {ASKED}"),
        ('!echo don\'t """\n%jp q Why?\n', f'!echo don\'t """\n{ASKED}'),
        ('x = """\n%jp q Why?\n"""\n%jp q Why?\n', f'x = """\n%jp q Why?\n"""\n{ASKED}'),
        ('x = f"""\n%jp q Why?\n"""\n', 'x = f"""\n%jp q Why?\n"""\n'),
        ("x = (5\n%jp q Why?\n", "x = (5\n%jp q Why?\n"),
        ("%%jp\n%jp q Why?\n", "%%jp\n%jp q Why?\n"),
        ("%jp q Why\n", "%jp q Why\n"),
        ("%jp what is this?\n", "get_ipython().run_line_magic('jp', 'what is this?')\n"),
        ("%jp config?\n", "get_ipython().run_line_magic('jp', 'config?')\n"),
        ("%jp?\n", "%jp?\n"),
        ("?%jp\n", "?%jp\n"),
        ("%%jp?\n", "%%jp?\n"),
        ("x = 'a\n%jp q Why?\n", f"x = 'a\n{ASKED}"),
    ]:
        with subtests.test(cell=cell):
            assert "".join(keep_question_marks(cell.splitlines(keepends=True))) == kept


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


def test_question_mark_after_a_magic_shows_its_options(
    ipython: IPythonShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    paged: list[str] = []
    monkeypatch.setattr(
        "IPython.core.page.page", lambda data, **_: paged.append(data["text/plain"])
    )
    for code in ("%jp?", "?%jp"):
        paged.clear()
        ipython.run(code)
        (shown,) = paged
        for how, does in chain.from_iterable(rows for _, rows in list_groups()):
            assert how in shown
            assert does in shown

    for code in ("%%jp?", "?%%jp"):
        paged.clear()
        ipython.run(code)
        (shown,) = paged
        assert max(map(len, shown.splitlines())) <= 100
        assert "%jp fork" not in shown
        assert [title in shown for title in ASK_GROUPS] == [True] * len(ASK_GROUPS)
        text = " ".join(shown.split())
        for option in ASK_OPTIONS:
            assert f"{option.spellings} {option.help}" in text


def test_each_option_is_in_one_group_of_the_help() -> None:
    grouped = list(chain.from_iterable(ASK_GROUPS.values()))
    assert sorted(grouped) == sorted(option.flags[0] for option in ASK_OPTIONS)


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
