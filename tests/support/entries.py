"""Stored entries, and conversations that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from jp_nb.record.stream import ConversationStream
from tests.kit.kinds import is_kind

T = "2026-03-18 13:19:06.841464"


def raw(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a stored entry of `kind`."""
    return {"timestamp": T, "type": kind, **fields}


START = raw("turn_start")
ASKED = raw("chat_request", content="q")
SAID = raw("chat_response", message="a")


def called(call_id: str = "a") -> dict[str, Any]:
    """Return a stored tool call."""
    return raw("tool_call_request", id=call_id, name="t", arguments={})


def result(call_id: str = "a") -> dict[str, Any]:
    """Return the stored result of a tool call."""
    return raw("tool_call_response", id=call_id, content="r", is_error=False)


def inquiry(inquiry_id: str = "a.q.1") -> dict[str, Any]:
    """Return the stored request of an inquiry."""
    question = {"text": "?", "answer_type": {"type": "boolean"}}
    source = {"source": "assistant"}
    return raw("inquiry_request", id=inquiry_id, source=source, question=question)


def closed(inquiry_id: str = "a.q.1") -> dict[str, Any]:
    """Return the stored response of an inquiry."""
    return raw("inquiry_response", id=inquiry_id, outcome="answered", answer=True)


CHANGED = raw("config_delta", delta={"user": {"name": "Ada"}})
STRANGE = {"type": "hologram", "x": 1}


def proposal_metadata(calls: Iterable[Any]) -> dict[str, Any]:
    """Return the metadata of a change that these calls proposed: `make("proposal", …)`."""
    stored = []
    for call in calls:
        fields = {name: value for name, value in asdict(call).items() if value is not None}
        stored.append(fields | {"paths": list(call.paths)})

    return {"proposed_by": stored}


def open_inquiries(stream: ConversationStream) -> list[str]:
    """Return the ids of the open inquiries of the current turn."""
    turn = stream.current_turn()
    open_ids = [entry.id for entry in turn if is_kind(entry, "inquiry_request")]
    for entry in turn:
        if is_kind(entry, "inquiry_response") and entry.id in open_ids:
            open_ids.remove(entry.id)

    return open_ids


# --- conversations -----------------------------------------------------------------------------


class FakeClock:
    """A clock that advances by one second each time it is read."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 18, 13, 19, 6, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


class NumberedIds:
    """Creates the ids `id-1`, `id-2`, and so on."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self) -> str:
        self.drawn += 1
        return f"id-{self.drawn}"


def new_stream(
    *raw: Mapping[str, Any], base_config: dict[str, Any] | None = None, tolerant: bool = False
) -> ConversationStream:
    """Return a conversation with the entries `raw`."""
    return ConversationStream(
        {"id": "jp-c1", "made": "live"},
        clock=FakeClock(),
        base_config=base_config,
        raw=[dict(entry) for entry in raw],
        new_id=NumberedIds(),
        tolerant=tolerant,
    )


def without_ids(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored entry without the ids that the stream adds to it."""
    return {key: value for key, value in raw.items() if key not in ("event_id", "request_id")}
