"""Encrypted reasoning of the Responses API, through the life of a record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fake_host import FakeHome, FakeHost
from tests.support.loopback import LoopbackServer, Reply
from tests.support.sessions import Notebook

ENCRYPTED = 'gAAAAA"\\/+\u2028\u00e9=='
REPLY = Reply(reasoning="Hm.", text="A.", signature=ENCRYPTED)


def configure(notebook: Notebook, server: LoopbackServer) -> None:
    notebook.jp(f"config providers.llm.openai.base_url={server.url}")
    notebook.jp("config providers.llm.openai.dialect=responses")
    notebook.jp("config assistant.model.id=openai/m")


def open_notebook(folder: Path, server: LoopbackServer, days: int = 0) -> Notebook:
    notebook = Notebook(folder, days=days)
    configure(notebook, server)
    return notebook


@pytest.mark.req("RESP-4")
def test_encrypted_reasoning_survives_saving_forking_and_exporting(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdefghij")
    with LoopbackServer([REPLY] * 4) as server:
        notebook = open_notebook(folder, server)
        notebook.ask("One.")
        notebook.session.conversations.fork(0)
        notebook.ask("Two.")
        notebook.jp("export out")
        saved = json.loads(json.dumps(notebook.session.document.to_json()))
        notebook.session.close()

        reopened = Notebook(folder, host=FakeHost(home=FakeHome(stored=saved)))
        imported = open_notebook(folder, server, days=1)  # its own conversation has another id
        imported.jp("import out")
        for again in (reopened, imported):
            again.session.active.accept()
            configure(again, server)
            again.ask("Three.")
            again.session.close()
    second, *later = (request.body["input"] for request in server.requests[1:])
    assert [item.get("encrypted_content") for item in second] == [None, None, ENCRYPTED, None, None]
    for items in later:
        assert items[: len(second)] == second
        assert items[len(second)]["encrypted_content"] == ENCRYPTED
