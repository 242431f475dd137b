"""What the two magics take, and what IPython may not do to a line of them."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from jp_nb.errors import UsageError
from jp_nb.notebook import commands
from jp_nb.notebook.magics import JpMagics, keep_question_marks
from jp_nb.notebook.options import read_ask_options


def test_an_empty_name_of_a_tool_does_not_mean_all_tools(subtests: pytest.Subtests) -> None:
    for name in ["", " "]:
        for option in ["-t", "-T", "--tool", "--no-tool"]:
            with subtests.test(option=option, name=name):
                with pytest.raises(
                    UsageError, match=rf"^{option} takes the name of a tool or toolset, or nothing"
                ):
                    read_ask_options(f"{option} {name!r}")
                (everything,) = read_ask_options(option).directives
                assert everything.text == ""


@pytest.mark.parametrize("line", ["config x", "config\tx", "config \t x "])
def test_any_space_ends_the_subcommand(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(
        commands, "run_subcommand", lambda _shell, _session, *said: ran.append(said)
    )

    magics = JpMagics.__new__(JpMagics)
    vars(magics).update(_session=SimpleNamespace(guarded=nullcontext), _shell=None)
    magics.command(line)
    assert ran == [("config", "x")]


ASKED = "get_ipython().run_line_magic('jp', 'q Why?')\n"


def test_a_question_keeps_its_mark_where_a_statement_may_begin(subtests: pytest.Subtests) -> None:
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
