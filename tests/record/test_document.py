"""Load and store the `jp` object: byte for byte, and as far as damage allows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from jp_nb.record.stream import ConversationStream
from tests.kit.notebook_record import NotebookRecord
from tests.kit.record_view import RecordView
from tests.kit.records import new_event
from tests.support.entries import ASKED, SAID, START, FakeClock, raw
from tests.support.record_strategies import damaged, json_values, records


def stored(*events: Any, **more: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "conversation": {"id": "jp-c1", "made": "live"},
        "base_config": {},
        "events": list(events),
        **more,
    }


BROKEN = raw("tool_call_request", id="a")
ENTRIES = [START, ASKED, "text", BROKEN, SAID, None]


def test_strict_load_names_the_damaged_entry() -> None:
    value = stored(START, ASKED, BROKEN)
    before = json.dumps(value)
    with pytest.raises(jp.StorageError, match=r"events\[2\]\.name: Field required") as caught:
        NotebookRecord(value)
    assert caught.value.place == "events[2].name"
    assert json.dumps(value) == before


def test_tolerant_load_keeps_damaged_entries_as_they_are() -> None:
    document = NotebookRecord(stored(*ENTRIES), tolerant=True)
    stream = document.stream
    assert document.damage == [
        (2, "events[2]", "expected an object, found str"),
        (3, "events[3].name", "Field required"),
        (5, "events[5]", "expected an object, found NoneType"),
    ]
    notices = [f"{place}: {message}" for _, place, message in document.damage]
    assert RecordView(stream).notices() == notices
    assert document.text == json.dumps(stored(*ENTRIES))
    assert RecordView(stream).sent_kinds() == ["chat_request", "chat_response"]
    assert [turn.number for turn in stream.turns()] == [0]
    assert len({stream.event_id(i) for i in range(len(stream))}) == len(stream)


def test_damaged_record_is_read_only() -> None:
    stream = NotebookRecord(stored(*ENTRIES), tolerant=True).stream
    for change in (
        lambda: stream.append(new_event("config_delta", delta={})),
        lambda: stream.start_turn(new_event("chat_request", content="q")),
        stream.repair,
        lambda: stream.rewrite([]),
    ):
        with pytest.raises(jp.StorageError, match=r"events\[2\]: .*can be read but not changed"):
            change()
    assert stream.raw == ENTRIES


def test_tolerant_load_of_a_valid_record_allows_changes() -> None:
    document = NotebookRecord(stored(START, ASKED), tolerant=True)
    assert document.stream.damage == []
    document.stream.append(new_event("chat_response", message="a"))


@given(st.lists(damaged, max_size=3), records, st.randoms())
def test_damage_at_any_place_is_kept_there(
    bad: list[Any], entries: list[dict[str, Any]], random: Any
) -> None:
    events = [*bad, *entries]
    random.shuffle(events)
    text = json.dumps(stored(*events), ensure_ascii=False)
    document = NotebookRecord(json.loads(text), tolerant=True)
    assert document.text == text
    found = [index for index, _, _ in document.damage]
    assert found == [i for i, entry in enumerate(events) if any(entry is b for b in bad)]
    RecordView(document.stream).sent()
    if bad:
        with pytest.raises(jp.StorageError) as caught:
            NotebookRecord(json.loads(text))
        assert caught.value.place == document.damage[0][1]


anything = st.recursive(
    json_values | damaged | records,
    lambda below: st.fixed_dictionaries(
        {},
        optional={
            "version": st.just(1) | below,
            "conversation": st.just({"id": "jp-c1"}) | below,
            "base_config": below,
            "events": below,
            "others": below,
            "x": below,
        },
    ),
    max_leaves=8,
)


@given(anything, st.booleans())
def test_any_json_is_loaded_or_rejected_with_a_place(value: Any, tolerant: bool) -> None:
    before = json.dumps(value)
    try:
        document = NotebookRecord(value, tolerant=tolerant)
    except jp.StorageError as exc:
        refused = exc.place
        assert refused
    else:
        defaults: dict[str, Any] = {"version": 1, "base_config": {}, "events": [], "others": []}
        assert {**defaults, **document.stored} == {**defaults, **value}
    assert json.dumps(value) == before


def test_other_versions_are_not_loaded() -> None:
    versions: list[Any] = [2, 0, "1", True, None]
    for version in versions:
        with pytest.raises(jp.StorageError, match=r"update jp_nb\. The record is unchanged"):
            NotebookRecord(stored(version=version), tolerant=True)


def test_entry_nested_too_deeply_is_damage() -> None:
    deep: Any = "x"
    for _ in range(600):
        deep = [deep]
    events = [START, raw("chat_request", content="q", metadata={"x": deep})]
    with pytest.raises(jp.StorageError, match=r"events\[1\]") as caught:
        NotebookRecord(stored(*events))
    assert len(str(caught.value)) < 200
    document = NotebookRecord(stored(*events), tolerant=True)
    assert document.stream.raw == events


@given(records)
def test_loaded_record_is_stored_byte_for_byte(entries: list[dict[str, Any]]) -> None:
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
    document = NotebookRecord(json.loads(text))
    assert document.text == text
    document.stream.start_turn(new_event("chat_request", content="more"))
    again = document.stored
    assert again["events"][: len(entries)] == json.loads(text)["events"]


def test_malformed_part_is_named() -> None:
    changes: list[tuple[dict[str, Any], str]] = [
        ({"events": {}}, "jp.events"),
        ({"base_config": []}, "jp.base_config"),
        ({"conversation": {}}, "jp.conversation.id"),
    ]
    for change, place in changes:
        with pytest.raises(jp.StorageError, match=place):
            NotebookRecord({"conversation": {"id": "x"}, **change})


def test_earlier_conversations_and_their_ids_are_kept() -> None:
    document = NotebookRecord(clock=FakeClock())
    first = document.stream.id
    document.archive()
    assert document.others == []  # an empty one leaves nothing
    document.stream.start_turn(new_event("chat_request", content="q"))
    document.archive()
    [other] = document.others
    assert isinstance(other, dict)
    assert set(other) == {"conversation", "base_config", "events"}
    taken = document.ids()
    assert taken == {first}
    assert NotebookRecord(clock=FakeClock()).ids() == taken
    made = ConversationStream.new(clock=FakeClock(), made="live", taken_ids=taken)
    assert made.id not in taken
