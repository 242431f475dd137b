"""The headless carrier: the record is read back from the form in which nbclient stores it."""

from __future__ import annotations

import copy
import json
from typing import Any

from pydantic import JsonValue

from jp_nb.notebook.page import pageless_stores
from jp_nb.notebook.page.pageless_stores import CarrierStore
from jp_nb.record import merge
from jp_nb.record.clock import utc_now
from jp_nb.record.document import Document
from jp_nb.record.merge import find_unreadable_carriers, lift_carrier, read_carrier
from jp_nb.record.stream import ConversationStream
from tests.kit.records import new_event
from tests.notebook.page.executor import Executor, begin, model, widgets


def stored(document: Document) -> JsonValue:
    return json.loads(json.dumps(document.to_json()))  # type: ignore[no-any-return]


def test_appended_entries_are_read_back() -> None:
    executor = Executor()
    document, store = begin(executor)
    for i in range(200):
        document.conversation.start_turn(new_event("chat_request", content=f"{i} " + "ä" * 1000))
        assert read_carrier(executor.metadata()) == stored(document)
    assert store.flush(0)
    assert store.location == "kept in this notebook"


def test_nothing_is_opened_before_there_is_something_to_keep() -> None:
    executor = Executor()
    begin(executor)
    assert executor.sizes == []


def test_append_to_a_long_conversation_sends_one_chunk() -> None:
    executor = Executor()
    document, _ = begin(executor)
    for i in range(2000):
        document.conversation.start_turn(new_event("chat_request", content=f"{i} " + "x" * 1000))
    assert max(executor.sizes) < 2 * pageless_stores.CARRIER_CHUNK_BYTES


def test_entries_that_a_busy_executor_missed_are_sent_again_when_the_cell_ends() -> None:
    executor = Executor()
    document, store = begin(executor)
    for i in range(2 * pageless_stores.BURST):
        executor.deaf = 100 < i < 150
        document.conversation.start_turn(new_event("chat_request", content=f"{i} " + "x" * 1000))
    assert read_carrier(executor.metadata()) is None
    store.flush_after_cell()
    assert read_carrier(executor.metadata()) == stored(document)


def test_last_entries_that_a_busy_executor_missed_are_sent_again() -> None:
    executor = Executor()
    document, store = begin(executor)
    for i in range(2 * pageless_stores.BURST):
        executor.deaf = i > 350
        document.conversation.start_turn(new_event("chat_request", content=f"{i} " + "x" * 1000))
    document.conversation.head["title"] = "Bread"
    store.changed()
    executor.deaf = False
    store.flush_after_cell()
    assert read_carrier(executor.metadata()) == stored(document)


def test_carrier_with_an_incomplete_chunk_is_damaged() -> None:
    executor = Executor()
    document, store = begin(executor)
    for i in range(40):
        document.conversation.start_turn(new_event("chat_request", content=f"{i} " + "x" * 1000))
    store.flush_after_cell()
    kept = executor.state["events.0"]
    assert isinstance(kept, list)
    executor.state["events.0"] = kept[:-1]
    assert len(find_unreadable_carriers(executor.metadata())) == 1
    assert not lift_carrier(executor.metadata())


def test_carrier_of_many_chunks_is_read() -> None:
    chunks: dict[str, Any] = {f"events.{i}": [{"type": "turn_start"}] for i in range(20_000)}
    head = {"version": 1, "conversation": {"id": "jp-c17953840000"}, "base_config": {}}
    state = {"jp": head, "length": 20_000, **chunks}
    assert find_unreadable_carriers({"widgets": widgets(mine=model(state))}) == []
    del state["events.5"]
    assert len(find_unreadable_carriers({"widgets": widgets(mine=model(state))})) == 1


def test_shorter_conversation_replaces_the_longer_one() -> None:
    executor = Executor()
    document, store = begin(executor)
    for _ in range(50):
        document.conversation.start_turn(new_event("chat_request", content="x" * 4000))
    document.archive_active()
    document.conversation = ConversationStream.new(
        clock=utc_now, made="headless", taken_ids=document.ids()
    )
    document.conversation.on_change = store.changed
    store.replaced()
    assert read_carrier(executor.metadata()) == stored(document)
    document.conversation.start_turn(new_event("chat_request", content="next"))
    assert read_carrier(executor.metadata()) == stored(document)


def test_title_is_sent_without_entries() -> None:
    executor = Executor()
    document, store = begin(executor)
    document.conversation.start_turn(new_event("chat_request", content="x"))
    document.conversation.head["title"] = "Bread"
    store.changed()
    assert read_carrier(executor.metadata()) == stored(document)


def test_lifting_moves_the_record_and_leaves_other_widgets() -> None:
    executor = Executor()
    document, _ = begin(executor)
    document.conversation.start_turn(new_event("chat_request", content="x"))
    slider = model({"value": 1}, module="@jupyter-widgets/controls")
    metadata = executor.metadata()
    metadata["widgets"][merge.WIDGET_STATE]["state"]["slider"] = slider
    metadata["widgets"]["another/type"] = 1
    assert lift_carrier(metadata)
    assert metadata["jp"] == stored(document)
    assert metadata["widgets"] == {**widgets(slider=slider), "another/type": 1}
    assert not lift_carrier(metadata)


def test_lifting_the_last_widget_leaves_no_widgets() -> None:
    executor = Executor()
    document, _ = begin(executor)
    document.conversation.start_turn(new_event("chat_request", content="x"))
    metadata = executor.metadata()
    assert lift_carrier(metadata)
    assert set(metadata) == {"jp"}


def test_two_carriers_of_one_run_become_one_record() -> None:
    first = Executor()
    second = Executor()
    document, _ = begin(first)
    document.conversation.start_turn(new_event("chat_request", content="one"))
    again = CarrierStore(document, open_widget=second.open)
    document.conversation.on_change = again.changed
    document.conversation.start_turn(new_event("chat_request", content="two"))
    metadata = {"widgets": widgets(a=model(first.state), b=model(second.state))}
    assert lift_carrier(metadata)
    assert metadata == {"jp": stored(document)}


GOOD = {"jp": {"version": 1, "conversation": {"id": "a"}}, "events.0": []}


def test_unreadable_carrier_is_left_in_place() -> None:
    states: list[Any] = [
        None,
        {},
        {"jp": 7},
        {"jp": {"version": 1}},
        {"jp": {"version": 9, "conversation": {"id": "a"}}},
        GOOD | {"events.0": {}},
        GOOD | {"events.2": []},
    ]
    for state in states:
        metadata = {"widgets": widgets(mine=model(state))}
        before = copy.deepcopy(metadata)
        assert not lift_carrier(metadata), state
        assert metadata == before
        assert read_carrier(metadata) is None
        assert len(find_unreadable_carriers(metadata)) == 1


def test_newer_record_keeps_the_carrier_beside_it() -> None:
    metadata = {"jp": {"version": 2}, "widgets": widgets(mine=model(GOOD))}
    before = copy.deepcopy(metadata)
    assert not lift_carrier(metadata)
    assert metadata == before


def test_other_metadata_under_widgets_is_not_a_carrier() -> None:
    values: list[Any] = [7, [], {"a": 1}, widgets(x=3, y=None)]
    for value in values:
        metadata = {"widgets": value}
        assert read_carrier(metadata) is None
        assert not lift_carrier(metadata)
