"""Ranges of turns to compact, and their bounds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.kit.record_view import RecordView
from tests.record.hourly_turns import reverted, summarized, turns
from tests.support.entries import ASKED, START, called, new_stream, result

NOW = datetime(2026, 6, 1, 20, 0, tzinfo=UTC)


def kept(stream: Any, first: str, last: str, **options: Any) -> tuple[int, int] | None:
    """Return the turns to compact, of which a rule keeps `first` and `last`."""
    return RecordView(stream).find_range(NOW, keep=(first, last), **options)


def test_rule_keeps_turns_at_both_ends(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, tuple[int, int] | None]] = [
        ("1", "1", (1, 3)),
        ("0", "0", (0, 4)),
        ("2", "@4", (2, 3)),
        ("@2", "-2", (1, 2)),
        ("-1", "0", (3, 4)),
        ("-9", "0", (0, 4)),
        ("90m", "1", (2, 3)),
        ("1", "7h", (1, 3)),
        ("1", "30days", None),
        ("9", "0", None),
        ("2", "3", None),
        ("0", "999999999w", None),
    ]
    for first, last, found in rows:
        with subtests.test(first=first):
            assert kept(turns(5), first, last) == found


def test_last_bound_follows_the_last_effective_compaction() -> None:
    stream = turns(5)
    stream.append(summarized(0, 1), summarized(2, 3))
    assert kept(stream, "last", "0") == (4, 4)
    stream.append(reverted(2, 3))
    assert kept(stream, "last", "0") == (2, 4)


def test_failed_turns_at_the_end_do_not_count_as_kept_turns() -> None:
    stream = new_stream(*turns(4).raw, START, ASKED)
    assert kept(stream, "0", "1") == (0, 2)
    assert kept(stream, "0", "0", in_turn=True) == (0, 3)
    assert kept(stream, "0", "1", in_turn=True) == (0, 3)


def test_turn_that_can_be_resumed_is_not_compacted() -> None:
    states: list[list[dict[str, Any]]] = [[called()], [called(), result()], []]
    for left in states:
        stream = new_stream(*turns(3).raw, START, ASKED, *left)
        assert kept(stream, "0", "0") == (0, 2)
        assert RecordView(stream).find_range(NOW, bounds=("0", "@4")) == (0, 2)


def test_summary_range_includes_overlapping_summaries_whole() -> None:
    summaries = [(0, 3), (2, 5), (8, 9), (5, 5)]
    assert RecordView.widen((5, 6), summaries) == (0, 6)
    assert RecordView.widen((6, 8), summaries) == (6, 9)
    assert RecordView.widen((6, 7), summaries) == (6, 7)
