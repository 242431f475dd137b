"""Repair of a record: the changes that it makes, and the records that it leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from tests.kit.kinds import is_kind
from tests.kit.record_view import RecordView
from tests.kit.records import new_event
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
    new_stream,
    raw,
    result,
    without_ids,
)
from tests.support.record_strategies import records

EPOCH_TIMESTAMP = "1970-01-01 00:00:00.0"
INTERRUPTED_CALL = "Tool call was interrupted."


REPAIRED = {
    "timestamp": T,
    "type": "tool_call_response",
    "id": "a",
    "content": INTERRUPTED_CALL,
    "is_error": True,
}


Records = list[dict[str, Any]]
STEPS: dict[str, tuple[Records, Records]] = {
    "1 before the first request": ([SAID, START, ASKED], [START, ASKED]),
    "2 loose result": ([START, ASKED, result()], [START, ASKED]),
    "3 open call": ([START, ASKED, called(), SAID], [START, ASKED, called(), REPAIRED, SAID]),
    "4 loose closing": ([START, ASKED, closed()], [START, ASKED]),
    "5 open inquiry": ([START, ASKED, inquiry()], [START, ASKED]),
    "6 turn without anything": ([START, ASKED, START], [START, ASKED]),
    "6 several of them": ([START, CHANGED, START], [CHANGED]),
    "7 several starts": ([START, START, ASKED], [START, ASKED]),
    "7 no start": ([ASKED], [raw("turn_start"), ASKED]),
    "7 no request at all": ([SAID], [{**raw("turn_start"), "timestamp": EPOCH_TIMESTAMP}, SAID]),
    "ids pair inside their turn": (
        [START, ASKED, called(), START, ASKED, result()],
        [START, ASKED, called(), REPAIRED, START, ASKED],
    ),
    "the n-th answers the n-th": (
        [START, ASKED, called(), called(), result()],
        [START, ASKED, called(), called(), result(), REPAIRED],
    ),
    "3 open call beside one that is answered": (
        [START, ASKED, called(), called("b"), result("b"), SAID],
        [START, ASKED, called(), called("b"), REPAIRED, result("b"), SAID],
    ),
    "3 open call after one that is answered": (
        [START, ASKED, called("b"), called(), result("b")],
        [START, ASKED, called("b"), called(), result("b"), REPAIRED],
    ),
    "global entries stay": (
        [STRANGE, START, CHANGED, START, ASKED, inquiry(), CHANGED, START, STRANGE],
        [STRANGE, CHANGED, START, ASKED, CHANGED, STRANGE],
    ),
}


def test_each_step_of_repair(subtests: pytest.Subtests) -> None:
    for name, (before, after) in STEPS.items():
        with subtests.test(name):
            stream = new_stream(*before)
            assert stream.repair()
            assert [without_ids(entry) for entry in stream.raw] == after
            assert [entry.type for entry in stream.entries] == [
                new_stream(r).entries[0].type for r in after
            ]
            assert not stream.repair()


def test_repair_leaves_a_well_formed_record_alone() -> None:
    for healthy in (
        [],
        [CHANGED],
        [START, ASKED, called(), inquiry(), closed(), result(), SAID, CHANGED],
        [START, ASKED, called(), called(), result(), result(), START, ASKED, SAID],
    ):
        stream = new_stream(*healthy)
        before = list(stream.raw)
        assert not stream.repair()
        assert stream.raw == before


@pytest.mark.req("HB-17")
@given(records)
def test_repair_makes_any_record_well_formed_and_is_idempotent(
    entries: list[dict[str, Any]],
) -> None:
    stored = json.dumps(entries)
    stream = new_stream(*entries)
    ids = [stream.event_id(i) for i in range(len(stream))]
    before = dict(zip(map(id, stream.raw), ids, strict=True))

    kept = list_global_entries(stream)
    stream.repair()
    repaired = list(stream.raw)
    assert list_global_entries(stream) == kept
    assert json.dumps(entries) == stored
    for index, entry in enumerate(stream.raw):  # what stays is the same, and so is its id
        assert stream.event_id(index) == before.get(id(entry), entry.get("event_id"))
    assert [entry for entry in stream.entries if is_kind(entry, "config_delta")] == stream.deltas
    for turn in stream.turns():
        assert is_well_formed(turn.entries)
    again = new_stream(*repaired)
    assert not again.repair()
    assert again.raw == repaired
    stream.start_turn(new_event("chat_request", content="more"))
    assert not stream.repair()


def list_global_entries(stream: Any) -> list[Any]:
    """Return the stored entries that belong to no turn."""
    in_turns = {event.position for event in stream.events()}
    return [entry for index, entry in enumerate(stream.raw) if index not in in_turns]


def is_well_formed(entries: tuple[Any, ...]) -> bool:
    """Return True if each request has a response, and no response precedes its request."""
    open_ids: dict[tuple[str, str], int] = {}
    key: tuple[str, str]
    for entry in entries:
        match entry.type:
            case "tool_call_request" | "inquiry_request":
                key = (entry.type, entry.id)
                open_ids[key] = open_ids.get(key, 0) + 1
            case "tool_call_response" | "inquiry_response":
                key = (entry.type.replace("response", "request"), entry.id)
                open_ids[key] = open_ids.get(key, 0) - 1
                if open_ids[key] < 0:
                    return False
    return not any(open_ids.values())


def test_open_call_of_an_earlier_turn_is_repaired() -> None:
    stream = new_stream(START, ASKED)
    stream.repair()
    stream.append(new_event("tool_call_request", id="a", name="t"))
    stream.start_turn(new_event("chat_request", content="q2"))
    assert stream.repair()
    assert [e.type for e in stream.entries][2:4] == ["tool_call_request", "tool_call_response"]


def test_loading_does_not_repair() -> None:
    stream = new_stream(START, ASKED, called(), inquiry())
    assert [entry.id for entry in stream.list_open_tool_calls()] == ["a"]
    assert RecordView(stream).open_inquiries() == ["a.q.1"]
    assert len(stream) == 4


def test_added_response_has_an_id_and_a_link() -> None:
    asked = {"event_id": "asked", **ASKED}
    stream = new_stream(START, asked, called(), START, {"event_id": "more", **ASKED})
    assert stream.repair()
    assert stream.raw[3] == {"event_id": "id-1", "request_id": "asked", **REPAIRED}
    assert list(stream.raw[3])[:2] == ["event_id", "request_id"]
    assert "request_id" not in stream.raw[2]  # what was there is not given what it never had
    headless = new_stream(SAID)
    assert headless.repair()
    assert list(headless.raw[0]) == ["event_id", "timestamp", "type"]


def test_repair_of_a_checked_record_reads_only_new_entries() -> None:
    stream = new_stream(START, ASKED, SAID)
    assert not stream.repair()
    raw_list = stream.raw
    stream.append(new_event("tool_call_request", id="a", name="t"))
    stream.append(new_event("tool_call_response", id="a", content="", is_error=False))
    assert not stream.repair()
    assert stream.raw is raw_list
