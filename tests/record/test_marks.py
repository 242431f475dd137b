"""Token usage in the record, and the entry that holds it after a response without entries."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.models import model_event
from tests.kit.record_view import RecordView
from tests.support.entries import ASKED, CHANGED, SAID, START, new_stream, raw

TOOK: dict[str, Any] = {"usage": {"model": "p/m", "input_tokens": 3}}
MARK = raw("config_delta", delta={}, metadata=TOOK)


def test_usage_entry_is_not_a_config_change() -> None:
    [turn] = RecordView(new_stream(CHANGED, START, ASKED, SAID, MARK)).turns()
    assert [change.delta for change in turn.config_changes] == [CHANGED["delta"]]

    both = raw("config_delta", delta={"user": {"name": "Ada"}}, metadata=TOOK)
    [turn] = RecordView(new_stream(both, START, ASKED, SAID)).turns()
    assert [change.delta for change in turn.config_changes] == [both["delta"]]


def test_usage_entry_is_not_inherited_and_not_copied_without_its_turn() -> None:
    stream = new_stream(MARK, START, ASKED, SAID, MARK, CHANGED)
    assert RecordView(stream).inherited_changes() == [CHANGED["delta"]]
    assert RecordView(stream).fork(0).raw == []


def test_usage_entry_belongs_to_the_turn_it_ends() -> None:
    stream = new_stream(START, ASKED, SAID, START, ASKED, MARK, CHANGED)
    first, second = RecordView(stream).turns()
    assert (first.usage.input_tokens, second.usage.input_tokens) == (None, 3)
    assert RecordView(stream).fork(1).raw == [START, ASKED, SAID]


def test_usage_does_not_hide_the_claims_of_a_change() -> None:
    claims = raw("config_delta", delta={}, claims={"user.name": "aa:team.toml"}, metadata=TOOK)
    stream = new_stream(claims, START, ASKED, SAID)
    assert RecordView(stream).fork(0).raw == [claims]


def test_usage_of_a_turn_is_the_sum_of_its_valid_parts(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, dict[str, int]]] = [
        ({"model": "p/m", "input_tokens": 3}, {"input_tokens": 3}),
        ([{"input_tokens": 3}, {"input_tokens": 4, "output_tokens": 0}],
         {"input_tokens": 7, "output_tokens": 0}),
        ({"model": "m" * 301, "input_tokens": 2**53, "output_tokens": 5, "other": 1},
         {"output_tokens": 5}),
        ([{"input_tokens": 1}, None, "x"], {"input_tokens": 1}),
        ({"input_tokens": -1, "output_tokens": True}, {}),
        ("x", {}),
    ]  # fmt: skip
    for usage, total in rows:
        with subtests.test(usage=usage):
            mark = raw("config_delta", delta={}, metadata={"usage": usage})
            [turn] = RecordView(new_stream(START, ASKED, mark)).turns()
            assert turn.usage.to_json() == total


def test_usage_has_the_same_keys_in_records_and_reports() -> None:
    usage = model_event("usage", 1, 2, 3, 4, 5)
    assert usage.to_json() == {
        "input_tokens": 1,
        "output_tokens": 2,
        "reasoning_tokens": 3,
        "cache_read_tokens": 4,
        "cache_write_tokens": 5,
    }
    assert model_event("usage", output_tokens=0).to_json() == {"output_tokens": 0}
