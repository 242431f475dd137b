"""Append entries to a conversation, and iterate its turns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

import jp_nb as jp
from tests.kit.kinds import is_kind
from tests.kit.records import new_event
from tests.support.entries import (
    ASKED,
    CHANGED,
    SAID,
    START,
    STRANGE,
    called,
    closed,
    inquiry,
    new_stream,
    raw,
    result,
)
from tests.support.record_strategies import records

# --- appending -------------------------------------------------------------------------------


def test_turn_opens_with_its_request_and_timestamps() -> None:
    stream = new_stream()
    changes: list[int] = []
    stream.on_change = lambda: changes.append(len(stream))
    stream.start_turn(new_event("chat_request", content="q"))
    assert stream.raw == [
        {"event_id": "id-1", "timestamp": "2026-03-18 13:19:07.0", "type": "turn_start"},
        {
            "event_id": "id-2",
            "timestamp": "2026-03-18 13:19:07.0",
            "type": "chat_request",
            "content": "q",
        },
    ]
    assert changes == [2]


def test_appended_turn_start_is_dropped_with_a_warning() -> None:
    stream = new_stream(START, ASKED)
    with pytest.warns(UserWarning, match="only start_turn"):
        stream.append(
            new_event("turn_start"),
            new_event("chat_response", message="a"),
            new_event("turn_start"),
        )
    assert [entry.type for entry in stream.entries[2:]] == ["chat_response"]


def test_stored_entry_shares_nothing_with_the_appended_one() -> None:
    arguments: dict[str, Any] = {"path": ["a"]}
    stream = new_stream(START, ASKED)
    entry = new_event("tool_call_request", id="a", name="t", arguments=arguments)
    stream.append(entry)
    entry.arguments["path"] = 1
    arguments["path"].append("b")
    assert stream.raw[2]["arguments"] == {"path": ["a"]}


def test_response_without_an_open_request_is_refused_with_its_whole_append(
    subtests: pytest.Subtests,
) -> None:
    rows: list[tuple[list[dict[str, Any]], str]] = [
        ([result("x")], "ToolCallResponse references unknown request ID `x`"),
        ([result(), result()], "Duplicate ToolCallResponse for ID `a`"),
        ([SAID, closed("x")], "InquiryResponse references unknown request ID `x`"),
        ([inquiry(), closed(), closed()], "Duplicate InquiryResponse for ID `a.q.1`"),
    ]
    for entries, message in rows:
        with subtests.test(message=message):
            stream = new_stream(START, ASKED, called())
            before = list(stream.raw)
            with pytest.raises(jp.StorageError) as caught:
                stream.append(*(new_stream(entry).entries[0] for entry in entries))
            assert str(caught.value) == message
            assert stream.raw == before


def test_ids_pair_within_their_turn_and_by_count() -> None:
    stream = new_stream(START, ASKED, called(), result(), called())
    stream.append(new_event("tool_call_response", id="a", content="2", is_error=False))
    stream.start_turn(new_event("chat_request", content="q2"))
    with pytest.raises(jp.StorageError):
        stream.append(new_event("tool_call_response", id="a", content="3", is_error=False))
    both = [
        new_event("tool_call_request", id="a", name="t"),
        new_event("tool_call_response", id="a", content="", is_error=True),
    ]
    stream.append(*both)
    assert stream.list_open_tool_calls() == []


def test_first_entry_opens_a_turn_unless_it_is_refused() -> None:
    for before in ([], [CHANGED, STRANGE]):
        stream = new_stream(*before)
        with pytest.raises(jp.StorageError):
            stream.append(new_event("tool_call_response", id="x", content="", is_error=False))
        assert len(stream) == len(before)
        stream.append(new_event("chat_response", message="a"))
        assert [e.type for e in stream.entries[len(before) :]] == ["turn_start", "chat_response"]
        stream.append()
        assert len(stream) == len(before) + 2


# --- turns -----------------------------------------------------------------------------------


@given(records)
def test_last_turn_is_the_last_of_all_turns(entries: list[dict[str, Any]]) -> None:
    stream = new_stream(*entries)
    turns = list(stream.turns())
    assert [turn.number for turn in turns] == list(range(stream.turn_count))
    last = stream.last_turn()
    assert (last.entries if last else ()) == (turns[-1].entries if turns else ())
    assert (last.number if last else None) == (turns[-1].number if turns else None)


def test_config_change_between_turns_belongs_to_the_later_turn() -> None:
    stream = new_stream(START, ASKED, SAID, CHANGED, STRANGE, CHANGED, START, ASKED, CHANGED)
    first, second = stream.turns()
    kinds = [entry.type for entry in second.entries]
    assert len(first.entries) == 3
    assert kinds == ["config_delta", "config_delta", "turn_start", "chat_request"]
    assert stream.last_turn() == second


def test_events_have_their_turn_and_position() -> None:
    stream = new_stream(CHANGED, SAID, STRANGE, START, ASKED, CHANGED, START, SAID)
    found = [(e.turn, e.position, e.entry.type) for e in stream.events()]
    assert found == [
        (0, 1, "chat_response"),
        (1, 3, "turn_start"),
        (1, 4, "chat_request"),
        (2, 6, "turn_start"),
        (2, 7, "chat_response"),
    ]


@given(records)
def test_events_and_turns_count_alike(entries: list[dict[str, Any]]) -> None:
    stream = new_stream(*entries)
    numbered = [(e.turn, e.entry) for e in stream.events()]
    of_turns = [
        (turn.number, entry)
        for turn in stream.turns()
        for entry in turn.entries
        if not is_kind(entry, "config_delta")
    ]
    assert numbered == of_turns
    assert stream.turn_count == len({turn for turn, _ in numbered})
    assert stream.last_event() == (numbered[-1][1] if numbered else None)
    asked = [(e.turn, e.position) for e in stream.events() if is_kind(e.entry, "chat_request")]
    for turn in range(-1, stream.turn_count + 1):
        assert stream.find_request_index(turn) == next((at for of, at in asked if of == turn), None)
    assert stream.requests == [e for e in stream.entries if is_kind(e, "chat_request")]


def test_schema_of_a_turn_is_that_of_its_first_request() -> None:
    with_schema = raw("chat_request", content="q", schema={"type": "object"})
    stream = new_stream(START, with_schema, ASKED, SAID, CHANGED)
    assert [turn.schema for turn in stream.turns()] == [{"type": "object"}]
    stream.start_turn(new_event("chat_request", content="q"))
    stream.append(new_event("chat_request", content="hurry", schema={"type": "null"}))
    assert [turn.schema for turn in stream.turns()] == [{"type": "object"}, None]


def test_rewrite_without_a_response_reopens_its_call() -> None:
    stream = new_stream(START, ASKED, called(), result())
    stream.rewrite(stream.list_items()[:-1])
    assert [call.id for call in stream.list_open_tool_calls()] == ["a"]
    stream.append(new_event("tool_call_response", id="a", content="again", is_error=False))
    assert not stream.repair()
