"""Reproducible times and ids, made of an epoch and the position of an entry."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

import jp_nb as jp
from jp_nb.record.entries.clock import make_epoch_clock
from jp_nb.record.entries.new_ids import derive_widget_id
from jp_nb.record.stream import ConversationStream
from tests.kit.record_view import RecordView
from tests.kit.records import new_event

MAX_EPOCH_S = 253_370_764_800
CLOCK_OF_1980 = make_epoch_clock("315532800")


LATE = "9999-12-31 23:59:59.999999"


def talk(stream: ConversationStream, turns: int) -> None:
    for number in range(turns):
        stream.start_turn(new_event("chat_request", content=f"Question {number}"))
        stream.append(
            new_event("chat_response", message="Yes."), new_event("chat_response", message="No.")
        )


def times(stream: ConversationStream) -> list[str]:
    return [entry.timestamp for entry in stream.entries]


def test_equal_requests_make_equal_records() -> None:
    made = [ConversationStream.new(clock=CLOCK_OF_1980, made="headless") for _ in range(2)]
    for stream in made:
        talk(stream, 40)
    assert made[0].properties == made[1].properties == {"id": "jp-c3155328000", "made": "headless"}
    assert made[0].raw == made[1].raw
    ids = [str(entry["event_id"]) for entry in made[0].raw]
    assert len(set(ids)) == len(ids) == 160
    assert all(re.fullmatch("[0-9a-z]{7}", each) for each in ids)
    assert times(made[0])[:2] == ["1980-01-01 00:00:00.0", "1980-01-01 00:00:01.0"]
    assert times(made[0]) == sorted(set(times(made[0])))


def test_times_do_not_depend_on_the_size_of_an_append() -> None:
    at_once, one_by_one = (ConversationStream({"id": "x"}, clock=CLOCK_OF_1980) for _ in range(2))
    talk(at_once, 1)
    one_by_one.start_turn(new_event("chat_request", content="Question 0"))
    one_by_one.append(new_event("chat_response", message="Yes."))
    one_by_one.append(new_event("chat_response", message="No."))
    assert at_once.raw == one_by_one.raw


def test_ids_depend_on_epoch_and_conversation() -> None:
    streams = [
        ConversationStream({"id": name}, clock=make_epoch_clock(epoch))
        for name, epoch in (("a", "0"), ("b", "0"), ("a", "1"))
    ]
    for stream in streams:
        talk(stream, 1)
    ids = {str(entry["event_id"]) for stream in streams for entry in stream.raw}
    assert len(ids) == 12


def test_continued_and_forked_conversations_get_later_times_and_new_ids() -> None:
    stored = ConversationStream({"id": "x"}, clock=lambda: datetime(2026, 3, 18, tzinfo=UTC))
    talk(stored, 3)
    again = ConversationStream(stored.properties, clock=make_epoch_clock("0"), raw=stored.raw)
    talk(again, 2)
    branch = RecordView(again).fork(4, clock=make_epoch_clock("0"))
    talk(branch, 1)
    for stream in (again, branch):
        assert times(stream)[12:] == sorted(set(times(stream)[12:]))
        assert times(stream)[12] > times(stream)[11]
        ids = [entry["event_id"] for entry in stream.raw]
        assert len(set(map(str, ids))) == len(ids) == 20


def test_times_end_with_the_year_9999() -> None:
    clock = make_epoch_clock(str(MAX_EPOCH_S))
    assert clock.at(10**9, "").year == 9999
    assert clock.at(5, LATE) > clock.epoch


def test_epoch_that_is_not_a_number_of_seconds_is_rejected(subtests: pytest.Subtests) -> None:
    too_large = [str(MAX_EPOCH_S + 1), "9" * 5000, "0" * 20 + "9" * 20]
    for text in ["", "now", "-1", "1.5", "1_0", " 1", "٣", "1e9", *too_large]:
        with subtests.test(text=text):
            with pytest.raises(jp.UsageError, match="SOURCE_DATE_EPOCH is") as caught:
                make_epoch_clock(text)
            assert "git log -1 --format=%ct" in str(caught.value)
            assert len(str(caught.value)) < 300


def test_widget_ids_are_in_order_of_opening() -> None:
    clock = make_epoch_clock("1773792000")
    ids = [derive_widget_id(clock, number) for number in range(300)]
    assert ids == sorted(set(ids))
    assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)
    assert derive_widget_id(make_epoch_clock("0"), 0) != ids[0]
