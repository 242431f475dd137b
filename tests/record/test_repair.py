"""What a repair changes, and what it leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from jp_nb.record.events import (
    CONVERSATION_KINDS,
    ChatRequest,
    ConfigDelta,
    Entry,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.repair import EPOCH, INTERRUPTED
from jp_nb.record.stream import ConversationStream
from tests.support.entries import (
    ASKED,
    CHANGED,
    SAID,
    START,
    STRANGE,
    T,
    called,
    closed,
    inquiry,
    open_inquiries,
    raw,
    result,
)
from tests.support.fakes import new_stream, without_ids
from tests.support.record_strategies import QUICK, records

MENDED = {
    "timestamp": T,
    "type": "tool_call_response",
    "id": "a",
    "content": INTERRUPTED,
    "is_error": True,
}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([SAID, START, ASKED], [START, ASKED], id="1 before the first request"),
        pytest.param([START, ASKED, result()], [START, ASKED], id="2 loose result"),
        pytest.param(
            [START, ASKED, called(), SAID], [START, ASKED, called(), MENDED, SAID], id="3 open call"
        ),
        pytest.param([START, ASKED, closed()], [START, ASKED], id="4 loose closing"),
        pytest.param([START, ASKED, inquiry()], [START, ASKED], id="5 open inquiry"),
        pytest.param([START, ASKED, START], [START, ASKED], id="6 turn without anything"),
        pytest.param([START, CHANGED, START], [CHANGED], id="6 several of them"),
        pytest.param([START, START, ASKED], [START, ASKED], id="7 several starts"),
        pytest.param([ASKED], [raw("turn_start"), ASKED], id="7 no start"),
        pytest.param(
            [SAID], [{**raw("turn_start"), "timestamp": EPOCH}, SAID], id="7 no request at all"
        ),
        pytest.param(
            [START, ASKED, called(), START, ASKED, result()],
            [START, ASKED, called(), MENDED, START, ASKED],
            id="ids pair inside their turn",
        ),
        pytest.param(
            [START, ASKED, called(), called(), result()],
            [START, ASKED, called(), called(), result(), MENDED],
            id="the n-th answers the n-th",
        ),
        pytest.param(
            [START, ASKED, called(), called("b"), result("b"), SAID],
            [START, ASKED, called(), called("b"), MENDED, result("b"), SAID],
            id="3 open call beside one that is answered",
        ),
        pytest.param(
            [START, ASKED, called("b"), called(), result("b")],
            [START, ASKED, called("b"), called(), result("b"), MENDED],
            id="3 open call after one that is answered",
        ),
        pytest.param(
            [STRANGE, START, CHANGED, START, ASKED, inquiry(), CHANGED, START, STRANGE],
            [STRANGE, CHANGED, START, ASKED, CHANGED, STRANGE],
            id="global entries stay",
        ),
    ],
)
def test_each_step_of_repair(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> None:
    stream = new_stream(*before)
    assert stream.repair()
    assert [without_ids(entry) for entry in stream.raw] == after
    assert [entry.type for entry in stream.entries] == [
        new_stream(r).entries[0].type for r in after
    ]
    assert not stream.repair()


@pytest.mark.parametrize(
    "healthy",
    [
        [],
        [CHANGED],
        [START, ASKED, called(), inquiry(), closed(), result(), SAID, CHANGED],
        [START, ASKED, called(), called(), result(), result(), START, ASKED, SAID],
    ],
)
def test_repair_leaves_a_well_formed_record_alone(healthy: list[dict[str, Any]]) -> None:
    stream = new_stream(*healthy)
    before = list(stream.raw)
    assert not stream.repair()
    assert stream.raw == before


@pytest.mark.req("HB-17")
@given(records)
@QUICK
def test_repair_makes_any_record_well_formed_once_and_for_all(
    entries: list[dict[str, Any]],
) -> None:
    stored = json.dumps(entries)
    stream = new_stream(*entries)
    ids = [stream.event_id(i) for i in range(len(stream))]
    before = dict(zip(map(id, stream.raw), ids, strict=True))

    def global_ones(stream: ConversationStream) -> list[Any]:
        pairs = zip(stream.raw, stream.entries, strict=True)
        return [r for r, entry in pairs if entry.type not in CONVERSATION_KINDS]

    kept = global_ones(stream)
    stream.repair()
    mended = list(stream.raw)
    assert global_ones(stream) == kept
    assert json.dumps(entries) == stored
    for index, entry in enumerate(stream.raw):  # what stays is the same, and so is its id
        assert stream.event_id(index) == before.get(id(entry), entry.get("event_id"))
    assert [entry for entry in stream.entries if isinstance(entry, ConfigDelta)] == stream.deltas
    for turn in stream.turns():
        assert is_well_formed(turn.entries)
    again = new_stream(*mended)
    assert not again.repair()
    assert again.raw == mended
    stream.start_turn(ChatRequest(content="more"))
    assert not stream.repair()


def is_well_formed(entries: tuple[Entry, ...]) -> bool:
    """Whether every request is followed by as many responses, and no response comes too early."""
    open_ids: dict[tuple[type, str], int] = {}
    for entry in entries:
        match entry:
            case ToolCallRequest(id=key) | InquiryRequest(id=key):
                open_ids[type(entry), key] = open_ids.get((type(entry), key), 0) + 1
            case ToolCallResponse(id=key) | InquiryResponse(id=key):
                asked = ToolCallRequest if isinstance(entry, ToolCallResponse) else InquiryRequest
                open_ids[asked, key] = open_ids.get((asked, key), 0) - 1
                if open_ids[asked, key] < 0:
                    return False
    return not any(open_ids.values())


def test_a_turn_that_was_left_open_is_mended_after_the_next_one_began() -> None:
    stream = new_stream(START, ASKED)
    stream.repair()
    stream.append(ToolCallRequest(id="a", name="t"))
    stream.start_turn(ChatRequest(content="q2"))
    assert stream.repair()
    assert [e.type for e in stream.entries][2:4] == ["tool_call_request", "tool_call_response"]


def test_loading_repairs_nothing() -> None:
    stream = new_stream(START, ASKED, called(), inquiry())
    assert [entry.id for entry in stream.unanswered()] == ["a"]
    assert open_inquiries(stream) == ["a.q.1"]
    assert len(stream) == 4


def test_what_a_repair_adds_has_an_id_and_names_its_request() -> None:
    asked = {"event_id": "asked", **ASKED}
    stream = new_stream(START, asked, called(), START, {"event_id": "more", **ASKED})
    assert stream.repair()
    assert stream.raw[3] == {"event_id": "id-1", "request_id": "asked", **MENDED}
    assert list(stream.raw[3])[:2] == ["event_id", "request_id"]
    assert "request_id" not in stream.raw[2]  # what was there is not given what it never had
    headless = new_stream(SAID)
    assert headless.repair()
    assert list(headless.raw[0]) == ["event_id", "timestamp", "type"]


def test_a_repair_needs_only_what_came_since_the_last() -> None:
    stream = new_stream(START, ASKED, SAID)
    assert not stream.repair()
    raw_list = stream.raw
    stream.append(ToolCallRequest(id="a", name="t"))
    stream.append(ToolCallResponse(id="a", content="", is_error=False))
    assert not stream.repair()
    assert stream.raw is raw_list
