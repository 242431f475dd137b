"""Compactions of a record: which are effective, and how one is reverted."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.record_view import RecordView
from tests.kit.records import new_event
from tests.record.hourly_turns import reverted, summarized, turns
from tests.support.entries import ASKED, SAID, START, called, new_stream, result
from tests.support.record_strategies import records

NOW = datetime(2026, 6, 1, 20, 0, tzinfo=UTC)


def test_bound_is_read_in_every_form(subtests: pytest.Subtests) -> None:
    stream = turns(5)
    stream.append(summarized(0, 1))
    rows: list[tuple[str, tuple[int, int] | None]] = [
        ("3", (3, 4)),
        ("@2", (1, 4)),
        ("-2", (2, 4)),
        ("2h", (3, 4)),
        (" 1h 30m ", (2, 4)),
        ("2days", None),
        ("Last", (2, 4)),
        ("last-compaction", (2, 4)),
    ]
    for text, found in rows:
        with subtests.test(text=text):
            assert RecordView(stream).find_range(NOW, keep=(text, "0")) == found


def test_invalid_bound_is_rejected_with_the_accepted_forms(subtests: pytest.Subtests) -> None:
    for text in ["", "@0", "@", "--3", "5 parsecs", "1.5h", "h", "9" * 20, "-5h"]:
        with (
            subtests.test(text=text),
            pytest.raises(ValueError, match="expected a number of turns"),
        ):
            RecordView(turns(5)).find_range(NOW, bounds=(text, "0"))


# --- reverted --------------------------------------------------------------------------------


def test_reverted_compaction_stays_in_the_record_without_effect() -> None:
    stream = turns(4)
    before = RecordView(stream).sent()
    stream.append(summarized(0, 2))
    assert len(RecordView(stream).sent()) == 4
    stream.append(reverted(0, 2))
    assert RecordView(stream).sent() == before
    assert [entry["type"] for entry in stream.raw[-2:]] == ["compaction"] * 2
    assert stream.raw[-1]["metadata"] == {"takes_back": True}
    again = new_stream(*stream.raw)
    assert RecordView(again).sent() == before


def test_each_revert_entry_reverts_the_newest_compaction_of_its_range() -> None:
    stream = turns(4)
    stream.append(summarized(0, 2, "first"))
    stream.append(summarized(0, 2, "second"))
    stream.append(reverted(0, 2))
    assert RecordView(stream).compactions(with_reverted=True) == [(0, 2, "first"), (0, 2, "second")]
    assert RecordView(stream).compactions() == [(0, 2, "first")]
    stream.append(reverted(1, 2))  # there is none such
    assert RecordView(stream).compactions() == [(0, 2, "first")]


def test_compactions_of_one_step_are_reverted_together() -> None:
    stream = turns(4)
    stream.append(summarized(0, 1, "older"))
    in_one_step = {"with_previous": True}
    stream.append(summarized(0, 1), summarized(2, 2).with_metadata(**in_one_step))
    assert RecordView(stream).last_compaction_step() == [(0, 1, "S"), (2, 2, "S")]
    stream.append(reverted(2, 2), reverted(0, 1))
    assert RecordView(stream).last_compaction_step() == [(0, 1, "older")]
    assert RecordView(turns(1)).last_compaction_step() == []


def test_fork_has_a_compaction_and_its_revert_or_neither() -> None:
    stream = turns(5)
    stream.append(summarized(0, 3), summarized(0, 1))
    stream.append(reverted(0, 1), reverted(0, 3))
    for keep in range(1, 6):
        made = RecordView(RecordView(stream).fork(keep))
        assert made.compactions() == []
        stored = [entry for entry in made.stream.raw if entry["type"] == "compaction"]
        assert len(stored) == 2 * len(made.compactions(with_reverted=True))


@pytest.mark.deep
def test_many_reverted_compactions() -> None:
    stream = turns(2)
    entry = summarized(0, 1)
    stream.append(*[entry] * 5000, *[reverted(0, 1)] * 5000)
    assert RecordView(stream).compactions() == []


MODEL = {"id": {"provider": "anthropic", "name": "m"}}
EXPORTED = {
    "assistant": {"model": MODEL},
    "conversation": {"tools": {"*": {"run": "ask"}}},
}


def export_compactions(stream: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the compactions in the directory of JP, and the dropped fields."""
    exported = new_stream(*stream.raw, base_config=EXPORTED)
    files, dropped = RecordView(exported).export("jp-head")
    entries = json.loads(files["events.json"])
    return [entry for entry in entries if entry["type"] == "compaction"], dropped


def test_export_to_jp_omits_reverted_compactions() -> None:
    stream = turns(3)
    stream.append(summarized(0, 0, "gone"), summarized(1, 1, "stays"), reverted(0, 0))
    found, dropped = export_compactions(stream)
    assert [entry["summary"] for entry in found] == [{"summary": "stays"}]
    assert any("undone" in line for line in dropped)


def test_export_to_jp_has_only_fields_of_jp() -> None:
    stream = turns(3)
    used = {"model": "openai/m", "input_tokens": 7}
    stream.append(summarized(0, 1).with_metadata(usage=used))
    [entry], _ = export_compactions(stream)
    assert list(entry) == ["type", "timestamp", "from_turn", "to_turn", "summary"]
    assert entry["summary"] == {"summary": "S"}


def test_turns_to_summarize_are_uncompacted_with_whole_calls() -> None:
    stream = new_stream(START, ASKED, SAID, START, ASKED, called(), result(), SAID)
    stream.append(summarized(0, 1))
    kinds = RecordView(stream).sent_kinds(only_turns=(1, 1))
    assert kinds == ["chat_request", "tool_call_request", "tool_call_response", "chat_response"]
    assert "S" not in RecordView(stream).sent_texts(only_turns=(0, 1))


POLICIES = st.sampled_from(
    [
        {"summary": {"summary": "S"}},
        {"reasoning": "strip"},
        {"tool_calls": {"policy": "omit"}},
        {"tool_calls": {"policy": "strip", "request": True, "response": True}},
        {"reasoning": "strip", "tool_calls": {"policy": "omit"}},
    ]
)
RANGES = st.tuples(st.integers(0, 6), st.integers(0, 6))


def is_well_paired(sent: list[dict[str, Any]]) -> bool:
    """True if each call is followed by its response, and no response by itself."""
    waiting: Counter[str] = Counter()
    for entry in sent:
        if entry["type"] == "tool_call_request":
            waiting[entry["id"]] += 1
        elif entry["type"] == "tool_call_response":
            waiting[entry["id"]] -= 1
            if waiting[entry["id"]] < 0:
                return False
    return not any(waiting.values())


@given(records, st.lists(st.tuples(RANGES, POLICIES, st.booleans()), max_size=6))
def test_no_compaction_separates_a_call_from_its_result(
    entries: list[dict[str, Any]], made: list[tuple[tuple[int, int], dict[str, Any], bool]]
) -> None:
    stream = new_stream(*(entry for entry in entries if entry.get("type") != "compaction"))
    stream.repair()
    view = RecordView(stream)
    before = view.sent()
    assert is_well_paired(before)

    for (first, last), policies, is_reverted in made:
        stream.append(new_event("compaction", from_turn=first, to_turn=last, **policies))
        if is_reverted:
            stream.append(reverted(first, last))
        assert is_well_paired(view.sent())

    for turn in range(stream.turn_count):
        assert is_well_paired(view.sent(only_turns=(turn, turn)))

    for first, last, _ in reversed(view.compactions()):
        stream.append(reverted(first, last))
    assert view.sent() == before
