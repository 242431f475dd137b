"""Taking entries away from a record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.record.editing import (
    pop,
    pop_if,
    retain,
    retain_first,
    retain_last,
    trim_last_request,
)
from jp_nb.record.events import CONVERSATION_KINDS, ChatRequest, ChatResponse, ToolCallResponse
from jp_nb.record.stream import ConversationStream
from tests.support.entries import ASKED, CHANGED, SAID, START, STRANGE, called, raw, result
from tests.support.fakes import new_stream
from tests.support.record_strategies import QUICK, records


def kinds(stream: ConversationStream) -> list[str]:
    return [str(entry["type"]) for entry in stream.raw]


def compaction(first: int, last: int) -> dict[str, Any]:
    return raw("compaction", from_turn=first, to_turn=last)


def test_the_last_event_is_popped_from_before_what_is_global() -> None:
    stream = new_stream(START, ASKED, SAID, CHANGED, STRANGE)
    kept = stream.event_id(3)
    assert pop_if(stream, lambda entry: isinstance(entry, ChatRequest)) is None
    assert len(stream) == 5
    popped = pop_if(stream, lambda entry: isinstance(entry, ChatResponse))
    assert isinstance(popped, ChatResponse)
    assert kinds(stream) == ["turn_start", "chat_request", "config_delta", "hologram"]
    assert stream.event_id(2) == kept
    assert [type(pop(stream)).__name__ for _ in range(3)] == [
        "ChatRequest",
        "TurnStart",
        "NoneType",
    ]
    assert stream.raw == [CHANGED, STRANGE]
    assert stream.turn_count == 0


def test_after_a_pop_the_turn_is_as_it_was_before() -> None:
    stream = new_stream(START, ASKED, called(), result())
    assert isinstance(pop(stream), ToolCallResponse)
    assert [call.id for call in stream.unanswered()] == ["a"]
    stream.append(ToolCallResponse(id="a", content="again", is_error=False))
    assert not stream.repair()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([START, ASKED, SAID, START, ASKED, SAID, CHANGED], [START, ASKED, SAID, CHANGED]),
        ([START, ASKED, CHANGED, called(), result()], [CHANGED]),
        ([START, ASKED, SAID, ASKED, SAID], [START, ASKED, SAID]),
        ([ASKED, STRANGE], [STRANGE]),
    ],
)
def test_the_last_request_is_taken_back_with_what_came_of_it(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    stream = new_stream(*before)
    request = trim_last_request(stream)
    assert request is not None
    assert request.content == "q"
    assert stream.raw == after


def test_without_a_request_nothing_is_trimmed() -> None:
    stream = new_stream(START, SAID)
    assert trim_last_request(stream) is None
    assert stream.raw == [START, SAID]


def test_what_is_global_is_retained_but_compactions_of_what_is_gone() -> None:
    entries = [
        *[START, ASKED, SAID, CHANGED],
        *[START, ASKED, SAID, compaction(0, 0), compaction(0, 1), STRANGE],
        *[START, ASKED, SAID, compaction(2, 2), CHANGED],
    ]
    stream = new_stream(*entries)
    assert not retain(stream, lambda event: True)
    assert stream.raw == entries
    assert retain(stream, lambda e: not (e.turn == 1 and isinstance(e.entry, ChatResponse)))
    assert stream.raw == [x for i, x in enumerate(entries) if i not in (6, 8, 13)]
    assert retain_last(stream, 1)
    assert stream.raw == [CHANGED, STRANGE, START, ASKED, SAID, CHANGED]
    assert retain_first(stream, 0)
    assert stream.raw == [CHANGED, STRANGE, CHANGED]


@given(records, st.integers(0, 5))
@QUICK
def test_first_and_last_turns_are_retained(entries: list[dict[str, Any]], count: int) -> None:
    whole = list(new_stream(*entries).turns())
    for keep, expected in (
        (retain_first, whole[:count]),
        (retain_last, whole[-count:] if count else []),
    ):
        stream = new_stream(*entries)
        assert keep(stream, count) is (len(whole) > count)
        assert stream.turn_count == len(expected)
        events = [e.entry for e in stream.events()]
        assert events == [
            e for turn in expected for e in turn.entries if e.type in CONVERSATION_KINDS
        ]
        assert len(stream.deltas) == len(new_stream(*entries).deltas)
