"""Ids of entries, and links of entries to the request that they answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given

from jp_nb.record.stream import ConversationStream
from tests.kit.record_view import RecordView
from tests.kit.records import new_event, parse_event
from tests.support.entries import (
    ASKED,
    CHANGED,
    SAID,
    START,
    STRANGE,
    FakeClock,
    called,
    new_stream,
    result,
)
from tests.support.record_strategies import records


def ids(stream: ConversationStream) -> list[str]:
    return [stream.event_id(index) for index in range(len(stream))]


def test_id_is_seven_random_lowercase_letters_and_digits() -> None:
    stream = ConversationStream({"id": "x"}, clock=FakeClock(), raw=[START] * 1000)
    drawn = {*ids(stream)}
    assert len(drawn) == 1000
    assert all(re.fullmatch("[a-z0-9]{7}", one) for one in drawn)


QUESTION = {"text": "?", "answer_type": {"type": "boolean"}}
TOOL = {"source": "tool", "name": "t"}
ANSWERS = [
    new_event("chat_response", message="a"),
    new_event("tool_call_request", id="a", name="t"),
    new_event("inquiry_request", id="a.q.1", source=TOOL, question=QUESTION),
    new_event("inquiry_response", id="a.q.1", outcome="redacted"),
    new_event("tool_call_response", id="a", content="", is_error=False),
]


def test_appended_entry_has_an_id_and_links_to_the_newest_request() -> None:
    stream = new_stream()
    stream.start_turn(new_event("chat_request", content="q"))
    stream.append(*ANSWERS)
    stream.append(
        new_event("config_delta", delta={}),
        new_event("chat_request", content="and?"),
        new_event("chat_response", message="b"),
    )
    assert [raw["event_id"] for raw in stream.raw] == ids(stream)
    linked = ["id-2"] * 5 + [None, None, "id-9"]
    assert [raw.get("request_id") for raw in stream.raw] == [None, None, *linked]
    assert list(stream.raw[2]) == ["event_id", "request_id", "timestamp", "type", "message"]
    assert list(stream.raw[7]) == ["event_id", "type", "timestamp", "delta"]
    assert [parse_event(raw) for raw in stream.raw] == stream.entries


def test_ids_of_the_caller_are_replaced() -> None:
    brought = {"event_id": "mine", "request_id": "other"}
    stream = new_stream(START, {"event_id": "asked", **ASKED})
    stream.append(new_event("chat_response", message="a", **brought))
    assert stream.raw[2]["event_id"] == stream.event_id(2) == "id-1"
    assert stream.raw[2]["request_id"] == "asked"
    stream = new_stream(START, {"event_id": "asked", **ASKED}, START)
    stream.append(new_event("chat_response", message="a"))  # no request in its turn
    assert "request_id" not in stream.raw[3]


def test_request_without_a_unique_stored_id_is_not_linked(subtests: pytest.Subtests) -> None:
    rows: list[list[dict[str, Any]]] = [
        [START, ASKED],
        [START, {"event_id": "", **ASKED}],
        [{"event_id": "x", **START}, {"event_id": "x", **ASKED}],
        [START, {"event_id": "x", **ASKED}, {"event_id": "x", **SAID}],
    ]
    for stored in rows:
        with subtests.test(stored=stored):
            stream = new_stream(*stored)
            assert stream.event_id(1)
            stream.append(new_event("chat_response", message="a"))
            assert "request_id" not in stream.raw[-1]
            assert new_stream(*stream.raw).find_unresolved() == []


def test_stored_ids_are_kept_and_missing_ones_exist_in_memory_only() -> None:
    stored = [
        {"event_id": "Any text!", **START},
        ASKED,
        {"event_id": "", **SAID},
        {"event_id": 5, **SAID},
        {"event_id": "h", **STRANGE},
        {"event_id": "h", **CHANGED},
    ]
    before = json.dumps(stored)
    stream = new_stream(*stored)
    assert ids(stream) == ["Any text!", "id-1", "id-2", "id-3", "h", "id-4"]
    assert ids(stream) == ["Any text!", "id-1", "id-2", "id-3", "h", "id-4"]
    assert json.dumps(stream.raw) == before


def test_ids_are_drawn_on_demand() -> None:
    def draw() -> str:
        raise AssertionError

    stream = ConversationStream(
        {"id": "x"}, clock=FakeClock(), raw=[START, ASKED, SAID], new_id=draw
    )
    assert not stream.repair()
    assert stream.find_unresolved() == []
    assert len(RecordView(stream).sent()) == 2


def test_used_id_is_drawn_again() -> None:
    drawn = iter(["one", "one", "two", "one", "three"])
    stream = ConversationStream(
        {"id": "x"},
        clock=FakeClock(),
        raw=[{"event_id": "two", **START}],
        new_id=lambda: next(drawn),
    )
    stream.append(new_event("chat_response", message="a"), new_event("chat_response", message="b"))
    assert ids(stream) == ["two", "one", "three"]


@given(records)
def test_no_two_entries_have_the_same_id(entries: list[dict[str, Any]]) -> None:
    stream = new_stream(*entries)
    stream.append(new_event("chat_response", message="a"))
    stream.repair()
    stream.start_turn(new_event("chat_request", content="q"))
    found = ids(stream)
    assert len({*found}) == len(found) == len(stream)
    again = new_stream(*stream.raw)
    for index, entry in enumerate(again.raw):
        stored = entry.get("event_id")
        if stored in found and found.index(stored) == index:
            assert again.event_id(index) == stored


# --- links -----------------------------------------------------------------------------------

LINKED_ASKED = {"event_id": "q", **ASKED}


def answer(target: Any, entry: dict[str, Any] = SAID) -> dict[str, Any]:
    return {"request_id": target, **entry}


def test_link_resolves_to_the_only_request_with_its_id(subtests: pytest.Subtests) -> None:
    rows: list[tuple[list[dict[str, Any]], list[int]]] = [
        ([START, LINKED_ASKED, answer("q")], []),
        ([START, LINKED_ASKED, answer("gone")], [2]),
        ([{"event_id": "s", **START}, LINKED_ASKED, answer("s")], [2]),
        ([START, LINKED_ASKED, answer("q"), START, LINKED_ASKED, answer("q")], [2, 5]),
        ([START, LINKED_ASKED, answer("h"), {"event_id": "h", **STRANGE}], [2]),
        ([START, LINKED_ASKED, answer(None), answer(""), answer(5)], []),
        ([answer("gone", START), answer("gone", ASKED), answer("gone", STRANGE)], []),
    ]
    for entries, unresolved in rows:
        with subtests.test(entries=entries):
            stream = new_stream(*entries)
            assert stream.find_unresolved() == unresolved
            assert len(RecordView(stream).notices()) == len(unresolved)


REPEATED: list[list[dict[str, Any]]] = [
    [START, LINKED_ASKED, answer("q"), START, LINKED_ASKED, answer("q")],
    [START, LINKED_ASKED, answer("q"), {"event_id": "q", **STRANGE}],
    [{"event_id": "q", **START}, LINKED_ASKED, called("a"), answer("q", result("a"))],
    [{"event_id": "q", **CHANGED}, START, LINKED_ASKED, answer("q"), SAID],
]


@pytest.mark.parametrize("entries", REPEATED)
def test_link_to_a_repeated_id_stays_unresolved_in_an_earlier_state(
    entries: list[dict[str, Any]],
) -> None:
    stream = new_stream(*entries)
    assert stream.find_unresolved()
    for count in range(len(stream) + 1):
        earlier = stream.until(count)
        assert earlier.find_unresolved() == [
            index for index in stream.find_unresolved() if index < count
        ]
        assert earlier.until(count).find_unresolved() == earlier.find_unresolved()


def test_entries_with_an_unresolved_link_and_their_call_halves_are_not_sent() -> None:
    stream = new_stream(
        START, LINKED_ASKED,
        called("a"), answer("gone", result("a")),
        answer("gone", called("b")), called("b"), result("b"), result("b"),
        answer("gone"), SAID,
        START, {"event_id": "r", **ASKED}, called("a"), result("a"),
    )  # fmt: skip
    before = json.dumps(stream.raw)
    seen = [(entry["type"], entry.get("id", "")) for entry in RecordView(stream).sent()]
    assert seen == [
        ("chat_request", ""),
        ("tool_call_request", "b"),
        ("tool_call_response", "b"),
        ("chat_response", ""),
        ("chat_request", ""),
        ("tool_call_request", "a"),
        ("tool_call_response", "a"),
    ]
    assert json.dumps(stream.raw) == before
    assert RecordView(stream).notices()[0].startswith("events[3].request_id: ")
