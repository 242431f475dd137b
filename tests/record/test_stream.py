"""Appending, pairing, turns, repair."""

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
    ConfigDelta,
    Entry,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
)
from jp_nb.record.stream import EPOCH, INTERRUPTED, ConversationStream
from jp_nb.record.thread import thread_of
from tests.fakes import FakeClock, new_stream
from tests.record.strategies import QUICK, records

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
    assert [entry["type"] for entry in stream.raw] == ["turn_start", "chat_request"]
    assert stream.raw[0]["timestamp"] == stream.raw[1]["timestamp"] == "2026-03-18 13:19:07.0"
    assert changes == [2]
    with pytest.raises(StorageError):
        stream.append(TurnStart())


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


# --- repair ----------------------------------------------------------------------------------

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
            [START, ASKED, called(), called(), MENDED, result()],
            id="the n-th answers the n-th",
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
    assert stream.raw == after
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


@given(records)
@QUICK
def test_repair_makes_any_record_well_formed_once_and_for_all(
    entries: list[dict[str, Any]],
) -> None:
    stream = new_stream(*entries)

    def global_ones(stream: ConversationStream) -> list[Any]:
        pairs = zip(stream.raw, stream.entries, strict=True)
        return [r for r, entry in pairs if entry.type not in CONVERSATION_KINDS]

    kept = global_ones(stream)
    stream.repair()
    mended = list(stream.raw)
    assert global_ones(stream) == kept
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
    assert [entry.id for entry in stream.open_inquiries()] == ["a.q.1"]
    assert len(stream) == 4


# --- the provider's view ---------------------------------------------------------------------


def test_a_provider_sees_what_is_listed_with_the_provider_of_its_time() -> None:
    to_b = raw("config_delta", delta={"assistant": {"model": {"id": {"provider": "b"}}}})
    asked = raw("chat_request", content="q", author="Ada")
    stream = new_stream(
        START, asked, STRANGE, called(), inquiry(), closed(), result(), to_b, START, ASKED, SAID,
        base_config={"assistant": {"model": {"id": "a/model"}}},
    )  # fmt: skip
    thread = thread_of(stream)
    assert [(item.entry.type, item.provider) for item in thread] == [
        ("chat_request", "a"),
        ("tool_call_request", "a"),
        ("tool_call_response", "a"),
        ("chat_request", "b"),
        ("chat_response", "b"),
    ]
    assert [item.entry.type for item in thread.since(3)] == ["chat_request", "chat_response"]
