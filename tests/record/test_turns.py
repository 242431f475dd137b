"""Turns and conversations as values for code."""

from __future__ import annotations

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.models import model_event
from tests.kit.record_view import RecordView
from tests.kit.recorded_settings import RecordedSettings
from tests.support.entries import (
    ASKED,
    CHANGED,
    SAID,
    START,
    called,
    closed,
    inquiry,
    new_stream,
    raw,
    result,
)

EVERYTHING = [
    CHANGED,
    START,
    ASKED,
    raw("chat_response", reasoning="hm"),
    SAID,
    called("a"),
    called("a"),
    inquiry(),
    {**closed(), "metadata": {"channel": "form"}},
    inquiry("b.q.1"),
    result("a"),
    raw("chat_request", content="and?"),
    raw("chat_response", data=None, metadata={"usage": {"model": "p/m", "input_tokens": 3}}),
    raw("chat_response", message="b", metadata={"usage": {"input_tokens": 2, "output_tokens": 1}}),
]


def test_turn_has_request_text_calls_inquiries_and_usage() -> None:
    [turn] = RecordView(new_stream(*EVERYTHING)).turns(status="completed")
    assert (turn.number, turn.request, turn.text, turn.data) == (0, "q\n\nand?", "a\n\nb", None)
    assert turn.tool_calls == (
        make("tool_call", "a", "t", {}, "r", False),
        make("tool_call", "a", "t", {}),
    )
    assert [(each.id, each.question, each.outcome, each.channel) for each in turn.inquiries] == [
        ("a.q.1", "?", "answered", "form"),
        ("b.q.1", "?", None, None),
    ]
    assert [each.answer for each in turn.inquiries] == [True, None]
    assert turn.config_changes == (make("config_change", {"user": {"name": "Ada"}}),)
    assert turn.usage == model_event("usage", input_tokens=5, output_tokens=1)
    assert (turn.status, turn.left_out, turn.taken_back) == ("completed", False, 0)
    assert (turn.uncalled, turn.images) == (None, ())


def test_repr_of_a_turn_is_short() -> None:
    asked = make("turn_text", "q", by_person=True)
    call = make("tool_call", "a", "t", {})
    turn = jp.Turn(3, (asked, call, make("turn_text", "word " * 50)), status="failed")
    assert repr(turn) == f"<turn 4: '{('word ' * 14)[:67]}…', 1 tool call, failed>"
    assert repr(jp.Turn(0, (asked, make("turn_text", "Hi.")))) == "<turn 1: 'Hi.'>"


def test_conversation_view_is_a_snapshot() -> None:
    stream = new_stream(START, ASKED)
    view = jp.Conversation.of(stream, RecordView(stream).turns(), RecordedSettings(stream).config())
    stream.raw[1]["content"] = "changed"
    stream.append(new_stream(SAID).entries[0])
    assert len(view.events) == 2
    assert view.events[1]["content"] == "q"
    assert (view.id, view.title) == ("jp-c1", None)
