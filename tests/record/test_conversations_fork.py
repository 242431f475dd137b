"""Fork a conversation, and undo its last turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jp_nb as jp
from tests.kit.record_view import RecordView
from tests.kit.records import new_event
from tests.support.entries import (
    ASKED,
    CHANGED,
    SAID,
    START,
    STRANGE,
    called,
    new_stream,
    raw,
    result,
    without_ids,
)
from tests.support.record_strategies import records

INTERRUPTED_CALL = "Tool call was interrupted."


UNSET = raw("config_delta", delta={}, unsets=["user.name"], claims={"user.name": None})
OWNED = raw("config_delta", delta={"user": {"name": "B"}}, claims={"user.name": ["h:dev"]})
COMPACTED = raw("compaction", from_turn=0, to_turn=0, summary={"summary": "s"})
KEPT = {**called(), "verbatim": ["/arguments/x"], "later": {"x": [1]}}
FIRST = [CHANGED, START, {"event_id": "q", **ASKED}, KEPT, result(), UNSET, SAID]
SECOND = [OWNED, STRANGE, START, ASKED, SAID]
THIRD = [CHANGED, START, ASKED, SAID, COMPACTED, STRANGE, OWNED]


def forked(stream: Any, keep_turns: int | None = None) -> Any:
    return RecordView(stream).fork(keep_turns)


def undone(stream: Any) -> Any:
    return forked(stream, stream.turn_count - 1)


def test_fork_copies_entries_as_they_are_stored() -> None:
    stream = new_stream(*FIRST, *SECOND, *THIRD, base_config={"who": ["knows"]})
    stream.properties |= {"title": "Bread", "made": "imported", "origin": {"directory": "1-bread"}}
    other = forked(stream)
    assert other.raw == [*FIRST, *SECOND, *THIRD]
    assert other.base_config == {"who": ["knows"]}
    assert other.properties == {
        "id": other.id,
        "made": "live",
        "parent": {"id": "jp-c1", "turn": 2},
        "title": "Bread",
    }
    assert other.id not in ("jp-c1", "")
    assert stream.raw == [*FIRST, *SECOND, *THIRD]


def test_fork_drops_config_changes_made_for_dropped_turns() -> None:
    stream = new_stream(*FIRST, *SECOND, *THIRD)
    assert forked(stream, 2).raw == [*FIRST, *SECOND, COMPACTED, STRANGE]
    assert forked(stream, 1).raw == [*FIRST, STRANGE, COMPACTED, STRANGE]
    assert forked(stream, 1).properties["parent"] == {"id": "jp-c1", "turn": 0}
    assert forked(stream, 3).raw == stream.raw
    nothing = forked(stream, 0)
    assert nothing.raw == [CHANGED, STRANGE, STRANGE]
    assert nothing.properties["parent"] == {"id": "jp-c1"}


def test_undo_drops_the_last_turn() -> None:
    stream = new_stream(*FIRST, *SECOND)
    stream.start_turn(new_event("chat_request", content="no!"))
    once = undone(stream)
    assert once.raw == [*FIRST, *SECOND]
    assert once.properties["parent"] == {"id": "jp-c1", "turn": 1}
    assert undone(undone(once)).raw == [CHANGED, STRANGE]


def test_unknown_turn_is_an_error_that_names_the_valid_range() -> None:
    stream = new_stream(*FIRST, *SECOND)
    with pytest.raises(jp.UsageError, match="no turn 3 in this conversation: its turns are 1 to 2"):
        forked(stream, 3)
    with pytest.raises(jp.UsageError):
        forked(stream, -1)
    with pytest.raises(jp.UsageError, match="it has no turn yet"):
        forked(new_stream(CHANGED), 1)


def test_fork_drops_compactions_of_dropped_turns() -> None:
    first, both, third = (
        raw("compaction", from_turn=a, to_turn=b) for a, b in ((0, 0), (0, 1), (2, 2))
    )
    turn = [START, ASKED, SAID]
    stream = new_stream(*turn, CHANGED, *turn, first, both, STRANGE, *turn, third, CHANGED)
    assert forked(stream, 2).raw == [*turn, CHANGED, *turn, first, both, STRANGE]
    assert forked(stream, 1).raw == [*turn, first, STRANGE]
    assert forked(stream, 0).raw == [STRANGE]


def test_compactions_of_one_step_in_a_fork_are_reverted_without_the_step_before() -> None:
    in_one_step = {"with_previous": True}
    earlier = raw("compaction", from_turn=0, to_turn=0, summary={"summary": "a"})
    dropped = raw("compaction", from_turn=0, to_turn=1, reasoning="strip")
    second = raw("compaction", from_turn=0, to_turn=0, summary={"summary": "b"})
    third = raw("compaction", from_turn=0, to_turn=0, summary={"summary": "c"})
    step = [dropped, {**second, "metadata": {**in_one_step, "x": 1}}]
    step.append({**third, "metadata": in_one_step})
    turn = [START, ASKED, SAID]
    fork = forked(new_stream(*turn, *turn, earlier, *step), 1)
    assert fork.raw == [*turn, earlier, {**second, "metadata": {"x": 1}}, step[2]]
    assert RecordView(fork).last_compaction_step() == [(0, 0, "b"), (0, 0, "c")]


def test_empty_conversation_can_be_forked() -> None:
    other = forked(new_stream(CHANGED))
    assert other.raw == [CHANGED]
    assert other.properties["parent"] == {"id": "jp-c1"}


def test_fork_is_repaired_and_the_original_is_not() -> None:
    stream = new_stream(START, {"event_id": "q", **ASKED}, called(), START, ASKED)
    other = forked(stream, 1)
    assert without_ids(other.raw[3])["content"] == INTERRUPTED_CALL
    assert (other.event_id(1), other.raw[3]["request_id"]) == ("q", "q")
    assert len(stream) == 5


def test_damaged_conversation_is_not_forked() -> None:
    stream = new_stream(START, raw("chat_request"), tolerant=True)
    with pytest.raises(jp.StorageError, match=r"events\[1\]\.content"):
        forked(stream)


def containers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


@given(records, st.integers(0, 3))
def test_fork_of_any_record_shares_nothing_and_is_well_formed(
    entries: list[dict[str, Any]], less: int
) -> None:
    base: dict[str, Any] = {"a": {"b": [1]}}
    stream = new_stream(*entries, base_config=base)
    before = json.dumps(entries)
    keep = max(stream.turn_count - less, 0)
    other = forked(stream, keep)
    assert json.dumps(stream.raw) == before
    mine = {
        *containers(stream.raw),
        *containers(stream.base_config),
        *containers(stream.properties),
    }
    assert mine.isdisjoint(containers([other.raw, other.base_config, other.properties]))
    assert other.turn_count <= keep + 1  # a repair may open the first turn
    assert not other.repair()
    if less == 0:
        kept = [delta for delta in stream.deltas if delta in other.deltas]
        assert len(kept) == len(stream.deltas) == len(other.deltas)
    other.start_turn(new_event("chat_request", content="more"))
    assert json.dumps(stream.raw) == before
