"""Cells that run again, and requests that are sent again, without Jupyter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.session.session import Session
from tests.kit.kinds import is_kind
from tests.kit.questions import answered, not_answered
from tests.kit.records import new_event
from tests.kit.sessions import directive
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import FakePrompter
from tests.support.images import png
from tests.support.sessions import run_line

REPLIES = "".join(f'[[replies]]\ntext = "{n}"\n' for n in range(9))


class Cells:
    """Cells of one notebook: each run is another execution."""

    def __init__(self, *ends: Any, home: FakeHome | None = None) -> None:
        Path("talk.toml").write_text(REPLIES)
        self.prompter = FakePrompter(*ends) if ends else FakePrompter(away="no user is here")
        self.host = FakeHost(self.prompter, home)
        self.session = Session(self.host)
        self.runs = 0

    def enter(self, cell: str | None) -> None:
        self.runs += 1
        self.host.start_cell(cell, f"run-{self.runs}")

    def ask(self, cell: str | None, text: str, *directives: str) -> None:
        self.enter(cell)
        self.session.turns.run(text, directives=[directive("cfg", x) for x in directives])

    @property
    def requests(self) -> list[str]:
        return [turn.request for turn in self.session.conversations.log()]

    @property
    def asked(self) -> list[str]:
        return [prompt.text for prompt in self.prompter.asked if is_kind(prompt, "decision_prompt")]

    def everything(self) -> list[dict[str, Any]]:
        """Return all entries of all conversations of the notebook."""
        document = self.session.document
        others: Any = document.others
        return [
            *document.conversation.raw,
            *(entry for other in others for entry in other["events"]),
        ]


def retry(cells: Cells, model: str = "") -> jp.Turn:
    """Run `%jp retry`, with another model if it is given, and return its turn."""
    option = f" -m {model}" if model else ""
    run_line(cells.session, f"retry{option}")
    turn = cells.session.last_turn
    assert turn is not None
    return turn


REPLACE = answered("replace", "form")
APPEND = answered("append", "form")


def three_turns(*ends: Any, home: FakeHome | None = None) -> Cells:
    cells = Cells(*ends, home=home)
    for name in "abc":
        cells.ask(name, name.upper())
    return cells


def keeps_all(cells: Cells, before: list[dict[str, Any]]) -> bool:
    return all(entry in cells.everything() for entry in before)


def test_replace_continues_before_the_turn_and_keeps_all_entries(folder: Path) -> None:
    cells = three_turns(REPLACE)
    before = cells.everything()
    old = cells.session.document.conversation.id
    cells.ask("b", "B again")
    assert cells.requests == ["A", "B again"]
    assert cells.asked[0].startswith("You already ran this cell: turn 2 and 1 later turn.")
    assert keeps_all(cells, before)
    assert cells.session.notices[-1] == (
        "turns 2 to 3 are replaced in a branch; go back to the conversation with all turns: "
        f"`%jp switch {old}`"
    )
    cells.ask("c", "C")
    assert cells.requests == ["A", "B again", "C"], "it was replaced, so nothing is asked"


def test_cancelled_rerun_sends_nothing(folder: Path, subtests: pytest.Subtests) -> None:
    rows: list[Any] = [answered("cancel", "form"), not_answered("cancelled", "form")]
    for end in rows:
        with subtests.test(end=end):
            cells = three_turns(end)
            before = cells.everything()
            with pytest.raises(jp.PromptCancelled, match="cancelled: no request was sent"):
                cells.ask("b", "B")
            assert cells.everything() == before


def test_timeout_and_missing_user_add_a_turn_with_a_notice(
    folder: Path,
) -> None:
    for ends in ((not_answered("timed_out", "form"),), ()):
        cells = three_turns(*ends)
        cells.ask("b", "B")
        assert cells.requests == ["A", "B", "C", "B"]
        assert "as a new turn. Set `record.rerun`" in cells.session.notices[-1]


def test_rerun_setting_replaces_the_question(folder: Path, subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, list[str]]] = [("replace", ["A", "B"]), ("append", [*"ABCB"])]
    for how, requests in rows:
        with subtests.test(how=how):
            cells = three_turns(REPLACE)
            cells.session.configure(directive("cfg", f"record.rerun={how}"))
            cells.ask("b", "B")
            assert (cells.requests, cells.asked) == (requests, [])


def test_one_run_with_several_requests_is_replaced_as_a_whole(
    folder: Path,
) -> None:
    cells = Cells(REPLACE)
    cells.ask("a", "A")
    for _ in range(2):
        cells.enter("loop")
        for text in "xyz":
            cells.session.turns.run(text)
        assert cells.requests == ["A", "x", "y", "z"]
    assert len(cells.asked) == 1


def test_latest_run_of_a_cell_is_replaced(folder: Path) -> None:
    cells = three_turns(APPEND, REPLACE)
    cells.ask("c", "C1")
    cells.ask("c", "C2")
    assert cells.requests == ["A", "B", "C", "C2"]


def test_headless_rerun_adds_a_turn_without_a_notice(folder: Path) -> None:
    cells = three_turns(REPLACE, home=FakeHome(headless=True))
    cells.ask("b", "B")
    assert cells.requests == ["A", "B", "C", "B"]
    assert not cells.asked
    assert not cells.session.notices


def test_running_all_cells_again_asks_nothing(folder: Path) -> None:
    cells = three_turns(REPLACE)
    for _ in range(2):
        for name in "abc":
            cells.ask(name, name.upper())
        assert cells.requests == ["A", "B", "C"]
    assert not cells.asked


def test_restored_conversation_knows_its_cells(folder: Path) -> None:
    stored = three_turns().session.document.to_json()
    cells = Cells(REPLACE, home=FakeHome(stored=stored))
    cells.ask("c", "C, edited")
    assert cells.requests == ["A", "B", "C, edited"]


def test_cells_without_ids_are_recognized_by_their_text(folder: Path) -> None:
    first = Cells()
    for text in ("A", "B", "C"):
        first.ask(None, text)
    cells = Cells(REPLACE, home=FakeHome(stored=first.session.document.to_json()))
    cells.ask("b", "B")
    assert cells.requests == ["A", "B"]


def test_front_end_without_cell_ids_has_no_reruns(folder: Path) -> None:
    """A console user who types a text twice wants two turns."""
    cells = Cells(REPLACE)
    for text in ("A", "B", "C", "B"):
        cells.ask(None, text)
    assert cells.requests == ["A", "B", "C", "B"]
    assert not cells.asked


def test_failed_turn_is_requested_again_without_a_question(folder: Path) -> None:
    Path("broken.toml").write_text("[[replies]]\nerror = { status = 404 }\n")
    cells = Cells(REPLACE)
    cells.ask("a", "A")
    with pytest.raises(jp.ProviderError):
        cells.ask("b", "B", "assistant.model.id=scripted/broken")
    cells.ask("b", "B")
    assert not cells.asked
    assert cells.requests == ["A", "B", "B"]


def test_first_cell_continues_a_conversation_without_an_answer(
    folder: Path,
) -> None:
    """The kernel may have been restarted while the first question waited."""
    call = (
        '[[replies]]\ntool_calls = [{ name = "describe_tools", arguments = { tools = ["x"] } }]\n'
    )
    Path("broken.toml").write_text(f"{call}[[replies]]\nerror = {{ status = 404 }}\n")
    cells = Cells(REPLACE)
    with pytest.raises(jp.ProviderError):
        cells.ask("a", "A", "assistant.model.id=scripted/broken")
    cells.ask("a", "A", "assistant.model.id=scripted/talk")
    assert not cells.asked
    assert cells.requests == ["A", "A"]


def test_settings_before_the_cell_apply_and_its_old_options_do_not(folder: Path) -> None:
    cells = Cells(REPLACE)
    cells.ask("a", "A")
    cells.session.configure(directive("cfg", "user.name=Ada"))
    cells.ask("b", "B", "assistant.name=Robo")
    cells.ask("c", "C", "style.reasoning.display=hidden")
    cells.session.configure(directive("cfg", "prompt.notify=off"))
    cells.ask("b", "B")
    config = cells.session.config
    assert (config.user.name, config.assistant.name) == ("Ada", None)
    assert config.prompt.notify == "off", "set since the last turn"
    assert config.style.reasoning.display != "hidden", "set for a turn that goes"


def test_retry_repeats_the_request_in_a_branch(folder: Path) -> None:
    cells = three_turns()
    before = cells.everything()
    old = cells.session.document.conversation.id
    cells.enter("retry")
    turn = retry(cells)
    assert (turn.request, turn.number, turn.text) == ("C", 2, "2")
    assert cells.host.namespace["_jp"] is turn
    assert keeps_all(cells, before)
    assert f"all turns: `%jp switch {old}`" in cells.session.notices[-1]
    shown = cells.host.person.outputs[-1].events
    assert [event.text for event in shown if is_kind(event, "show_request")] == ["C"]


def test_retry_uses_settings_of_the_turn_and_later_ones(folder: Path) -> None:
    Path("other.toml").write_text('[[replies]]\ntext = "other"\n' * 3)
    cells = Cells()
    cells.ask("a", "A")
    cells.ask("b", "B", "user.name=Ada")
    cells.session.configure(directive("cfg", "assistant.model.id=scripted/other"))
    assert retry(cells).text == "other"
    assert cells.session.config.user.name == "Ada"
    assert retry(cells, "scripted/talk").text == "1"
    assert cells.session.settings.model == "scripted/talk"


def test_retry_keeps_schema_and_cell(folder: Path) -> None:
    Path("data.toml").write_text("[[replies]]\ndata = { n = 1 }\n" * 2)
    cells = Cells()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    cells.enter("a")
    cells.session.turns.run("Go.", schema=schema, model="scripted/data")
    cells.enter("retry")
    assert retry(cells).data == {"n": 1}
    assert last_request(cells)["metadata"] == {"cell_id": "a"}, "it is the request of that cell"


def test_retry_forces_the_same_tool(folder: Path) -> None:
    cells = Cells()
    cells.enter("a")
    cells.session.turns.run("Go.", tool_choice="tool:describe_tools")
    retry(cells)
    assert last_request(cells)["metadata"]["tool_choice"] == "tool:describe_tools"


def test_retry_uses_the_current_configured_tool_choice(folder: Path) -> None:
    cells = Cells()
    cells.session.configure(directive("cfg", "assistant.tool_choice=none"))
    cells.ask("a", "A")
    assert last_request(cells)["metadata"]["tool_choice"] == "none"
    cells.session.configure(directive("cfg", "assistant.tool_choice=auto"))
    retry(cells)
    assert "tool_choice" not in last_request(cells)["metadata"]


def test_retry_ignores_an_invalid_tool_choice(folder: Path) -> None:
    cells = Cells()
    stream = cells.session.document.conversation
    stream.start_turn(new_event("chat_request", content="A", metadata={"tool_choice": "whatever"}))
    cells.enter("retry")
    assert retry(cells).text == "0"
    assert "tool_choice" not in last_request(cells).get("metadata", {})


def test_retry_shows_the_same_images(folder: Path) -> None:
    cells = Cells()
    cells.ask("a", "A")
    stream = cells.session.document.conversation
    image = jp.Image("image/png", png())
    stream.start_turn(new_event("chat_request", content="B", metadata={"cell_id": "b"}), [image])
    retry(cells)
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
    with pytest.raises(jp.ProviderError):
        cells.session.turns.run("B", model="scripted/broken")
    assert retry(cells).text == "1"
    assert cells.requests == ["A", "B"]


def test_failed_retry_changes_nothing_or_names_the_way_back(
    folder: Path,
) -> None:
    Path("broken.toml").write_text("[[replies]]\nerror = { status = 404 }\n")
    cells = three_turns()
    old = cells.session.document.conversation.id
    with pytest.raises(jp.ConfigError):
        retry(cells, "nonsense")
    assert cells.session.document.conversation.id == old
    with pytest.raises(jp.ProviderError):
        retry(cells, "scripted/broken")
    assert f"all turns: `%jp switch {old}`" in cells.session.notices[-1]
    cells.session.conversations.switch(old)
    assert cells.requests == ["A", "B", "C"]


def test_retry_without_a_turn_is_an_error(folder: Path) -> None:
    with pytest.raises(jp.UsageError, match="there is no turn to ask again"):
        retry(Cells())


def test_retry_in_an_untrusted_record_keeps_only_the_users_settings(
    folder: Path,
) -> None:
    path = "providers.llm.openai.base_url"
    theirs = three_turns()
    theirs.session.configure(directive("cfg", f"{path}=http://theirs.example"))
    theirs.ask("d", "D")
    document: Any = theirs.session.document.to_json()
    cells = Cells(home=FakeHome(stored={**document, "signature": None}))
    retry(cells)
    before = cells.session.config.providers.llm.openai.base_url
    assert before != "http://theirs.example"
    cells.session.configure(directive("cfg", f"{path}=http://mine.example"))
    retry(cells)
    retry(cells)
    assert not cells.session.active.trust.trusted
    assert cells.session.config.providers.llm.openai.base_url == "http://mine.example"


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


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_reruns_and_retries_delete_nothing(folder: Path, steps: list[tuple[str, str, str]]) -> None:
    cells = Cells()
    cells.session.configure(directive("cfg", "assistant.model.id=scripted/wordy"))
    Path("wordy.toml").write_text('[[replies]]\ntext = "x"\n' * 30)
    cells.ask("a", "A")
    for step, cell, how in steps:
        before = cells.everything()
        if step == "ask":
            cells.session.configure(directive("cfg", f"record.rerun={how}"))
            cells.ask(cell, cell)
        elif step == "back" and (others := cells.session.document.others):
            found: Any = others[-1]
            cells.session.conversations.switch(found["conversation"]["id"])
        elif cells.session.document.conversation.turn_count:
            if step == "retry":
                retry(cells)
            else:
                cells.session.conversations.undo()
        assert keeps_all(cells, before)
    cells.session.close()
