"""Storing, appending, turns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from jp_nb.errors import StorageError
from jp_nb.record.document import Document, NewerVersionError
from jp_nb.record.events import (
    CONVERSATION_KINDS,
    ChatRequest,
    ChatResponse,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
)
from jp_nb.record.stream import ConversationStream
from tests.support.entries import (
    ASKED,
    CHANGED,
    SAID,
    START,
    STRANGE,
    called,
    closed,
    inquiry,
    raw,
    result,
)
from tests.support.fakes import FakeClock, new_stream
from tests.support.record_strategies import QUICK, records

# --- stored and loaded -----------------------------------------------------------------------


@given(records)
@QUICK
def test_whatever_is_stored_is_stored_again_byte_for_byte(entries: list[dict[str, Any]]) -> None:
    stored = {
        "version": 1,
        "conversation": {"id": "jp-c1", "made": "live", "x": {"y": 1}},
        "base_config": {"who": ["knows"]},
        "events": entries,
        "signature": "s",
        "later": [1],
        "others": [{"conversation": {"id": "jp-c0"}}, 5],
    }
    text = json.dumps(stored, ensure_ascii=False)
    document = Document.load(json.loads(text), clock=FakeClock())
    assert json.dumps(document.to_json(), ensure_ascii=False) == text
    document.conversation.start_turn(ChatRequest(content="more"))
    again = json.loads(json.dumps(document.to_json()))
    assert again["events"][: len(entries)] == json.loads(text)["events"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"events": {}}, "jp.events"),
        ({"base_config": []}, "jp.base_config"),
        ({"conversation": {}}, "jp.conversation.id"),
        ({"events": [START, raw("chat_request")]}, r"events\[1\].content"),
    ],
)
def test_damage_names_its_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(StorageError, match=place):
        Document.load({"conversation": {"id": "x"}, **change}, clock=FakeClock())


def test_a_newer_version_is_left_alone() -> None:
    with pytest.raises(NewerVersionError, match="update jp_nb"):
        Document.load({"version": 2, "conversation": {"id": "x"}}, clock=FakeClock())


def test_earlier_conversations_are_kept_and_their_ids_taken() -> None:
    document = Document.new(clock=FakeClock(), made="live")
    first = document.conversation.id
    document.shelve()
    assert document.others == []  # an empty one leaves nothing
    document.conversation.start_turn(ChatRequest(content="q"))
    document.shelve()
    [other] = document.others
    assert isinstance(other, dict)
    assert set(other) == {"conversation", "base_config", "events"}
    taken = document.ids()
    assert taken == {first}
    clock = FakeClock()
    clock.now = FakeClock().now
    assert ConversationStream.new(clock=clock, made="live", not_ids=taken).id not in taken


# --- appending -------------------------------------------------------------------------------


def test_a_turn_opens_with_its_request_and_everything_is_stamped() -> None:
    stream = new_stream()
    changes: list[int] = []
    stream.on_change = lambda: changes.append(len(stream))
    stream.start_turn(ChatRequest(content="q"))
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


def test_a_turn_start_that_is_appended_is_left_out() -> None:
    stream = new_stream(START, ASKED)
    with pytest.warns(UserWarning, match="start_turn alone"):
        stream.append(TurnStart(), ChatResponse(message="a"), TurnStart())
    assert [entry.type for entry in stream.entries[2:]] == ["chat_response"]


def test_what_is_stored_shares_nothing_with_what_was_appended() -> None:
    arguments: dict[str, Any] = {"path": ["a"]}
    stream = new_stream(START, ASKED)
    entry = ToolCallRequest(id="a", name="t", arguments=arguments)
    stream.append(entry)
    entry.arguments["path"] = 1
    arguments["path"].append("b")
    assert stream.raw[2]["arguments"] == {"path": ["a"]}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([result("x")], "ToolCallResponse references unknown request ID `x`"),
        ([result(), result()], "Duplicate ToolCallResponse for ID `a`"),
        ([SAID, closed("x")], "InquiryResponse references unknown request ID `x`"),
        ([inquiry(), closed(), closed()], "Duplicate InquiryResponse for ID `a.q.1`"),
    ],
)
def test_a_response_that_answers_nothing_is_refused_with_all_that_came_with_it(
    entries: list[dict[str, Any]], message: str
) -> None:
    stream = new_stream(START, ASKED, called())
    before = list(stream.raw)
    views = [new_stream(entry).entries[0] for entry in entries]
    with pytest.raises(StorageError) as caught:
        stream.append(*views)
    assert str(caught.value) == message
    assert stream.raw == before


def test_ids_pair_inside_their_turn_and_by_count() -> None:
    stream = new_stream(START, ASKED, called(), result(), called())
    stream.append(ToolCallResponse(id="a", content="2", is_error=False))
    stream.start_turn(ChatRequest(content="q2"))
    with pytest.raises(StorageError):
        stream.append(ToolCallResponse(id="a", content="3", is_error=False))
    both = [ToolCallRequest(id="a", name="t"), ToolCallResponse(id="a", content="", is_error=True)]
    stream.append(*both)
    assert stream.unanswered() == []


@pytest.mark.parametrize("before", [[], [CHANGED, STRANGE]])
def test_an_entry_without_a_turn_opens_one_and_a_refused_one_does_not(
    before: list[dict[str, Any]],
) -> None:
    stream = new_stream(*before)
    with pytest.raises(StorageError):
        stream.append(ToolCallResponse(id="x", content="", is_error=False))
    assert len(stream) == len(before)
    stream.append(ChatResponse(message="a"))
    assert [e.type for e in stream.entries[len(before) :]] == ["turn_start", "chat_response"]
    stream.append()
    assert len(stream) == len(before) + 2


# --- turns -----------------------------------------------------------------------------------


@given(records)
@QUICK
def test_the_last_turn_is_the_last_of_the_turns(entries: list[dict[str, Any]]) -> None:
    stream = new_stream(*entries)
    turns = list(stream.turns())
    assert [turn.number for turn in turns] == list(range(stream.turn_count))
    last = stream.last_turn()
    assert (last.entries if last else ()) == (turns[-1].entries if turns else ())
    assert (last.number if last else None) == (turns[-1].number if turns else None)


def test_a_change_between_turns_was_made_for_the_later_one() -> None:
    stream = new_stream(START, ASKED, SAID, CHANGED, STRANGE, CHANGED, START, ASKED, CHANGED)
    first, second = stream.turns()
    kinds = [entry.type for entry in second.entries]
    assert len(first.entries) == 3
    assert kinds == ["config_delta", "config_delta", "turn_start", "chat_request"]
    assert stream.last_turn() == second


def test_events_come_with_their_turn_and_their_place() -> None:
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
@QUICK
def test_events_and_turns_count_alike(entries: list[dict[str, Any]]) -> None:
    stream = new_stream(*entries)
    numbered = [(e.turn, e.entry) for e in stream.events()]
    of_turns = [
        (turn.number, entry)
        for turn in stream.turns()
        for entry in turn.entries
        if entry.type in CONVERSATION_KINDS
    ]
    assert numbered == of_turns
    assert stream.turn_count == len({turn for turn, _ in numbered})
    assert stream.last_event() == (numbered[-1][1] if numbered else None)
    asked = [(e.turn, e.position) for e in stream.events() if isinstance(e.entry, ChatRequest)]
    for turn in range(-1, stream.turn_count + 1):
        assert stream.opened_at(turn) == next((at for of, at in asked if of == turn), None)
    assert stream.requests == [e for e in stream.entries if isinstance(e, ChatRequest)]


def test_the_schema_of_a_turn_is_that_of_its_first_request() -> None:
    with_schema = raw("chat_request", content="q", schema={"type": "object"})
    stream = new_stream(START, with_schema, ASKED, SAID, CHANGED)
    assert [turn.schema for turn in stream.turns()] == [{"type": "object"}]
    stream.start_turn(ChatRequest(content="q"))
    stream.append(ChatRequest(content="hurry", schema={"type": "null"}))
    assert [turn.schema for turn in stream.turns()] == [{"type": "object"}, None]


def test_after_an_entry_was_taken_away_the_turn_is_as_it_was_before_it() -> None:
    stream = new_stream(START, ASKED, called(), result())
    stream.rewrite(stream.items()[:-1])
    assert [call.id for call in stream.unanswered()] == ["a"]
    stream.append(ToolCallResponse(id="a", content="again", is_error=False))
    assert not stream.repair()
