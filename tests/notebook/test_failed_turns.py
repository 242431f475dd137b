"""Failed requests through the magics and over HTTP, and the requests after them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.notebook import commands
from jp_nb.notebook.magics import JpMagics
from jp_nb.record.change_marks import NoAnswer, read_no_answer
from jp_nb.rendering import log as log_module
from jp_nb.session.session import Session
from jp_nb.storage import config_files
from tests.support.loopback import LoopbackServer, Received, Reply
from tests.support.sessions import make_session, shell_of

NOT_FOUND = Reply(status=404)


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    for name in [name for name in os.environ if name.startswith(("JP_CFG_", "JP_NB_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(config_files, "get_config_folder", lambda: tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    session = make_session()
    yield session
    session.close()


def reach(session: Session, server: LoopbackServer) -> None:
    magics(session).command(f"config providers.llm.openai.base_url={server.url}")
    magics(session).command(f"config providers.llm.anthropic.base_url={server.url}")
    magics(session).command("config assistant.request.max_retries=0")


def magics(session: Session) -> JpMagics:
    made = JpMagics.__new__(JpMagics)
    made._session, made._shell = session, shell_of(session)
    return made


def ask(session: Session, line: str, text: str) -> None:
    commands.send_request(shell_of(session), session, line, text)


def fail(session: Session, line: str, text: str) -> None:
    with pytest.raises(jp.ProviderError):
        ask(session, line, text)


def questions(request: Received) -> list[str]:
    """Return the user messages of a request, in order."""
    found: list[str] = []
    for message in request.body["messages"]:
        if message["role"] == "user":
            content = message["content"]
            parts = [content] if isinstance(content, str) else [p["text"] for p in content]
            found += parts
    return found


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_failed_requests_are_omitted_and_their_options_are_not_kept(
    session: Session, provider: str
) -> None:
    with LoopbackServer([NOT_FOUND, NOT_FOUND, "Good.", "Still."]) as server:
        reach(session, server)
        ask_model = session.settings.model
        fail(session, f"-m {provider}/broken", "First?")
        assert session.settings.model == ask_model
        fail(session, f"-m {provider}/broken -c assistant.name=Ada", "Second?")
        assert session.config.assistant.name is None
        ask(session, f"-m {provider}/good", "Third?")
        ask(session, "", "Fourth?")
    bodies = [request.body for request in server.requests]
    assert [body["model"] for body in bodies] == ["broken", "broken", "good", "good"]
    assert [questions(request) for request in server.requests] == [
        ["First?"],
        ["Second?"],
        ["Third?"],
        ["Third?", "Fourth?"],
    ]
    turns = session.conversations.log()
    assert [turn.request for turn in turns] == ["First?", "Second?", "Third?", "Fourth?"]
    assert [turn.status for turn in turns] == ["failed", "failed", "completed", "completed"]
    assert [turn.left_out for turn in turns] == [True, True, False, False]


def test_cell_shows_one_notice_and_the_log_names_the_failure(session: Session) -> None:
    with LoopbackServer([NOT_FOUND, NOT_FOUND]) as server:
        reach(session, server)
        fail(session, "-m openai/broken", "First?")
        said = shell_of(session).shown[-1]
        fail(session, "-m openai/broken", "Second?")
    assert said == (
        "⚠ The request failed. Run the cell again, or `%jp resume`. Its options, such as `-m`, "
        "were not kept."
    )
    log = log_module.render_log(session.document, session.conversations.log()).text
    line = "✗ failed: no answer (this turn is not sent to models; its settings were reverted)"
    assert log.count(line) == 2


def test_failed_cell_that_is_run_again_asks_once(session: Session) -> None:
    with LoopbackServer([NOT_FOUND] * 3 + ["Good."]) as server:
        reach(session, server)
        magics(session).command("config assistant.model.id=openai/m")
        for _ in range(3):
            fail(session, "", "Why?")
        ask(session, "", "Why?")
    assert [questions(request) for request in server.requests] == [["Why?"]] * 4


def test_request_that_does_not_fit_does_not_grow_with_each_attempt(session: Session) -> None:
    with LoopbackServer([Reply(status=400)] * 3) as server:
        reach(session, server)
        for _ in range(3):
            fail(session, "-m openai/m", "long " * 1000)
    sizes = {len(request.raw) for request in server.requests}
    assert len(sizes) == 1


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_partial_answer_of_a_failed_request_is_kept_and_sent(
    session: Session, provider: str
) -> None:
    replies: list[Reply | str] = [Reply(text="So far and on. " * 99, cut_after=3000), "Good."]
    with LoopbackServer(replies) as server:
        reach(session, server)
        fail(session, f"-m {provider}/m", "First?")
        assert session.settings.model == f"{provider}/m"
        ask(session, "", "Second?")
    messages = server.requests[1].body["messages"]
    assert [m["role"] for m in messages if m["role"] != "system"] == ["user", "assistant", "user"]
    [first, _] = session.conversations.log()
    assert first.text
    assert not first.left_out


def test_options_of_a_turn_that_never_began_are_not_kept(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unusable(*_: Any) -> Any:
        raise jp.ConfigError("gone", path="assistant.model.id")

    with LoopbackServer([]) as server:
        reach(session, server)
        before = session.settings.model
        monkeypatch.setattr(session.turns.resolver, "for_turn", lambda _: unusable)
        with pytest.raises(jp.ConfigError):
            ask(session, "-m openai/gone", "First?")
    assert session.settings.model == before
    assert session.conversations.log() == []
    assert read_no_answer(session.document.conversation.entries[-1]) == NoAnswer("failed", 1)


def test_failed_request_is_not_sent_by_the_next_kernel(session: Session) -> None:
    with LoopbackServer([NOT_FOUND, "Good.", "Later."]) as server:
        reach(session, server)
        fail(session, "-m openai/broken", "First?")
        ask(session, "-m openai/m", "Second?")
        session.turns.contexts.clear()  # as in a kernel that has just read the record
        ask(session, "", "Third?")
    assert questions(server.requests[-1]) == ["Second?", "Third?"]
