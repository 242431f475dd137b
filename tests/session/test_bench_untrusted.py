"""`%jp replay` and `%jp call` with calls of an untrusted record: the user decides first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jp_nb
from jp_nb.session.session import Session
from tests.session.killed_session import NOTEBOOK
from tests.support.fake_host import FakeHome, FakeHost
from tests.support.fakes import CANCELLED, FakePrompter, yes
from tests.support.sessions import run_line

T = "2026-01-01 00:00:00.0"
CALLS = [("c1", "x"), ("c2", "y")]
UNTRUSTED: dict[str, Any] = {
    "version": 1,
    "conversation": {"id": "jp-c17000000000", "made": "live"},
    "base_config": {},
    "events": [
        {"timestamp": T, "type": "turn_start"},
        {"timestamp": T, "type": "chat_request", "content": "First."},
        *(
            {"timestamp": T, "type": "tool_call_request", "id": i, "name": "leave_mark"}
            | {"arguments": {"word": w}}
            for i, w in CALLS
        ),
        *(
            {"timestamp": T, "type": "tool_call_response", "id": i, "content": f"marked {w}"}
            | {"is_error": False}
            for i, w in CALLS
        ),
        {"timestamp": T, "type": "chat_response", "message": "Done."},
    ],
}
LINES = ["replay", "call leave_mark --last", "call --id c2 word=z"]


def open_session(folder: Path, *ends: Any, away: str | None = None) -> Session:
    home = FakeHome(folder / NOTEBOOK, stored=UNTRUSTED)
    return Session(FakeHost(FakePrompter(*ends, away=away), home))


def prompts_of(session: Session) -> list[Any]:
    host: Any = session.host
    prompts: list[Any] = host.person.prompter.asked
    return prompts


def read_marks(folder: Path) -> list[str]:
    path = folder / "marks"
    return path.read_text().split() if path.exists() else []


def test_declined_call_of_an_untrusted_record_does_not_run(
    clean_folder: Path, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    for line, end in zip(LINES, (yes("cancel"), CANCELLED, yes("cancel")), strict=True):
        with subtests.test(line=line):
            session = open_session(clean_folder, end)
            run_line(session, line)
            assert read_marks(clean_folder) == []
            [prompt] = prompts_of(session)
            assert prompt.text.startswith("This notebook's history is not trusted (it is not sign")
            assert [action.value for action in prompt.actions] == ["cancel", "run"]
            assert "jp_nb: nothing was run" in capsys.readouterr().out
            session.close()


def test_without_a_user_no_call_of_an_untrusted_record_runs(
    clean_folder: Path, subtests: pytest.Subtests
) -> None:
    for line in LINES:
        with subtests.test(line=line):
            session = open_session(clean_folder, away="this is a test")
            with pytest.raises(
                jp_nb.PromptUnavailable, match=r"only a user can decide.*this is a test"
            ):
                run_line(session, line)
            assert read_marks(clean_folder) == []
            session.close()


def test_replay_shows_every_call_before_it_runs(clean_folder: Path) -> None:
    session = open_session(clean_folder, yes("run"))
    run_line(session, "replay")
    [prompt] = prompts_of(session)
    assert "these 2 calls may have been added by someone else" in prompt.text
    assert [(each.caption, each.value) for each in prompt.exhibits] == [
        ("1. leave_mark", {"word": "x"}),
        ("2. leave_mark", {"word": "y"}),
    ]
    assert read_marks(clean_folder) == ["x", "y"]
    session.close()


def test_call_shows_its_arguments_before_it_runs(clean_folder: Path) -> None:
    session = open_session(clean_folder, yes("run"))
    run_line(session, "call --id c2 word=z")
    [prompt] = prompts_of(session)
    assert "the call of leave_mark may have been added by someone else" in prompt.text
    assert [each.value for each in prompt.exhibits] == [{"word": "z"}]
    assert read_marks(clean_folder) == ["z"]
    session.close()


def test_call_with_the_users_own_arguments_is_not_questioned(clean_folder: Path) -> None:
    session = open_session(clean_folder)
    run_line(session, "call leave_mark word=mine")
    assert prompts_of(session) == []
    assert read_marks(clean_folder) == ["mine"]
    session.close()


def test_calls_of_a_trusted_record_are_not_questioned(clean_folder: Path) -> None:
    session = open_session(clean_folder)
    session.active.accept()
    run_line(session, "replay")
    assert prompts_of(session) == []
    assert read_marks(clean_folder) == ["x", "y"]
    session.close()
