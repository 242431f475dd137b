"""Failed requests through the magics and over HTTP, and the requests after them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.support.loopback import LoopbackServer, Received, Reply
from tests.support.sessions import Notebook, bare_folder

__all__ = ["bare_folder"]

NOT_FOUND = Reply(status=404)


@pytest.fixture
def notebook(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    made = Notebook(bare_folder)
    yield made
    made.session.close()


def reach(notebook: Notebook, server: LoopbackServer) -> None:
    notebook.jp(f"config providers.llm.openai.base_url={server.url}")
    notebook.jp(f"config providers.llm.anthropic.base_url={server.url}")
    notebook.jp("config assistant.request.max_retries=0")


def fail(notebook: Notebook, line: str, text: str) -> None:
    with pytest.raises(jp.ProviderError):
        notebook.cell(line, text)


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
    notebook: Notebook, provider: str
) -> None:
    with LoopbackServer([NOT_FOUND, NOT_FOUND, "Good.", "Still."]) as server:
        reach(notebook, server)
        ask_model = notebook.session.settings.model
        fail(notebook, f"-m {provider}/broken", "First?")
        assert notebook.session.settings.model == ask_model
        fail(notebook, f"-m {provider}/broken -c assistant.name=Ada", "Second?")
        assert notebook.session.config.assistant.name is None
        notebook.cell(f"-m {provider}/good", "Third?")
        notebook.cell("", "Fourth?")
    bodies = [request.body for request in server.requests]
    assert [body["model"] for body in bodies] == ["broken", "broken", "good", "good"]
    assert [questions(request) for request in server.requests] == [
        ["First?"],
        ["Second?"],
        ["Third?"],
        ["Third?", "Fourth?"],
    ]
    turns = notebook.session.conversations.log()
    assert [turn.request for turn in turns] == ["First?", "Second?", "Third?", "Fourth?"]
    assert [turn.status for turn in turns] == ["failed", "failed", "completed", "completed"]
    assert [turn.left_out for turn in turns] == [True, True, False, False]


def test_cell_shows_one_notice_and_the_log_names_the_failure(notebook: Notebook) -> None:
    with LoopbackServer([NOT_FOUND, NOT_FOUND]) as server:
        reach(notebook, server)
        fail(notebook, "-m openai/broken", "First?")
        said = notebook.shown[-1]
        fail(notebook, "-m openai/broken", "Second?")
    assert said == (
        "⚠ The request failed. Run the cell again, or `%jp resume`. Its options, such as `-m`, "
        "were not kept."
    )
    log = notebook.jp("log")
    line = "✗ failed: no answer (this turn is not sent to models; its settings were reverted)"
    assert log.count(line) == 2


def test_failed_cell_that_is_run_again_asks_once(notebook: Notebook) -> None:
    with LoopbackServer([NOT_FOUND] * 3 + ["Good."]) as server:
        reach(notebook, server)
        notebook.jp("config assistant.model.id=openai/m")
        for _ in range(3):
            fail(notebook, "", "Why?")
        notebook.cell("", "Why?")
    assert [questions(request) for request in server.requests] == [["Why?"]] * 4


def test_request_that_does_not_fit_does_not_grow_with_each_attempt(notebook: Notebook) -> None:
    with LoopbackServer([Reply(status=400)] * 3) as server:
        reach(notebook, server)
        for _ in range(3):
            fail(notebook, "-m openai/m", "long " * 1000)
    sizes = {len(request.raw) for request in server.requests}
    assert len(sizes) == 1


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_partial_answer_of_a_failed_request_is_kept_and_sent(
    notebook: Notebook, provider: str
) -> None:
    replies: list[Reply | str] = [Reply(text="So far and on. " * 99, cut_after=3000), "Good."]
    with LoopbackServer(replies) as server:
        reach(notebook, server)
        fail(notebook, f"-m {provider}/m", "First?")
        assert notebook.session.settings.model == f"{provider}/m"
        notebook.cell("", "Second?")
    messages = server.requests[1].body["messages"]
    assert [m["role"] for m in messages if m["role"] != "system"] == ["user", "assistant", "user"]
    [first, _] = notebook.session.conversations.log()
    assert first.text
    assert not first.left_out


def test_options_of_a_turn_that_never_began_are_not_kept(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unusable(*_: Any) -> Any:
        raise jp.ConfigError("gone", path="assistant.model.id")

    with LoopbackServer([]) as server:
        reach(notebook, server)
        before = notebook.session.settings.model
        monkeypatch.setattr(notebook.session.turns.resolver, "for_turn", lambda _: unusable)
        with pytest.raises(jp.ConfigError):
            notebook.cell("-m openai/gone", "First?")
    assert notebook.session.settings.model == before
    assert notebook.session.conversations.log() == []
    mark = notebook.session.document.conversation.raw[-1]["metadata"]
    assert mark == {"no_answer": {"ended": "failed", "takes_back": 1}}


def test_failed_request_is_not_sent_by_the_next_kernel(notebook: Notebook) -> None:
    with LoopbackServer([NOT_FOUND, "Good.", "Later."]) as server:
        reach(notebook, server)
        fail(notebook, "-m openai/broken", "First?")
        notebook.cell("-m openai/m", "Second?")
        notebook.session.turns.contexts.clear()  # as in a kernel that has just read the record
        notebook.cell("", "Third?")
    assert questions(server.requests[-1]) == ["Second?", "Third?"]
