"""Decoding the stream of the Responses API."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind
from tests.kit.models import model_event
from tests.kit.streams import StreamReader
from tests.providers.helpers import text_of

ANNOTATIONS = "openai_annotations"
ENCRYPTED = "openai_encrypted_content"
ITEM = "openai_item"
ITEM_ID = "openai_item_id"
PHASE = "openai_phase"
SUMMARY_LENGTHS = "openai_summary_lengths"


Wire = dict[str, Any]
COMPLETED: Wire = {"type": "response.completed", "response": {"status": "completed"}}
CALL: Wire = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f"}


def decode(*messages: Wire, end: Wire | None = COMPLETED) -> list[Any]:
    """Return the events of a response, without keep-alives."""
    given = [*messages, *([end] if end else [])]
    events = StreamReader("responses").feed(*given)
    return [event for event in events if not is_kind(event, "keep_alive")]


def delta(family: str, text: str, place: int = 0, **more: Any) -> Wire:
    return {"type": f"response.{family}.delta", "output_index": place, "delta": text, **more}


def added(item: Wire, place: int = 0) -> Wire:
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def done(item: Wire, place: int = 0) -> Wire:
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def message(text: str = "", *parts: Wire, **more: Any) -> Wire:
    content = [{"type": "output_text", "text": text}] if text else []
    return {"type": "message", "id": "msg_1", "content": [*content, *parts], **more}


def failed(**error: Any) -> Wire:
    return {"type": "response.failed", "response": {"status": "failed", "error": error}}


@pytest.mark.req("RESP-4", "RESP-11")
def test_metadata_comes_from_the_complete_item() -> None:
    start = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "incomp"}
    cite: Any = {"type": "url_citation", "url": "https://example.org"}
    text = {"type": "output_text", "text": "Sun.", "annotations": [cite]}
    events = decode(
        added(start),
        delta("reasoning_summary_text", "Hm.", summary_index=0),
        delta("reasoning_summary_text", "So.", summary_index=1),
        done({**start, "encrypted_content": "complete"}),
        delta("output_text", "Sun.", 1, content_index=0),
        done(message("", text, phase="commentary"), 1),
    )
    assert events == [
        model_event("text", 0, "reasoning", "Hm."),
        model_event("text", 0, "reasoning", "\n\nSo."),
        model_event("flush", 0, {ITEM_ID: "rs_1", ENCRYPTED: "complete", SUMMARY_LENGTHS: [3, 3]}),
        model_event("text", 1, "message", "Sun."),
        model_event("flush", 1, {ITEM_ID: "msg_1", PHASE: "commentary", ANNOTATIONS: [cite]}),
        model_event("finished"),
    ]


def test_text_of_the_end_is_used_only_if_no_delta_came() -> None:
    whole = {"type": "response.output_text.done", "output_index": 0, "content_index": 0}
    events = decode(delta("output_text", "A", content_index=0), {**whole, "text": "A"})
    assert text_of(events) == "A"
    assert text_of(decode({**whole, "text": "B"})) == "B"
    assert text_of(decode(done(message("C")))) == "C"
    assert text_of(decode({**COMPLETED, "response": {"output": [message("D")]}}, end=None)) == "D"


def test_parts_of_one_message_are_separated_by_a_blank_line() -> None:
    parts = [delta("output_text", text, content_index=place) for place, text in enumerate("AB")]
    assert text_of(decode(*parts)) == "A\n\nB"


def test_reasoning_without_a_text_keeps_its_encrypted_content() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3A="}
    assert decode(added(item), done(item)) == [
        model_event("text", 0, "reasoning", ""),
        model_event("flush", 0, {ITEM_ID: "rs_1", ENCRYPTED: "b3A="}),
        model_event("finished"),
    ]


@pytest.mark.req("RESP-7")
def test_parallel_calls_get_the_arguments_of_their_ends() -> None:
    second = {**CALL, "id": "fc_2", "call_id": "c2", "name": "g"}
    name = "function_call_arguments"
    finished: Wire = {"type": f"response.{name}.done", "output_index": 1, "arguments": '{"x":2}'}
    events = decode(
        added({**CALL, "arguments": ""}, 0),
        added({**second, "arguments": ""}, 1),
        delta(name, '{"x"', 0),
        delta(name, '{"x":', 1),
        delta(name, ":1}", 0),
        done({**CALL, "arguments": '{"x":1}'}, 0),
        finished,
        done({**second, "arguments": ""}, 1),
    )
    assert events == [
        model_event("call_start", 0, "c1", "f"),
        model_event("call_start", 1, "c2", "g"),
        model_event("call_arguments", 0, '{"x":1}'),
        model_event("flush", 0, {ITEM_ID: "fc_1"}),
        model_event("call_arguments", 1, '{"x":2}'),
        model_event("flush", 1, {ITEM_ID: "fc_2"}),
        model_event("finished"),
    ]


def test_call_that_the_record_cannot_express_is_kept_whole(subtests: pytest.Subtests) -> None:
    for item in (
        {**CALL, "arguments": '{"x": 1}'},
        {**CALL, "arguments": "{}", "namespace": "n"},
    ):
        with subtests.test(item=item):
            flush = decode(done(item))[2]
            assert is_kind(flush, "flush")
            assert flush.metadata[ITEM] == item


def test_server_without_output_indexes_is_understood() -> None:
    """llama.cpp names items only by their ids, which it repeats for calls."""
    call = {"type": "function_call", "id": "fc_", "call_id": "a", "name": "f", "arguments": ""}
    plain = decode(
        {"type": "response.output_item.added", "item": {"type": "message", "id": "m"}},
        {"type": "response.output_text.delta", "item_id": "m", "delta": "Hi."},
        {"type": "response.output_item.added", "item": call},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_", "delta": "{}"},
        {"type": "response.output_item.done", "item": {**call, "arguments": "{}"}},
        {"type": "response.output_item.added", "item": {**call, "call_id": "b"}},
        {"type": "response.output_item.done", "item": {**call, "call_id": "b", "arguments": "{}"}},
        {"type": "response.output_item.done", "item": {**message("Hi."), "id": "m"}},
    )
    assert text_of(plain) == "Hi."
    assert [event.id for event in plain if is_kind(event, "call_start")] == ["a", "b"]
    assert sum(is_kind(event, "flush") for event in plain) == 3


def test_text_in_an_item_of_reasoning_is_text() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    events = decode(
        added(item),
        delta("reasoning_text", "Hm.", content_index=0),
        delta("output_text", "So.", content_index=1),
        done(item),
    )
    assert (text_of(events, "reasoning"), text_of(events)) == ("Hm.", "So.")


@pytest.mark.parametrize("place", [{"output_index": 0}, {}])
@pytest.mark.parametrize("id_", ["own", None])
def test_items_that_a_server_does_not_number_are_shown_once(
    place: dict[str, int], id_: str | None
) -> None:
    def of(number: int, kind: str, **fields: Any) -> Wire:
        name = id_ and f"{id_}_{number}"
        named = {"item_id": name} if "item" not in fields else {}
        if "item" in fields:
            fields["item"] = {**fields["item"], "id": name}
        return {"type": f"response.{kind}", **named, **place, **fields}

    text = {"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}
    call = {**CALL, "arguments": "{}"}
    other = {**CALL, "call_id": "c2", "arguments": '{"a":1}'}
    events = decode(
        of(0, "output_item.added", item={"type": "message", "content": []}),
        of(0, "output_text.delta", delta="Hi.", content_index=0),
        of(0, "output_text.done", text="Hi."),
        of(0, "output_item.done", item=text),
        of(0, "output_item.done", item=text),
        of(1, "output_item.added", item={**CALL, "arguments": ""}),
        of(1, "function_call_arguments.delta", delta=None),
        of(1, "function_call_arguments.delta", delta="{}"),
        of(1, "output_item.done", item=call),
        of(2, "output_item.done", item=other),
        {"type": "response.completed", "response": {"output": [text, call, other]}},
        end=None,
    )
    assert text_of(events) == "Hi."
    assert [event.id for event in events if is_kind(event, "call_start")] == ["c1", "c2"]
    assert [e.text for e in events if is_kind(e, "call_arguments")] == ["{}", '{"a":1}']


def test_call_that_only_the_end_of_the_response_has_is_called() -> None:
    text = message("Hi.")
    call = {**CALL, "arguments": "{}"}
    end = {"type": "response.completed", "response": {"output": [text, call]}}
    events = decode(added(message()), delta("output_text", "Hi."), done(text), end=end)
    assert text_of(events) == "Hi."
    assert [event.id for event in events if is_kind(event, "call_start")] == ["c1"]


def test_ended_items_complete_a_response() -> None:
    text = message("Hi.")
    call = {**CALL, "arguments": "{}"}
    rows: list[tuple[list[Wire], bool]] = [
        ([done(text)], True),
        ([done(text), done(call, 1)], True),
        ([done(message("Let me look.", phase="commentary"))], False),
        ([done({"type": "reasoning", "id": "rs_1", "summary": []})], False),
        ([delta("output_text", "Hi.")], False),
        ([done(text), added({**CALL, "arguments": ""}, 1)], False),
        ([], False),
    ]
    for messages, is_complete in rows:
        assert StreamReader("responses").read(messages).is_finished is is_complete, messages


@pytest.mark.req("RESP-12")
def test_refusals_have_one_shape(subtests: pytest.Subtests) -> None:
    said = {"type": "refusal", "refusal": "No."}
    incomplete = {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    policy = {"code": "misalignment_policy_violation", "message": "m"}
    rows: list[tuple[str, list[Wire], str]] = [
        ("part", [delta("refusal", "N"), delta("refusal", "o.")], "No."),
        ("item alone", [done(message("", said))], "No."),
        ("filter", [{"type": "response.incomplete", "response": incomplete}], "content_filter"),
        ("code", [failed(code="bio_policy", message="Not this.")], "bio_policy: Not this."),
        (
            "misalignment",
            [failed(**policy, misalignment={"detailed_explanation": "x"})],
            "misalignment_policy_violation: x",
        ),
    ]
    for name, messages, detail in rows:
        with subtests.test(name=name):
            assert decode(*messages)[-1] == model_event("finished", "refused", detail)


def test_other_ends(subtests: pytest.Subtests) -> None:
    rows = [
        ("max_output_tokens", model_event("finished", "max_tokens")),
        ("max_messages", model_event("finished", "other", "max_messages")),
        ("", model_event("finished", "other", "incomplete")),
    ]
    for reason, finished in rows:
        with subtests.test(reason=reason):
            response = {"status": "incomplete", "incomplete_details": {"reason": reason}}
            end = {"type": "response.incomplete", "response": response}
            open_call = added({**CALL, "arguments": ""})
            events = decode(open_call, delta("function_call_arguments", "{}"), end=end)
            assert events == [model_event("call_start", 0, "c1", "f"), finished]
    cancelled = {"type": "response.completed", "response": {"status": "cancelled"}}
    assert decode(end=cancelled) == [model_event("finished", "other", "cancelled")]


@pytest.mark.req("RESP-13", "RESP-14")
def test_errors_inside_the_stream(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Wire, str, str]] = [
        ({"type": "error", "code": "server_error", "message": "x"}, "transient", "x"),
        ({"type": "error", "error": {"code": "rate_limit_exceeded"}}, "rate_limit", "rate_limit"),
        (failed(code="server_error", message="x"), "transient", "x"),
        (failed(code="vector_store_timeout", message="x"), "transient", "x"),
        (failed(code="rate_limit_exceeded", message="in 3s"), "rate_limit", "in 3s"),
        (failed(code="insufficient_quota", message="x"), "quota", "x"),
        (failed(code="context_length_exceeded", message="x"), "too_long", "x"),
        (
            failed(code="invalid_image", message="x", param="input[2].content[1]"),
            "other",
            r"at `input\[2\]\.content\[1\]`",
        ),
        (failed(code="invalid_image", param="input[2]"), "other", r": unknown error \(at `inp"),
    ]
    for sent, kind, text in rows:
        with subtests.test(sent=sent):
            with pytest.raises(jp.ProviderError, match=text) as caught:
                decode(sent, end=None)
            assert caught.value.kind == kind


@pytest.mark.req("RESP-15")
def test_usage_includes_cache_writes_and_absent_counts_are_unknown() -> None:
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
    }
    end = {"type": "response.completed", "response": {"usage": usage}}
    assert decode(end=end)[0] == model_event("usage", 9, 2, 1, 4, 3)
    end["response"] = {"usage": {"input_tokens": 9}}
    assert decode(end=end)[0] == model_event("usage", input_tokens=9)


def test_reasoning_that_the_server_dropped_is_reported() -> None:
    change = {"type": "reasoning", "id": "rs_1", "action": "removed", "reason": "prefix_mismatch"}
    end = {"type": "response.completed", "response": {"input_transformations": [change]}}
    assert decode(end=end)[0] == model_event("input_change", "prefix", is_dropped=True, mark="rs_1")


@pytest.mark.req("RESP-20")
def test_unknown_events_and_items_are_counted_and_items_kept_in_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    item = {"type": "web_search_call", "id": "ws_1", "status": "completed", "new": [1]}
    event = {"type": "response.web_search_call.searching", "output_index": 0}
    with caplog.at_level(logging.DEBUG):
        events = decode(added(item), event, event, {"type": "response.new"}, done(item))
    flush = next(event for event in events if is_kind(event, "flush"))
    assert flush.metadata == {ITEM: item}
    kinds = (event["type"], "response.new", "web_search_call")
    assert caplog.messages == [f"openai sent an unknown event or item: {kind}" for kind in kinds]


def test_call_without_a_name_is_tried_again() -> None:
    with pytest.raises(jp.ProviderError, match="without a name") as caught:
        decode(done({key: value for key, value in CALL.items() if key != "name"}))
    assert caught.value.retryable


def test_call_with_an_empty_name_is_a_call_of_the_model() -> None:
    events = decode(done({**CALL, "name": ""}))
    assert [event.name for event in events if is_kind(event, "call_start")] == [""]
