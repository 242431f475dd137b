"""Reasoning that a server did not give to the model, in `%jp usage --why` and the debug log."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jp_nb
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall, reply_events
from tests.support.sessions import Notebook

ALL_USED = "No provider reported reasoning that a model did not get in these turns."


BOUND = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
BETA = "thinking-binding-controls-2026-08-01"


class BindingServer:
    """Answers with thinking that is bound to the request, and reports thinking that does not fit.

    Each turn first calls the tool `look`. Attributes:
        key: Part of all signatures, so another key makes earlier ones invalid.
        refuses: Whether the first invalid block is an error 400 instead.
        errors: The number of these errors.
    """

    def __init__(self) -> None:
        self.key = "a"
        self.refuses = False
        self.errors = 0

    def sign(self, body: Any, messages: list[Any]) -> str:
        before = json.dumps([self.key, body.get("system"), body.get("tools"), messages])
        plain = before.replace(', "cache_control": {"type": "ephemeral"}', "")
        return hashlib.sha256(plain.encode()).hexdigest()[:16]

    def find_changes(self, body: Any) -> list[dict[str, str]]:
        reason = "prefix_binding_mismatch"
        return [
            {"type": "thinking_dropped", "path": f"messages.{i}.content.{j}", "reason": reason}
            for i, message in enumerate(body["messages"])
            for j, block in enumerate(message["content"])
            if block["type"] == "thinking"
            and block["signature"] != self.sign(body, body["messages"][:i])
        ]

    def __call__(self, request: Received) -> Reply:
        body, number = request.body, len(request.body["messages"])
        changes = self.find_changes(body)
        if changes and self.refuses:
            self.errors += 1
            return Reply(status=400, message=f"{changes[0]['path']}: {BOUND}")
        is_first = body["messages"][-1]["content"][-1]["type"] == "text"
        calls = (ToolCall("look", id=f"toolu_{number}"),) if is_first else ()
        signature = self.sign(body, body["messages"])
        reply = Reply(text="Well.", reasoning="Hm.", signature=signature, tool_calls=calls)
        lines = reply_events(reply, "anthropic", body, number)
        events = [json.loads(line.partition(b"data: ")[2]) for line in lines]
        for event in events:
            if event["type"] == "message_delta":
                assert request.headers["anthropic-beta"] == BETA
                event["input_transformations"] = changes
        return Reply(raw=tuple(b"data: " + json.dumps(x).encode() + b"\n\n" for x in events))


@pytest.fixture
def server() -> BindingServer:
    return BindingServer()


@pytest.fixture
def notebook(
    folder: Path, server: BindingServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Notebook]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789abcdefghij")

    @jp_nb.tool
    def look() -> str:
        """Look."""
        return "fine"

    with LoopbackServer(server) as loopback:
        made = Notebook(folder)
        made.jp(f"config providers.llm.anthropic.base_url={loopback.url}")
        made.jp(f"config providers.llm.anthropic.beta_headers={BETA}")
        made.jp("config assistant.model.id=anthropic/claude-fable-5-2")
        yield made
        made.session.close()
    jp_nb.remove_tool("look")


def changes_of(notebook: Notebook) -> list[Any]:
    stream = notebook.session.document.conversation
    return [found for each in stream.entries if (found := each.metadata.get("input_changes"))]


@pytest.mark.req("PRE-7")
def test_plain_tool_loop_loses_no_reasoning(notebook: Notebook) -> None:
    for text in ("One.", "Two.", "Three."):
        assert notebook.ask(text) == "Well.\n\nWell."
    assert ALL_USED in notebook.jp("usage --why")
    assert changes_of(notebook) == []


@pytest.mark.req("PRE-7")
def test_lost_reasoning_is_counted_by_turn_and_logged_with_its_event(
    notebook: Notebook, server: BindingServer, caplog: pytest.LogCaptureFixture
) -> None:
    notebook.ask("One.")
    server.key = "b"
    with caplog.at_level("DEBUG", "jp_nb.agent"):
        notebook.ask("Two.")
    assert changes_of(notebook) == [{"dropped": {"prefix": 2}}] * 2
    header, row, *_ = notebook.jp("usage --why").splitlines()
    assert header.split() == ["turn", "request", "reasoning", "blocks", "used", "reason"]
    assert row.split() == ["2", "Two.", "4", "no", *["something", "before", "them", "changed"]]
    stream = notebook.session.document.conversation
    signed = [
        stream.event_id(index)
        for index, entry in enumerate(stream.entries)
        if "anthropic_thinking_signature" in entry.metadata
    ]
    logged = re.findall(r"reasoning of event (\S+) was not sent to the model: prefix", caplog.text)
    assert logged == signed[:2] * 2


@pytest.mark.req("PRE-6")
def test_refused_thinking_costs_one_error_and_stays_in_the_record(
    notebook: Notebook, server: BindingServer
) -> None:
    server.refuses = True
    notebook.ask("One.")
    stream = notebook.session.document.conversation
    before = [entry.metadata for entry in stream.entries]
    server.key = "b"
    for text in ("Two.", "Three.", "Four."):
        assert notebook.ask(text) == "Well.\n\nWell."
    assert server.errors == 1
    assert [entry.metadata for entry in stream.entries][: len(before)] == before
    assert changes_of(notebook) == []
