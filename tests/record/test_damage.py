"""Records that are damaged: read as far as they can be, never lost, never changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.errors import StorageError
from jp_nb.record.document import Document, NewerVersionError
from jp_nb.record.events import ChatRequest, ChatResponse, ConfigDelta, Damaged
from jp_nb.record.notices import notices
from jp_nb.record.stream import Damage
from jp_nb.record.thread import thread_of
from tests.support.entries import ASKED, SAID, START, raw
from tests.support.fakes import FakeClock
from tests.support.record_strategies import QUICK, damaged, json_values, records


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


def test_a_damaged_entry_fails_a_load_that_names_it_and_changes_nothing() -> None:
    value = stored(START, ASKED, BROKEN)
    before = json.dumps(value)
    with pytest.raises(StorageError, match=r"events\[2\]\.name: Field required") as caught:
        Document.load(value, clock=FakeClock())
    assert caught.value.place == "events[2].name"
    assert json.dumps(value) == before


def test_a_tolerant_load_keeps_it_as_it_is() -> None:
    document = Document.load(stored(*ENTRIES), clock=FakeClock(), tolerant=True)
    stream = document.conversation
    assert stream.damage == [
        Damage(2, "events[2]", "expected an object, found str"),
        Damage(3, "events[3].name", "Field required"),
        Damage(5, "events[5]", "expected an object, found NoneType"),
    ]
    assert notices(stream) == [f"{damage.place}: {damage.message}" for damage in stream.damage]
    assert stream.entries[3] == Damaged(reason="events[3].name: Field required")
    assert json.dumps(document.to_json()) == json.dumps(stored(*ENTRIES))
    assert [item.entry.type for item in thread_of(stream)] == ["chat_request", "chat_response"]
    assert [turn.number for turn in stream.turns()] == [0]
    assert len({stream.event_id(i) for i in range(len(stream))}) == len(stream)


def test_what_is_damaged_can_be_read_and_not_changed() -> None:
    stream = Document.load(stored(*ENTRIES), clock=FakeClock(), tolerant=True).conversation
    for change in (
        lambda: stream.append(ConfigDelta(delta={})),
        lambda: stream.start_turn(ChatRequest(content="q")),
        stream.repair,
        lambda: stream.rewrite([]),
    ):
        with pytest.raises(StorageError, match=r"events\[2\]: .*can be read, not changed"):
            change()
    assert stream.raw == ENTRIES


def test_a_tolerant_load_of_a_sound_record_is_no_other() -> None:
    document = Document.load(stored(START, ASKED), clock=FakeClock(), tolerant=True)
    assert document.conversation.damage == []
    document.conversation.append(ChatResponse(message="a"))


@given(st.lists(damaged, max_size=3), records, st.randoms())
@QUICK
def test_damage_anywhere_is_kept_where_it_is(
    bad: list[Any], entries: list[dict[str, Any]], random: Any
) -> None:
    events = [*bad, *entries]
    random.shuffle(events)
    text = json.dumps(stored(*events))
    document = Document.load(json.loads(text), clock=FakeClock(), tolerant=True)
    assert json.dumps(document.to_json()) == text
    found = [damage.index for damage in document.conversation.damage]
    assert found == [i for i, entry in enumerate(events) if any(entry is b for b in bad)]
    thread_of(document.conversation)
    if bad:
        with pytest.raises(StorageError) as caught:
            Document.load(json.loads(text), clock=FakeClock())
        assert caught.value.place == document.conversation.damage[0].place


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
@QUICK
def test_any_json_is_read_or_refused_with_its_place(value: Any, tolerant: bool) -> None:
    before = json.dumps(value)
    try:
        document = Document.load(value, clock=FakeClock(), tolerant=tolerant)
    except StorageError as exc:
        refused = exc.place
        assert refused
    else:
        defaults: dict[str, Any] = {"version": 1, "base_config": {}, "events": [], "others": []}
        assert {**defaults, **document.to_json()} == {**defaults, **value}
    assert json.dumps(value) == before


@pytest.mark.parametrize("version", [2, 0, "1", True, None, [1]])
def test_another_version_is_not_read(version: Any) -> None:
    with pytest.raises(NewerVersionError):
        Document.load(stored(version=version), clock=FakeClock(), tolerant=True)


def test_what_is_nested_too_deeply_is_damage() -> None:
    deep: Any = "x"
    for _ in range(600):
        deep = [deep]
    events = [START, raw("chat_request", content="q", metadata={"x": deep})]
    with pytest.raises(StorageError, match=r"events\[1\]") as caught:
        Document.load(stored(*events), clock=FakeClock())
    assert len(str(caught.value)) < 200
    document = Document.load(stored(*events), clock=FakeClock(), tolerant=True)
    assert document.conversation.raw == events
