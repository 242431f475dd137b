"""Cells run again in one kernel, new conversations, and what of the configuration goes along."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cells import error, said, value
from tests.support.kernel_client import FrontEnd, front_end

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of jupyter_client, zmq

STORY = '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n'
CELLS = {
    "load": "%load_ext jp_nb",
    "config": "%jp config assistant.model.id=scripted/story user.name=Ada",
    "first": "%%jp -c assistant.name=Robo\nTell me a story.",
    "later": "%jp config user.name=Bea",
    "second": "%%jp\nAnd then?",
}
AGAIN = "this cell began the conversation, so a new one starts here"


@pytest.fixture
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontEnd]:
    folder = tmp_path_factory.mktemp("again")
    (folder / "story.toml").write_text(STORY)
    (folder / "broken.toml").write_text("[[replies]]\nerror = { status = 404 }\n")
    with front_end(folder) as made:
        yield made


def run_all(user: FrontEnd, **changed: str) -> dict[str, str]:
    """Run all cells as a page does; what each showed and printed."""
    found = {}
    for name, code in {**CELLS, **changed}.items():
        request = user.start(code, cell_id=name)
        user.finish(request)
        assert error(user, request) is None, error(user, request)
        shown = [data["text/plain"] for data in user.displays(request)]
        found[name] = "\n".join([*shown, user.printed(request)])
    return found


def turns(user: FrontEnd) -> list[str]:
    found: list[str] = value(user, "[t.request for t in jp_nb.conversation().turns]")
    return found


def test_all_cells_run_again_in_one_kernel_tell_the_same_story(user: FrontEnd) -> None:
    once = run_all(user)
    user.run("import jp_nb; old = jp_nb.conversation().id")
    assert AGAIN not in "".join(once.values())
    for _ in range(2):
        again = run_all(user)
        assert again["first"].startswith(f"one\njp_nb: {AGAIN}; `%jp switch ")
        assert again["first"].count("\n") == 2, "one line beside the answer"
        assert again["second"] == once["second"] == "two\n"
        assert turns(user) == ["Tell me a story.", "And then?"]
        assert value(user, "jp_nb.conversation().config.user.name") == "Bea"
    user.run("%jp switch " + value(user, "old"))
    assert turns(user) == ["Tell me a story.", "And then?"]


def test_what_was_set_ahead_of_the_first_request_is_so_again_and_its_options_are_not(
    user: FrontEnd,
) -> None:
    run_all(user)
    names = "[jp_nb.conversation().config.user.name, jp_nb.conversation().config.assistant.name]"
    user.run("import jp_nb")
    request = user.start("%%jp\nTell me another.", cell_id="first")
    user.finish(request)
    assert AGAIN in user.printed(request)
    assert value(user, names) == ["Ada", None]
    assert "the one before had set assistant.name=Robo. " in user.printed(request)


def test_one_run_of_a_cell_may_ask_several_times(user: FrontEnd) -> None:
    user.run("%load_ext jp_nb\nimport jp_nb")
    code = "for text in 'ab':\n    jp_nb.query(text, model='scripted/story')"
    assert AGAIN not in user.run(code, cell_id="loop")
    assert turns(user) == ["a", "b"]
    assert user.run(code, cell_id="loop").count(AGAIN) == 1
    assert turns(user) == ["a", "b"]


def test_without_cell_ids_the_same_text_is_the_same_cell(user: FrontEnd) -> None:
    user.run("%load_ext jp_nb\nimport jp_nb")
    user.run("%jp config assistant.model.id=scripted/story")
    assert AGAIN not in user.run("%%jp\nGo.", cell_id=None)
    assert AGAIN not in user.run("%%jp\nOn.", cell_id=None)
    assert AGAIN in user.run("%%jp\nGo.", cell_id=None)
    assert turns(user) == ["Go."]


def test_a_first_request_that_got_no_answer_is_asked_again_where_it_was(user: FrontEnd) -> None:
    user.run("%load_ext jp_nb\nimport jp_nb; old = jp_nb.conversation().id")
    request = user.start("%%jp -m scripted/broken\nGo.", cell_id="first")
    user.finish(request)
    assert error(user, request) is not None
    assert AGAIN not in user.run("%%jp -m scripted/story\nGo.", cell_id="first")
    assert value(user, "jp_nb.conversation().id == old")


# --- a new conversation ------------------------------------------------------------------------


def test_a_new_conversation_says_what_the_one_before_had_set_and_takes_it_along(
    user: FrontEnd,
) -> None:
    user.run("%load_ext jp_nb\nimport jp_nb")
    host = "http://127.0.0.1:8080"
    user.run(
        f"%jp config assistant.model.id=scripted/story providers.llm.llamacpp.base_url={host} "
        "conversation.tools.t.options.api_key=hush user.name=Ada"
    )
    user.run("%%jp\nGo.")
    printed = user.run("%jp new")
    kept = "Kept from the previous conversation: assistant.model.id=scripted/story, "
    assert f"{kept}providers.llm.llamacpp.base_url={host}\n" in printed
    left = "conversation.tools.t.options.api_key=(set, not shown), user.name=Ada"
    assert f"the one before had set {left}. " in printed
    assert "hush" not in printed
    assert "Ada" not in said(user, "%jp config user.name")
    again = user.run("%jp new --keep-config")  # of the one before: nothing was said in between
    assert "had set" not in again
    assert "model scripted/story" in again
    for path in ("user.name", "providers.llm.llamacpp.base_url", "assistant.model.id"):
        assert "conversation, for turn 0" in said(user, f"%jp config {path}")
    user.run("%%jp\nGo.")
    assert value(user, "jp_nb.last.text") == "one"
    printed = user.run("%%jp -n -m scripted/story\nGo.")
    assert "user.name=Ada. `%jp config PATH=VALUE`" in printed
    assert "assistant.model.id" not in printed.partition("had set")[2]
    assert "had set" not in user.run("%jp new --keep-config")
    assert "had set" not in user.run("%%jp -n -c user.name=Bea\nGo.")
