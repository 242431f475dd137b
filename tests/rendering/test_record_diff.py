"""Comparison of two records, damaged ones included."""

from __future__ import annotations

from typing import Any
from unicodedata import category

from hypothesis import example, given
from hypothesis import strategies as st

from jp_nb.record.clock import utc_now
from jp_nb.record.document import Document
from jp_nb.record.stream import ConversationStream
from jp_nb.rendering.record_diff import ComparedRecord, diff_records
from tests.support.entries import ASKED, SAID, START, called, result
from tests.support.record_strategies import damaged, json_values, records, texts

UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
ENTRIES = records | st.lists(damaged, max_size=3)


def compared(events: list[Any], title: str = "", others: Any = ()) -> ComparedRecord:
    head = {"id": "x", "title": title}
    stream = ConversationStream(head, clock=utc_now, raw=events, tolerant=True)
    return ComparedRecord.of(Document(stream, list(others)))


@example(one=[START, ASKED, called(), result(), SAID], two=[START, ASKED], title="", others=[])
@given(one=ENTRIES, two=ENTRIES, title=texts, others=st.lists(json_values, max_size=3))
def test_any_two_records_can_be_compared(
    one: list[Any], two: list[Any], title: str, others: list[Any]
) -> None:
    before = compared(one, title, others)
    after = compared(two, title)
    assert diff_records(before, before) == []
    found = diff_records(before, after)
    assert not {category(char) for line in found for char in line} & UNSEEN
    assert bool(found) is (before != after)
    assert bool(diff_records(after, before)) is bool(found)
