"""The order in which a turn appends questions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from jp_nb.agent.turn_record import TurnRecord
from jp_nb.record.entries.clock import make_epoch_clock
from jp_nb.record.entries.timestamps import utc_now
from jp_nb.record.stream import ConversationStream
from tests.kit.kinds import make
from tests.kit.records import new_event

CALLS = ("a", "b.c", "b")
QUESTION = {"text": "Which?", "answer_type": {"type": "text"}}
SOURCE = {"source": "tool", "name": "look"}


def asked(inquiry: str) -> Any:
    return new_event("inquiry_request", id=inquiry, source=SOURCE, question=QUESTION)


def ended(inquiry: str) -> Any:
    return new_event("inquiry_response", id=inquiry, outcome="cancelled", reason="user")


OF_A: list[Any] = [
    asked("a.x.1"),
    asked("a.y.z.1"),
    ended("a.y.z.1"),
    ended("a.x.1"),
    asked("a.x.2"),
]
OF_BC: list[Any] = [asked("b.c.q.1"), ended("b.c.q.1")]
OF_B: list[Any] = [asked("b.q.1"), ended("b.q.1")]


def recorded(entries: Iterable[Any], clock: Any) -> list[str]:
    stream = ConversationStream.new(clock=clock, made="headless")
    record = TurnRecord(stream, make("request_context"))
    record.start_turn(new_event("chat_request", content="Go."))
    record.add(
        *(new_event("tool_call_request", id=each, name="look", arguments={}) for each in CALLS)
    )
    for entry in entries:
        record.add_inquiry_entry(entry)
    record.add(
        ended("a.x.2"),
        *(new_event("tool_call_response", id=each, content="", is_error=False) for each in CALLS),
    )
    return [f"{entry.type}:{getattr(entry, 'id', '')}" for entry in stream.entries[5:]]


def test_reproducible_record_has_questions_in_call_order() -> None:
    orders = [
        [*first, *second, *third]
        for first, second, third in itertools.permutations((OF_A, OF_BC, OF_B))
    ]
    mixed = [OF_B[0], OF_BC[0], *OF_A[:3], OF_B[1], *OF_A[3:], OF_BC[1]]
    found = [recorded(order, make_epoch_clock("0")) for order in (*orders, mixed)]
    assert all(each == found[0] for each in found)
    assert found[0][:9] == [
        "inquiry_request:a.x.1",
        "inquiry_response:a.x.1",
        "inquiry_request:a.y.z.1",
        "inquiry_response:a.y.z.1",
        "inquiry_request:a.x.2",
        "inquiry_request:b.c.q.1",
        "inquiry_response:b.c.q.1",
        "inquiry_request:b.q.1",
        "inquiry_response:b.q.1",
    ]


def test_other_records_have_questions_at_once() -> None:
    order = [OF_B[0], OF_BC[0], *OF_A, OF_BC[1], OF_B[1]]
    assert recorded(order, utc_now)[:9] == [f"{each.type}:{each.id}" for each in order]
    stream = ConversationStream.new(clock=utc_now, made="live")
    record = TurnRecord(stream, make("request_context"))
    record.start_turn(new_event("chat_request", content="Go."))
    record.add(new_event("tool_call_request", id="a", name="look", arguments={}))
    record.add_inquiry_entry(OF_A[0])
    assert stream.entries[-1].type == "inquiry_request", "before the prompt"
