"""Turns and conversations as values for code."""

from __future__ import annotations

import jp_nb as jp
from jp_nb.config.tree.app import AppConfig
from jp_nb.record.outcomes import QuestionOutcome
from jp_nb.record.turn_view import ConfigChange, Inquiry, ToolCall, TurnText, read_turn
from tests.kit.models import model_event
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
    stream = new_stream(*EVERYTHING)
    entries = stream.last_turn()
    assert entries is not None
    turn = read_turn(0, entries.entries)
    assert (turn.number, turn.request, turn.text, turn.data) == (0, "q\n\nand?", "a\n\nb", None)
    assert turn.tool_calls == (ToolCall("a", "t", {}, "r", False), ToolCall("a", "t", {}))
    assert turn.inquiries == (
        Inquiry("a.q.1", "?", QuestionOutcome("answered", "form"), True),
        Inquiry("b.q.1", "?"),
    )
    assert turn.config_changes == (ConfigChange({"user": {"name": "Ada"}}),)
    assert turn.usage == model_event("usage", input_tokens=5, output_tokens=1)
    assert (turn.status, turn.left_out, turn.taken_back) == ("completed", False, 0)
    assert (turn.uncalled, turn.images) == (None, ())


def test_repr_of_a_turn_is_short() -> None:
    asked = TurnText("q", by_person=True)
    turn = jp.Turn(3, (asked, ToolCall("a", "t", {}), TurnText("word " * 50)), status="failed")
    assert repr(turn) == f"<turn 4: '{('word ' * 14)[:67]}…', 1 tool call, failed>"
    assert repr(jp.Turn(0, (asked, TurnText("Hi.")))) == "<turn 1: 'Hi.'>"


def test_conversation_view_is_a_snapshot() -> None:
    stream = new_stream(START, ASKED)
    view = jp.Conversation.of(stream, [jp.Turn(0, (TurnText("q", by_person=True),))], AppConfig())
    stream.raw[1]["content"] = "changed"
    stream.append(new_stream(SAID).entries[0])
    assert len(view.events) == 2
    assert view.events[1]["content"] == "q"
    assert (view.id, view.title) == ("jp-c1", None)
