"""Requests to Gemini, in both dialects, and the whole way over HTTP."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind, make
from tests.kit.models import model_event, record_response
from tests.kit.providers import new_provider
from tests.kit.records import new_event
from tests.providers.helpers import (
    NEAR,
    TODAY,
    WEATHER,
    answer,
    ask,
    called,
    collect,
    collect_failure,
    list_details,
    list_sent_messages,
    make_context,
    preview_body,
    result,
    send_growing,
    text_of,
    thought,
    user,
)
from tests.support.loopback import LoopbackServer, RawResponse, Reply, ToolCall

STEPS_KEY = "google_step"


KEY = "AIzaSyD-0123456789abcdefghij_klmnopqrst"
SIGNED = {"google_thought_signature": "c2ln"}
DIALECTS = ("interactions", "generate")
HELLO = [model_event("text", 0, "message", "Hello."), model_event("flush", 0)]
LOOK = Reply(reasoning="Hm.", text="Look: ", tool_calls=(ToolCall("weather", {"city": "Delft"}),))


def steps_of(context: Any) -> Any:
    return list_sent_messages("google", context, dialect="interactions")


def contents_of(context: Any) -> Any:
    return list_sent_messages("google", context, dialect="generate")


def google(server: LoopbackServer, dialect: str = "interactions") -> Any:
    return new_provider("google", {"base_url": server.url, "dialect": dialect})


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def function_response(id_: str, **response: str) -> dict[str, Any]:
    return {"functionResponse": {"id": id_, "name": "weather", "response": response}}


@pytest.mark.req("GEM-6")
def test_tool_loop_becomes_steps() -> None:
    context = make_context(
        user("Weather?"), thought("Two.", **SIGNED), thought("", **SIGNED), answer("Looking."),
        called("fc_1", city="Delft"), called("toolu_2", city="Brugge"),
        result("fc_1", "sun"), result("toolu_2", "no such city", is_error=True),
        answer("Sun."),
        provider="google",
    )  # fmt: skip
    assert steps_of(context) == [
        {"type": "user_input", "content": [text("Weather?")]},
        {"type": "thought", "signature": "c2ln", "summary": [text("Two.")]},
        {"type": "thought", "signature": "c2ln"},
        {"type": "model_output", "content": [text("Looking.")]},
        {"type": "function_call", "id": "fc_1", "name": "weather", "arguments": {"city": "Delft"}},
        {
            "type": "function_call", "id": "toolu_2", "name": "weather",
            "arguments": {"city": "Brugge"},
        },
        {"type": "function_result", "call_id": "fc_1", "name": "weather", "result": "sun"},
        {
            "type": "function_result", "call_id": "toolu_2", "name": "weather",
            "result": "no such city", "is_error": True,
        },
        {"type": "model_output", "content": [text("Sun.")]},
    ]  # fmt: skip


@pytest.mark.req("GEM-20")
def test_tool_loop_becomes_contents() -> None:
    context = make_context(
        user("Weather?"), thought("Two.", **SIGNED), answer("Looking.", **SIGNED),
        called("fc_1", city="Delft"), called("toolu_2", city="Brugge"),
        result("fc_1", "sun"), result("toolu_2", "no such city", is_error=True),
        answer("Sun."),
        provider="google",
    )  # fmt: skip
    signature = {"thoughtSignature": "c2ln"}
    assert contents_of(context) == [
        {"role": "user", "parts": [{"text": "Weather?"}]},
        {
            "role": "model",
            "parts": [
                {"text": "Two.", "thought": True, **signature},
                {"text": "Looking.", **signature},
                {
                    "functionCall": {"id": "fc_1", "name": "weather", "args": {"city": "Delft"}},
                    "thoughtSignature": "skip_thought_signature_validator",
                },
                {"functionCall": {"id": "toolu_2", "name": "weather", "args": {"city": "Brugge"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                function_response("fc_1", result="sun"),
                function_response("toolu_2", error="no such city"),
            ],
        },
        {"role": "model", "parts": [{"text": "Sun."}]},
    ]  # fmt: skip


@pytest.mark.req("GEM-6")
def test_results_follow_their_calls_in_order() -> None:
    context = make_context(
        user("a"), called("c"), called("d"), user("Hurry!"), result("d", "2"), result("c", "1"),
        called("c"), result("c", "3"),
    )  # fmt: skip
    steps = [(s["type"], s.get("id") or s.get("call_id")) for s in steps_of(context)]
    assert steps == [
        ("user_input", None), ("function_call", "c"), ("function_call", "d"),
        ("function_result", "d"), ("function_result", "c"), ("user_input", None),
        ("function_call", "c_2"), ("function_result", "c_2"),
    ]  # fmt: skip


@pytest.mark.req("GEM-16")
def test_reasoning_of_others_is_text_in_both_dialects() -> None:
    context = make_context(user("a"), thought("Hm.\n", **SIGNED), called("x"), result("x", "1"))
    said = "<think>\nHm.\n</think>\n\n"
    assert steps_of(context)[1] == {"type": "model_output", "content": [text(said)]}
    model = contents_of(context)[1]["parts"]
    assert model[0] == {"text": said}
    assert model[1]["thoughtSignature"] == "skip_thought_signature_validator"


@pytest.mark.req("GEM-4", "GEM-17")
def test_stored_steps_are_sent_back_unless_their_text_changed() -> None:
    dream = {"type": "dream", "depth": 3}
    thinking = {"type": "thought", "signature": "x", "later": 1, "summary": [text("Hm.")]}
    cited = {**text("b"), "annotations": [{"type": "url_citation"}]}
    spoken = {"type": "model_output", "content": [cited]}
    calling: Any = {
        "type": "function_call",
        "id": "c",
        "name": "weather",
        "arguments": {},
        "later": 2,
    }
    entries = [
        user("a"), thought("", google_step=dream), thought("Hm.", google_step=thinking),
        answer("b", google_step=spoken),
        called("c").with_metadata(google_step=calling), result("c", "1"),
    ]  # fmt: skip
    steps = steps_of(make_context(*entries, provider="google"))
    known = [{key: x for key, x in step.items() if key != "later"} for step in (thinking, calling)]
    assert steps[1:4] == [known[0], spoken, known[1]]
    changed = [
        user("a"), thought("Other.", google_step=thinking), answer("c", google_step=spoken),
        called("c", city="x").with_metadata(google_step=calling), result("c", "1"),
        answer("d", google_step=["no step"]),
    ]  # fmt: skip
    sent = steps_of(make_context(*changed, provider="google"))
    assert not [word for word in (STEPS_KEY, "later", "annotations") if word in json.dumps(sent)]
    assert [step["arguments"] for step in sent if "arguments" in step] == [{"city": "x"}]
    assert steps_of(make_context(*entries))[1] == {  # of another provider
        "type": "model_output", "content": [text("<think>\nHm.\n</think>\n\n")],
    }  # fmt: skip


@pytest.mark.parametrize(
    "step",
    [
        [],
        5,
        {"type": 5},
        {"type": ["x"]},
        {"type": "model_output", "content": 5},
        {"type": "model_output", "content": [5]},
        {"type": "model_output", "content": [{"type": "text"}]},
        [{"type": "model_output", "content": [{"type": "text", "text": ["a"]}]}, None],
    ],
)
def test_invalid_step_of_a_record_is_made_again_from_its_text(step: Any) -> None:
    steps = steps_of(make_context(user("a"), answer("b", google_step=step), provider="google"))
    assert steps[1] == {"type": "model_output", "content": [text("b")]}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_context_rendered_in_steps_gives_the_same_bytes(dialect: str) -> None:
    entries = [
        user("a"), thought("t", **SIGNED), answer("b"), called("c1"), called("c2"),
        result("c1", "1"), result("c2", "2"), answer("c"), user("d"), user("e"), called("c1"),
        result("c1", "ü\ud83d"), thought("only"), user("f"), thought("", **SIGNED), user("g"),
    ]  # fmt: skip
    await send_growing("google", entries, dialect=dialect)


@pytest.mark.req("GEM-7")
def test_images_in_requests_and_results() -> None:
    image = jp.Image("image/gif", b"GIF89a\x03\0\x02\0", "figure 1")
    items = [
        make("context_item", new_event("chat_request", content="See:"), "google", (image,)),
        make("context_item", called("c"), "google"),
        make(
            "context_item",
            new_event("tool_call_response", id="c", content="done", is_error=False),
            "google",
            (image,),
        ),
    ]
    label = text("[image: figure 1, image/gif 3×2]")
    data = "R0lGODlhAwACAA=="
    content = {"type": "image", "mime_type": "image/gif", "data": data}
    steps = steps_of(make("request_context", items))
    assert steps[0]["content"] == [text("See:"), label, content]
    assert steps[2]["result"] == [text("done"), label, content]
    request, _, results = contents_of(make("request_context", items))
    inline = {"inlineData": {"mimeType": "image/gif", "data": data}}
    assert request["parts"][1:] == [{"text": label["text"]}, inline]
    assert results["parts"][0]["functionResponse"]["parts"] == [inline]


@pytest.mark.req("GEM-7", "GEM-20")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_attachments_precede_the_conversation_and_others_are_a_notice(dialect: str) -> None:
    attachments = (
        make("attachment", "a.md", "text/plain", "A < B"),
        make("attachment", "b.png", "image/png", b"png"),
        make("attachment", "c.pdf", "application/pdf", b"pdf"),
        make("attachment", "d.wav", "audio/wav", b"wav"),
    )
    provider = new_provider("google", {"dialect": dialect})
    shown = provider.preview(ask(attachments=attachments))
    body = json.loads(shown.body)
    if dialect == "interactions":
        first, _ = body["input"]
        xml, *named = first["content"]
        assert named == [
            text("b.png"), {"type": "image", "mime_type": "image/png", "data": "cG5n"},
            text("c.pdf"), {"type": "document", "mime_type": "application/pdf", "data": "cGRm"},
        ]  # fmt: skip
    else:
        first, _ = body["contents"]
        xml, *named = first["parts"]
        assert named == [
            {"text": "b.png"}, {"inlineData": {"mimeType": "image/png", "data": "cG5n"}},
            {"text": "c.pdf"}, {"inlineData": {"mimeType": "application/pdf", "data": "cGRm"}},
        ]  # fmt: skip
    assert "A < B" in xml["text"]
    assert [line for line in shown.omitted if "d.wav" in line] == list(shown.omitted)
    assert len(shown.omitted) == 1


@pytest.mark.req("GEM-14")
def test_tool_choice_keeps_the_definitions(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, Any, Any, Any]] = [
        ("auto", None, "auto", {"mode": "AUTO"}),
        ("none", None, "none", {"mode": "NONE"}),
        ("required", None, "any", {"mode": "ANY"}),
        (
            "tool:weather",
            None,
            {"allowed_tools": {"mode": "any", "tools": ["weather"]}},
            {"mode": "ANY", "allowedFunctionNames": ["weather"]},
        ),
        (
            "auto",
            ["today"],
            {"allowed_tools": {"mode": "auto", "tools": ["today"]}},
            {"mode": "VALIDATED", "allowedFunctionNames": ["today"]},
        ),
        (
            "required",
            ["today"],
            {"allowed_tools": {"mode": "any", "tools": ["today"]}},
            {"mode": "ANY", "allowedFunctionNames": ["today"]},
        ),
        ("auto", [], "none", {"mode": "NONE"}),
        ("none", ["today"], "none", {"mode": "NONE"}),
    ]
    for choice, allowed, interactions, generate in rows:
        with subtests.test(choice, allowed=allowed):
            request = ask(tool_choice=choice, tools=(WEATHER, TODAY), provider="google")
            if allowed is not None:  # the other tools were removed within the conversation
                record_response(request, "google", HELLO)
                kept = tuple(tool for tool in request.tools if tool.name in allowed)
                request = replace(request, tools=kept)

            body = preview_body("google", request, dialect="interactions")
            assert body["generation_config"]["tool_choice"] == interactions
            assert len(body["tools"]) == 2

            body = preview_body("google", request, dialect="generate")
            assert body["toolConfig"] == {"functionCallingConfig": generate}
            assert len(body["tools"][0]["functionDeclarations"]) == 2

    request = ask(tool_choice="required")
    assert "generation_config" not in preview_body("google", request, dialect="interactions")
    assert "toolConfig" not in preview_body("google", request, dialect="generate")


@pytest.mark.req("GEM-9")
async def test_efforts(subtests: pytest.Subtests) -> None:
    rows: list[tuple[Any, dict[str, str]]] = [
        (None, {}),
        ("off", {"thinking_level": "minimal", "thinking_summaries": "auto"}),
        ("xlow", {"thinking_level": "minimal", "thinking_summaries": "auto"}),
        ("low", {"thinking_level": "low", "thinking_summaries": "auto"}),
        ("auto", {"thinking_summaries": "auto"}),
        ("medium", {"thinking_level": "medium", "thinking_summaries": "auto"}),
        (25_000, {"thinking_level": "high", "thinking_summaries": "auto"}),
        ("max", {"thinking_level": "xhigh", "thinking_summaries": "auto"}),
        (
            {"effort": "high", "exclude": True},
            {"thinking_level": "high", "thinking_summaries": "none"},
        ),
    ]
    provider = new_provider("google")
    for reasoning, sent in rows:
        with subtests.test(reasoning=reasoning):
            request = ask(parameters=make("parameters", reasoning=reasoning))
            body = json.loads(provider.preview(request).body)
            assert body.get("generation_config", {}) == sent


@pytest.mark.req("GEM-20")
def test_efforts_of_the_generate_dialect(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, Any, Any]] = [
        ("gemini-3-flash", None, None),
        ("gemini-3-flash", "high", {"includeThoughts": True, "thinkingLevel": "high"}),
        ("gemini-2.5-flash", "off", {"includeThoughts": True, "thinkingBudget": 0}),
        ("gemini-2.5-flash", "auto", {"includeThoughts": True, "thinkingBudget": -1}),
        ("models/gemini-2.5-pro", 99_000, {"includeThoughts": True, "thinkingBudget": 24_576}),
    ]
    provider = new_provider("google", {"dialect": "generate"})
    for model, reasoning, sent in rows:
        with subtests.test(model=model, reasoning=reasoning):
            request = ask(model=model, parameters=make("parameters", reasoning=reasoning))
            body = json.loads(provider.preview(request).body)
            assert body.get("generationConfig", {}).get("thinkingConfig") == sent


@pytest.mark.req("GEM-9")
async def test_level_that_a_model_does_not_have_is_replaced_once() -> None:
    refused = Reply(status=400, message="Thinking level XHIGH is not supported for this model.")
    with LoopbackServer([refused, "a", "b"]) as server:
        provider = google(server)
        request = ask(parameters=make("parameters", reasoning="max"))
        assert is_kind((await collect(provider, request))[-1], "retry")
        for said in "ab":
            assert text_of(await collect(provider, request)) == said
        await provider.aclose()
    levels = [r.body["generation_config"]["thinking_level"] for r in server.requests]
    assert levels == ["xhigh", "high", "high"]


@pytest.mark.req("GEM-9")
def test_sampling_parameters() -> None:
    parameters = make("parameters", 
        max_tokens=9, temperature=0.5, top_p=0.9, top_k=4, stop_words=("END",),
        other={"seed": 7, "service_tier": "flex", "logit_bias": {}},
    )  # fmt: skip
    request = ask(parameters=parameters)
    shown = new_provider("google", NEAR | {"dialect": "interactions"}).preview(request)
    fields = json.loads(shown.body)
    assert fields["generation_config"] == {
        "max_output_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stop_sequences": ["END"],
        "seed": 7,
    }  # fmt: skip
    assert fields["service_tier"] == "flex"
    omitted = [line.partition(":")[0].rpartition(".")[2] for line in shown.omitted]
    assert sorted(omitted) == ["logit_bias", "top_k"]
    other = preview_body("google", request, dialect="generate")["generationConfig"]
    assert (other["topK"], other["stopSequences"], other["seed"]) == (4, ["END"], 7)


@pytest.mark.req("GEM-9")
async def test_deprecated_parameters_are_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    with LoopbackServer(["a", "b"]) as server:
        provider = google(server)
        for _ in "ab":
            await collect(provider, ask(parameters=make("parameters", temperature=0.5)))
        await provider.aclose()
    assert caplog.messages == [
        "google: assistant.model.parameters.temperature is sent, but Google has deprecated it"
    ]


def send_schema(schema: dict[str, Any]) -> Any:
    """Return the schema of a structured answer as a request has it."""
    body = preview_body("google", ask(schema=schema), dialect="interactions")
    return body["response_format"]["schema"]


@pytest.mark.req("GEM-8")
def test_schema(subtests: pytest.Subtests) -> None:
    point = {"type": "object", "properties": {"x": {"type": "number"}}}
    tree: dict[str, Any] = {
        "type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    }  # fmt: skip
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"const": "a"}, {"enum": ["a"]}),
        ({"enum": [True, None]}, {"description": "{enum: [true, null]}"}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        (
            {"type": "string", "maxLength": 3, "pattern": "a", "description": "A."},
            {"type": "string", "description": 'A. {maxLength: 3, pattern: "a"}'},
        ),
        (
            {"type": "array", "minItems": 1, "uniqueItems": True, "items": {"minimum": 1}},
            {
                "type": "array", "minItems": 1, "items": {"minimum": 1},
                "description": "{uniqueItems: true}",
            },
        ),
        (
            {"$ref": "#/$defs/p", "$defs": {"p": point}},
            {**point, "propertyOrdering": ["x"]},
        ),
        (
            {"allOf": [point, {"required": ["x"]}], "default": {}, "title": "T"},
            {**point, "required": ["x"], "propertyOrdering": ["x"], "title": "T"},
        ),
    ]  # fmt: skip
    for schema, sent in rows:
        with subtests.test(schema=schema):
            expected = {k: v for k, v in sent.items() if k != "title"}
            got = {k: v for k, v in send_schema(schema).items() if k != "title"}
            assert got == expected
    sent = send_schema(tree)
    assert "$ref" not in json.dumps(sent)
    assert "The same object" in json.dumps(sent)


@pytest.mark.req("GEM-8", "GEM-20")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_structured_answer_and_text_before_a_call(dialect: str) -> None:
    schema: dict[str, Any] = {"type": "array", "items": {"type": "integer", "minimum": 1}}
    replies: list[Reply | str] = [LOOK, "[1, 2]"]
    with LoopbackServer(replies) as server:
        provider = google(server, dialect)
        first = await collect(provider, ask(schema=schema, tools=(WEATHER,)))
        second = await collect(provider, ask(schema=schema, tools=(WEATHER,)))
        await provider.aclose()
    assert (text_of(first), text_of(first, "structured")) == ("Look: ", "")
    assert (text_of(second), text_of(second, "structured")) == ("", "[1, 2]")
    body = server.requests[0].body
    sent = (
        body["response_format"]["schema"]
        if dialect == "interactions"
        else body["generationConfig"]["responseJsonSchema"]
    )
    assert sent == schema


@pytest.mark.req("GEM-1", "GEM-4", "GEM-5", "GEM-18", "GEM-20")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_request_of_a_turn_begins_with_the_bytes_of_the_last(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    with LoopbackServer(lambda _: LOOK) as server:
        provider = google(server, dialect)
        context = make_context(user("Go."), provider="google")
        for _ in range(5):
            request = make("model_request", "m", context, system=("s",), tools=(WEATHER,))
            events = await collect(provider, request)
            entries = record_response(request, "google", events)
            context.add(result(entries[-1].id, "sun"), "google")
        await provider.aclose()
    bodies = [request.raw[: request.raw.rindex(b"]")] for request in server.requests]
    assert all(later.startswith(earlier) for earlier, later in pairwise(bodies))
    assert model_event("usage", 11, 9, 2, 3) in events
    for received in server.requests:
        assert received.headers["x-goog-api-key"] == KEY
        assert KEY not in received.target
        assert KEY.encode() not in received.raw
        assert received.body.get("store", False) is False
        assert "previous_interaction_id" not in received.body
    signatures = bodies[-1].count(b"c2lnbmF0dXJl")
    assert signatures == 4


@pytest.mark.req("GEM-16")
async def test_conversation_continues_after_the_dialect_has_changed() -> None:
    context = make_context(user("Go."), provider="google")
    with LoopbackServer(lambda _: LOOK) as server:
        for dialect in (*DIALECTS, *DIALECTS):
            provider = google(server, dialect)
            request = make("model_request", "m", context, tools=(WEATHER,))
            entries = record_response(request, "google", await collect(provider, request))
            context.add(result(entries[-1].id, "sun"), "google")
            await provider.aclose()
        anthropic = new_provider("anthropic", {"base_url": server.url})
        await collect(anthropic, make("model_request", "m", context, tools=(WEATHER,)))
        await anthropic.aclose()
    assert "c2lnbmF0dXJl" not in json.dumps(server.requests[-1].body)


@pytest.mark.req("GEM-11", "GEM-20")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_response_is_continued_at_most_five_times(dialect: str) -> None:
    def events(number: int) -> list[dict[str, Any]]:
        if dialect == "generate":
            end = {"finishReason": "CONTINUATION", "continuationToken": f"t{number}"}
            content = {"parts": [{"text": f"{number}, "}]}
            usage = {"promptTokenCount": 10, "candidatesTokenCount": 2}
            return [{"candidates": [{"content": content, **end}], "usageMetadata": usage}]
        step = {"type": "model_output", "content": [text(f"{number}, ")]}
        interaction = {
            "id": "v1", "status": "requires_continuation", "continuation_token": f"t{number}",
            "usage": {"total_input_tokens": 10, "total_output_tokens": 2},
        }  # fmt: skip
        return [
            {"event_type": "step.start", "index": 0, "step": step},
            {"event_type": "step.stop", "index": 0},
            {"event_type": "interaction.completed", "interaction": interaction},
        ]

    with LoopbackServer(
        lambda _: Reply(
            raw=tuple(
                f"data: {json.dumps(each)}\n\n".encode() for each in events(len(server.requests))
            )
        )
    ) as server:
        provider = google(server, dialect)
        seen = await collect(provider, ask())
        await provider.aclose()
    assert text_of(seen) == "1, 2, 3, 4, 5, 6, "
    assert len({event.index for event in seen if hasattr(event, "index")}) == 1
    assert seen[-1] == model_event("finished", "max_tokens")
    assert [e for e in seen if is_kind(e, "usage")][-1] == model_event("usage", 60, 12)
    name = "continuation_token" if dialect == "interactions" else "continuationToken"
    tokens = [request.body.pop(name, None) for request in server.requests]
    assert tokens == [None, "t1", "t2", "t3", "t4", "t5"]
    assert all(request.body == server.requests[0].body for request in server.requests)


def quota(*ids: str, **details: str) -> bytes:
    violations = [{"quotaId": f"GenerateRequests{each}-FreeTier"} for each in ids]
    error = {
        "code": 429,
        "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota, please check your plan and billing details.\n"
        "* Quota exceeded for metric: generate_requests, limit: 10",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", **details},
        ],
    }
    body = json.dumps({"error": error}).encode()
    return (
        b"HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )


def http(status: int, body: bytes) -> RawResponse:
    head = f"HTTP/1.1 {status} Error\r\ncontent-length: {len(body)}\r\n\r\n"
    return RawResponse((head.encode() + body,))


@pytest.mark.req("GEM-13")
async def test_errors_before_the_stream(subtests: pytest.Subtests) -> None:
    plain = json.dumps(
        {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Resource exhausted"}}
    ).encode()
    unavailable = [{"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}}]
    rows: list[tuple[RawResponse, str, float | None]] = [
        (RawResponse((quota("PerMinutePerProject", retryDelay="31s"),)), "rate_limit", 31),
        (RawResponse((quota("PerMinutePerProject"),)), "rate_limit", None),
        (RawResponse((quota("PerDayPerProject", retryDelay="5s"),)), "quota", None),
        (RawResponse((quota("PerDay", "PerMinute"),)), "quota", None),
        (RawResponse((quota(),)), "quota", None),
        (http(429, plain), "rate_limit", None),
        (http(500, b'{"error": {"message": "Internal error"}}'), "transient", None),
        (http(503, json.dumps(unavailable).encode()), "transient", None),
        (http(502, b"<html>Bad Gateway</html>"), "transient", None),
        (http(403, b"<html>Forbidden</html>"), "other", None),
    ]
    for answered, kind, wait in rows:
        with LoopbackServer([answered]) as server, subtests.test(answered=answered.pieces):
            provider = google(server)
            _, error = await collect_failure(provider, ask())
            await provider.aclose()
            assert (error.kind, error.retry_after) == (kind, wait)
            assert "<html>" not in str(error)


@pytest.mark.req("GEM-1", "GEM-13")
async def test_refused_key_names_its_variable_and_is_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    body = json.dumps(
        {"error": {"code": 400, "message": f"API key not valid: {KEY}", "status": "INVALID"}}
    ).encode()
    with LoopbackServer([http(400, body)]) as server:
        provider = google(server)
        shown = provider.preview(ask())
        _, error = await collect_failure(provider, ask())
        await provider.aclose()
    assert "Check the key in the environment variable GEMINI_API_KEY" in str(error)
    assert not any(KEY in detail for detail in list_details(error))
    assert (shown.key.header, shown.key.before) == ("x-goog-api-key", "")
    assert KEY not in f"{shown}"


@pytest.mark.req("GEM-12")
async def test_refusals_of_both_dialects(subtests: pytest.Subtests) -> None:
    blocked = json.dumps(
        {"error": {"code": 400, "message": "The prompt was blocked: PROHIBITED_CONTENT"}}
    ).encode()
    prompt = b'data: {"promptFeedback": {"blockReason": "JAILBREAK"}}\n\n'
    rows: list[tuple[str, Any, str, str]] = [
        ("interactions", http(400, blocked), "", "PROHIBITED_CONTENT"),
        ("generate", http(400, blocked), "", "PROHIBITED_CONTENT"),
        ("generate", Reply(raw=(prompt,)), "", "JAILBREAK"),
        ("generate", Reply(text="How to", finish="SAFETY"), "How to", "SAFETY"),
        ("generate", Reply(finish="IMAGE_SAFETY"), "", "IMAGE_SAFETY"),
    ]
    for dialect, answered, said, why in rows:
        with LoopbackServer([answered]) as server, subtests.test(why, dialect=dialect):
            provider = google(server, dialect)
            events = await collect(provider, ask())
            await provider.aclose()
            assert text_of(events) == said
            assert is_kind(end := events[-1], "finished")
            assert end.reason == "refused"
            assert why in (end.detail or "")


@pytest.mark.req("GEM-20")
async def test_finish_reasons_of_the_generate_dialect(subtests: pytest.Subtests) -> None:
    for reason, end in (
        ("STOP", model_event("finished")),
        ("MAX_TOKENS", model_event("finished", "max_tokens")),
        ("TOO_MANY_TOOL_CALLS", model_event("finished", "other", "TOO_MANY_TOOL_CALLS")),
    ):
        with LoopbackServer([Reply(text="a", finish=reason)]) as server, subtests.test(reason):
            provider = google(server, "generate")
            assert (await collect(provider, ask()))[-1] == end
            await provider.aclose()


@pytest.mark.req("GEM-20")
async def test_failures_of_the_model_in_the_generate_dialect(subtests: pytest.Subtests) -> None:
    rows = [
        ("MALFORMED_FUNCTION_CALL", "transient", "MALFORMED_FUNCTION_CALL (print(1))"),
        ("MALFORMED_RESPONSE", "transient", "the model of google failed: MALFORMED_RESPONSE"),
        ("MISSING_THOUGHT_SIGNATURE", "other", "Start a new one (`%jp new`)"),
    ]
    for reason, kind, said in rows:
        candidate = {"finishReason": reason, "finishMessage": "print(1)"}
        chunk = b"data: %b\n\n" % json.dumps({"candidates": [candidate]}).encode()
        with LoopbackServer([Reply(raw=(chunk,))]) as server, subtests.test(reason):
            provider = google(server, "generate")
            _, error = await collect_failure(provider, ask())
            assert (error.kind, said in str(error)) == (kind, True)
            await provider.aclose()


async def test_missing_model_or_api_is_an_error_that_names_the_other_dialect(
    subtests: pytest.Subtests,
) -> None:
    for dialect, advice in (
        ("interactions", "`%jp config providers.llm.google.dialect=generate`"),
        ("generate", "and providers.llm.google.base_url"),
    ):
        with LoopbackServer([http(404, b"<html>")]) as server, subtests.test(dialect):
            provider = google(server, dialect)
            _, error = await collect_failure(provider, ask())
            await provider.aclose()
            assert "Check the model (`%jp config assistant.model.id=PROVIDER/NAME`)" in str(error)
            assert advice in str(error)


@pytest.mark.req("GEM-20")
async def test_calls_without_ids_get_stable_unique_ones() -> None:
    call = ToolCall("today", {}, id="none")
    with LoopbackServer(lambda _: Reply(tool_calls=(call, call))) as server:
        provider = google(server, "generate")
        first, again = [await collect(provider, ask(tools=(TODAY,))) for _ in range(2)]
        other = await collect(provider, ask(user("b"), tools=(TODAY,)))
        await provider.aclose()
    ids = [[e.id for e in events if is_kind(e, "call_start")] for events in (first, again, other)]
    assert ids[0] == ids[1]
    assert len({*ids[0], *ids[2]}) == 4


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_rejected_signatures_are_not_sent_again(dialect: str) -> None:
    stale = Reply(status=400, message="Corrupted thought signature.")
    with LoopbackServer([stale, LOOK, stale]) as server:
        provider = google(server, dialect)
        context = make_context(
            user("a"), thought("Hm.", **SIGNED), answer("b"), user("c"), provider="google"
        )
        request = make("model_request", "m", context, tools=(WEATHER,))
        (retry,) = await collect(provider, request)
        assert is_kind(retry, "retry")
        entries = record_response(request, "google", await collect(provider, request))
        assert "c2ln" not in json.dumps(server.requests[1].body)
        assert "<think>" in json.dumps(server.requests[1].body)
        context.add(result(entries[-1].id, "sun"), "google")
        await collect(provider, request)  # later signatures are sent
        assert "c2lnbmF0dXJl" in json.dumps(server.requests[2].body)
        await provider.aclose()


async def test_calls_are_sent_as_text_if_the_api_misses_their_thought() -> None:
    message = "Function call is missing a thought_signature in functionCall parts."
    with LoopbackServer([Reply(status=400, message=message), "Fine."]) as server:
        provider = google(server)
        context = make_context(
            user("a"), called("c1"), result("c1", "1"), answer("b"),
            user("c"), called("c2", city="Delft"), result("c2", "sun"),
        )  # fmt: skip
        request = make("model_request", "m", context, tools=(WEATHER,))
        (retry,) = await collect(provider, request)
        assert is_kind(retry, "retry")
        assert text_of(await collect(provider, request)) == "Fine."
        await provider.aclose()
    steps = server.requests[1].body["input"]
    assert [step["type"] for step in steps] == [
        "user_input", "function_call", "function_result", "model_output", "user_input",
        "user_input",
    ]  # fmt: skip
    assert steps[-1]["content"] == [text('Result of the tool weather with {"city":"Delft"}:\nsun')]


@pytest.mark.req("GEM-21")
def test_interrupted_answer_is_sent_as_text_with_a_request_to_continue() -> None:
    asked = {"type": "user_input", "content": [text("a")]}
    rows: list[tuple[list[Any], list[str]]] = [
        ([thought("Hm."), answer("One, ")], ["model_output", "model_output", "user_input"]),
        ([thought("Hm.", **SIGNED), answer("One, ")], ["thought", "model_output", "user_input"]),
        ([answer("One, "), thought("Hm.", **SIGNED)], ["model_output", "user_input"]),
        ([thought("Hm.", **SIGNED)], []),
    ]
    for entries, kinds in rows:
        context = make_context(user("a"), *entries, provider="google")
        request = make("model_request", "m", context)
        first, *rest = preview_body("google", request, dialect="interactions")["input"]
        assert first == asked
        assert [step["type"] for step in rest] == kinds


@pytest.mark.parametrize(
    ("base", "dialect", "url"),
    [
        ("https://a.b", "interactions", "https://a.b/v1/interactions"),
        ("https://a.b/v1", "interactions", "https://a.b/v1/interactions"),
        ("https://a.b/v1beta/", "interactions", "https://a.b/v1beta/interactions"),
        ("https://a.b", "generate", "https://a.b/v1/models/m:streamGenerateContent?alt=sse"),
        (
            "https://a.b/v1beta",
            "generate",
            "https://a.b/v1beta/models/m:streamGenerateContent?alt=sse",
        ),
    ],
)
def test_address_may_end_in_a_version(base: str, dialect: str, url: str) -> None:
    provider = new_provider("google", {"base_url": base, "dialect": dialect})
    assert provider.preview(ask(model="models/m")).url == url


@pytest.mark.parametrize(
    "model", ["a/../../b", "a?key=1#x", "a%2f..", "a\r\nHost: b", "..", "ä b", "a\\b"]
)
async def test_name_of_a_model_is_one_segment_of_the_path(model: str) -> None:
    with LoopbackServer([Reply(status=404)] * 2, strict=False) as server:
        provider = google(server, "generate")
        await collect_failure(provider, ask(model=model))
        with pytest.raises(jp.ProviderError):
            await provider.count_tokens(ask(model=model), seconds=5)
        await provider.aclose()
    sent = [request.target.partition(":")[0] for request in server.requests]
    assert sent == [f"/v1/models/{quote(model, safe='')}"] * 2


@pytest.mark.req("GEM-19")
async def test_models_are_listed_page_by_page() -> None:
    def page(number: int) -> dict[str, Any]:
        model = {
            "name": f"models/gemini-{number}", "displayName": f"Gemini {number}",
            "inputTokenLimit": 1000, "outputTokenLimit": 10, "thinking": True,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }  # fmt: skip
        embedding = {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]}
        following = {"nextPageToken": "a b"} if number < 3 else {}
        listed = [embedding] if number == 2 else [model, embedding]  # the second has no text model
        return {"models": listed, **following}

    for dialect in DIALECTS:
        with LoopbackServer(paths={"/v1/models": lambda _: page(len(server.requests))}) as server:
            provider = google(server, dialect)
            listed = await provider.models(seconds=5)
            await provider.aclose()
        assert [model.id for model in listed.models] == ["gemini-1", "gemini-3"]
        first = listed.models[0]
        assert (first.name, first.context_window, first.max_output, first.reasoning) == (
            "Gemini 1", 1000, 10, True,
        )  # fmt: skip
        assert [request.query for request in server.requests] == [
            {"pageSize": "1000"}, *[{"pageSize": "1000", "pageToken": "a b"}] * 2,
        ]  # fmt: skip


@pytest.mark.req("GEM-23")
async def test_status_updates_do_not_extend_the_idle_timeout() -> None:
    update = b'data: {"event_type": "interaction.status_update", "status": "in_progress"}\n\n'
    completed = {"event_type": "interaction.completed", "interaction": {"status": "completed"}}
    end = f"data: {json.dumps(completed)}\n\n".encode()
    in_time: tuple[bytes | float, ...] = (*((update, 0.05) * 4), end)
    endless = (*((update, 0.05) * 40), end)
    with LoopbackServer([Reply(raw=in_time), Reply(raw=endless)]) as server:
        provider = google(server)
        assert (await collect(provider, ask(idle_timeout=2)))[-1] == model_event("finished")
        _, error = await collect_failure(provider, ask(idle_timeout=0.3))
        await provider.aclose()
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "sent no content for 0.3 s" in str(error)


def test_unknown_reasoning_level_is_an_error() -> None:
    with pytest.raises(jp.ProviderError, match=r"parameters\.reasoning: expected off, auto"):
        new_provider("google").preview(ask(parameters=make("parameters", reasoning="hard")))


def test_answer_of_only_a_thought_is_not_sent() -> None:
    context = make_context(user("a"), thought("", **SIGNED), user("b"), provider="google")
    assert [step["type"] for step in steps_of(context)] == ["user_input", "user_input"]
    assert is_kind(context.items[1].entry, "chat_response")
