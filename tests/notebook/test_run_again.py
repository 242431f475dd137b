"""Cells that are run again in one kernel, with their ids and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebook.fresh_session import fresh_session
from tests.support.cells import error, kernel_with, value
from tests.support.kernel_client import FrontEnd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of jupyter_client, zmq
]

SCRIPTS = {
    "story": '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n',
    "talk": "".join(f'[[replies]]\ntext = "answer {n}"\n' for n in range(6)),
    "broken": "[[replies]]\nerror = { status = 404 }\n",
}
CELLS = {
    "load": "%load_ext jp_nb",
    "config": "%jp config assistant.model.id=scripted/story user.name=Ada",
    "first": "%%jp -c assistant.name=Robo\nTell me a story.",
    "later": "%jp config user.name=Bea",
    "second": "%%jp\nAnd then?",
}
AGAIN = "new conversation started, because this cell began the previous one"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    with kernel_with(tmp_path_factory.mktemp("again"), SCRIPTS, "import jp_nb as jp") as user:
        yield user


@pytest.fixture
def user(kernel: FrontEnd) -> FrontEnd:
    return fresh_session(kernel)


def run_all(user: FrontEnd) -> dict[str, str]:
    """Run all cells as a page does; return what each showed and printed."""
    found = {}
    for name, code in CELLS.items():
        request = user.start(code, cell_id=name)
        user.finish(request)
        assert error(user, request) is None, error(user, request)
        shown = [data["text/plain"] for data in user.displays(request)]
        found[name] = "\n".join([*shown, user.printed(request)])
    return found


def turns(user: FrontEnd) -> list[str]:
    found: list[str] = value(user, "[t.request for t in jp.conversation().turns]")
    return found


def test_all_cells_run_again_have_the_same_answers(user: FrontEnd) -> None:
    once = run_all(user)
    user.run("old = jp.conversation().id")
    assert AGAIN not in "".join(once.values())
    again = run_all(user)
    assert again["first"].startswith(f"one\njp_nb: {AGAIN}. Go back: `%jp switch ")
    assert again["first"].count("\n") == 2, "one line beside the answer"
    assert again["second"] == once["second"] == "two\n"
    assert turns(user) == ["Tell me a story.", "And then?"]
    user.run("%jp switch " + value(user, "old"))
    assert turns(user) == ["Tell me a story.", "And then?"]


def test_cell_without_an_id_is_known_by_its_text(user: FrontEnd) -> None:
    user.run("%jp config assistant.model.id=scripted/story")
    assert AGAIN not in user.run("%%jp\nGo.", cell_id=None)
    assert AGAIN not in user.run("%%jp\nOn.", cell_id=None)
    assert AGAIN in user.run("%%jp\nGo.", cell_id=None)
    assert turns(user) == ["Go."]


def test_first_request_that_failed_is_sent_again_in_its_conversation(user: FrontEnd) -> None:
    user.run("old = jp.conversation().id")
    request = user.start("%%jp -m scripted/broken\nGo.", cell_id="first")
    user.finish(request)
    assert error(user, request) is not None
    assert AGAIN not in user.run("%%jp -m scripted/story\nGo.", cell_id="first")
    assert value(user, "jp.conversation().id == old")


def test_one_run_of_a_cell_may_ask_several_times(user: FrontEnd) -> None:
    code = "for text in 'ab':\n    jp.query(text, model='scripted/story')"
    assert AGAIN not in user.run(code, cell_id="loop")
    assert turns(user) == ["a", "b"]
    assert user.run(code, cell_id="loop").count(AGAIN) == 1
    assert turns(user) == ["a", "b"]


def test_unattended_rerun_appends_and_configured_one_replaces(user: FrontEnd) -> None:
    user.run("%jp config assistant.model.id=scripted/talk")
    for cell in "abc":
        user.run(f"%jp q {cell}", cell_id=cell)
    printed = user.run("%jp q more", cell_id="b", allow_stdin=False)
    assert turns(user) == ["a", "b", "c", "more"]
    assert "turn 2 is from this cell" in printed
    user.run("%jp config record.rerun=replace")
    printed = user.run("%jp q edited", cell_id="c")
    assert "turns 3 to 4 are replaced in a branch; go back to " in printed
    assert turns(user) == ["a", "b", "edited"]


def test_question_about_a_rerun_has_a_key_for_each_choice_on_stdin(user: FrontEnd) -> None:
    user.run("%jp config assistant.model.id=scripted/talk prompt.channel=stdin")
    for cell in "abc":
        user.run(f"%jp q {cell}", cell_id=cell)
    interrupted = user.start("%jp q b", cell_id="b")
    user.input_request()
    user.interrupt(interrupted)
    user.forget_input_requests()
    assert turns(user) == ["a", "b", "c"]
    for key, left in (
        ("c", ["a", "b", "c"]),
        ("a", ["a", "b", "c", "b"]),
        ("r", ["a", "b", "c", "b"]),
    ):
        request = user.start("%jp q b", cell_id="b")
        assert "?" in user.input_request()["prompt"]
        user.type("")  # nothing is preselected
        user.input_request()
        user.type(key)
        user.finish(request)
        assert error(user, request) is None
        assert turns(user) == left
