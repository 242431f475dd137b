"""The part of a record that a provider is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from tests.kit.record_view import RecordView
from tests.kit.recorded_settings import RecordedSettings
from tests.support.entries import (
    ASKED,
    SAID,
    START,
    STRANGE,
    called,
    closed,
    inquiry,
    new_stream,
    raw,
    result,
)
from tests.support.record_strategies import records

SUMMARIZED_REQUEST = "[Summary of previous conversation]"


def test_visible_entries_have_the_provider_of_their_time() -> None:
    to_b = raw("config_delta", delta={"assistant": {"model": {"id": {"provider": "b"}}}})
    asked = raw("chat_request", content="q", author="Ada")
    stream = new_stream(
        START, asked, STRANGE, called(), inquiry(), closed(), result(), to_b, START, ASKED, SAID,
        base_config={"assistant": {"model": {"id": "a/model"}}},
    )  # fmt: skip
    sent = RecordView(stream).sent(("a", "b"))
    assert [(entry["type"], entry["provider"]) for entry in sent] == [
        ("chat_request", "a"),
        ("tool_call_request", "a"),
        ("tool_call_response", "a"),
        ("chat_request", "b"),
        ("chat_response", "b"),
    ]


def providers_of(stream: Any, *below: dict[str, Any]) -> list[str]:
    """Return the provider of each entry that is sent, over files with the settings `below`."""
    providers = RecordedSettings(stream, *below).providers()
    return [entry["provider"] for entry in RecordView(stream).sent(providers)]


def test_responses_after_a_reset_have_no_provider() -> None:
    reset = raw("config_delta", op="reset")
    stream = new_stream(SAID, reset, SAID, base_config={"assistant": {"model": {"id": "openai/m"}}})
    assert providers_of(stream) == ["openai", ""]


def test_provider_of_a_response_follows_layers_and_aliases() -> None:
    ollama = {"assistant": {"model": {"id": "ollama/m"}}}
    fast = {"assistant": {"model": {"id": "fast"}}}
    stream = new_stream(
        SAID,
        raw("config_delta", delta=ollama),
        SAID,
        raw(
            "config_delta",
            unsets=["assistant.model.id"],
            metadata={"uncovers": ["assistant.model.id"]},
        ),
        SAID,
        raw("config_delta", delta=fast),
        SAID,
    )
    aliases = {"providers": {"llm": {"aliases": {"fast": "openrouter/x"}}}}
    anthropic = {"assistant": {"model": {"id": "anthropic/m"}}}
    assert providers_of(stream, anthropic, aliases) == [
        "anthropic",
        "ollama",
        "anthropic",
        "openrouter",
    ]


@given(records)
def test_provider_is_sent_visible_entries_only(entries: list[dict[str, Any]]) -> None:
    before = json.dumps(entries)
    for kind in RecordView(new_stream(*entries)).sent_kinds():
        assert kind in ("chat_request", "chat_response", "tool_call_request", "tool_call_response")
    assert json.dumps(entries) == before


# --- turns that were compacted ---------------------------------------------------------------

THOUGHT = raw("chat_response", reasoning="hm")


def compaction(first: int, last: int, *, at: str = "10:00:00", **policies: Any) -> dict[str, Any]:
    stored = raw("compaction", from_turn=first, to_turn=last, **policies)
    return {**stored, "timestamp": f"2026-06-01 {at}.0"}


def shown(stream: Any, **options: Any) -> list[str]:
    return RecordView(stream).sent_texts(**options)


FULL = ["q", "hm", "{'x': 1}", "r", "a"]
BLANK = {"policy": "strip", "request": True, "response": True}


def test_newest_compaction_of_a_turn_applies(subtests: pytest.Subtests) -> None:
    rows: list[tuple[list[dict[str, Any]], list[str]]] = [
        ([compaction(0, 0)], [*FULL, *FULL, *FULL]),
        (
            [compaction(0, 1, summary={"summary": "so far"})],
            [SUMMARIZED_REQUEST, "so far", *FULL],
        ),
        (
            [
                compaction(0, 2, summary={"summary": "older"}),
                compaction(1, 1, at="11:00:00", summary={"summary": "newer"}),
            ],
            [
                SUMMARIZED_REQUEST,
                "older",
                SUMMARIZED_REQUEST,
                "newer",
                SUMMARIZED_REQUEST,
                "older",
            ],
        ),
        (
            [
                compaction(0, 9, at="11:00:00", reasoning="strip"),
                compaction(0, 0, summary={"summary": "s"}),
            ],
            [SUMMARIZED_REQUEST, "s", *(["q", "{'x': 1}", "r", "a"] * 2)],
        ),
        (
            [compaction(0, 2, tool_calls={"policy": "omit"}), compaction(1, 1, tool_calls=BLANK)],
            ["q", "hm", "a", "q", "hm", "{}", "[compacted] t: success", "a", "q", "hm", "a"],
        ),
        (
            [
                compaction(0, 2, at="12:00:00", tool_calls={"policy": "omit"}),
                compaction(1, 1, tool_calls=BLANK),
            ],
            ["q", "hm", "a"] * 3,
        ),
        (
            [compaction(2, 2, tool_calls={"policy": "strip", "request": False, "response": True})],
            [*FULL, *FULL, "q", "hm", "{'x': 1}", "[compacted] t: success", "a"],
        ),
        ([compaction(3, 9, summary={"summary": "of nothing"})], [*FULL, *FULL, *FULL]),
    ]
    for compactions, seen in rows:
        with subtests.test(compactions=compactions):
            call = {**called(), "arguments": {"x": 1}}
            turn = [START, ASKED, THOUGHT, call, result(), SAID]
            stream = new_stream(*turn, *turn, *turn, *compactions)
            before = json.dumps(stream.raw)
            assert shown(stream) == seen
            assert json.dumps(stream.raw) == before


def test_compacted_failed_call_is_an_error() -> None:
    failed = {**result(), "is_error": True}
    stream = new_stream(START, ASKED, called(), failed, compaction(0, 0, tool_calls=BLANK))
    assert shown(stream)[-1] == "[compacted] t: error"


@pytest.mark.deep
def test_many_compactions_of_many_turns() -> None:
    turns = [entry for _ in range(2000) for entry in (START, SAID)]
    compactions = [compaction(0, 2000, reasoning="strip") for _ in range(2000)]
    stream = new_stream(*turns, *compactions)
    assert RecordView(stream).sent_kinds() == ["chat_response"] * 2000


def test_repetitions_of_a_divided_summary_are_bounded() -> None:
    turns = [entry for _ in range(2000) for entry in (START, ASKED, SAID)]
    whole = compaction(0, 2000, summary={"summary": "long " * 4000})
    parts = [compaction(n, n, summary={"summary": "s"}) for n in range(0, 2000, 2)]
    sent = RecordView(new_stream(*turns, whole, *parts)).sent_texts()
    texts = [text for text in sent if text != SUMMARIZED_REQUEST]
    assert 20_000 <= sum(map(len, texts)) <= 120_000 + len(parts)


def test_compaction_does_not_apply_to_a_turn_that_continued_after_it() -> None:
    turn = [START, ASKED, SAID]
    over = compaction(0, 1, summary={"summary": "S"}, tool_calls={"policy": "omit"})
    stopped = new_stream(*turn, *turn, over)
    assert shown(stopped) == [SUMMARIZED_REQUEST, "S"]
    whole = shown(new_stream(*turn))
    resumed = shown(stopped, in_turn=True)
    assert resumed == [SUMMARIZED_REQUEST, "S", *whole]
    more = [called(), result(), {**SAID, "message": "more"}]
    went_on = new_stream(*stopped.raw, *more, *turn)
    assert shown(went_on)[: len(resumed)] == resumed
    assert "more" in shown(went_on)


def test_compaction_does_not_apply_to_later_turns() -> None:
    forever = raw("compaction", from_turn=0, to_turn=10**6, summary={"summary": "S"})
    stream = new_stream(START, ASKED, SAID, forever, START, ASKED, SAID)
    assert RecordView(stream).sent_kinds() == ["chat_request", "chat_response"] * 2
    assert shown(stream)[2:] == shown(new_stream(START, ASKED, SAID))
