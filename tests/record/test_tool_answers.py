"""Records of releases in which a model called a tool again with `tool_answers`."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest

from jp_nb.interop.jp_files import read_directory, write_directory
from jp_nb.providers.anthropic_request import AnthropicRendering
from jp_nb.record.document import Document
from jp_nb.record.entry import Entry
from jp_nb.record.events import ToolCallRequest, decode
from jp_nb.record.thread import Thread, thread_of
from jp_nb.tooling.context import ToolContext
from tests.support.fakes import new_stream

OLD = {
    "type": "tool_call_request",
    "timestamp": "2025-11-02 03:00:00.5",
    "id": "c1",
    "name": "look",
    "arguments": {"path": "a"},
    "tool_answers": {"apply": True},
}
TALK = (
    {"type": "turn_start", "timestamp": "2025-11-02 03:00:00.0"},
    {"type": "chat_request", "timestamp": "2025-11-02 03:00:00.0", "content": "Look."},
)
RESULT = {
    "type": "tool_call_response",
    "timestamp": "2025-11-02 03:00:01.0",
    "id": "c1",
    "content": "seen",
    "is_error": False,
}


def clock() -> datetime:
    return datetime(2026, 7, 1, tzinfo=UTC)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def rendered(thread: Thread) -> str:
    """What a provider is sent of it."""
    rendering = AnthropicRendering()
    rendering.follow(thread)
    return rendering.messages.encode().decode()


@pytest.mark.req("R028-30")
def test_a_tool_call_has_an_id_a_name_and_arguments_and_is_stored_as_it_is() -> None:
    own = set(ToolCallRequest.model_fields) - set(Entry.model_fields)
    assert own == {"id", "name", "arguments"}
    call = ToolCallRequest(id="c1", name="look", arguments={"path": "a", "tool_answers": {"b": 1}})
    raw = call.to_raw()
    assert raw == {
        "timestamp": "",
        "type": "tool_call_request",
        "id": "c1",
        "name": "look",
        "arguments": {"path": "a", "tool_answers": {"b": 1}},
    }
    again = decode(raw, 0)
    assert isinstance(again, ToolCallRequest)
    assert again.arguments == call.arguments
    assert "tool_answers" not in ToolCallRequest(id="c1", name="look").to_raw()
    assert "tool_answers" not in ToolContext.__dataclass_fields__


@pytest.mark.req("R028-31")
def test_an_old_record_loads_and_its_tool_answers_reach_nobody() -> None:
    stream = new_stream(*TALK, OLD, RESULT)
    [call] = [entry for entry in stream.entries if isinstance(entry, ToolCallRequest)]
    assert call.arguments == {"path": "a"}
    assert not stream.repair()
    sent = rendered(thread_of(stream))
    assert '"path":"a"' in sent
    assert "tool_answers" not in sent
    assert "apply" not in sent


@pytest.mark.req("R028-31", "R028-32")
def test_an_old_directory_of_jp_loads_and_its_tool_answers_are_left_alone() -> None:
    answers = {"apply": b64("true"), "plain": "kept"}
    arguments = {"path": b64("a"), "tool_answers": {"x": b64("y")}}
    call = {**OLD, "arguments": arguments, "tool_answers": answers}
    events = [*TALK, call, {**RESULT, "content": b64("seen")}]
    files = {
        "metadata.json": json.dumps({"title": "t"}, indent=2).encode(),
        "base_config.json": b"{}\n",
        "events.json": (json.dumps(events, indent=2) + "\n").encode(),
    }
    read = read_directory("17700000001-t", files, clock=clock)
    document = Document.load(read, clock=clock)
    [found] = [e for e in document.conversation.entries if isinstance(e, ToolCallRequest)]
    # An argument of that name is an argument like every other, and is decoded like it.
    assert found.arguments == {"path": "a", "tool_answers": {"x": "y"}}
    [raw] = [raw for raw in document.conversation.raw if raw.get("id") == "c1"][:1]
    assert raw["tool_answers"] == answers
    sent = rendered(thread_of(document.conversation))
    assert "kept" not in sent
    assert b64("true") not in sent
    assert write_directory(read).files["events.json"] == files["events.json"]
