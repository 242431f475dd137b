"""PDFs of requests and results: what a server receives, what the user sees, and the record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.sessions import find_request
from tests.support.images import pdf, pdf_bytes
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.sessions import Notebook

CALL = Reply(text="Looking.", tool_calls=(ToolCall("report", {}),))
DRAFT = pdf("draft", title="draft")
REPORT = pdf("")


@pytest.fixture(autouse=True)
def tool() -> Iterator[None]:
    @jp.tool
    def report() -> bytes:
        """Return the report."""
        return pdf_bytes()

    yield
    jp.remove_tool("report")


@contextmanager
def open_notebook(folder: Path, server: LoopbackServer, provider: str) -> Iterator[Notebook]:
    (folder / ".jp" / "config.toml").write_text(
        f'[assistant.model]\nid = "{provider}/model-a"\n'
        f'[providers.llm.{provider}]\nbase_url = "{server.url}"\n'
    )
    notebook = Notebook(folder)
    notebook.shell.user_ns["draft"] = DRAFT
    yield notebook
    notebook.session.close()


def documents(blocks: list[Any]) -> list[str]:
    return [block["source"]["data"] for block in blocks if block["type"] == "document"]


@pytest.mark.req("RESP-8", "GEM-7")
def test_pdfs_are_sent_recorded_and_sent_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    with (
        LoopbackServer([CALL, "Read.", "Still here."]) as server,
        open_notebook(folder, server, "anthropic") as notebook,
    ):
        notebook.ask("Compare {{draft}} with the report.")
        notebook.ask("And now?")
        arrived = [request.raw for request in server.requests]
        found = [find_request(notebook.session, name) for name in ("1.1", "1.2", "2.1")]
        assert [request["body"] for request in found] == arrived
        entries = notebook.session.document.conversation.raw
        stored = [entry for entry in entries if entry["type"] == "image"]
        assert [entry["media_type"] for entry in stored] == ["application/pdf"] * 2
        assert f"[PDF: {DRAFT.words}]" in notebook.jp("log")
        assert f"[PDF: {REPORT.words}]" in notebook.jp("request")
    for request in server.requests[1:]:
        messages = request.body["messages"]
        assert documents(messages[0]["content"]) == [DRAFT.text]
        assert documents(messages[2]["content"][0]["content"]) == [REPORT.text]


@pytest.mark.req("RESP-8", "GEM-7")
def test_provider_without_pdfs_gets_a_text(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XAI_API_KEY", "k")
    with (
        LoopbackServer([CALL, "Read."]) as server,
        open_notebook(folder, server, "xai") as notebook,
    ):
        notebook.ask("Read the report.")
    (result,) = [m for m in server.requests[1].body["messages"] if m["role"] == "tool"]
    assert result["content"].endswith(
        f"[PDF: {REPORT.words}, not sent: this provider takes no PDFs]"
    )
    assert REPORT.text not in json.dumps(server.requests[1].body)


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("image_max_bytes = 100", "record.image_max_bytes is 100"),
        ("images_per_turn = 0", "record.images_per_turn is 0"),
    ],
)
def test_limits_of_images_apply_to_pdfs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, setting: str, why: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    with (
        LoopbackServer([CALL, "Read."]) as server,
        open_notebook(folder, server, "anthropic") as notebook,
    ):
        with (folder / ".jp" / "config.toml").open("a") as file:
            file.write(f"[record]\n{setting}\n")
        notebook.ask("Read the report.")
    (result,) = server.requests[1].body["messages"][2]["content"]
    assert f"[PDF: {REPORT.words}: omitted, because {why}]" in result["content"]
    assert "image" not in [e["type"] for e in notebook.session.document.conversation.raw]
