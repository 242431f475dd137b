"""Cells that are run again, and requests that are asked again, with no Jupyter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jp_nb.agent.display_events import ShowRequest
from jp_nb.agent.prompts import ActionPrompt, Answered, NotAnswered, PromptEnd
from jp_nb.config.directives import Directive
from jp_nb.errors import ConfigError, PromptCancelled, ProviderError, UsageError
from jp_nb.image import Image
from jp_nb.record.events import ChatRequest
from jp_nb.session.host import CellRun
from jp_nb.session.session import Session
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter
from tests.support.images import png
from tests.support.magic_shell import folder

__all__ = ["folder"]
REPLIES = "".join(f'[[replies]]\ntext = "{n}"\n' for n in range(9))


class Cells:
    """Cells of one notebook: each run is another execution, unless a test says so."""

    def __init__(self, *ends: PromptEnd, home: FakeHome | None = None) -> None:
        Path("talk.toml").write_text(REPLIES)
        self.prompter = FakePrompter(*ends) if ends else FakePrompter(away="nobody is here")
        self.host = FakeHost(self.prompter, home)
        self.session = Session(self.host)
        self.runs = 0

    def enter(self, cell: str | None) -> None:
        self.runs += 1
        self.host.cell = CellRun(cell, f"run-{self.runs}")

    def ask(self, cell: str | None, text: str, *directives: str) -> None:
        self.enter(cell)
        self.session.run_turn(text, directives=[Directive("cfg", x) for x in directives])

    @property
    def requests(self) -> list[str]:
        return [turn.request for turn in self.session.conversations.log()]

    @property
    def asked(self) -> list[str]:
        return [prompt.text for prompt in self.prompter.asked if isinstance(prompt, ActionPrompt)]

    def everything(self) -> list[dict[str, Any]]:
        """All entries of all conversations of the notebook."""
        document = self.session.document
        others: Any = document.others
        return [
            *document.conversation.raw,
            *(entry for other in others for entry in other["events"]),
        ]


REPLACE, APPEND = Answered("replace", "form"), Answered("append", "form")


def three(*ends: PromptEnd, home: FakeHome | None = None) -> Cells:
    cells = Cells(*ends, home=home)
    for name in "abc":
        cells.ask(name, name.upper())
    return cells


def kept(cells: Cells, before: list[dict[str, Any]]) -> bool:
    return all(entry in cells.everything() for entry in before)


def test_replace_goes_on_before_the_turn_and_keeps_everything(folder: Path) -> None:
    cells = three(REPLACE)
    before, old = cells.everything(), cells.session.document.conversation.id
    cells.ask("b", "B again")
    assert cells.requests == ["A", "B again"]
    assert cells.asked[0].startswith("This cell has asked already: turn 1, and 1 more turn behind")
    assert kept(cells, before)
    assert cells.session.notices[-1] == (
        f"turns 1 to 2 are replaced in a branch; `%jp switch {old}` goes back to the conversation "
        "with all turns"
    )
    cells.ask("c", "C")
    assert cells.requests == ["A", "B again", "C"], "it was replaced, so nothing is asked"


def test_append_is_one_more_turn(folder: Path) -> None:
    cells = three(APPEND)
    cells.ask("b", "B")
    assert cells.requests == ["A", "B", "C", "B"]
    assert len(cells.asked) == 1


@pytest.mark.parametrize("end", [Answered("cancel", "form"), NotAnswered("cancelled", "form")])
def test_cancelled_nothing_is_asked(folder: Path, end: PromptEnd) -> None:
    cells = three(end)
    before = cells.everything()
    with pytest.raises(PromptCancelled, match="nothing was asked"):
        cells.ask("b", "B")
    assert cells.everything() == before


def test_when_time_is_over_or_nobody_is_there_it_is_one_more_turn_and_said_so(
    folder: Path,
) -> None:
    for ends in ((NotAnswered("timed_out", "form"),), ()):
        cells = three(*ends)
        cells.ask("b", "B")
        assert cells.requests == ["A", "B", "C", "B"]
        assert "so this is one more turn. `record.rerun`" in cells.session.notices[-1]


@pytest.mark.parametrize(("how", "requests"), [("replace", ["A", "B"]), ("append", [*"ABCB"])])
def test_the_setting_decides_without_a_question(
    folder: Path, how: str, requests: list[str]
) -> None:
    cells = three(REPLACE)
    cells.session.configure(Directive("cfg", f"record.rerun={how}"))
    cells.ask("b", "B")
    assert (cells.requests, cells.asked) == (requests, [])


def test_one_run_that_asks_in_a_loop_is_replaced_as_a_whole_and_not_asked_about_itself(
    folder: Path,
) -> None:
    cells = Cells(REPLACE)
    cells.ask("a", "A")
    for _ in range(2):
        cells.enter("loop")
        for text in "xyz":
            cells.session.run_turn(text)
        assert cells.requests == ["A", "x", "y", "z"]
    assert len(cells.asked) == 1


def test_of_several_runs_of_a_cell_the_latest_is_replaced(folder: Path) -> None:
    cells = three(APPEND, REPLACE)
    cells.ask("c", "C1")
    cells.ask("c", "C2")
    assert cells.requests == ["A", "B", "C", "C2"]


def test_headless_it_is_one_more_turn_without_a_word(folder: Path) -> None:
    cells = three(REPLACE, home=FakeHome(headless=True))
    cells.ask("b", "B")
    assert cells.requests == ["A", "B", "C", "B"]
    assert not cells.asked
    assert not cells.session.notices


def test_all_cells_run_again_are_asked_about_nothing(folder: Path) -> None:
    cells = three(REPLACE)
    for _ in range(2):
        for name in "abc":
            cells.ask(name, name.upper())
        assert cells.requests == ["A", "B", "C"]
    assert not cells.asked


def test_a_restored_conversation_knows_its_cells(folder: Path) -> None:
    stored = three().session.document.to_json()
    cells = Cells(REPLACE, home=FakeHome(stored=stored))
    cells.ask("c", "C, edited")
    assert cells.requests == ["A", "B", "C, edited"]


def test_a_record_without_ids_of_cells_knows_them_by_their_text(folder: Path) -> None:
    first = Cells()
    for text in ("A", "B", "C"):
        first.ask(None, text)
    cells = Cells(REPLACE, home=FakeHome(stored=first.session.document.to_json()))
    cells.ask("b", "B")
    assert cells.requests == ["A", "B"]


def test_a_front_end_that_names_no_cells_runs_none_again(folder: Path) -> None:
    """In a console a text that is typed twice is meant twice."""
    cells = Cells(REPLACE)
    for text in ("A", "B", "C", "B"):
        cells.ask(None, text)
    assert cells.requests == ["A", "B", "C", "B"]
    assert not cells.asked


def test_a_turn_without_an_answer_is_asked_again_without_a_question(folder: Path) -> None:
    Path("broken.toml").write_text("[[replies]]\nerror = { status = 404 }\n")
    cells = Cells(REPLACE)
    cells.ask("a", "A")
    with pytest.raises(ProviderError):
        cells.ask("b", "B", "assistant.model.id=scripted/broken")
    cells.ask("b", "B")
    assert not cells.asked
    assert cells.requests == ["A", "B", "B"]


def test_the_cell_that_began_the_conversation_goes_on_where_nothing_was_said_yet(
    folder: Path,
) -> None:
    """Such as one whose kernel was restarted while its first question waited."""
    call = (
        '[[replies]]\ntool_calls = [{ name = "describe_tools", arguments = { tools = ["x"] } }]\n'
    )
    Path("broken.toml").write_text(f"{call}[[replies]]\nerror = {{ status = 404 }}\n")
    cells = Cells(REPLACE)
    with pytest.raises(ProviderError):
        cells.ask("a", "A", "assistant.model.id=scripted/broken")
    cells.ask("a", "A", "assistant.model.id=scripted/talk")
    assert not cells.asked
    assert cells.requests == ["A", "A"]


def test_what_was_set_ahead_of_the_cell_counts_and_its_old_options_do_not(folder: Path) -> None:
    cells = Cells(REPLACE)
    cells.ask("a", "A")
    cells.session.configure(Directive("cfg", "user.name=Ada"))
    cells.ask("b", "B", "assistant.name=Robo")
    cells.ask("c", "C", "style.reasoning.display=hidden")
    cells.session.configure(Directive("cfg", "prompt.notify=off"))
    cells.ask("b", "B")
    config = cells.session.config
    assert (config.user.name, config.assistant.name) == ("Ada", None)
    assert config.prompt.notify == "off", "set since the last turn"
    assert config.style.reasoning.display != "hidden", "set for a turn that goes"


# --- the last request again --------------------------------------------------------------------


def test_retry_asks_the_same_in_a_branch_and_keeps_everything(folder: Path) -> None:
    cells = three()
    before, old = cells.everything(), cells.session.document.conversation.id
    cells.enter("retry")
    turn = cells.session.retry()
    assert (turn.request, turn.number, turn.text) == ("C", 2, "2")
    assert cells.host.namespace["_jp"] is turn
    assert kept(cells, before)
    assert f"turn 2 is asked again; `%jp switch {old}` goes back" in cells.session.notices[-1]
    shown = cells.host.person.outputs[-1].events
    assert [event.text for event in shown if isinstance(event, ShowRequest)] == ["C"]


def test_retry_counts_what_was_set_for_the_turn_and_since(folder: Path) -> None:
    Path("other.toml").write_text('[[replies]]\ntext = "other"\n' * 3)
    cells = Cells()
    cells.ask("a", "A")
    cells.ask("b", "B", "user.name=Ada")
    cells.session.configure(Directive("cfg", "assistant.model.id=scripted/other"))
    assert cells.session.retry().text == "other"
    assert cells.session.config.user.name == "Ada"
    assert cells.session.retry(model="scripted/talk").text == "1"
    assert cells.session.settings.model == "scripted/talk"


def test_retry_keeps_schema_and_cell(folder: Path) -> None:
    Path("data.toml").write_text("[[replies]]\ndata = { n = 1 }\n" * 2)
    cells = Cells()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    cells.enter("a")
    cells.session.run_turn("Go.", schema=schema, model="scripted/data")
    cells.enter("retry")
    assert cells.session.retry().data == {"n": 1}
    assert last_request(cells)["metadata"] == {"cell_id": "a"}, "it is the request of that cell"


def test_retry_forces_the_tool_that_was_forced(folder: Path) -> None:
    cells = Cells()
    cells.enter("a")
    cells.session.run_turn("Go.", tool_choice="tool:describe_tools")
    cells.session.retry()
    assert last_request(cells)["metadata"]["tool_choice"] == "tool:describe_tools"


def test_retry_goes_by_a_configured_tool_choice_as_it_is_now(folder: Path) -> None:
    cells = Cells()
    cells.session.configure(Directive("cfg", "assistant.tool_choice=none"))
    cells.ask("a", "A")
    assert last_request(cells)["metadata"]["tool_choice"] == "none"
    cells.session.configure(Directive("cfg", "assistant.tool_choice=auto"))
    cells.session.retry()
    assert "tool_choice" not in last_request(cells)["metadata"]


def test_retry_passes_over_a_tool_choice_that_is_none(folder: Path) -> None:
    cells = Cells()
    stream = cells.session.document.conversation
    stream.start_turn(ChatRequest(content="A", metadata={"tool_choice": "whatever"}))
    cells.enter("retry")
    assert cells.session.retry().text == "0"
    assert "tool_choice" not in last_request(cells).get("metadata", {})


def test_retry_shows_the_same_images(folder: Path) -> None:
    cells = Cells()
    cells.ask("a", "A")
    stream, image = cells.session.document.conversation, Image("image/png", png())
    stream.start_turn(ChatRequest(content="B", metadata={"cell_id": "b"}), [image])
    cells.session.retry()
    assert cells.session.document.conversation is not stream
    assert last_request(cells)["metadata"] == {"cell_id": "b", "images": [image.digest]}
    assert cells.session.document.conversation.images.find(image.digest) == image


def last_request(cells: Cells) -> Any:
    raw = cells.session.document.conversation.raw
    return next(entry for entry in reversed(raw) if entry["type"] == "chat_request")


def test_retry_of_a_failed_turn_drops_it(folder: Path) -> None:
    Path("broken.toml").write_text("[[replies]]\nerror = { status = 404 }\n")
    cells = Cells()
    cells.ask("a", "A")
    with pytest.raises(ProviderError):
        cells.session.run_turn("B", model="scripted/broken")
    assert cells.session.retry().text == "1"
    assert cells.requests == ["A", "B"]


def test_retry_that_cannot_begin_changes_nothing_and_one_that_fails_says_how_to_go_back(
    folder: Path,
) -> None:
    Path("broken.toml").write_text("[[replies]]\nerror = { status = 404 }\n")
    cells = three()
    old = cells.session.document.conversation.id
    with pytest.raises(ConfigError):
        cells.session.retry(model="nonsense")
    assert cells.session.document.conversation.id == old
    with pytest.raises(ProviderError):
        cells.session.retry(model="scripted/broken")
    assert f"`%jp switch {old}` goes back" in cells.session.notices[-1]
    cells.session.conversations.switch(old)
    assert cells.requests == ["A", "B", "C"]


def test_with_no_turn_there_is_nothing_to_ask_again(folder: Path) -> None:
    with pytest.raises(UsageError, match="nothing to ask again"):
        Cells().session.retry()


def test_in_a_strangers_record_what_the_person_set_counts_and_what_the_stranger_set_does_not(
    folder: Path,
) -> None:
    path = "providers.llm.openai.base_url"
    theirs = three()
    theirs.session.configure(Directive("cfg", f"{path}=http://theirs.example"))
    theirs.ask("d", "D")
    document: Any = theirs.session.document.to_json()
    cells = Cells(home=FakeHome(stored={**document, "signature": None}))
    cells.session.retry()
    before = cells.session.config.providers.llm.openai.base_url
    assert before != "http://theirs.example"
    cells.session.configure(Directive("cfg", f"{path}=http://mine.example"))
    cells.session.retry()
    cells.session.retry()
    assert not cells.session.active.trust.trusted
    assert cells.session.config.providers.llm.openai.base_url == "http://mine.example"


# --- nothing is ever deleted -------------------------------------------------------------------

CELL = st.sampled_from("abc")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), CELL, st.sampled_from(["replace", "append"])),
        st.tuples(st.just("retry"), CELL, st.just("")),
        st.tuples(st.just("undo"), CELL, st.just("")),
        st.tuples(st.just("back"), CELL, st.just("")),
    ),
    max_size=8,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_is_asked_again_nothing_is_deleted(
    folder: Path, steps: list[tuple[str, str, str]]
) -> None:
    cells = Cells()
    cells.session.configure(Directive("cfg", "assistant.model.id=scripted/wordy"))
    Path("wordy.toml").write_text('[[replies]]\ntext = "x"\n' * 30)
    cells.ask("a", "A")
    for step, cell, how in steps:
        before = cells.everything()
        if step == "ask":
            cells.session.configure(Directive("cfg", f"record.rerun={how}"))
            cells.ask(cell, cell)
        elif step == "back" and (others := cells.session.document.others):
            found: Any = others[-1]
            cells.session.conversations.switch(found["conversation"]["id"])
        elif cells.session.document.conversation.turn_count:
            cells.session.retry() if step == "retry" else cells.session.conversations.undo()
        assert kept(cells, before)
    cells.session.close()
