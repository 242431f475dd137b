"""Compactions of a record: those that count, the turns they are about, what is taken back."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.config.tree.compaction_config import TurnBound, read_bound
from jp_nb.interop.jp_dialect import for_head
from jp_nb.record.compaction_range import CompactionBounds, TurnRange, with_summaries
from jp_nb.record.compactions import (
    counting,
    in_one_step,
    made_together,
    placed_compactions,
    takes_back,
    taking_back,
)
from jp_nb.record.events import (
    ChatResponse,
    Compaction,
    Summary,
    ToolCallPolicy,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.fork import fork
from jp_nb.record.stream import ConversationStream
from jp_nb.record.thread import Thread, thread_of, thread_of_turns
from tests.support.entries import ASKED, SAID, START, called, result
from tests.support.fakes import FakeClock, new_stream
from tests.support.record_strategies import QUICK, records

NOW = datetime(2026, 6, 1, 20, 0, tzinfo=UTC)


def at(entry: dict[str, Any], hour: int) -> dict[str, Any]:
    return {**entry, "timestamp": f"2026-06-01 {hour:02}:00:00.0"}


def turns(count: int) -> ConversationStream:
    """A conversation with a turn at each full hour, from 10 on."""
    entries = [at(each, 10 + turn) for turn in range(count) for each in (START, ASKED, SAID)]
    return new_stream(*entries)


def summed_up(first: int, last: int, text: str = "S") -> Compaction:
    return Compaction(from_turn=first, to_turn=last, summary=Summary(summary=text))


# --- bounds ----------------------------------------------------------------------------------


def test_a_bound_is_read_in_every_form(subtests: pytest.Subtests) -> None:
    for text, bound in [
        ("3", TurnBound("count", 3)),
        ("@1", TurnBound("turn", 0)),
        ("-2", TurnBound("from_end", 2)),
        ("5h", TurnBound("duration", 18000)),
        (" 1h 30m ", TurnBound("duration", 5400)),
        ("2days", TurnBound("duration", 172800)),
        ("Last", TurnBound("last")),
        ("last-compaction", TurnBound("last")),
    ]:
        with subtests.test(text=text):
            assert read_bound(text) == bound


def test_what_is_no_bound_is_refused_with_what_is_accepted(subtests: pytest.Subtests) -> None:
    for text in ["", "@0", "@", "--3", "5 parsecs", "1.5h", "h", "9" * 20, "-5h"]:
        with (
            subtests.test(text=text),
            pytest.raises(ValueError, match="expected a number of turns"),
        ):
            read_bound(text)


def test_a_rule_keeps_turns_at_both_ends(subtests: pytest.Subtests) -> None:
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
        ("0", "5", None),
        ("2", "3", None),
        ("9999999w", "0", None),
        ("0", "999999999w", None),
    ]:
        with subtests.test(first=first):
            bounds = CompactionBounds(turns(5), NOW)
            assert bounds.kept(read_bound(first), read_bound(last, may_be_last=False)) == found


def test_after_the_last_compaction_begins_behind_what_counts_of_them() -> None:
    stream = turns(5)
    stream.append(summed_up(0, 1), summed_up(2, 3))
    last = read_bound("last"), read_bound("0")
    assert CompactionBounds(stream, NOW).kept(*last) == TurnRange(4, 4)
    stream.append(taking_back(summed_up(2, 3)))
    assert CompactionBounds(stream, NOW).kept(*last) == TurnRange(2, 4)


def test_turns_without_an_answer_at_the_end_are_not_kept_in_place_of_others() -> None:
    stream = turns(4)
    stream = new_stream(*stream.raw, START, ASKED)
    none = TurnBound("count", 0)
    assert CompactionBounds(stream, NOW).kept(none, TurnBound("count", 1)) == TurnRange(0, 2)
    under_way = CompactionBounds(stream, NOW, in_turn=True)
    assert under_way.kept(none, none) == TurnRange(0, 3)
    assert under_way.kept(none, TurnBound("count", 1)) == TurnRange(0, 3)


@pytest.mark.parametrize("left", [[called()], [called(), result()], []])
def test_a_turn_that_may_go_on_stays_whole(left: list[dict[str, Any]]) -> None:
    stream = new_stream(*turns(3).raw, START, ASKED, *left)
    none = TurnBound("count", 0)
    bounds = CompactionBounds(stream, NOW)
    assert bounds.kept(none, none) == TurnRange(0, 2)
    assert bounds.given(none, TurnBound("turn", 3)) == TurnRange(0, 2)


def test_a_summary_takes_whole_summaries_along() -> None:
    found = [TurnRange(0, 3), TurnRange(2, 5), TurnRange(8, 9), TurnRange(5, 5)]
    assert with_summaries(TurnRange(5, 6), found) == TurnRange(0, 6)
    assert with_summaries(TurnRange(6, 8), found) == TurnRange(6, 9)
    assert with_summaries(TurnRange(6, 7), found) == TurnRange(6, 7)


# --- taken back ------------------------------------------------------------------------------


def test_what_is_taken_back_counts_no_more_and_stays_in_the_record() -> None:
    stream = turns(4)
    before = [item.entry for item in thread_of(stream)]
    stream.append(summed_up(0, 2))
    assert len(thread_of(stream)) == 4
    stream.append(taking_back(summed_up(0, 2)))
    assert [item.entry for item in thread_of(stream)] == before
    assert [entry["type"] for entry in stream.raw[-2:]] == ["compaction"] * 2
    assert stream.raw[-1]["metadata"] == {"takes_back": True}
    again = ConversationStream(stream.head, clock=FakeClock(), raw=stream.raw)
    assert [item.entry for item in thread_of(again)] == before


def test_each_word_takes_one_back_and_the_newest_first() -> None:
    stream = turns(4)
    stream.append(summed_up(0, 2, "first"))
    stream.append(summed_up(0, 2, "second"))
    stream.append(taking_back(summed_up(0, 2)))
    assert [placed.taken_back for placed in placed_compactions(stream.entries)] == [False, True]
    stream.append(taking_back(summed_up(1, 2)))  # there is none such
    [placed] = counting(stream.entries)
    assert placed.entry.summary == Summary(summary="first")


def test_one_step_is_taken_back_as_one() -> None:
    stream = turns(4)
    stream.append(summed_up(0, 1, "older"))
    stream.append(*in_one_step([summed_up(0, 1), summed_up(2, 2)]))
    found = made_together(counting(stream.entries))
    assert [placed.entry.from_turn for placed in found] == [0, 2]
    stream.append(*(taking_back(placed.entry) for placed in found[::-1]))
    [left] = made_together(counting(stream.entries))
    assert left.entry.summary == Summary(summary="older")
    assert made_together([]) == []


def test_a_fork_has_both_or_neither() -> None:
    stream = turns(5)
    stream.append(summed_up(0, 3), summed_up(0, 1))
    stream.append(taking_back(summed_up(0, 1)), taking_back(summed_up(0, 3)))
    for keep in range(1, 6):
        made = fork(stream, keep_turns=keep, clock=FakeClock(), made="live", not_ids=())
        assert counting(made.entries) == []
        assert sum(map(takes_back, made.entries)) == len(placed_compactions(made.entries))


def test_many_that_are_taken_back_are_as_cheap_as_few() -> None:
    stream = turns(2)
    entry = summed_up(0, 1)
    stream.append(*[entry] * 5000, *[taking_back(entry)] * 5000)
    assert counting(stream.entries) == []


def test_jp_is_not_given_what_was_taken_back() -> None:
    stream = turns(3)
    stream.append(summed_up(0, 0, "gone"), summed_up(1, 1, "stays"))
    stream.append(taking_back(summed_up(0, 0)))
    model = {"assistant": {"model": {"id": {"provider": "anthropic", "name": "m"}}}}
    _, entries, dropped = for_head(model, stream.raw)  # type: ignore[arg-type]  # JSON
    found = [entry for entry in entries if entry["type"] == "compaction"]
    assert [entry["summary"] for entry in found] == [{"summary": "stays"}]
    assert any("taken back" in line for line in dropped)


def test_jp_is_given_its_own_fields_alone() -> None:
    stream = turns(3)
    used = {"usage": {"model": "openai/m", "input_tokens": 7}}
    stream.append(summed_up(0, 1).model_copy(update={"metadata": used}))
    model = {"assistant": {"model": {"id": {"provider": "anthropic", "name": "m"}}}}
    entry = for_head(model, stream.raw).entries[-1]  # type: ignore[arg-type]  # JSON
    assert list(entry) == ["type", "timestamp", "from_turn", "to_turn", "summary"]
    assert entry["summary"] == {"summary": "S"}


# --- what is summed up -----------------------------------------------------------------------


def test_turns_are_summed_up_as_they_were_with_whole_calls() -> None:
    stream = new_stream(START, ASKED, SAID, START, ASKED, called(), result(), SAID)
    stream.append(summed_up(0, 1))
    kinds = [item.entry.type for item in thread_of_turns(stream, ("",), TurnRange(1, 1))]
    assert kinds == ["chat_request", "tool_call_request", "tool_call_response", "chat_response"]
    assert all(
        not isinstance(item.entry, ChatResponse) or item.entry.message != "S"
        for item in thread_of_turns(stream, ("",), TurnRange(0, 1))
    )


# --- whatever a record holds -----------------------------------------------------------------

POLICIES = st.sampled_from(
    [
        {"summary": Summary(summary="S")},
        {"reasoning": "strip"},
        {"tool_calls": ToolCallPolicy(policy="omit")},
        {"tool_calls": ToolCallPolicy(policy="strip", request=True, response=True)},
        {"reasoning": "strip", "tool_calls": ToolCallPolicy(policy="omit")},
    ]
)
RANGES = st.tuples(st.integers(0, 6), st.integers(0, 6))


def is_well_paired(thread: Thread) -> bool:
    """True if each call is followed by its response, and no response by itself."""
    waiting: Counter[str] = Counter()
    for item in thread:
        if isinstance(item.entry, ToolCallRequest):
            waiting[item.entry.id] += 1
        elif isinstance(item.entry, ToolCallResponse):
            waiting[item.entry.id] -= 1
            if waiting[item.entry.id] < 0:
                return False
    return not any(waiting.values())


@QUICK
@given(records, st.lists(st.tuples(RANGES, POLICIES, st.booleans()), max_size=6))
def test_no_compaction_parts_a_call_from_its_result(
    entries: list[dict[str, Any]], made: list[tuple[tuple[int, int], dict[str, Any], bool]]
) -> None:
    stream = new_stream(*(entry for entry in entries if entry.get("type") != "compaction"))
    stream.repair()
    before = [item.entry for item in thread_of(stream)]
    assert is_well_paired(thread_of(stream))
    for (first, last), policies, is_taken_back in made:
        entry = Compaction(from_turn=first, to_turn=last, **policies)
        stream.append(entry, *([taking_back(entry)] if is_taken_back else []))
        assert is_well_paired(thread_of(stream))
    for turn in range(stream.turn_count):
        assert is_well_paired(thread_of_turns(stream, ("",), TurnRange(turn, turn)))
    for placed in reversed(counting(stream.entries)):
        stream.append(taking_back(placed.entry))
    assert [item.entry for item in thread_of(stream)] == before
