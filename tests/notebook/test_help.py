"""What IPython's question mark shows of the magics, and where it is a part of the question."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

import jp_nb
from jp_nb.notebook.commands import action_of
from jp_nb.notebook.subcommands import ASK_OPTIONS, SUBCOMMANDS, subcommand_rows
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
    for option in ASK_OPTIONS:
        assert all(flag in shown for flag in option.flags)
        assert option.help in shown
    for how, does in subcommand_rows():
        assert how in shown
        assert does in shown


@pytest.mark.parametrize("code", ["%jp?", "?%jp"])
def test_a_question_mark_behind_the_line_magic_shows_what_it_does(
    user: FrontEnd, code: str
) -> None:
    shown = paged(user, code)
    for how, does in subcommand_rows():
        assert f"%jp {how}" in shown
        assert does in shown


def test_every_subcommand_does_something_and_is_listed_whole(subtests: pytest.Subtests) -> None:
    for subcommand in SUBCOMMANDS.values():
        with subtests.test(subcommand=subcommand):
            assert callable(action_of(subcommand))
            (how, does), *others = subcommand.rows
            assert how.split()[0] == subcommand.name
            assert does
            assert len(others) == len(subcommand.options)
            for option, (how, does) in zip(subcommand.options, others, strict=True):
                assert option.flags[0] in how
                assert option.flags[0] in subcommand.usage
                assert does


def test_help_begins_with_the_commands_of_the_first_day(user: FrontEnd) -> None:
    shown = said(user, "%jp")
    places = [shown.index(text) for text in ("First steps", "models", "Asking", "Conversations")]
    assert places == sorted(places)
    names = [how.split()[0] for how, _ in subcommand_rows()]
    assert set(SUBCOMMANDS) <= set(names)


def test_what_the_function_takes_is_what_the_cell_takes() -> None:
    keywords = set(inspect.signature(jp_nb.query).parameters) - {"text", "interpolate"}
    names = {option.flags[-1].lstrip("-").replace("-", "_") for option in ASK_OPTIONS}
    assert keywords - {"attach"} <= names
    assert "attachment" in names


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
