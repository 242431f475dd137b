"""Compactions of a record: which are effective, and how one is reverted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jp_nb.config.tree.compaction_settings import TurnBound, parse_bound
from jp_nb.interop.jp_head import convert_for_head
from jp_nb.record.compaction import (
    find_compactions,
    find_last_step,
    is_revert,
    list_active_compactions,
    make_revert,
    mark_as_one_step,
)
from jp_nb.record.compaction_range import TurnRange
from jp_nb.record.context import build_context, build_turns_context
from jp_nb.record.conversation_fork import fork_conversation
from jp_nb.record.events import Summary, ToolCallPolicy
from jp_nb.record.stream import ConversationStream
from tests.kit.kinds import is_kind
from tests.kit.records import new_event
from tests.record.hourly_turns import summarized, turns
from tests.support.entries import ASKED, SAID, START, FakeClock, called, new_stream, result
from tests.support.record_strategies import records


def test_bound_is_read_in_every_form(subtests: pytest.Subtests) -> None:
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
            assert parse_bound(text) == bound


def test_invalid_bound_is_rejected_with_the_accepted_forms(subtests: pytest.Subtests) -> None:
    for text in ["", "@0", "@", "--3", "5 parsecs", "1.5h", "h", "9" * 20, "-5h"]:
        with (
            subtests.test(text=text),
            pytest.raises(ValueError, match="expected a number of turns"),
        ):
            parse_bound(text)


# --- reverted --------------------------------------------------------------------------------


def test_reverted_compaction_stays_in_the_record_without_effect() -> None:
    stream = turns(4)
    before = [item.entry for item in build_context(stream)]
    stream.append(summarized(0, 2))
    assert len(build_context(stream)) == 4
    stream.append(make_revert(summarized(0, 2)))
    assert [item.entry for item in build_context(stream)] == before
    assert [entry["type"] for entry in stream.raw[-2:]] == ["compaction"] * 2
    assert stream.raw[-1]["metadata"] == {"takes_back": True}
    again = ConversationStream(stream.head, clock=FakeClock(), raw=stream.raw)
    assert [item.entry for item in build_context(again)] == before


def test_each_revert_entry_reverts_the_newest_compaction_of_its_range() -> None:
    stream = turns(4)
    stream.append(summarized(0, 2, "first"))
    stream.append(summarized(0, 2, "second"))
    stream.append(make_revert(summarized(0, 2)))
    assert [placed.is_reverted for placed in find_compactions(stream.entries)] == [False, True]
    stream.append(make_revert(summarized(1, 2)))  # there is none such
    [placed] = list_active_compactions(stream.entries)
    assert placed.entry.summary == Summary(summary="first")


def test_compactions_of_one_step_are_reverted_together() -> None:
    stream = turns(4)
    stream.append(summarized(0, 1, "older"))
    stream.append(*mark_as_one_step([summarized(0, 1), summarized(2, 2)]))
    found = find_last_step(list_active_compactions(stream.entries))
    assert [placed.entry.from_turn for placed in found] == [0, 2]
    stream.append(*(make_revert(placed.entry) for placed in found[::-1]))
    [left] = find_last_step(list_active_compactions(stream.entries))
    assert left.entry.summary == Summary(summary="older")
    assert find_last_step([]) == []


def test_fork_has_a_compaction_and_its_revert_or_neither() -> None:
    stream = turns(5)
    stream.append(summarized(0, 3), summarized(0, 1))
    stream.append(make_revert(summarized(0, 1)), make_revert(summarized(0, 3)))
    for keep in range(1, 6):
        made = fork_conversation(
            stream, keep_turns=keep, clock=FakeClock(), made="live", taken_ids=()
        )
        assert list_active_compactions(made.entries) == []
        assert sum(map(is_revert, made.entries)) == len(find_compactions(made.entries))


@pytest.mark.deep
def test_many_reverted_compactions() -> None:
    stream = turns(2)
    entry = summarized(0, 1)
    stream.append(*[entry] * 5000, *[make_revert(entry)] * 5000)
    assert list_active_compactions(stream.entries) == []


def test_export_to_jp_omits_reverted_compactions() -> None:
    stream = turns(3)
    stream.append(summarized(0, 0, "gone"), summarized(1, 1, "stays"))
    stream.append(make_revert(summarized(0, 0)))
    model = {"assistant": {"model": {"id": {"provider": "anthropic", "name": "m"}}}}
    _, entries, dropped = convert_for_head(model, stream.raw)  # type: ignore[arg-type]  # JSON
    found = [entry for entry in entries if entry["type"] == "compaction"]
    assert [entry["summary"] for entry in found] == [{"summary": "stays"}]
    assert any("undone" in line for line in dropped)


def test_export_to_jp_has_only_fields_of_jp() -> None:
    stream = turns(3)
    used = {"usage": {"model": "openai/m", "input_tokens": 7}}
    stream.append(summarized(0, 1).model_copy(update={"metadata": used}))
    model = {"assistant": {"model": {"id": {"provider": "anthropic", "name": "m"}}}}
    entry = convert_for_head(model, stream.raw)[1][-1]  # type: ignore[arg-type]  # JSON
    assert list(entry) == ["type", "timestamp", "from_turn", "to_turn", "summary"]
    assert entry["summary"] == {"summary": "S"}


def test_turns_to_summarize_are_uncompacted_with_whole_calls() -> None:
    stream = new_stream(START, ASKED, SAID, START, ASKED, called(), result(), SAID)
    stream.append(summarized(0, 1))
    kinds = [item.entry.type for item in build_turns_context(stream, ("",), TurnRange(1, 1))]
    assert kinds == ["chat_request", "tool_call_request", "tool_call_response", "chat_response"]
    assert all(
        not is_kind(item.entry, "chat_response") or item.entry.message != "S"
        for item in build_turns_context(stream, ("",), TurnRange(0, 1))
    )


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


def is_well_paired(context: Any) -> bool:
    """True if each call is followed by its response, and no response by itself."""
    waiting: Counter[str] = Counter()
    for item in context:
        if is_kind(item.entry, "tool_call_request"):
            waiting[item.entry.id] += 1
        elif is_kind(item.entry, "tool_call_response"):
            waiting[item.entry.id] -= 1
            if waiting[item.entry.id] < 0:
                return False
    return not any(waiting.values())


@given(records, st.lists(st.tuples(RANGES, POLICIES, st.booleans()), max_size=6))
def test_no_compaction_separates_a_call_from_its_result(
    entries: list[dict[str, Any]], made: list[tuple[tuple[int, int], dict[str, Any], bool]]
) -> None:
    stream = new_stream(*(entry for entry in entries if entry.get("type") != "compaction"))
    stream.repair()
    before = [item.entry for item in build_context(stream)]
    assert is_well_paired(build_context(stream))
    for (first, last), policies, is_reverted in made:
        entry = new_event("compaction", from_turn=first, to_turn=last, **policies)
        stream.append(entry, *([make_revert(entry)] if is_reverted else []))
        assert is_well_paired(build_context(stream))
    for turn in range(stream.turn_count):
        assert is_well_paired(build_turns_context(stream, ("",), TurnRange(turn, turn)))
    for placed in reversed(list_active_compactions(stream.entries)):
        stream.append(make_revert(placed.entry))
    assert [item.entry for item in build_context(stream)] == before
