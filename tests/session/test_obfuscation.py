"""Random texts that a server adds to its events against eavesdroppers."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest

from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall, reply_events
from tests.support.sessions import Notebook


@pytest.mark.req("RESP-17")
def test_obfuscation_of_a_server_changes_no_byte_of_a_cassette(folder: Path) -> None:
    reply = Reply(reasoning="Hm.", text="Look.", tool_calls=(ToolCall("today", id="c1"),))

    def answer(request: Received) -> Reply:
        is_second = request.body["input"][-1]["type"] == "function_call_output"
        events = reply_events(
            Reply(text="Done.") if is_second else reply, "responses", request.body, 1
        )
        parts = [each.partition(b"data: ") for each in events]
        bodies = [json.loads(body) for _, _, body in parts]
        for body in bodies:
            if body["type"].endswith(".delta"):
                body["obfuscation"] = secrets.token_hex(8)
                sent.append(body["obfuscation"])
        return Reply(raw=tuple(b"data: " + json.dumps(x).encode() + b"\n\n" for x in bodies))

    sent: list[str] = []
    with LoopbackServer(answer) as server:
        for name in ("a", "b"):
            notebook = Notebook(folder)
            notebook.jp(f"config providers.llm.openai.base_url={server.url}")
            notebook.jp("config providers.llm.openai.dialect=responses")
            notebook.jp("config assistant.model.id=openai/m")
            notebook.jp(f"cassette record {name}.jsonl")
            assert notebook.ask("Go.") == "Look.\n\nDone."
            stored = json.dumps(notebook.session.document.to_json())
            notebook.session.close()
    first, second = ((folder / f"{name}.jsonl").read_text() for name in ("a", "b"))
    assert first == second
    assert len({*sent}) > 6
    assert not any(each in first or each in stored for each in ["obfuscation", *sent])
