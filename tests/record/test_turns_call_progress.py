"""Progress of tool calls without a response: open calls, and results to append."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import select_kind
from tests.kit.record_view import RecordView
from tests.support.entries import ASKED, START, called, new_stream, raw, result
from tests.support.images import figure

ONE_BATCH = (START, ASKED, called("a"), called("b"))


def at(event_id: str, stage: str, *entries: Any) -> dict[str, Any]:
    """Return the progress of a call as the journal stores it."""
    progress = {"event_id": event_id, "stage": stage}
    return {**progress, "entries": list(entries)} if entries else progress


def done(call_id: str, text: str = "done") -> dict[str, Any]:
    return {**result(call_id), "content": text}


def contents(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["content"] for entry in entries if entry["type"] == "tool_call_response"]


def test_call_may_have_run_unless_it_is_known_not_to_have_started() -> None:
    stages = [("asked", False), ("permitted", False), ("started", True), ("finished", True)]
    view = RecordView(new_stream(*ONE_BATCH))
    assert view.open_calls() == [("a", None, True), ("b", None, True)]
    for stage, may_have_run in stages:
        known = at(view.open_call_events()[0], stage)
        assert view.open_calls(known) == [("a", stage, may_have_run), ("b", None, True)]


def test_results_of_finished_calls_are_appended_once_in_call_order() -> None:
    view = RecordView(new_stream(*ONE_BATCH))
    first, second = view.open_call_events()
    journal = [
        at(second, "finished", done("b", "two")),
        at(first, "finished", done("a", "one")),
    ]
    assert contents(view.append_finished(*journal)) == ["one", "two"]
    assert view.open_calls(*journal) == []
    assert view.append_finished(*journal) == []


def test_later_call_with_the_same_id_waits_for_the_earlier_one() -> None:
    view = RecordView(new_stream(START, ASKED, called("a"), called("a")))
    first, second = view.open_call_events()
    later = at(second, "finished", done("a", "two"))
    assert view.append_finished(later) == []
    earlier = at(first, "finished", done("a", "one"))
    assert contents(view.append_finished(earlier, later)) == ["one", "two"]


def test_image_that_two_results_show_is_appended_once() -> None:
    image = figure()
    fields = {"digest": image.digest, "media_type": image.media_type, "data": image.text}
    picture = raw("image", **fields)
    showing = {**done("a", "a plot"), "metadata": {"images": [image.digest]}}
    view = RecordView(new_stream(*ONE_BATCH))
    first, second = view.open_call_events()
    view.append_finished(
        at(first, "finished", picture, showing),
        at(second, "finished", picture, done("b", "the same plot")),
    )
    kinds = [entry["type"] for entry in view.stream.raw[4:]]
    assert kinds == ["image", "tool_call_response", "tool_call_response"]
    [call, _] = view.turns()[0].tool_calls
    assert call.images == (image,)


def test_result_of_another_call_is_not_appended() -> None:
    view = RecordView(new_stream(*ONE_BATCH))
    assert view.append_finished(at(view.open_call_events()[0], "finished", done("b"))) == []


def test_malformed_result_is_an_error() -> None:
    view = RecordView(new_stream(*ONE_BATCH))
    broken = at(view.open_call_events()[0], "finished", raw("tool_call_response", id=7))
    with pytest.raises(jp.StorageError):
        view.append_finished(broken)
    assert len(select_kind(view.stream.entries, "tool_call_response")) == 0


def test_malformed_progress_is_ignored_and_the_latest_stage_counts() -> None:
    view = RecordView(new_stream(*ONE_BATCH))
    first = view.open_call_events()[0]
    strange: list[Any] = [None, {}, at(first, "dreamt"), {"event_id": 1, "stage": "asked"}]
    assert view.open_calls(*strange, at(first, "finished", 1))[0] == ("a", None, True)

    asked = at(first, "asked")
    finished = at(first, "finished", done("a"))
    started = at(first, "started")
    for journal in ([asked, finished], [finished, started], [*strange, finished]):
        assert view.open_calls(*journal)[0] == ("a", "finished", True)
