"""Comparison of two records, damaged ones included."""

from __future__ import annotations

from typing import Any
from unicodedata import category

from hypothesis import example, given
from hypothesis import strategies as st

from tests.kit.notebook_record import open_document
from tests.kit.renderings import render
from tests.support.entries import ASKED, SAID, START, called, result
from tests.support.record_strategies import damaged, json_values, records, texts

UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
ENTRIES = records | st.lists(damaged, max_size=3)


def compared(events: list[Any], title: str = "", others: Any = ()) -> Any:
    head = {"id": "jp-c1", "made": "live", "title": title}
    stored: Any = {"version": 1, "conversation": head, "base_config": {}, "events": events}
    document = open_document(stored, tolerant=True)
    document.others = list(others)
    return render("compared_record", document)


@example(one=[START, ASKED, called(), result(), SAID], two=[START, ASKED], title="", others=[])
@given(one=ENTRIES, two=ENTRIES, title=texts, others=st.lists(json_values, max_size=3))
def test_any_two_records_can_be_compared(
    one: list[Any], two: list[Any], title: str, others: list[Any]
) -> None:
    before = compared(one, title, others)
    after = compared(two, title)
    assert render("record_difference", before, before) == []
    found = render("record_difference", before, after)
    assert not {category(char) for line in found for char in line} & UNSEEN
    assert bool(found) is (before != after)
    assert bool(render("record_difference", after, before)) is bool(found)
