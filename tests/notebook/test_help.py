"""What IPython's question mark shows of the magics, and where it is a part of the question."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jp_nb.notebook.commands import OPTIONS
from jp_nb.notebook.magics import ask_options
from jp_nb.notebook.usage import ASK_OPTIONS, SUBCOMMANDS
from tests.support.cells import error, said, value
from tests.support.kernel_client import FrontEnd, front_end

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("help")
    (folder / "echo.toml").write_text('[[replies]]\ntext = "ok"\n' * 5)
    with front_end(folder) as made:
        made.run("%load_ext jp_nb\nimport jp_nb")
        yield made


def paged(user: FrontEnd, code: str) -> str:
    """What `code` has the page show in its pager."""
    request = user.start(code)
    user.finish(request)
    assert error(user, request) is None
    (page,) = user.replied[request]["content"]["payload"]
    return str(page["data"]["text/plain"])


@pytest.mark.parametrize("code", ["%%jp?", "?%%jp"])
def test_a_question_mark_behind_the_cell_magic_shows_its_options(user: FrontEnd, code: str) -> None:
    shown = paged(user, code)
    for how, does in (*ASK_OPTIONS, *SUBCOMMANDS):
        assert how in shown
        assert does in shown


@pytest.mark.parametrize("code", ["%jp?", "?%jp"])
def test_a_question_mark_behind_the_line_magic_shows_what_it_does(
    user: FrontEnd, code: str
) -> None:
    shown = paged(user, code)
    for how, does in SUBCOMMANDS:
        assert f"%jp {how}" in shown
        assert does in shown


def test_the_tables_name_every_option_there_is() -> None:
    listed = " ".join(how for how, _ in ASK_OPTIONS)
    for action in ask_options()._actions:
        assert any(flag in listed.replace(",", "").split() for flag in action.option_strings)
    rows = " ".join(how for how, _ in SUBCOMMANDS)
    for flag in ("--keep-config", "--user", "--workspace", "--explain", "--unset", "--revoke"):
        assert flag in rows
        assert any(flag in a.option_strings for p in OPTIONS.values() for a in p._actions)


def test_a_question_mark_behind_a_subcommand_shows_its_rows(user: FrontEnd) -> None:
    shown = said(user, "%jp config?")
    assert "--explain PATH" in shown
    assert "doctor" not in shown
    for bare in ("%jp", "%jp ?"):
        assert "doctor" in said(user, bare)


def test_words_that_are_no_subcommand_are_offered_as_a_request(user: FrontEnd) -> None:
    request = user.start("%jp what is this?")
    user.finish(request)
    problem = error(user, request)
    assert problem is not None
    assert "there is no `%jp what`" in problem["evalue"]
    assert "below `%%jp`" in problem["evalue"]
    assert "`%jp q what is this?` asks the model this" in problem["evalue"]
    user.run("%jp config assistant.model.id=scripted/echo")
    user.run("%jp q what?")
    assert value(user, "jp_nb.last.request") == "what?"
