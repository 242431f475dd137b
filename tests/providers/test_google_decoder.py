"""Decoding the streams of Gemini, above all of the Interactions API."""

from __future__ import annotations

import json
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind, select_kind
from tests.kit.models import model_event
from tests.kit.providers import new_provider
from tests.kit.records import new_event
from tests.kit.streams import StreamReader
from tests.providers.helpers import ask, collect, join_texts, text_of
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.loopback_google import generate_chunks, interaction_events, named

STEPS_KEY = "google_step"


SIGNATURE = "google_thought_signature"


def decode(*messages: dict[str, Any], **options: Any) -> list[Any]:
    return StreamReader("interactions", **options).feed(*messages)


def build(*messages: dict[str, Any], **options: Any) -> list[Any]:
    response = StreamReader("interactions", **options).read(messages)
    assert response.error is None
    assert response.problems == []
    return response.entries


def start(index: int, **step: Any) -> dict[str, Any]:
    return {"event_type": "step.start", "index": index, "step": step}


def delta(index: int, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.delta", "index": index, "delta": fields}


def stop(index: int, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.stop", "index": index, **fields}


def ending(status: str = "completed", **fields: Any) -> dict[str, Any]:
    interaction = {"id": "v1_1", "status": status, **fields}
    return {"event_type": "interaction.completed", "interaction": interaction}


def text_step(index: int, *texts: str) -> list[dict[str, Any]]:
    deltas = [delta(index, type="text", text=text) for text in texts]
    return [start(index, type="model_output"), *deltas, stop(index)]


def summary(index: int, text: str) -> dict[str, Any]:
    return delta(index, type="thought_summary", content={"type": "text", "text": text})


CALL = {"type": "function_call", "id": "fc_1", "name": "look", "arguments": {}}


@pytest.mark.req("GEM-5")
def test_thought_text_and_calls_become_entries() -> None:
    pieces = [
        delta(3, type="arguments_delta", arguments=c) for c in '{"text": "' + "x" * 200 + '"}'
    ]
    entries = build(
        start(0, type="thought"), summary(0, "Hm"), summary(0, "."),
        delta(0, type="thought_signature", signature="c2ln"), stop(0),
        start(1, type="model_output", content=[{"type": "text", "text": "Let "}]),
        delta(1, type="text", text="me look."), stop(1),
        start(2, **CALL), stop(2),
        start(3, **{**CALL, "id": "fc_2"}), *pieces, stop(3),
        start(4, **{**CALL, "id": "fc_3", "arguments": {"n": 1}}), stop(4),
        ending("requires_action"),
    )  # fmt: skip
    assert entries == [
        new_event("chat_response", reasoning="Hm.", metadata={SIGNATURE: "c2ln"}),
        new_event("chat_response", message="Let me look."),
        new_event("tool_call_request", id="fc_1", name="look", arguments={}),
        new_event("tool_call_request", id="fc_2", name="look", arguments={"text": "x" * 200}),
        new_event("tool_call_request", id="fc_3", name="look", arguments={"n": 1}),
    ]


@pytest.mark.req("GEM-5", "GEM-4")
def test_thought_without_summary_is_kept_for_its_signature() -> None:
    (entry,) = build(start(0, type="thought", signature="c2ln"), stop(0), ending())
    assert is_kind(entry, "chat_response")
    assert (entry.reasoning, entry.metadata) == ("", {SIGNATURE: "c2ln"})


@pytest.mark.parametrize("has_stops", [True, False])
def test_text_in_a_thought_is_text_and_the_reverse(has_stops: bool) -> None:
    thought = [
        start(0, type="thought"),
        summary(0, "Hm."),
        delta(0, type="text", text="S"),
        summary(0, " Well."),
        delta(0, type="text", text="o."),
        delta(0, type="thought_signature", signature="c2ln"),
        *[stop(0)] * has_stops,
    ]
    text = [
        start(1, type="model_output"),
        delta(1, type="text", text="Yes."),
        summary(1, "Really?"),
        *[stop(1)] * has_stops,
    ]
    entries = build(*thought, *text, ending())
    found = [entry for entry in entries if is_kind(entry, "chat_response")]
    assert [(entry.reasoning, entry.message) for entry in found] == [
        ("Hm. Well.", None), (None, "So."), (None, "Yes."), ("Really?", None),
    ]  # fmt: skip
    metadata = [entry.metadata for entry in found]
    assert metadata == [{SIGNATURE: "c2ln"}, {}, {}, {}]


def test_text_in_a_thought_alone_is_the_answer() -> None:
    thought = [start(0, type="thought"), delta(0, type="text", text="So."), stop(0)]
    assert decode(*thought, ending())[-2:] == [model_event("flush", 1), model_event("finished")]
    response = StreamReader("interactions").read([*thought, b"data: [DONE]\n\n"])
    assert (text_of(response.events), response.error) == ("So.", None)


def test_each_part_of_generate_content_says_its_kind() -> None:
    parts = [{"text": "Hm.", "thought": True}, {"text": "So."}, {"text": "Yes?", "thought": True}]
    chunk = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    events = StreamReader("generate").feed(chunk)
    assert (text_of(events), text_of(events, "reasoning")) == ("So.", "Hm.Yes?")


@pytest.mark.req("GEM-4", "GEM-17")
def test_step_that_text_cannot_express_is_kept_as_it_came(subtests: pytest.Subtests) -> None:
    annotation = {"type": "url_citation", "url": "https://a.b"}
    image = {"type": "image", "mime_type": "image/png", "data": "aW1n"}
    search = {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["a"]}}
    rows: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
        (
            "unknown field of a thought",
            [start(0, type="thought", later=1), summary(0, "Hm."), stop(0)],
            {"type": "thought", "later": 1, "summary": [{"type": "text", "text": "Hm."}]},
        ),
        (
            "image in a thought",
            [start(0, type="thought"), delta(0, type="thought_summary", content=image), stop(0)],
            {"type": "thought", "summary": [image]},
        ),
        (
            "annotations of a text",
            [
                start(0, type="model_output"), delta(0, type="text", text="a"),
                delta(0, type="text_annotation_delta", annotations=[annotation]),
                delta(0, type="text", text="b"), stop(0),
            ],
            {
                "type": "model_output",
                "content": [{"type": "text", "text": "ab", "annotations": [annotation]}],
            },
        ),
        (
            "content of a later kind that has a text",
            [start(0, type="model_output", content=[{"type": "later", "text": "x"}]), stop(0)],
            {"type": "model_output", "content": [{"type": "later", "text": "x"}]},
        ),
        (
            "only an image",
            [start(0, type="model_output"), delta(0, **image), stop(0)],
            {"type": "model_output", "content": [image]},
        ),
        (
            "unknown field of a call",
            [start(0, **CALL, later=[1]), stop(0)],
            {**CALL, "later": [1]},
        ),
        (
            "signature of a call",
            [start(0, **CALL), delta(0, type="thought_signature", signature="x"), stop(0)],
            {**CALL, "signature": "x"},
        ),
        (
            "step of a tool of the vendor",
            [start(0, **search), delta(0, type="google_search_call", id="s2"), stop(0)],
            {**search, "id": "s2"},
        ),
        (
            "step of a kind that does not exist yet",
            [start(0, type="dream", depth=3), stop(0)],
            {"type": "dream", "depth": 3},
        ),
    ]  # fmt: skip
    for name, messages, step in rows:
        with subtests.test(name):
            (entry,) = build(*messages, ending())
            assert entry.metadata[STEPS_KEY] == step


@pytest.mark.req("GEM-17")
def test_unknown_events_and_steps_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "jp_nb.providers.google.google_interactions_decoder")
    twice = [{"event_type": "step.dream"}, start(0, type="dream"), stop(0)] * 2
    assert len(build(*twice, ending())) == 2
    assert caplog.messages == ["google: unknown event step.dream", "google: unknown step dream"]


@pytest.mark.req("GEM-8")
def test_structured_answer_is_kept_with_its_exact_text() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    (entry,) = build(*text_step(0, '{"a":', "1}"), ending(), schema=schema)
    assert is_kind(entry, "chat_response")
    assert entry.data == {"a": 1}
    content = [{"type": "text", "text": '{"a":1}'}]
    assert entry.metadata[STEPS_KEY] == {"type": "model_output", "content": content}


@pytest.mark.req("GEM-10")
def test_statuses(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, Any]] = [
        ("completed", model_event("finished")),
        ("requires_action", model_event("finished")),
        ("incomplete", model_event("finished", "max_tokens")),
        ("budget_exceeded", model_event("finished", "max_tokens")),
        ("requires_continuation", model_event("finished", "max_tokens")),  # without a token
        ("cancelled", model_event("finished", "other", "cancelled")),
        ("dreaming", model_event("finished", "other", "dreaming")),
    ]
    for status, finished in rows:
        with subtests.test(status):
            assert decode(*text_step(0, "a"), ending(status))[-2:] == [
                model_event("flush", 0),
                finished,
            ]
    for status in ("in_progress", "queued"):
        with subtests.test(status), pytest.raises(jp.ProviderError) as caught:
            decode(ending(status))
        assert caught.value.kind == "transient"


def update(status: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": "interaction.status_update", "status": status, **fields}


def end_after(*messages: dict[str, Any]) -> Any:
    """Return the last event of a body that ends after `messages`, or its error."""
    response = StreamReader("interactions").read(messages)
    return response.error or response.events[-1]


def is_cut_after(*messages: dict[str, Any]) -> bool:
    """Return True if a body that ends after `messages` is incomplete."""
    error = StreamReader("interactions").read(messages).error
    return error is not None and error.kind == "transient"


@pytest.mark.parametrize("has_stop", [True, False])
def test_final_status_update_ends_a_response(has_stop: bool, subtests: pytest.Subtests) -> None:
    text = text_step(0, "Hi.") if has_stop else text_step(0, "Hi.")[:-1]
    rows: list[tuple[str, Any]] = [
        ("completed", model_event("finished")),
        ("requires_action", model_event("finished")),
        ("incomplete", model_event("finished", "max_tokens")),
        ("budget_exceeded", model_event("finished", "max_tokens")),
        ("cancelled", model_event("finished", "other", "cancelled")),
    ]
    for status, finished in rows:
        with subtests.test(status):
            assert end_after(*text, update(status)) == finished
            assert end_after(update(status), *text, update(status)) == finished
            assert not is_cut_after(*text, update(status))
    assert "the interaction failed" in str(end_after(*text, update("failed")))


def test_other_status_updates_end_nothing(subtests: pytest.Subtests) -> None:
    text = text_step(0, "Hi.")
    for status in ("in_progress", "queued", "requires_continuation", "dreaming", ""):
        with subtests.test(status):
            assert is_cut_after(*text, update(status))
    assert is_cut_after(*text, update("completed"), update("in_progress"))
    assert is_cut_after(update("completed"), *text)
    assert is_cut_after(update("completed"))  # the steps of a model that does not stream follow
    assert is_cut_after(text[0], update("completed"), *text[1:])


def test_completed_interaction_after_a_final_status_update_counts() -> None:
    usage = {"total_input_tokens": 3}
    events = decode(*text_step(0, "Hi."), update("incomplete"), ending("completed", usage=usage))
    assert events[-2:] == [model_event("flush", 0), model_event("finished")]
    assert model_event("usage", input_tokens=3) in events


@pytest.mark.req("GEM-10")
def test_failures(subtests: pytest.Subtests) -> None:
    rows: list[tuple[dict[str, Any], str, int | None]] = [
        ({"code": "https://a.b/errors/UNAVAILABLE", "message": "busy"}, "transient", 503),
        ({"code": "resource_exhausted", "message": "slower"}, "rate_limit", 429),
        ({"code": "invalid_argument", "message": "no"}, "other", 400),
        ({"code": 14, "message": "busy"}, "transient", 503),
        ({"code": 500, "message": "oh"}, "transient", 500),
        ({"message": "unknown"}, "other", None),
        ({}, "other", None),
    ]
    for error, kind, status in rows:
        for messages in (
            [ending("failed", errors=[error])],
            [start(0, type="model_output", error=error), stop(0), ending("failed")],
            [{"event_type": "error", "error": error}],
        ):
            with subtests.test(error=error), pytest.raises(jp.ProviderError) as caught:
                decode(*messages)
            assert (caught.value.kind, caught.value.status) == (kind, status)


@pytest.mark.req("GEM-12")
def test_refusals(subtests: pytest.Subtests) -> None:
    blocked = {"code": "failed_precondition", "message": "Blocked for safety."}
    rows: list[list[dict[str, Any]]] = [
        [{"event_type": "error", "error": blocked}],
        [ending("failed", errors=[blocked])],
        [*text_step(0, "How to"), ending("failed", errors=[blocked])],
        [*text_step(0, "How to"), ending("incomplete", errors=[blocked])],
        [
            start(0, type="model_output", error={"code": 9, "message": "Blocked for safety."}),
            stop(0),
            ending("incomplete"),
        ],
    ]
    for messages in rows:
        with subtests.test(messages=messages):
            assert decode(*messages)[-1] == model_event(
                "finished", "refused", "Blocked for safety."
            )


@pytest.mark.req("GEM-10")
def test_call_cut_by_the_limit_is_not_completed() -> None:
    whole = [start(0, **CALL), delta(0, type="arguments_delta", arguments='{"n": 1}'), stop(0)]
    cut = [start(1, **CALL), delta(1, type="arguments_delta", arguments='{"n'), stop(1)]
    flushed = [e.index for e in decode(*whole, *cut, ending("incomplete")) if is_kind(e, "flush")]
    assert flushed == [0]
    events = decode(*whole, *cut, ending("requires_action"))
    assert [e.index for e in events if is_kind(e, "flush")] == [0, 1]


def test_whole_steps_at_the_end_replace_a_stream() -> None:
    steps = [
        {"type": "user_input", "content": [{"type": "text", "text": "Hi."}]},
        {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Hm."}]},
        {"type": "model_output", "content": [{"type": "text", "text": "Hello."}]},
        {**CALL, "arguments": {"n": 1}},
    ]
    thought, message, call = build(ending("requires_action", steps=steps))
    assert is_kind(thought, "chat_response")
    assert is_kind(message, "chat_response")
    assert (thought.reasoning, thought.metadata) == ("Hm.", {SIGNATURE: "c2ln"})
    assert message.message == "Hello."
    assert is_kind(call, "tool_call_request")
    assert call.arguments == {"n": 1}


@pytest.mark.req("GEM-18")
def test_later_usage_replaces_earlier_and_thoughts_count_as_output() -> None:
    early = {"total_input_tokens": 9, "total_output_tokens": 1}
    late = {
        "total_input_tokens": 9, "total_output_tokens": 5, "total_thought_tokens": 4,
        "total_cached_tokens": 8, "input_tokens_by_modality": [],
    }  # fmt: skip
    events = decode(
        start(0, type="model_output"),
        {**delta(0, type="text", text="a"), "metadata": {"total_usage": early}},
        stop(0, usage=early),
        ending(usage=late),
    )
    usages = [event for event in events if is_kind(event, "usage")]
    assert usages[0] == model_event("usage", input_tokens=9, output_tokens=1)
    assert usages[-1] == model_event(
        "usage", input_tokens=9, output_tokens=9, reasoning_tokens=4, cache_read_tokens=8
    )


@pytest.mark.req("GEM-11")
async def test_continued_text_has_no_seam() -> None:
    usage = {"total_input_tokens": 10, "total_output_tokens": 3}
    end = ending("requires_continuation", continuation_token="t1", usage=usage)
    first = [*text_step(0, "One, "), end]
    second = [*text_step(0, "two."), ending(usage=usage)]

    with LoopbackServer([Reply(raw=tuple(map(named, part))) for part in (first, second)]) as server:
        provider = new_provider("google", {"base_url": server.url, "dialect": "interactions"})
        events = join_texts(await collect(provider, ask()))
        await provider.aclose()

    steps: Any = [
        {"type": "model_output", "content": [{"type": "text", "text": text}]}
        for text in ("One, ", "two.")
    ]
    assert [event for event in events if not is_kind(event, "usage")] == [
        model_event("text", 0, "message", "One, "),
        model_event("text", 0, "message", "two."),
        model_event("flush", 0, {STEPS_KEY: steps}),
        model_event("finished"),
    ]
    assert select_kind(events, "usage")[-1] == model_event(
        "usage", input_tokens=20, output_tokens=6
    )
    tokens = [request.body.get("continuation_token") for request in server.requests]
    assert tokens == [None, "t1"]


@pytest.mark.req("GEM-4", "GEM-11")
async def test_continued_response_keeps_the_images_of_all_requests() -> None:
    steps: list[Any] = [
        {"type": "model_output", "content": [{"type": "image", "data": data}]}
        for data in ("Zmlyc3Q=", "c2Vjb25k")
    ]
    ends = [ending("requires_continuation", continuation_token="t1"), ending()]
    parts = [
        [start(0, type="model_output"), delta(0, **step["content"][0]), stop(0), end]
        for step, end in zip(steps, ends, strict=True)
    ]

    with LoopbackServer([Reply(raw=tuple(map(named, part))) for part in parts]) as server:
        provider = new_provider("google", {"base_url": server.url, "dialect": "interactions"})
        events = await collect(provider, ask())
        await provider.aclose()

    assert select_kind(events, "flush") == [model_event("flush", 0, {STEPS_KEY: steps})]


def test_malformed_events_are_protocol_errors(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, Any]] = [
        delta(7, type="text", text="a"),
        stop(7),
        {"event_type": "step.start", "index": 0, "step": "text"},
        start(0, id="x"),
        start(0, type="function_call", id=5, name="look"),
        start(0, type="model_output", content=[1]),
        start(0, type="model_output", content=[{"type": "text", "text": 4}]),
        {"event_type": "interaction.completed", "interaction": None},
    ]
    for message in rows:
        with subtests.test(message=message):
            error = StreamReader("interactions").read([named(message)]).error
            assert "that its API does not document" in str(error)


REPLY = Reply(
    reasoning="Hm, größer — 🌦.",
    text="Let me look: ñandú 🌦!",
    tool_calls=(ToolCall("look", {"city": "Brügge"}), ToolCall("today")),
)
STREAMS: dict[str, bytes] = {
    "interactions": b"".join(map(named, interaction_events(REPLY, "m", 1))),
    "generate": b"".join(
        f"data: {json.dumps(chunk, ensure_ascii=False)}\r\n\r\n".encode()
        for chunk in generate_chunks(REPLY, 1)
    ),
}


@pytest.mark.req("GEM-3", "GEM-20")
@pytest.mark.parametrize("dialect", STREAMS)
def test_stream_cut_at_every_byte_gives_the_same_events(dialect: str) -> None:
    stream = STREAMS[dialect]

    def joined(chunks: list[bytes]) -> list[Any]:
        response = StreamReader(dialect).read(chunks)
        assert response.error is None
        return join_texts(response.events)

    whole = joined([stream])
    assert model_event("text", 1, "message", "Let me look: ñandú 🌦!") in whole
    assert sum(is_kind(event, "call_start") for event in whole) == 2
    for cut in range(1, len(stream)):
        assert joined([stream[:cut], stream[cut:]]) == whole
    assert joined([stream[i : i + 1] for i in range(len(stream))]) == whole


@pytest.mark.req("GEM-3", "GEM-20")
@pytest.mark.parametrize("dialect", STREAMS)
def test_incomplete_stream_is_transient_wherever_it_ends(dialect: str) -> None:
    stream = STREAMS[dialect]
    for end in range(0, len(stream.rstrip(b"\r\n")), 3):
        error = StreamReader(dialect).read([stream[:end]]).error
        assert error is not None
        assert error.kind == "transient"


def test_many_pieces_take_linear_time() -> None:
    # A step that copied its text for each piece would copy 200 MB here.
    pieces = 20_000
    events = decode(
        start(0, type="model_output"),
        *(delta(0, type="text", text="x") for _ in range(pieces)),
        stop(0),
        ending(),
    )
    assert text_of(events) == "x" * pieces
