"""`%jp resume`: interrupted turns continue, and no tool runs again without a decision."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import jp_nb
from jp_nb.session.session import Session
from tests.kit.sessions import directive
from tests.session.killed_session import (
    NOTEBOOK,
    define_tool,
    read_saved_notebook,
    run_killed_session,
)
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import CANCELLED, FakePrompter, yes
from tests.support.sessions import run_line

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL")


def open_session(folder: Path, *ends: Any, away: str | None = None, stored: Any = None) -> Session:
    """Open the notebook in a new kernel whose user gives the `ends`, or is `away`."""
    prompter = FakePrompter(*ends, away=away)
    home = FakeHome(folder / NOTEBOOK, stored=stored or read_saved_notebook(folder))
    return Session(FakeHost(prompter, home))


def resume(session: Session) -> jp_nb.Turn:
    """Run `%jp resume`, and return its turn."""
    before = session.last_turn
    run_line(session, "resume")
    turn = session.last_turn
    assert turn is not None
    assert turn is not before
    return turn


def prompts_of(session: Session) -> list[Any]:
    host: Any = session.host
    prompts: list[Any] = host.person.prompter.asked
    return prompts


def responses(session: Session) -> list[tuple[str, bool]]:
    entries = session.document.conversation.current_turn()
    found: Any = [entry for entry in entries if entry.type == "tool_call_response"]
    return [(entry.content, bool(entry.is_error)) for entry in found]


def forget_progress(folder: Path) -> None:
    """Remove the progress of tool calls, as in journals of earlier releases."""
    [path] = (folder / "data" / "jp" / "journal").iterdir()
    kept = [line for line in path.read_text().splitlines(keepends=True) if '"call"' not in line]
    path.write_text("".join(kept))


def read_marks(folder: Path) -> list[str]:
    return (folder / "marks").read_text().split()


def test_user_decides_about_each_interrupted_call(killed_folder: Path) -> None:
    assert read_marks(killed_folder) == ["a"]
    forget_progress(killed_folder)
    session = open_session(killed_folder, yes("skip"), yes("run"))
    turn = resume(session)
    assert (turn.text, turn.number, turn.status) == ("Let me see.\n\ntwo", 1, "completed")
    assert read_marks(killed_folder) == ["a", "b"]
    (left, is_error), ran = responses(session)
    assert left.endswith("The user chose not to run it again.")
    assert (is_error, ran) == (True, ("marked b", False))
    assert [prompt.exhibits[0].value for prompt in prompts_of(session)] == [
        {"word": "a"},
        {"word": "b"},
    ]
    assert "(1 of 2)" in prompts_of(session)[0].text
    assert session.document.conversation.turn_count == 2
    assert not session.document.conversation.repair()
    with pytest.raises(jp_nb.UsageError, match="nothing to resume"):
        resume(session)
    session.close()


def test_call_that_had_not_started_runs_without_a_question(killed_folder: Path) -> None:
    session = open_session(killed_folder, yes("run"))
    [notice] = [each for each in session.notices if "was interrupted" in each]
    assert notice == (
        "turn 2 was interrupted. leave_mark did not start. leave_mark may have run, fully or "
        "partly. Continue it: `%jp resume`"
    )
    assert resume(session).text.endswith("two")
    [prompt] = prompts_of(session)
    assert prompt.text == "leave_mark was interrupted and may already have run, fully or partly."
    assert prompt.exhibits[0].value == {"word": "a"}
    assert sorted(read_marks(killed_folder)) == ["a", "a", "b"]
    session.close()


@pytest.mark.kernel
def test_result_before_the_call_that_killed_the_process_is_recovered(
    clean_folder: Path,
) -> None:
    run_killed_session(clean_folder, dies="b")
    assert read_marks(clean_folder) == ["a", "b"]
    session = open_session(clean_folder, yes("run"))
    assert responses(session) == [("marked a", False)]
    assert resume(session).text.endswith("two")
    [prompt] = prompts_of(session)
    assert prompt.exhibits[0].value == {"word": "b"}
    assert read_marks(clean_folder) == ["a", "b", "b"]
    assert responses(session) == [("marked a", False), ("marked b", False)]
    session.close()


def test_undefined_tool_is_an_error_before_the_question(killed_folder: Path) -> None:
    jp_nb.remove_tool("leave_mark")
    session = open_session(killed_folder, yes("run"))
    before = list(session.document.conversation.raw)
    with pytest.raises(
        jp_nb.UsageError,
        match=r"^`leave_mark` is not defined in this kernel. Run the cell that defines it",
    ):
        resume(session)
    assert session.document.conversation.raw == before
    assert prompts_of(session) == []
    define_tool(killed_folder)
    assert resume(session).text.endswith("two")
    session.close()


def test_disabled_tool_is_an_error_before_the_question(killed_folder: Path) -> None:
    session = open_session(killed_folder, yes("run"))
    session.configure(directive("cfg", "conversation.tools.leave_mark.enable=false"))
    with pytest.raises(jp_nb.UsageError, match=r"tools.leave_mark.enable=true`, then `%jp resume`"):
        resume(session)
    session.configure(directive("cfg", "conversation.tools.leave_mark.enable=true"))
    assert resume(session).text.endswith("two")
    session.close()


def test_resume_without_a_turn_is_an_error(clean_folder: Path) -> None:
    session = Session(FakeHost(home=FakeHome(clean_folder / NOTEBOOK)))
    with pytest.raises(jp_nb.UsageError, match="this conversation has no turn yet"):
        resume(session)
    session.close()


def test_resume_without_a_user_runs_and_changes_nothing(killed_folder: Path) -> None:
    session = open_session(killed_folder, away="this is a test")
    before = list(session.document.conversation.raw)
    with pytest.raises(jp_nb.PromptUnavailable, match=r"only a user can decide.*this is a test"):
        resume(session)
    assert session.document.conversation.raw == before
    assert read_marks(killed_folder) == ["a"]
    session.close()


def test_notices_of_a_resumed_turn_are_shown_once_when_it_begins(killed_folder: Path) -> None:
    session = open_session(killed_folder, yes("skip"), yes("skip"))
    session.configure(directive("cfg", "assistant.tool_choice=tool:absent"))
    session.notices.clear()
    with pytest.raises(jp_nb.JpNbError, match="absent"):
        resume(session)
    assert session.notices == []

    session.configure(directive("cfg", "assistant.tool_choice=auto"))
    resume(session)
    assert session.notices == ["leave_mark skipped; the model is informed"]
    session.close()


def test_declined_resume_can_be_repeated(
    killed_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forget_progress(killed_folder)
    session = open_session(killed_folder, yes("run"), CANCELLED, yes("run"), yes("run"))
    before = list(session.document.conversation.raw)
    run_line(session, "resume")
    assert capsys.readouterr().out == "jp_nb: the turn is unchanged\n"
    assert session.document.conversation.raw == before
    assert read_marks(killed_folder) == ["a"]
    assert resume(session).text.endswith("two")
    assert sorted(read_marks(killed_folder)) == ["a", "a", "b"]
    session.close()


def test_failed_request_is_sent_again_in_its_turn(clean_folder: Path) -> None:
    (clean_folder / "talk.toml").write_text(
        '[[replies]]\nerror = {status = 400}\n[[replies]]\ntext = "Done."\n'
    )
    session = Session(FakeHost(home=FakeHome(clean_folder / NOTEBOOK)))
    with pytest.raises(jp_nb.ProviderError):
        session.turns.run("First.", model="scripted/talk")
    stream = session.document.conversation
    turn = resume(session)
    assert (turn.request, turn.text, stream.turn_count) == ("First.", "Done.", 1)
    session.close()


def test_turn_before_a_new_request_is_not_resumed(killed_folder: Path) -> None:
    session = open_session(killed_folder)
    session.turns.run("Third.")
    with pytest.raises(jp_nb.UsageError, match="nothing to resume"):
        resume(session)
    assert read_marks(killed_folder) == ["a"]
    session.close()


def test_resume_restores_a_conversation_missing_from_the_notebook(
    killed_folder: Path,
) -> None:
    journal = killed_folder / "data" / "jp" / "journal"
    [path] = journal.iterdir()
    at = str(killed_folder / NOTEBOOK)
    text = path.read_text().split("\n", 1)
    head = json.loads(text[0]) | {"notebook": at}
    path.write_text(json.dumps(head) + "\n" + text[1])
    prompter = FakePrompter(yes("skip"), yes("run"))
    session = Session(FakeHost(prompter, FakeHome(killed_folder / NOTEBOOK)))
    assert len(session.document.conversation) == 0
    [told] = session.notices
    assert "has a conversation that is missing from this notebook: `%jp resume` restores" in told
    run_line(session, "resume")
    assert session.last_turn is None
    stream = session.document.conversation
    assert stream.id == head["conversation"]["id"]
    assert session.active.trust.trusted
    assert any(notice.endswith("Continue it: `%jp resume`") for notice in session.notices)
    store: Any = session.store
    assert store.entries == stream.raw
    [own] = journal.iterdir()
    assert own != path
    assert own.read_text().count('"entry"') == len(stream.raw)
    assert resume(session).text.endswith("two")
    session.close()


def test_hostile_tool_name_hides_no_part_of_the_refusal(clean_folder: Path) -> None:
    name = "look\n\u202e" + "x" * 5000
    stored = foreign_record(
        {"type": "turn_start"},
        {"type": "chat_request", "content": "First."},
        {"type": "tool_call_request", "id": "c1", "name": name, "arguments": {}},
    )
    session = open_session(clean_folder, stored=stored)
    with pytest.raises(jp_nb.UsageError) as refused:
        run_line(session, "resume")
    assert "\u202e" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
    assert str(refused.value).endswith("Without this call: ask something new instead")
    session.close()


@pytest.mark.parametrize("choice", ["run", "skip"])
def test_question_about_an_untrusted_call_names_the_doubt(killed_folder: Path, choice: str) -> None:
    [path] = (killed_folder / "data" / "jp" / "journal").iterdir()
    path.unlink()
    (killed_folder / "talk.toml").write_text(
        '[[replies]]\ntext = "one"\n[[replies]]\ntext = "two"\n'
    )
    stored = foreign_record(
        {"type": "turn_start"},
        {"type": "chat_request", "content": "First."},
        {"type": "tool_call_request", "id": "c1", "name": "leave_mark", "arguments": {"word": "x"}},
    )
    session = open_session(killed_folder, yes(choice), stored=stored)
    session.configure(model="scripted/talk")  # the record may not select it
    assert resume(session).text == "one"
    assert read_marks(killed_folder) == (["a", "x"] if choice == "run" else ["a"])
    [prompt] = prompts_of(session)
    assert prompt.text.startswith("This notebook's history is not trusted (it is not signed)")
    assert "the call of leave_mark" in prompt.text
    assert prompt.exhibits[0].value == {"word": "x"}
    assert [action.value for action in prompt.actions] == ["skip", "later", "run"]
    session.close()


def test_model_reads_that_a_skipped_call_may_have_run(
    killed_folder: Path,
) -> None:
    forget_progress(killed_folder)
    session = open_session(killed_folder, yes("run"), yes("run"), yes("skip"), yes("skip_turn"))
    session.configure(directive("cfg", "conversation.tools.leave_mark.run=ask"))
    assert resume(session).text.endswith("two")
    assert read_marks(killed_folder) == ["a"]
    for told, _ in responses(session):
        assert told.startswith("This call may already have run, fully or partly")
        assert told.endswith("It did not run again: Tool skipped by user.")
    session.close()


def foreign_record(*events: dict[str, Any]) -> dict[str, Any]:
    """Return a stored conversation of another user, with a scripted model."""
    times = (f"2026-01-01 00:00:0{number}.0" for number in range(10))
    return {
        "version": 1,
        "conversation": {"id": "jp-c17000000000", "made": "live"},
        "base_config": {"assistant": {"model": {"id": {"provider": "scripted", "name": "talk"}}}},
        "events": [
            {"timestamp": time, "event_id": f"e{time[-3]}", **event}
            for time, event in zip(times, events, strict=False)
        ],
    }


FAILED: dict[str, Any] = {"no_answer": {"ended": "failed", "takes_back": 1}}


def test_untrusted_options_of_a_failed_turn_are_not_applied(clean_folder: Path) -> None:
    (clean_folder / "talk.toml").write_text('[[replies]]\ntext = "Done."\n')
    evil = {"llm": {"openai": {"base_url": "https://elsewhere.example/v1"}}}
    stored = foreign_record(
        {"type": "config_delta", "delta": {"providers": evil}},
        {"type": "turn_start"},
        {"type": "chat_request", "content": "First."},
        {"type": "config_delta", "delta": {}, "metadata": FAILED},
    )
    session = open_session(clean_folder, stored=stored)
    session.configure(model="scripted/talk")  # the record may not select it
    before = session.settings.config.providers
    assert resume(session).text == "Done."
    assert session.settings.config.providers == before
    assert any("not applied again" in notice for notice in session.notices)
    session.close()


def test_options_of_a_failed_turn_apply_again(clean_folder: Path) -> None:
    (clean_folder / "near.toml").write_text(
        '[[replies]]\nerror = {status = 400}\n[[replies]]\ntext = "near"\n'
    )
    (clean_folder / "far.toml").write_text('[[replies]]\ntext = "far"\n' * 3)
    session = Session(FakeHost(home=FakeHome(clean_folder / NOTEBOOK)))
    session.turns.run("First.", model="scripted/far")
    with pytest.raises(jp_nb.ProviderError):
        session.turns.run("Second.", model="scripted/near")
    session.configure(directive("cfg", "assistant.request.max_retries=0"))
    assert resume(session).text == "near"
    session.close()
