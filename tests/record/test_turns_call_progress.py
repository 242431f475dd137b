"""Progress of tool calls without a response: open calls, and results to append."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from jp_nb.record.entry_images import make_image_entry, make_images_metadata
from jp_nb.record.events import Entry
from jp_nb.record.interrupted_turn import (
    CallProgress,
    list_open_calls,
    make_finished_entries,
    pick_latest_progress,
    read_progress,
)
from jp_nb.record.stream import ConversationStream
from tests.kit.kinds import is_kind
from tests.kit.records import new_event
from tests.support.entries import ASKED, START, T, called, new_stream, raw
from tests.support.images import figure

ONE_BATCH = (START, ASKED, called("a"), called("b"))


def finished(call_id: str, text: str = "done", *before: Entry) -> CallProgress:
    response = new_event(
        "tool_call_response", timestamp=T, id=call_id, content=text, is_error=False
    )
    return CallProgress("finished", tuple(each.to_raw() for each in (*before, response)))


def ids(stream: ConversationStream) -> list[str]:
    return [call.event_id for call in list_open_calls(stream, {})]


def contents(entries: list[Entry]) -> list[str]:
    return [entry.content for entry in entries if is_kind(entry, "tool_call_response")]


def test_call_may_have_run_unless_it_is_known_not_to_have_started() -> None:
    stages: list[tuple[Any, bool]] = [
        *[("asked", False), ("permitted", False)],
        *[("started", True), ("finished", True), (None, True)],
    ]
    for stage, may_have_run in stages:
        stream = new_stream(*ONE_BATCH)
        known = {ids(stream)[0]: CallProgress(stage)} if stage else {}
        first, second = list_open_calls(stream, known)
        assert (first.request.id, first.stage, first.may_have_run) == ("a", stage, may_have_run)
        assert (second.stage, second.may_have_run) == (None, True)


def test_results_of_finished_calls_are_appended_once_in_call_order() -> None:
    stream = new_stream(*ONE_BATCH)
    first, second = ids(stream)
    known = {second: finished("b", "two"), first: finished("a", "one")}
    entries = make_finished_entries(stream, known)
    assert contents(entries) == ["one", "two"]
    stream.append(*entries)
    assert list_open_calls(stream, known) == []
    assert make_finished_entries(stream, known) == []


def test_later_call_with_the_same_id_waits_for_the_earlier_one() -> None:
    stream = new_stream(START, ASKED, called("a"), called("a"))
    first, second = ids(stream)
    assert make_finished_entries(stream, {second: finished("a", "two")}) == []
    known = {first: finished("a", "one"), second: finished("a", "two")}
    assert contents(make_finished_entries(stream, known)) == ["one", "two"]


def test_image_that_two_results_show_is_appended_once() -> None:
    stream = new_stream(*ONE_BATCH)
    image = figure()
    first, second = ids(stream)
    response = new_event(
        "tool_call_response",
        timestamp=T,
        id="a",
        content="a plot",
        is_error=False,
        metadata=make_images_metadata([image]),
    )
    picture = make_image_entry(image).stamped(T)
    known = {
        first: CallProgress("finished", (picture.to_raw(), response.to_raw())),
        second: finished("b", "the same plot", picture),
    }
    stream.append(*make_finished_entries(stream, known))
    assert [entry.type for entry in stream.entries[4:]] == [
        "image",
        "tool_call_response",
        "tool_call_response",
    ]


def test_result_of_another_call_is_not_appended() -> None:
    stream = new_stream(*ONE_BATCH)
    assert make_finished_entries(stream, {ids(stream)[0]: finished("b")}) == []


def test_malformed_result_is_an_error() -> None:
    stream = new_stream(*ONE_BATCH)
    broken = CallProgress("finished", (raw("tool_call_response", id=7),))
    with pytest.raises(jp.StorageError):
        make_finished_entries(stream, {ids(stream)[0]: broken})


def test_progress_survives_json_and_malformed_progress_is_ignored() -> None:
    done = finished("a")
    assert read_progress(done.to_json("e1")) == ("e1", done)
    assert read_progress(CallProgress("asked").to_json("e1")) == ("e1", CallProgress("asked"))
    strange: list[Any] = [None, {}, {"event_id": "e1", "stage": "dreamt"}, {"event_id": 1}]
    strange += [{"event_id": "e1", "stage": "finished", "entries": [1]}]
    assert list(map(read_progress, strange)) == [None] * 5
    assert (
        pick_latest_progress(CallProgress("asked"), done)
        == pick_latest_progress(done, CallProgress("started"))
        == done
    )
