"""Decoding the stream of Anthropic Messages."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind
from tests.kit.models import model_event
from tests.kit.streams import StreamReader


def read(*messages: dict[str, Any]) -> StreamReader:
    return StreamReader("anthropic").read(messages, has_end=False)


def decode(*messages: dict[str, Any]) -> list[Any]:
    return StreamReader("anthropic").feed(*messages)


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def arguments(index: int, text: str) -> dict[str, Any]:
    delta = {"type": "input_json_delta", "partial_json": text}
    return {"type": "content_block_delta", "index": index, "delta": delta}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str, **details: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, **details}
    return [{"type": "message_delta", "delta": delta}, {"type": "message_stop"}]


def tool(index: int) -> dict[str, Any]:
    return start(index, type="tool_use", id=f"t{index}", name="weather", input={})


def test_call_cut_by_the_token_limit_is_not_completed() -> None:
    for cut in ('{"city": "De', None):
        deltas = [arguments(1, cut)] if cut else []
        events = decode(
            tool(0), arguments(0, '{"a": 1}'), stop(0), tool(1), *deltas, stop(1),
            *ending("max_tokens"),
        )  # fmt: skip
        assert [e.index for e in events if is_kind(e, "flush")] == [0]
        assert events[-1] == model_event("finished", "max_tokens")


def test_message_without_a_stop_reason_does_not_complete_a_cut_call() -> None:
    usage = {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}}
    cut = (tool(0), arguments(0, '{"city": "De'), stop(0), usage)

    assert not [e for e in decode(*cut) if is_kind(e, "flush")]
    assert not [e for e in decode(*cut, *ending("max_tokens")) if is_kind(e, "flush")]
    assert [e for e in decode(*cut, *ending("tool_use")) if is_kind(e, "flush")]


def test_call_with_empty_or_broken_arguments_is_completed() -> None:
    events = decode(tool(0), stop(0), tool(1), arguments(1, "{"), stop(1), *ending("tool_use"))
    assert [e.index for e in events if is_kind(e, "flush")] == [0, 1]


def test_input_of_a_call_may_come_at_once() -> None:
    block = {"type": "tool_use", "id": "t", "name": "weather", "input": {"a": 1}}
    events = decode(start(0, **block), stop(0))
    assert events == [
        model_event("call_start", 0, "t", "weather"),
        model_event("call_arguments", 0, '{"a": 1}'),
        model_event("flush", 0),
    ]


def delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": fields}


def test_text_in_a_block_of_thinking_is_text_and_the_reverse() -> None:
    thought = [
        start(0, type="thinking", thinking="Hm."),
        delta(0, type="text_delta", text="So."),
        delta(0, type="signature_delta", signature="c2ln"),
        stop(0),
    ]
    text = [
        start(1, type="text", text="Yes."),
        delta(1, type="thinking_delta", thinking="Really?"),
        stop(1),
    ]
    entries = read(*thought, *text, *ending("end_turn")).entries
    assert [(entry.reasoning, entry.message) for entry in entries] == [
        ("Hm.", None), (None, "So."), (None, "Yes."), ("Really?", None),
    ]  # fmt: skip
    assert entries[0].metadata == {"anthropic_thinking_signature": "c2ln"}


def test_null_members_are_skipped() -> None:
    events = decode(
        {"type": "message_start", "message": None},
        start(0, type="text", text=None),
        {"type": "content_block_start", "index": 3, "content_block": None},
        {"type": "content_block_delta", "index": 0, "delta": None},
        delta(0, type="text_delta", text=None),
        delta(0, type="text_delta", text="a"),
        stop(0),
        start(1, type="thinking", thinking=None, signature=None),
        delta(1, type="signature_delta", signature=None),
        stop(1),
        {"type": "message_delta", "delta": None, "usage": None},
        *ending("end_turn"),
    )
    assert events == [
        model_event("text", 0, "message", "a"),
        model_event("flush", 0),
        model_event("finished"),
    ]


@pytest.mark.parametrize("has_stops", [True, False])
def test_stop_reason_or_end_mark_completes_an_answer(has_stops: bool) -> None:
    blocks = [start(0, type="text", text="Hi."), *[stop(0)] * has_stops]
    reason = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    for messages, mark, is_complete in (
        ([*blocks, reason], False, True),
        ([reason, *blocks], False, True),
        (blocks, True, True),
        (blocks, False, False),
        ([], True, False),
        ([*blocks, tool(1), arguments(1, "{")], True, False),
    ):
        end = [b"data: [DONE]\n\n"] * mark
        assert StreamReader("anthropic").read([*messages, *end]).is_finished is is_complete


def test_stop_reasons(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, dict[str, Any], Any]] = [
        ("end_turn", {}, model_event("finished")),
        ("stop_sequence", {}, model_event("finished")),
        ("model_context_window_exceeded", {}, model_event("finished", "max_tokens")),
        ("pause_turn", {}, model_event("finished", "other", "pause_turn")),
        ("refusal", {}, model_event("finished", "refused")),
        (
            "refusal",
            {"stop_details": {"category": "bio", "explanation": "No."}},
            model_event("finished", "refused", "bio: No."),
        ),
    ]
    for reason, details, finished in rows:
        with subtests.test(reason=reason, details=details):
            assert decode(*ending(reason, **details)) == [finished]


def test_error_inside_the_stream_is_classified() -> None:
    with pytest.raises(jp.ProviderError, match="Overloaded") as caught:
        decode({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert (caught.value.kind, caught.value.status) == ("transient", 529)


def test_unknown_blocks_and_deltas_are_skipped() -> None:
    citation = {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta"}}
    assert decode(start(0, type="server_tool_use", id="s"), arguments(0, "{}"), stop(0)) == []
    assert decode(start(0, type="text", text="a"), citation)[1:] == []
