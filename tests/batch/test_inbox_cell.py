"""`jp.inbox` in a cell, without a kernel: the user's prompts, and a run without a user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import jp_nb as jp
from jp_nb.session.session import Session
from tests.batch.log_lines import asked_question, waiting_run, write_log
from tests.kit.answers import PreparedAnswers
from tests.kit.questions import answered
from tests.support.fake_host import FakeHost
from tests.support.fakes import FakePrompter

TO = asked_question("publish", "to", "To whom?")
Begin = Callable[[FakePrompter], None]


@pytest.fixture
def begin(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Return a function that begins a session with this user."""
    made = list[Session]()

    def begin_session(person: FakePrompter) -> None:
        session = Session(FakeHost(person))
        monkeypatch.setattr("jp_nb.session._current", session)
        made.append(session)

    yield begin_session
    for session in made:
        session.close()


@pytest.mark.req("INBOX-2")
def test_inbox_asks_in_the_cell_and_says_how_to_go_on(
    begin: Begin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = write_log(tmp_path / "out", [waiting_run("a", TO), waiting_run("b", TO)])
    begin(FakePrompter(*map(answered, ["answer", "answer", "Everyone", "close"])))
    jp.inbox(out)
    [answer] = PreparedAnswers(out / "answers.toml").list()
    assert answer["value"] == "Everyone"
    shown = capsys.readouterr().out
    assert "1 open decision in 2 runs, 1 answered" in shown
    assert f"jp-nb run --resume {out} --answers {out / 'answers.toml'}" in shown


@pytest.mark.req("INBOX-2", "INBOX-9")
def test_inbox_without_a_user_lists_the_decisions_and_fails(
    begin: Begin, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = write_log(tmp_path / "out", [waiting_run("a", TO)])
    begin(FakePrompter(away="the test is alone"))
    with pytest.raises(jp.PromptUnavailable, match="the inbox needs a user"):
        jp.inbox(out)
    assert "1. to of publish: To whom?" in capsys.readouterr().out
    assert not (out / "answers.toml").exists()
