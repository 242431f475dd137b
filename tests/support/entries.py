"""Stored entries to make records of."""

from __future__ import annotations

from typing import Any

from jp_nb.record.events import InquiryRequest
from jp_nb.record.pairing import match_pairs
from jp_nb.record.stream import ConversationStream

T = "2026-03-18 13:19:06.841464"


def raw(kind: str, **fields: Any) -> dict[str, Any]:
    """A stored entry of `kind`."""
    return {"timestamp": T, "type": kind, **fields}


START, ASKED = raw("turn_start"), raw("chat_request", content="q")
SAID = raw("chat_response", message="a")


def called(call_id: str = "a") -> dict[str, Any]:
    """A stored tool call."""
    return raw("tool_call_request", id=call_id, name="t", arguments={})


def result(call_id: str = "a") -> dict[str, Any]:
    """The stored result of a tool call."""
    return raw("tool_call_response", id=call_id, content="r", is_error=False)


def inquiry(inquiry_id: str = "a.q.1") -> dict[str, Any]:
    """The stored request of an inquiry."""
    question = {"text": "?", "answer_type": {"type": "boolean"}}
    source = {"source": "assistant"}
    return raw("inquiry_request", id=inquiry_id, source=source, question=question)


def closed(inquiry_id: str = "a.q.1") -> dict[str, Any]:
    """The stored response of an inquiry."""
    return raw("inquiry_response", id=inquiry_id, outcome="answered", answer=True)


CHANGED = raw("config_delta", delta={"user": {"name": "Ada"}})
STRANGE = {"type": "hologram", "x": 1}


def open_inquiries(stream: ConversationStream) -> list[str]:
    """The ids of the inquiries of the current turn that are not closed."""
    turn = stream.current_turn()
    unanswered = (turn[index] for index in sorted(match_pairs(enumerate(turn))[1]))
    return [entry.id for entry in unanswered if isinstance(entry, InquiryRequest)]
