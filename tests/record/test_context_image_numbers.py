"""Positions of the model requests in a record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.kit.record_view import RecordView
from tests.support.entries import ASKED, CHANGED, SAID, START, called, new_stream, raw, result
from tests.support.record_strategies import records

THOUGHT = raw("chat_response", reasoning="hm")
GOES_ON = raw("chat_response", message="b", metadata={"continues": True})
MARK = raw("config_delta", metadata={"no_answer": {"ended": "failed", "takes_back": 0}})


def test_positions_of_requests(subtests: pytest.Subtests) -> None:
    for entries, places in [
        ([], []),
        ([START, ASKED, SAID], [("1.1", 2, 3, True)]),
        ([START, ASKED, THOUGHT, SAID], [("1.1", 2, 4, True)]),
        ([START, ASKED, SAID, START, ASKED, SAID], [("1.1", 2, 3, True), ("2.1", 5, 6, True)]),
        (  # two calls in one answer, then what it made of the results
            [START, ASKED, SAID, called("a"), called("b"), result("a"), result("b"), SAID],
            [("1.1", 2, 5, True), ("1.2", 7, 8, True)],
        ),
        (  # the change of a tool applies to the next request
            [START, ASKED, called(), result(), CHANGED, SAID],
            [("1.1", 2, 3, True), ("1.2", 5, 6, True)],
        ),
        ([START, ASKED, SAID, GOES_ON], [("1.1", 2, 3, True), ("1.2", 3, 4, False)]),
        (  # what is thought ahead of a continuation is part of it
            [START, ASKED, THOUGHT, SAID, THOUGHT, GOES_ON],
            [("1.1", 2, 4, True), ("1.2", 4, 6, False)],
        ),
        ([START, ASKED, THOUGHT, GOES_ON], [("1.1", 2, 4, True)]),
        (  # another request while the response is streamed
            [START, ASKED, SAID, ASKED, SAID],
            [("1.1", 2, 3, True), ("1.2", 4, 5, False)],
        ),
        ([START, ASKED, MARK], [("1.1", 2, 2, True)]),  # it got no answer
        ([START, ASKED, MARK, START, ASKED, SAID], [("1.1", 2, 2, True), ("2.1", 5, 6, True)]),
        ([ASKED, SAID], [("1.1", 1, 2, True)]),
    ]:
        with subtests.test(entries=entries):
            assert RecordView(new_stream(*entries)).requests() == places


@given(records)
def test_positions_are_in_order_and_within_the_record(raw_entries: list[Any]) -> None:
    stream = new_stream(*raw_entries)
    found = RecordView(stream).requests()
    positions = [position for _, position, _, _ in found]
    assert positions == sorted(set(positions))

    for name, position, end, _ in found:
        assert 0 < position <= end <= len(stream) or name.startswith("1.")
        earlier = stream.until(position)
        assert earlier.entries == stream.entries[:position]
        assert all(a is b for a, b in zip(earlier.raw, stream.raw, strict=False))
        RecordView(earlier).sent(in_turn=True)


def test_earlier_state_shares_the_entries() -> None:
    stream = new_stream(START, ASKED, SAID, CHANGED, START, ASKED, SAID)
    before = list(stream.raw)
    earlier = stream.until(3)
    assert (len(earlier), earlier.turn_count, len(earlier.deltas)) == (3, 1, 0)
    assert all(a is b for a, b in zip(earlier.entries, stream.entries, strict=False))
    assert stream.raw == before
    assert stream.turn_count == 2


def test_running_turn_is_sent_and_failed_turns_are_not() -> None:
    stream = new_stream(START, {**ASKED, "content": "lost"}, MARK, START, ASKED)
    assert RecordView(stream).sent_texts() == []
    assert RecordView(stream).sent_texts(in_turn=True) == ["q"]
