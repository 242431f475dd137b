"""Decoding the stream of Anthropic Messages."""

from __future__ import annotations

from typing import Any

import pytest

from jp_nb.agent.provider import (
    Finished,
    Flush,
    ProviderEvent,
    ToolCallArguments,
    ToolCallStart,
)
from jp_nb.errors import ProviderError
from jp_nb.providers.anthropic_decoder import AnthropicDecoder
from tests.providers.helpers import decode_messages


def decode(*messages: dict[str, Any]) -> list[ProviderEvent]:
    return decode_messages(AnthropicDecoder(), messages)


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
        assert [e.index for e in events if isinstance(e, Flush)] == [0]
        assert events[-1] == Finished("max_tokens")


def test_call_with_empty_or_broken_arguments_is_completed() -> None:
    events = decode(tool(0), stop(0), tool(1), arguments(1, "{"), stop(1), *ending("tool_use"))
    assert [e.index for e in events if isinstance(e, Flush)] == [0, 1]


def test_input_of_a_call_may_come_at_once() -> None:
    block = {"type": "tool_use", "id": "t", "name": "weather", "input": {"a": 1}}
    events = decode(start(0, **block), stop(0))
    assert events == [ToolCallStart(0, "t", "weather"), ToolCallArguments(0, '{"a": 1}'), Flush(0)]


def test_stop_reasons(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, dict[str, Any], Finished]] = [
        ("end_turn", {}, Finished()),
        ("stop_sequence", {}, Finished()),
        ("model_context_window_exceeded", {}, Finished("max_tokens")),
        ("pause_turn", {}, Finished("other", "pause_turn")),
        ("refusal", {}, Finished("refused")),
        (
            "refusal",
            {"stop_details": {"category": "bio", "explanation": "No."}},
            Finished("refused", "bio: No."),
        ),
    ]
    for reason, details, finished in rows:
        with subtests.test(reason=reason, details=details):
            assert decode(*ending(reason, **details)) == [finished]


def test_error_inside_the_stream_is_classified() -> None:
    with pytest.raises(ProviderError, match="Overloaded") as caught:
        decode({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert (caught.value.kind, caught.value.status) == ("transient", 529)


def test_unknown_blocks_and_deltas_are_skipped() -> None:
    citation = {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta"}}
    assert decode(start(0, type="server_tool_use", id="s"), arguments(0, "{}"), stop(0)) == []
    assert decode(start(0, type="text", text="a"), citation)[1:] == []
