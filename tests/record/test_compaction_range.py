"""Ranges of turns to compact, and their bounds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from jp_nb.config.tree.compaction_settings import TurnBound, parse_bound
from jp_nb.record.compaction import make_revert
from jp_nb.record.compaction_range import CompactionBounds, TurnRange, widen_to_summaries
from tests.record.hourly_turns import summarized, turns
from tests.support.entries import ASKED, START, called, new_stream, result

NOW = datetime(2026, 6, 1, 20, 0, tzinfo=UTC)


def test_rule_keeps_turns_at_both_ends(subtests: pytest.Subtests) -> None:
    for first, last, found in [
        ("1", "1", TurnRange(1, 3)),
        ("0", "0", TurnRange(0, 4)),
        ("2", "@4", TurnRange(2, 3)),
        ("@2", "-2", TurnRange(1, 2)),
        ("-1", "0", TurnRange(3, 4)),
        ("-9", "0", TurnRange(0, 4)),
        ("90m", "1", TurnRange(2, 3)),
        ("1", "7h", TurnRange(1, 3)),
        ("1", "30days", None),
        ("9", "0", None),
        ("2", "3", None),
        ("0", "999999999w", None),
    ]:
        with subtests.test(first=first):
            bounds = CompactionBounds(turns(5), NOW)
            assert (
                bounds.between_kept(parse_bound(first), parse_bound(last, may_be_last=False))
                == found
            )


def test_last_bound_follows_the_last_effective_compaction() -> None:
    stream = turns(5)
    stream.append(summarized(0, 1), summarized(2, 3))
    last = parse_bound("last"), parse_bound("0")
    assert CompactionBounds(stream, NOW).between_kept(*last) == TurnRange(4, 4)
    stream.append(make_revert(summarized(2, 3)))
    assert CompactionBounds(stream, NOW).between_kept(*last) == TurnRange(2, 4)


def test_failed_turns_at_the_end_do_not_count_as_kept_turns() -> None:
    stream = turns(4)
    stream = new_stream(*stream.raw, START, ASKED)
    none = TurnBound("count", 0)
    assert CompactionBounds(stream, NOW).between_kept(none, TurnBound("count", 1)) == TurnRange(
        0, 2
    )
    under_way = CompactionBounds(stream, NOW, in_turn=True)
    assert under_way.between_kept(none, none) == TurnRange(0, 3)
    assert under_way.between_kept(none, TurnBound("count", 1)) == TurnRange(0, 3)


def test_turn_that_can_be_resumed_is_not_compacted() -> None:
    states: list[list[dict[str, Any]]] = [[called()], [called(), result()], []]
    for left in states:
        stream = new_stream(*turns(3).raw, START, ASKED, *left)
        none = TurnBound("count", 0)
        bounds = CompactionBounds(stream, NOW)
        assert bounds.between_kept(none, none) == TurnRange(0, 2)
        assert bounds.between(none, TurnBound("turn", 3)) == TurnRange(0, 2)


def test_summary_range_includes_overlapping_summaries_whole() -> None:
    found = [TurnRange(0, 3), TurnRange(2, 5), TurnRange(8, 9), TurnRange(5, 5)]
    assert widen_to_summaries(TurnRange(5, 6), found) == TurnRange(0, 6)
    assert widen_to_summaries(TurnRange(6, 8), found) == TurnRange(6, 9)
    assert widen_to_summaries(TurnRange(6, 7), found) == TurnRange(6, 7)
