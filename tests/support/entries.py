"""Stored entries to make records of."""

from __future__ import annotations

from typing import Any

T = "2026-03-18 13:19:06.841464"


def raw(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": T, "type": kind, **fields}


START, ASKED = raw("turn_start"), raw("chat_request", content="q")
SAID = raw("chat_response", message="a")


def called(call_id: str = "a") -> dict[str, Any]:
    return raw("tool_call_request", id=call_id, name="t", arguments={})


def result(call_id: str = "a") -> dict[str, Any]:
    return raw("tool_call_response", id=call_id, content="r", is_error=False)


def inquiry(inquiry_id: str = "a.q.1") -> dict[str, Any]:
    question = {"text": "?", "answer_type": {"type": "boolean"}}
    source = {"source": "assistant"}
    return raw("inquiry_request", id=inquiry_id, source=source, question=question)


def closed(inquiry_id: str = "a.q.1") -> dict[str, Any]:
    return raw("inquiry_response", id=inquiry_id, outcome="answered", answer=True)


CHANGED = raw("config_delta", delta={"user": {"name": "Ada"}})
STRANGE = {"type": "hologram", "x": 1}
