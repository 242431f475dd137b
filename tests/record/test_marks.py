"""Token usage in the record, and the entry that holds it after a response without entries."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from jp_nb.record.change_marks import select_effective_deltas
from jp_nb.record.clock import utc_now
from jp_nb.record.conversation_fork import fork_conversation
from jp_nb.record.events import is_usage_mark
from jp_nb.record.token_usage import ModelUsage, read_usage, with_usage
from tests.kit.models import model_event
from tests.kit.records import new_event
from tests.support.entries import ASKED, CHANGED, SAID, START, new_stream, raw

TOOK: dict[str, Any] = {"usage": {"model": "p/m", "input_tokens": 3}}
MARK = raw("config_delta", delta={}, metadata=TOOK)


def test_usage_entry_is_not_a_config_change() -> None:
    stream = new_stream(START, ASKED, SAID, MARK, CHANGED)
    assert [number for number, _ in select_effective_deltas(stream.deltas)] == [1]
    both = raw("config_delta", delta={"user": {"name": "Ada"}}, metadata=TOOK)
    assert select_effective_deltas(new_stream(both).deltas)


def test_usage_entry_belongs_to_the_turn_it_ends() -> None:
    stream = new_stream(START, ASKED, SAID, START, ASKED, MARK, CHANGED)
    first, second = stream.turns()
    assert [is_usage_mark(entry) for entry in second.entries] == [False, False, True]
    assert not any(map(is_usage_mark, first.entries))
    kept = fork_conversation(
        stream, keep_turns=stream.turn_count - 1, clock=utc_now, made="live", taken_ids=()
    )
    assert not any(map(is_usage_mark, kept.entries))


def test_usage_does_not_hide_the_claims_of_a_change() -> None:
    claims = raw("config_delta", delta={}, claims={"user.name": "aa:team.toml"}, metadata=TOOK)
    stream = new_stream(claims, START, ASKED, SAID)
    fork = fork_conversation(stream, keep_turns=0, clock=utc_now, made="live", taken_ids=())
    assert fork.raw == [claims]


def test_malformed_usage_is_skipped() -> None:
    said: JsonValue = {"model": "m" * 301, "input_tokens": 2**53, "output_tokens": 5, "other": 1}
    assert read_usage({"usage": [said, None, "x"]}) == (
        ModelUsage("", model_event("usage", None, 5)),
    )


def test_written_usage_is_read_and_empty_usage_is_not_written() -> None:
    mark = new_event("config_delta")
    assert with_usage(mark, ModelUsage("p/m")) is mark
    one = ModelUsage("p/m", model_event("usage", 3))
    other = ModelUsage("p/n", model_event("usage", None, 4))
    for used in ((one,), (one, other)):
        assert read_usage(with_usage(mark, *used).metadata) == used


def test_usage_has_the_same_keys_in_records_and_reports() -> None:
    usage = model_event("usage", 1, 2, 3, 4, 5)
    stored = {
        "input_tokens": 1,
        "output_tokens": 2,
        "reasoning_tokens": 3,
        "cache_read_tokens": 4,
        "cache_write_tokens": 5,
    }
    assert usage.to_json() == stored
    assert model_event("usage", output_tokens=0).to_json() == {"output_tokens": 0}
    entry = with_usage(new_event("config_delta"), ModelUsage("p/m", usage))
    assert entry.metadata["usage"] == {"model": "p/m", **stored}
