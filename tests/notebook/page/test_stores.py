"""The headless carrier: the record is read back from the form in which nbclient stores it."""

from __future__ import annotations

import copy
from typing import Any

from tests.kit.headless_runs import HeadlessRun
from tests.kit.notebook_record import NotebookRecord

WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
CHUNK_BYTES = 32 * 1024
BURST = 200


def test_appended_entries_are_read_back() -> None:
    run = HeadlessRun()
    for i in range(200):
        run.ask(f"{i} " + "ä" * 1000)
        assert NotebookRecord.read_metadata(run.metadata()) == run.stored
    assert run.is_flushed
    assert run.location == "kept in this notebook"


def test_nothing_is_opened_before_there_is_something_to_keep() -> None:
    assert HeadlessRun().sizes == []


def test_append_to_a_long_conversation_sends_one_chunk() -> None:
    run = HeadlessRun()
    for i in range(2000):
        run.ask(f"{i} " + "x" * 1000)
    assert max(run.sizes) < 2 * CHUNK_BYTES


def test_entries_that_a_busy_executor_missed_are_sent_again_when_the_cell_ends() -> None:
    run = HeadlessRun()
    for i in range(2 * BURST):
        run.is_deaf = 100 < i < 150
        run.ask(f"{i} " + "x" * 1000)
    assert NotebookRecord.read_metadata(run.metadata()) is None
    run.end_cell()
    assert NotebookRecord.read_metadata(run.metadata()) == run.stored


def test_last_entries_that_a_busy_executor_missed_are_sent_again() -> None:
    run = HeadlessRun()
    for i in range(2 * BURST):
        run.is_deaf = i > 350
        run.ask(f"{i} " + "x" * 1000)
    run.set_title("Bread")
    run.is_deaf = False
    run.end_cell()
    assert NotebookRecord.read_metadata(run.metadata()) == run.stored


def test_carrier_with_an_incomplete_chunk_is_damaged() -> None:
    run = HeadlessRun()
    for i in range(40):
        run.ask(f"{i} " + "x" * 1000)
    run.end_cell()
    kept = run.state["events.0"]
    assert isinstance(kept, list)
    run.state["events.0"] = kept[:-1]
    assert len(HeadlessRun.list_damaged(run.metadata())) == 1
    assert not NotebookRecord.lift_carrier(run.metadata())


def test_carrier_of_many_chunks_is_read() -> None:
    chunks: dict[str, Any] = {f"events.{i}": [{"type": "turn_start"}] for i in range(20_000)}
    head = {"version": 1, "conversation": {"id": "jp-c17953840000"}, "base_config": {}}
    state = {"jp": head, "length": 20_000, **chunks}
    assert HeadlessRun.list_damaged(HeadlessRun.metadata_of(state)) == []
    del state["events.5"]
    assert len(HeadlessRun.list_damaged(HeadlessRun.metadata_of(state))) == 1


def test_shorter_conversation_replaces_the_longer_one() -> None:
    run = HeadlessRun()
    for _ in range(50):
        run.ask("x" * 4000)
    run.begin()
    assert NotebookRecord.read_metadata(run.metadata()) == run.stored
    run.ask("next")
    assert NotebookRecord.read_metadata(run.metadata()) == run.stored


def test_title_is_sent_without_entries() -> None:
    run = HeadlessRun()
    run.ask("x")
    run.set_title("Bread")
    assert NotebookRecord.read_metadata(run.metadata()) == run.stored


def test_lifting_moves_the_record_and_leaves_other_widgets() -> None:
    run = HeadlessRun()
    run.ask("x")
    slider = {
        "model_name": "IntSliderModel",
        "model_module": "@jupyter-widgets/controls",
        "state": {"value": 1},
    }
    metadata = run.metadata()
    metadata["widgets"][WIDGET_STATE]["state"]["slider"] = slider
    metadata["widgets"]["another/type"] = 1
    assert NotebookRecord.lift_carrier(metadata)
    assert metadata["jp"] == run.stored
    assert metadata["widgets"] == {
        **HeadlessRun.metadata_of(slider=slider)["widgets"],
        "another/type": 1,
    }
    assert not NotebookRecord.lift_carrier(metadata)


def test_lifting_the_last_widget_leaves_no_widgets() -> None:
    run = HeadlessRun()
    run.ask("x")
    metadata = run.metadata()
    assert NotebookRecord.lift_carrier(metadata)
    assert set(metadata) == {"jp"}


def test_two_carriers_of_one_run_become_one_record() -> None:
    first = HeadlessRun()
    second = HeadlessRun()
    first.ask("one")
    first.repeat_in(second)
    first.ask("two")
    metadata = HeadlessRun.metadata_of(first.state, second.state)
    assert NotebookRecord.lift_carrier(metadata)
    assert metadata == {"jp": first.stored}


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
        metadata = HeadlessRun.metadata_of(state)
        before = copy.deepcopy(metadata)
        assert not NotebookRecord.lift_carrier(metadata), state
        assert metadata == before
        assert NotebookRecord.read_metadata(metadata) is None
        assert len(HeadlessRun.list_damaged(metadata)) == 1


def test_newer_record_keeps_the_carrier_beside_it() -> None:
    metadata = {"jp": {"version": 2}, **HeadlessRun.metadata_of(GOOD)}
    before = copy.deepcopy(metadata)
    assert not NotebookRecord.lift_carrier(metadata)
    assert metadata == before


def test_other_metadata_under_widgets_is_not_a_carrier() -> None:
    values: list[Any] = [7, [], {"a": 1}, HeadlessRun.metadata_of(x=3, y=None)["widgets"]]
    for value in values:
        metadata = {"widgets": value}
        assert NotebookRecord.read_metadata(metadata) is None
        assert not NotebookRecord.lift_carrier(metadata)
