"""Decoding the stream of chat completions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind
from tests.kit.models import model_event
from tests.kit.streams import StreamReader
from tests.providers.helpers import text_of

REASONING_DETAILS_KEY = "openrouter_reasoning_details"


def decode(
    *deltas: dict[str, Any], finish: str = "stop", server: str = "openai", request: bytes = b""
) -> list[Any]:
    choices: list[dict[str, Any]] = [{"delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"delta": {}, "finish_reason": finish})
    messages = [{"choices": [{"index": 0, **choice}]} for choice in choices]
    return decode_whole(messages, server=server, request=request)


def decode_whole(
    messages: Iterable[dict[str, Any]], *, server: str = "openai", request: bytes = b""
) -> list[Any]:
    """Return the events of a body with these `messages`, or raise its error."""
    response = StreamReader(f"chat/{server}", request=request).read(messages)
    if response.error is not None:
        raise response.error
    return response.events


def calls(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(parts)}


def test_delta_may_contain_reasoning_text_and_a_call_in_any_order() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    events = decode({**calls(call), "content": "So.", "reasoning": "Hm."}, finish="tool_calls")
    assert events == [
        model_event("text", 0, "reasoning", "Hm."),
        model_event("flush", 0),
        model_event("text", 1, "message", "So."),
        model_event("flush", 1),
        model_event("call_start", 2, "a", "f"),
        model_event("call_arguments", 2, "{}"),
        model_event("flush", 2),
        model_event("finished"),
    ]


def test_calls_without_an_index_are_distinguished_by_id() -> None:
    events = decode(
        calls({"id": "a", "function": {"name": "f", "arguments": "{"}}),
        calls({"function": {"arguments": "}"}}),
        calls({"id": "b", "function": {"name": "g", "arguments": "{}"}}),
        finish="tool_calls",
    )
    assert events == [
        model_event("call_start", 2, "a", "f"),
        model_event("call_start", 3, "b", "g"),
        model_event("call_arguments", 2, "{}"),
        model_event("flush", 2),
        model_event("call_arguments", 3, "{}"),
        model_event("flush", 3),
        model_event("finished"),
    ]


def test_complete_calls_with_the_same_index_are_several() -> None:
    first = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    second = {"index": 0, "id": "b", "function": {"name": "f", "arguments": "{}"}}
    for chunks in ([calls(first, second)], [calls(first), calls(second)]):
        events = decode(*chunks, finish="tool_calls")
        assert [e.id for e in events if is_kind(e, "call_start")] == ["a", "b"]


def test_first_id_and_name_are_kept_and_arguments_wait_for_the_name() -> None:
    events = decode(
        calls({"index": 0, "id": "a", "function": {"arguments": '{"x"'}}),
        calls({"index": 0, "id": "", "function": {"name": "f", "arguments": ":1}"}}),
        calls({"index": 0, "id": "z", "function": {"name": "", "arguments": ""}}),
    )
    assert events[:2] == [
        model_event("call_start", 2, "a", "f"),
        model_event("call_arguments", 2, '{"x":1}'),
    ]
    assert len(events) == 4


def test_missing_id_is_generated_and_arguments_may_be_an_object() -> None:
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    start, arguments, *_ = decode(calls(call))
    assert is_kind(start, "call_start")
    assert start.id.startswith("call_")
    assert arguments == model_event("call_arguments", 2, '{"a": 1}')


def test_generated_ids_are_unique_and_reproducible() -> None:
    def ids(request: bytes) -> list[str]:
        several = [{"index": n, "function": {"name": "f", "arguments": "{}"}} for n in range(12)]
        events = decode(calls(*several), request=request)
        return [e.id for e in events if is_kind(e, "call_start")]

    assert len({*ids(b"one"), *ids(b"another")}) == 24
    assert ids(b"one") == ids(b"one")


def test_call_without_a_name_is_tried_again() -> None:
    with pytest.raises(jp.ProviderError, match="without a name") as caught:
        decode(calls({"index": 0, "id": "a", "function": {"arguments": "{}"}}))
    assert caught.value.retryable


def test_call_with_an_empty_name_is_a_call_of_the_model() -> None:
    events = decode(calls({"index": 0, "id": "a", "function": {"name": "", "arguments": "{}"}}))
    assert [event.name for event in events if is_kind(event, "call_start")] == [""]


def test_call_cut_by_the_token_limit_is_not_completed() -> None:
    events = decode(
        calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}),
        calls({"index": 1, "id": "b", "function": {"name": "f", "arguments": '{"x": "y'}}),
        finish="length",
    )
    assert [e.index for e in events if is_kind(e, "flush")] == [2]
    assert events[-1] == model_event("finished", "max_tokens")


def test_finish_reasons(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, Any]] = [
        ("stop", model_event("finished")),
        ("function_call", model_event("finished")),
        ("content_filter", model_event("finished", "refused", "content_filter")),
        ("eos", model_event("finished", "other", "eos")),
    ]
    for reason, finished in rows:
        with subtests.test(reason=reason, finished=finished):
            assert decode(finish=reason) == [finished]


def test_refusal_keeps_its_text() -> None:
    assert decode({"refusal": "I can"}, {"refusal": "not."}) == [
        model_event("finished", "refused", "I cannot.")
    ]


def test_error_inside_the_stream_is_classified_by_its_code(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"error": {"code": 429, "message": "slow down"}}, "rate_limit"),
        ({"error": {"code": "insufficient_quota", "message": "x"}}, "quota"),
        ({"choices": [{"finish_reason": "insufficient_system_resource"}]}, "transient"),
        ({"choices": [{"finish_reason": "error", "error": {"code": 502}}]}, "transient"),
    ]
    for message, kind in rows:
        with subtests.test(message=message, kind=kind):
            with pytest.raises(jp.ProviderError) as caught:
                decode_whole([message], server="openrouter")
            assert caught.value.kind == kind


def test_reasoning_details_of_openrouter_are_joined() -> None:
    kind: dict[str, Any] = {
        "type": "reasoning.text",
        "index": 0,
        "format": "anthropic-claude-v1",
    }
    events = decode(
        {"reasoning": "Zwei ", "reasoning_details": [{**kind, "text": "Zwei "}]},
        {"reasoning": "Städte", "reasoning_details": [{**kind, "text": "Städte"}]},
        {"reasoning_details": [{**kind, "signature": "c2ln"}]},
        {"content": "So."},
        server="openrouter",
    )
    joined: list[Any] = [{**kind, "text": "Zwei Städte", "signature": "c2ln"}]
    assert events[:3] == [
        model_event("text", 0, "reasoning", "Zwei "),
        model_event("text", 0, "reasoning", "Städte"),
        model_event("flush", 0, {REASONING_DETAILS_KEY: joined}),
    ]


def test_reasoning_detail_without_type_and_index_is_kept() -> None:
    detail = {"data": "b3BhcXVl"}
    events = decode({"reasoning_details": [detail]}, {"content": "So."}, server="openrouter")
    assert model_event("flush", 0, {REASONING_DETAILS_KEY: [detail]}) in events


def think(text: Any) -> dict[str, Any]:
    return {"content": [{"type": "thinking", "thinking": text}]}


CONTENTS: list[tuple[list[Any], list[tuple[str, str]]]] = [
    (["Hi", [{"type": "text", "text": " there"}], None, ""], [("message", "Hi there")]),
    ([[{"type": "text", "text": "a"}, "b", {"text": "c"}, None]], [("message", "abc")]),
    ([{"type": "text", "text": "a"}], [("message", "a")]),
    (
        [
            [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}],
            [{"type": "thinking", "thinking": "So", "closed": True}],
            [{"type": "text", "text": "Yes."}],
        ],
        [("reasoning", "Hm.So"), ("message", "Yes.")],
    ),
    (
        [
            [
                {"type": "image_url", "image_url": {"url": "data:"}},
                {"type": "text", "text": "See."},
            ],
            [{"type": "reference", "reference_ids": [1]}, {"type": "later", "text": "x"}],
            [{"type": "text", "text": None}, {}, {"type": "text", "text": {"value": 1}}],
        ],
        [("message", "See.")],
    ),
]


@pytest.mark.parametrize(("contents", "texts"), CONTENTS)
def test_content_may_be_a_list_of_parts(contents: list[Any], texts: list[tuple[str, str]]) -> None:
    events = decode(*({"content": each} for each in contents))
    found: dict[str, str] = {}
    for event in events:
        if is_kind(event, "text"):
            found[event.kind] = found.get(event.kind, "") + event.text
    assert [*found.items()] == texts
    assert events[-1] == model_event("finished")


def test_refusal_may_be_a_part_of_the_content() -> None:
    part = {"type": "refusal", "refusal": "I cannot."}
    assert decode({"content": [part]}) == [model_event("finished", "refused", "I cannot.")]


def choice(index: int | None, text: str, finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": {"content": text}, "finish_reason": finish}


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ([[choice(0, "A")], [choice(1, "x", "length")], [choice(0, "B", "stop")]], "AB"),
        ([[choice(1, "x"), choice(0, "A")], [choice(0, "B", "stop"), choice(1, "y")]], "AB"),
        ([[choice(1, "x")], [choice(0, "A")], [choice(None, "B", "stop")]], "AB"),
        ([[choice(1, "A")], [choice(2, "x")], [choice(1, "B", "stop")]], "AB"),
        ([[None], [choice(0, "AB", "stop")]], "AB"),
    ],
)
def test_second_choice_is_not_a_part_of_the_answer(choices: list[Any], text: str) -> None:
    events = decode_whole({"choices": each} for each in choices)
    assert text_of(events) == text
    assert events[-1] == model_event("finished")


def test_whole_message_at_the_end_does_not_repeat_the_answer() -> None:
    whole = {"index": 0, "delta": {}, "message": {"content": "Hi."}, "finish_reason": "stop"}
    streamed = {"index": 0, "delta": {"content": "Hi."}}
    for choices, text in (([streamed, whole], "Hi."), ([whole], "Hi.")):
        assert text_of(decode_whole({"choices": [each]} for each in choices)) == text
