"""Requests and input items of the Responses API."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.kit.kinds import is_kind, kind_of, make, select_kind
from tests.kit.models import model_event, record_response
from tests.kit.providers import new_provider, substitute
from tests.kit.records import new_event
from tests.providers.helpers import (
    CONTINUE_PROMPT,
    TODAY,
    WEATHER,
    answer,
    ask,
    called,
    collect,
    collect_failure,
    list_sent_messages,
    make_context,
    preview_body,
    result,
    send_growing,
    text_of,
    thought,
    user,
)
from tests.support.images import figure, pdf, png
from tests.support.loopback import LoopbackServer, RawResponse, Received, Reply, ToolCall

ANNOTATIONS = "openai_annotations"
ENCRYPTED = "openai_encrypted_content"
ITEM = "openai_item"
ITEM_ID = "openai_item_id"
PHASE = "openai_phase"
SUMMARY_LENGTHS = "openai_summary_lengths"


OWN = "openai"
AT_OPENAI = {"base_url": "https://api.openai.com/v1", "dialect": "responses"}
Json = dict[str, Any]


def connect(server: LoopbackServer, name: str = OWN, **settings: Any) -> Any:
    return new_provider(name, {"base_url": server.url, "dialect": "responses", **settings})


def items_of(context: Any) -> Any:
    return list_sent_messages(OWN, context, **AT_OPENAI)


def body_of(request: Any) -> Json:
    """Return the body of `request` to OpenAI's own server. Nothing is sent."""
    body: Json = preview_body(OWN, request, **AT_OPENAI)
    return body


def own(*entries: Any) -> Any:
    return make_context(*entries, provider=OWN)


def own_call(id_: str, metadata: dict[str, Any], **arguments: Any) -> Any:
    return new_event(
        "tool_call_request", id=id_, name="weather", arguments=arguments, metadata=metadata
    )


def reasoned(text: str, item_id: str = "rs_1", **metadata: Any) -> Any:
    return thought(text, **{ITEM_ID: item_id, ENCRYPTED: "b3A=", **metadata})


def said(role: str, text: str) -> dict[str, Any]:
    if role == "user":
        content = [{"type": "input_text", "text": text}]
        return {"type": "message", "role": role, "content": content}
    return {"type": "message", "role": role, "content": text}


@pytest.mark.req("RESP-1", "RESP-16", "RESP-17")
def test_request_needs_no_state_and_names_no_user() -> None:
    name = "17673969718-a-private-name"
    fields = body_of(ask(model="m", conversation_id=name))
    del fields["input"]
    key = fields.pop("prompt_cache_key")
    assert fields == {
        "model": "m",
        "store": False,
        "stream": True,
        "stream_options": {"include_obfuscation": False},
        "include": ["reasoning.encrypted_content"],
        "truncation": "disabled",
    }
    assert "private" not in key
    assert len(key) == 32
    same, other = (body_of(ask(user("More."), conversation_id=each)) for each in (name, "fork"))
    assert same["prompt_cache_key"] == key != other["prompt_cache_key"]


@pytest.mark.req("RESP-5", "RESP-7", "RESP-11", "RESP-20")
def test_tool_loop_is_sent_back_as_it_came() -> None:
    lengths: Any = [2, 2]
    cite: Any = [{"type": "url_citation", "url": "https://a.b", "role": "developer"}]
    whole: Any = {
        "type": "function_call",
        "id": "fc_2",
        "call_id": "c2",
        "name": "weather",
        "arguments": '{"city": "x"}',
        "caller": "m",
    }
    search: Any = {"type": "web_search_call", "id": "ws_1"}
    context = own(
        user("Weather?"),
        reasoned("A.\n\nB.", **{SUMMARY_LENGTHS: lengths}),
        thought("", **{ITEM: search}),
        answer("Look.", **{ITEM_ID: "msg_1", PHASE: "commentary", ANNOTATIONS: cite}),
        own_call("c1", {ITEM_ID: "fc_1"}, city="Delft"),
        own_call("c2", {ITEM_ID: "fc_2", ITEM: whole}, city="x"),
        result("c1", "sun"),
        result("c2", ""),
        answer("Sun.", **{ITEM_ID: "msg_2", PHASE: "final_answer"}),
        user("Thanks."),
    )
    parts = [{"type": "summary_text", "text": text} for text in ("A.", "B.")]
    kept = [{"type": "url_citation", "url": "https://a.b"}]
    text = {"type": "output_text", "text": "Look.", "annotations": kept}
    assert items_of(context) == [
        said("user", "Weather?"),
        {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": "b3A="},
        {
            "type": "message",
            "role": "assistant",
            "content": [text],
            "id": "msg_1",
            "status": "completed",
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "weather",
            "arguments": '{"city":"Delft"}',
            "id": "fc_1",
        },
        {
            "type": "function_call",
            "call_id": "c2",
            "name": "weather",
            "arguments": '{"city": "x"}',
            "id": "fc_2",
        },
        {"type": "function_call_output", "call_id": "c1", "output": "sun"},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
        {**said("assistant", "Sun."), "phase": "final_answer"},  # no reasoning: no id
        said("user", "Thanks."),
    ]


def test_arguments_of_the_record_replace_those_of_the_item() -> None:
    whole: Any = {"type": "function_call", "name": "weather", "arguments": '{"city": "x"}'}
    edited = own(user("a"), own_call("c1", {ITEM: whole}, city="y"), result("c1", ""))
    assert items_of(edited)[1]["arguments"] == '{"city":"y"}'


@pytest.mark.req("RESP-6")
def test_metadata_of_another_provider_is_not_sent() -> None:
    entries = [
        user("a"), reasoned("Hm."), answer("b", **{ITEM_ID: "msg_1", PHASE: "commentary"}),
        own_call("c1", {ITEM_ID: "fc_1"}), result("c1", "x"),
    ]  # fmt: skip
    _, foreign, text, call, _ = items_of(make_context(*entries, provider="xai"))
    assert foreign == said("assistant", "<think>\nHm.\n</think>\n\n")
    assert text == said("assistant", "b")
    assert "id" not in call


def test_reasoning_that_is_not_bound_is_sent_as_text() -> None:
    context = own(user("a"), reasoned("Hm."), answer("b", **{ITEM_ID: "msg_1"})).without_heads()
    assert items_of(context)[1:] == [
        said("assistant", "<think>\nHm.\n</think>\n\n"), said("assistant", "b")
    ]  # fmt: skip


@pytest.mark.req("RESP-23")
def test_reasoning_without_its_result_is_not_sent() -> None:
    partial = own(user("a"), reasoned("Hm."), thought("cut off"), user("b"))
    assert items_of(partial) == [said("user", "a"), said("user", "b")]
    of_open_model = own(user("a"), thought("Hm.", **{ITEM_ID: "rs_1"}), answer("b"))
    assert items_of(of_open_model)[1] == said("assistant", "<think>\nHm.\n</think>\n\n")


def test_cut_answer_is_continued_on_request() -> None:
    context = own(user("a"), answer("b"), reasoned("Hm."))
    sent = body_of(make("model_request", "m", context))["input"]
    assert sent == [said("user", "a"), said("assistant", "b"), said("user", CONTINUE_PROMPT)]


async def test_thread_rendered_in_steps_gives_the_same_bytes() -> None:
    entries = [
        user("a"), reasoned("t"), answer("b"), called("c1"), user("wait"), called("c2"),
        result("c1", "1"), result("c2", "2"), answer("c"), reasoned("x"), user("d"), answer("e"),
    ]  # fmt: skip
    await send_growing(OWN, entries, dialect="responses")


def test_results_follow_their_calls() -> None:
    context = own(user("a"), called("c1"), user("!"), called("c1"), result("c1", "x"))
    context.add(result("c1", "y"), OWN)
    calls = [(item.get("call_id"), item.get("output")) for item in items_of(context)]
    assert calls[1:] == [
        ("c1", None), (None, None), ("c1_2", None), ("c1", "x"), ("c1_2", "y")
    ]  # fmt: skip


def test_options(subtests: pytest.Subtests) -> None:
    allowed = {"type": "function", "name": "weather"}
    rows: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"tools": (WEATHER, TODAY), "tool_choice": "tool:weather"}, {"tool_choice": allowed}),
        ({"tools": (WEATHER,), "tool_choice": "none"}, {"tool_choice": "none"}),
        ({"parameters": make("parameters", max_tokens=9)}, {"max_output_tokens": 9}),
        (
            {"parameters": make("parameters", reasoning="xlow")},
            {"reasoning": {"effort": "minimal", "summary": "auto"}},
        ),
        (
            {"parameters": make("parameters", reasoning="off")},
            {"reasoning": {"effort": "none"}},
        ),
        (
            {"parameters": make("parameters", reasoning={"effort": "max", "exclude": True})},
            {"reasoning": {"effort": "max"}},
        ),
        (
            {"parameters": make("parameters", other={"verbosity": "low", "reasoning_mode": "pro"})},
            {"text": {"verbosity": "low"}, "reasoning": {"mode": "pro"}},
        ),
        (
            {"parameters": make("parameters", other={"service_tier": "flex"})},
            {"service_tier": "flex"},
        ),
    ]
    for given, sent in rows:
        with subtests.test(sent=sent):
            fields = body_of(ask(**given))
            assert {key: fields[key] for key in sent} == sent


@pytest.mark.req("RESP-22")
def test_llamacpp_gets_the_members_that_it_reads() -> None:
    """Its server ignores `text.format`, and a choice by name."""
    request = ask(tools=(WEATHER, TODAY), tool_choice="tool:today", schema={"type": "array"})
    fields = preview_body("llamacpp", request, dialect="responses")
    assert "text" not in fields
    assert fields["response_format"]["json_schema"]["schema"] == {"type": "array"}
    assert ([tool["name"] for tool in fields["tools"]], fields["tool_choice"]) == (
        ["today"], "required"
    )  # fmt: skip


def test_parameters_that_the_api_does_not_have_are_named() -> None:
    parameters = make("parameters", top_k=3, stop_words=("X",), other={"seed": 1})
    shown = new_provider(OWN, AT_OPENAI).preview(ask(parameters=parameters))
    omitted = {line.partition(":")[0].rpartition(".")[2] for line in shown.omitted}
    assert omitted == {"top_k", "stop_words", "seed"}
    assert not {"top_k", "stop", "seed"} & json.loads(shown.body).keys()


@pytest.mark.req("RESP-21")
def test_default_dialect_depends_on_the_address(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[str, dict[str, Any], str, str]] = [
        ("openai", {}, "", "responses"),
        ("openai", {"dialect": "chat"}, "", "chat/completions"),
        ("openai", {"base_url": "https://eu.api.openai.com/v1"}, "", "responses"),
        ("openai", {"base_url": "http://127.0.0.1:1"}, "", "chat/completions"),
        ("openai", {"base_url": "https://api.openai.com.example"}, "", "chat/completions"),
        ("openai", {}, "http://127.0.0.1:1", "chat/completions"),
        ("openai", {"dialect": "responses"}, "http://127.0.0.1:1/v1", "responses"),
        ("openrouter", {}, "", "chat/completions"),
        ("openrouter", {"dialect": "responses"}, "", "responses"),
        ("llamacpp", {"dialect": "responses"}, "", "responses"),
        ("xai", {}, "", "chat/completions"),
        ("xai", {"dialect": "responses"}, "", "responses"),
    ]
    for name, settings, variable, path in rows:
        with subtests.test(name=name, settings=settings, variable=variable):
            monkeypatch.setenv("OPENAI_BASE_URL", variable)
            address = new_provider(name, settings).address
            assert address.endswith(f"/v1/{path}")


@pytest.mark.req("RESP-5", "RESP-7", "RESP-15", "RESP-21")
async def test_tool_loop_over_http(subtests: pytest.Subtests) -> None:
    calls = (ToolCall("weather", {"city": "Delft"}), ToolCall("weather", {"city": "Brügge"}))
    replies = [Reply(reasoning="Hm.", text="Look:", tool_calls=calls), Reply(text="Sun.")]
    for name in ("openai", "llamacpp", "openrouter", "xai"):
        with subtests.test(name=name), LoopbackServer(replies) as server:
            provider = connect(server, name)
            context = make_context(user("Weather?"), provider=name)
            request = make("model_request", "m", context, system=("s", "t"), tools=(WEATHER,))
            record_response(request, name, await collect(provider, request))
            for call_id in ("call_1_0", "call_1_1"):
                context.add(result(call_id, "sun"), name)
            seen = await collect(provider, request)
            await provider.aclose()
            assert (text_of(seen), seen[-1]) == ("Sun.", model_event("finished"))
            first, second = (request.body["input"] for request in server.requests)
            assert second[: len(first)] == first
            assert [item["type"] for item in second[len(first) :]] == [
                "reasoning", "message", *["function_call"] * 2, *["function_call_output"] * 2
            ]  # fmt: skip
            assert first[0]["role"] == "system"


@pytest.mark.req("RESP-8")
async def test_attachments_are_one_message_before_the_context() -> None:
    with LoopbackServer(["A."]) as server:
        provider = connect(server)
        request = ask(attachments=ATTACHMENTS, provider=OWN)
        await collect(provider, request)
        await provider.aclose()
    attached = server.requests[0].body["input"][0]
    assert [part["type"] for part in attached["content"]] == [
        "input_text", "input_text", "input_image", "input_file"
    ]  # fmt: skip
    assert attached["content"][3]["filename"] == "paper.pdf"


ATTACHMENTS = (
    make("attachment", "notes.md", "text/plain", "a < b"),
    make("attachment", "plot.png", "image/png", png()),
    make("attachment", "paper.pdf", "application/pdf", b"%PDF-1.7"),
)


@pytest.mark.req("RESP-9")
async def test_structured_answer_is_strict_and_restored() -> None:
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "why": {"type": "string"}},
        "required": ["ok"],
    }
    said_no = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    end = {"type": "response.completed", "response": {"output": [said_no]}}
    refused = Reply(raw=(f"data: {json.dumps(end)}\n\n".encode(),))
    with LoopbackServer([Reply(text='{"ok": true, "why": null}'), refused, "A."]) as server:
        provider = connect(server)
        seen = await collect(provider, ask(schema=schema))
        assert text_of(seen, "structured") == '{"ok": true}'
        seen = await collect(provider, ask(schema=schema))
        assert (text_of(seen, "structured"), seen[-1]) == (
            "",
            model_event("finished", "refused", "No."),
        )
        await collect(provider, ask(schema={"type": "object"}))
        await provider.aclose()
    formats = [request.body["text"]["format"] for request in server.requests[::2]]
    assert [(form["type"], form["strict"]) for form in formats] == [
        ("json_schema", True), ("json_schema", False)
    ]  # fmt: skip
    assert formats[0]["schema"]["properties"]["why"] == {"type": ["string", "null"]}


async def attempts(provider: Any, request: Any) -> list[list[Any]]:
    """Return the events of each attempt, until one is not repeated."""
    seen = [await collect(provider, request)]
    while is_kind(seen[-1][-1], "retry"):
        seen.append(await collect(provider, request))
    return seen


def unless(is_accepted: Callable[[Json], object], message: str) -> Callable[[Received], Reply]:
    """Refuse up to 20 requests with `message`, except those whose body is accepted."""
    left = iter(range(20))  # a client that does not omit the part must not hang the test

    def reply(request: Received) -> Reply:
        if is_accepted(request.body) or next(left, None) is None:
            return Reply(text="A.")
        return Reply(status=400, message=message)

    return reply


@pytest.mark.req("RESP-18")
async def test_refused_part_of_a_request_is_omitted_from_then_on(
    subtests: pytest.Subtests,
) -> None:
    def has_effort(body: Json, *efforts: str) -> bool:
        return body.get("reasoning", {}).get("effort") in efforts

    rows: list[tuple[str, str, Callable[[Json], object], int]] = [
        (
            "high",
            "Your organization must be verified to generate reasoning summaries.",
            lambda body: "summary" not in body["reasoning"],
            2,
        ),
        (
            "high",
            "Unknown parameter: 'stream_options.include_obfuscation'.",
            lambda body: "stream_options" not in body,
            2,
        ),
        (
            "high",
            "Encrypted content is not supported with this model.",
            lambda body: "include" not in body,
            2,
        ),
        (
            "max",
            "Unsupported value: 'max' is not supported with this model.",
            lambda body: has_effort(body, "xhigh"),
            2,
        ),
        (
            "off",
            "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
            lambda body: "reasoning" not in body,
            2,
        ),
        (
            "high",
            "Unsupported parameter: 'temperature' is not supported with this model.",
            lambda body: "temperature" not in body,
            2,
        ),
    ]
    for reasoning, message, is_accepted, count in rows:
        with subtests.test(message=message), LoopbackServer(unless(is_accepted, message)) as server:
            provider = connect(server)
            parameters = make("parameters", reasoning=reasoning, temperature=0.5)
            request = ask(parameters=parameters, provider=OWN)
            assert len(await attempts(provider, request)) == count
            assert text_of((await attempts(provider, request))[0]) == "A."
            await provider.aclose()
            assert len(server.requests) == count + 1


class PickyServer:
    """A compatible server, which refuses members of a request in its own words, then answers."""

    def __init__(self, status: int, make_error: Callable[[str], Json], refused: set[str]) -> None:
        self.status = status
        self.make_error = make_error
        self.refused = refused

    def __call__(self, request: Received) -> Any:
        if found := sorted(self.refused & request.body.keys()):
            body = json.dumps(self.make_error(found[0])).encode()
            head = f"HTTP/1.1 {self.status} No\r\ncontent-length: {len(body)}\r\n\r\n"
            return RawResponse((head.encode() + body,))
        return Reply(reasoning="Hm.", text="A.")


OTHER_SERVERS: dict[str, tuple[str, PickyServer]] = {
    "xAI": (
        "xai",
        PickyServer(
            400,
            lambda name: {"code": "invalid", "error": f"Argument not supported: {name}"},
            {"include", "stream_options", "truncation", "reasoning"},
        ),
    ),
    "vLLM": (
        "openai",
        PickyServer(
            422,
            lambda name: {"error": {"message": f"extra_forbidden: ('body', '{name}')"}},
            {"include", "prompt_cache_key", "stream_options"},
        ),
    ),
    "OpenRouter": (
        "openrouter",
        PickyServer(
            400,
            lambda name: {"error": {"code": 400, "message": f"Unrecognized key: '{name}'"}},
            {"truncation", "top_p"},
        ),
    ),
    "llama.cpp": (
        "llamacpp",
        PickyServer(
            400,
            lambda name: {"error": {"code": 400, "message": f"unsupported param: {name}"}},
            {"temperature", "truncation"},
        ),
    ),
}


@pytest.mark.req("RESP-21")
@pytest.mark.parametrize("server_name", OTHER_SERVERS)
async def test_other_servers_get_no_part_twice_that_they_refuse(server_name: str) -> None:
    name, picky = OTHER_SERVERS[server_name]
    parameters = make("parameters", reasoning="high", temperature=0.5, top_p=0.5)
    with LoopbackServer(picky) as server:
        provider = connect(server, name)
        context = make_context(user("a"), provider=name)
        request = make("model_request", "m", context, parameters=parameters, conversation_id="c")
        assert len(await attempts(provider, request)) == len(picky.refused) + 1
        record_response(request, name, await collect(provider, request))
        context.add(user("b"), name)
        assert text_of((await attempts(provider, request))[0]) == "A."
        await provider.aclose()
    *_, before, last = (request.body for request in server.requests)
    assert len(server.requests) == len(picky.refused) + 3
    assert not picky.refused & last.keys()
    assert last["store"] is False
    assert last["input"][: len(before["input"])] == before["input"]
    sent_back = [item.get("encrypted_content") for item in last["input"]]
    assert sent_back == [None, Reply().signature, None, None]


@pytest.mark.req("RESP-19")
async def test_model_that_does_not_stream_answers_at_once() -> None:
    body = {
        "status": "completed",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3A="},
            {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "A."}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        ],
        "usage": {"input_tokens": 3},
    }

    def reply(request: Received) -> Any:
        if "stream" not in request.body:
            return body
        return Reply(status=400, message="Your organization must be verified to stream this model.")

    with LoopbackServer(reply, strict=False) as server:
        provider = connect(server)
        retry, events = await attempts(provider, ask(provider=OWN))
        await provider.aclose()
    assert is_kind(retry[-1], "retry")
    assert text_of(events) == "A."
    found = [kind_of(each) for each in select_kind(events, "flush", "call_start")]
    assert found == ["flush", "flush", "call_start", "flush"]
    assert events[-1] == model_event("finished")


async def test_waiting_for_a_response_that_is_not_streamed_is_no_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    substitute(monkeypatch, "seconds between keep-alives", 0.05)
    output = [{"type": "message", "content": [{"type": "output_text", "text": "A."}]}]
    whole = json.dumps({"status": "completed", "output": output}).encode()

    def reply(request: Received) -> Reply:
        if "stream" in request.body:
            return Reply(status=400, message="streaming is not supported")
        return Reply(raw=(0.4, whole), content_type="application/json")

    with LoopbackServer(reply, strict=False) as server:
        provider = connect(server)
        _, events = await attempts(provider, ask(provider=OWN, idle_timeout=0.2))
        await provider.aclose()
    assert text_of(events) == "A."
    assert model_event("keep_alive") in events


@pytest.mark.req("PRE-6", "RESP-6")
async def test_rejected_encrypted_content_is_sent_as_text_from_there_on() -> None:
    def is_accepted(body: Json) -> bool:
        return "rs_2" not in [item.get("id") for item in body["input"]]

    message = "The encrypted content for item rs_2 could not be verified."
    context = own(
        user("a"), reasoned("One."), answer("b", **{ITEM_ID: "msg_1"}), user("c"),
        reasoned("Two.", "rs_2"), answer("d", **{ITEM_ID: "msg_2"}), user("e"),
    )  # fmt: skip
    with LoopbackServer(unless(is_accepted, message)) as server:
        provider = connect(server)
        first, second = await attempts(provider, make("model_request", "m", context))
        context.add(user("f"), OWN)
        (third,) = await attempts(provider, make("model_request", "m", context))
        await provider.aclose()
    (retry,) = first
    assert is_kind(retry, "retry")
    assert retry.drop_metadata == ENCRYPTED
    assert text_of(second) == text_of(third) == "A."
    before, after, last = (request.body["input"] for request in server.requests)
    assert before[:4] == after[:4]
    assert after[4:6] == [
        said("assistant", "<think>\nTwo.\n</think>\n\n"), said("assistant", "d")
    ]  # fmt: skip
    assert last[: len(after)] == after


@pytest.mark.req("RESP-8")
@pytest.mark.parametrize("refused", ["input_image", "input_file"])
async def test_media_of_results_move_behind_if_the_model_refuses_them(refused: str) -> None:
    def is_accepted(body: Json) -> bool:
        return all(isinstance(item.get("output", ""), str) for item in body["input"])

    context = own(user("a"), called("c1"), called("c2"))
    image_result = new_event("tool_call_response", id="c1", content="x", is_error=False)
    context.items.append(make("context_item", image_result, OWN, (figure("plot"), pdf("paper"))))
    context.add(result("c2", "y"), OWN)
    message = f"Invalid value: '{refused}'. Supported values are: 'input_text'."
    with LoopbackServer(unless(is_accepted, message)) as server:
        provider = connect(server)
        await attempts(provider, make("model_request", "m", context))
        await provider.aclose()
    within, behind = (request.body["input"] for request in server.requests)
    assert [part["type"] for part in within[3]["output"]] == [
        "input_text", "input_text", "input_image", "input_text", "input_file"
    ]  # fmt: skip
    assert [item.get("output") for item in behind[3:5]] == ["x", "y"]
    assert "plot" in behind[5]["content"][1]["text"]
    assert behind[5]["content"][2]["type"] == "input_image"
    assert "paper" in behind[5]["content"][3]["text"]
    assert behind[5]["content"][4]["filename"] == "paper.pdf"


@pytest.mark.req("RESP-13", "RESP-14")
async def test_errors_before_the_stream(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, str, str, str]] = [
        (404, "not found", "other", "providers.llm.openai.dialect=chat"),
        (429, "insufficient_quota: no credit", "quota", "account"),
        (429, "try again in 3s", "rate_limit", "3 s"),
        (400, "Your input exceeds the context window of this model.", "too_long", "compact"),
        (500, "x", "transient", "500"),
    ]
    for status, message, kind, text in rows:
        with subtests.test(status=status, message=message):
            with LoopbackServer([Reply(status=status, message=message)]) as server:
                provider = connect(server)
                _, error = await collect_failure(provider, ask(provider=OWN))
                await provider.aclose()
            assert error.kind == kind
            assert error.retry_after == (3 if kind == "rate_limit" else None)
            assert text in str(error)


async def test_stream_that_ends_early_is_tried_again() -> None:
    with LoopbackServer([Reply(text="A long answer.", cut_after=900)]) as server:
        provider = connect(server)
        _, error = await collect_failure(provider, ask(provider=OWN))
        await provider.aclose()
    assert error.kind == "transient"


@pytest.mark.req("RESP-21")
async def test_conversation_continues_in_another_dialect() -> None:
    replies = [Reply(reasoning="Hm.", text="A.", tool_calls=(ToolCall("weather"),)), "B.", "C."]
    with LoopbackServer(replies) as server:
        context = own(user("a"))
        for dialect, text in (("responses", "sun"), ("chat", ""), ("responses", "")):
            provider = connect(server, dialect=dialect)
            request = make("model_request", "m", context, tools=(WEATHER,))
            record_response(request, OWN, await collect(provider, request))
            context.add(result("call_1_0", text) if text else user("more"), OWN)
            await provider.aclose()
    _, chat, responses = (request.body for request in server.requests)
    assert chat["messages"][1]["content"].startswith("<think>\nHm.")
    assert responses["input"][1]["type"] == "reasoning"
    assert responses["input"][5] == said("assistant", "B.")


@pytest.fixture
def _as_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    substitute(monkeypatch, "address of OpenAI", re.compile("http://127"))


def changed_requests() -> list[Any]:
    """Return requests of one conversation, each with one change of its head."""
    context = own(user("a"))
    notes, more = (make("attachment", "notes.md", "text/plain", text) for text in ("old", "new"))
    first = make("model_request", 
        "m", context, system=("s",), tools=(WEATHER,), attachments=(notes,),
        parameters=make("parameters", reasoning="low"),
    )  # fmt: skip
    second = replace(first, system=("s", "t"))
    third = replace(second, tools=(WEATHER, TODAY))
    fourth = replace(third, tools=(TODAY,))
    fifth = replace(fourth, parameters=make("parameters", reasoning="high"))
    sixth = replace(fifth, schema={"type": "object", "properties": {}})
    return [first, second, third, fourth, fifth, sixth, replace(fifth, attachments=(more,))]


async def send_all(server: LoopbackServer, requests: list[Any]) -> list[Json]:
    """Send `requests` of one conversation, record the responses, and return the accepted bodies."""
    provider = connect(server)
    accepted = []
    for request in requests:
        context = request.context
        context.note_contents(request.attachments)
        record_response(request, OWN, (await attempts(provider, request))[-1])
        accepted.append(server.requests[-1].body)
        context.add(user("more"), OWN)
    await provider.aclose()
    return accepted


@pytest.mark.req("PRE-1", "RESP-10")
@pytest.mark.usefixtures("_as_openai")
async def test_changes_of_the_head_are_appended_as_items() -> None:
    with LoopbackServer(lambda _: "A.") as server:
        bodies = await send_all(server, changed_requests())
    for before, after in pairwise(bodies):
        assert after["input"][: len(before["input"])] == before["input"]
        for name in ("tools", "reasoning", "text"):
            assert after.get(name) == bodies[0].get(name)
    kinds = [
        [item for item in after["input"][len(before["input"]) :] if item.get("content") != "A."]
        for before, after in pairwise(bodies)
    ]
    texts = [[part["text"] for one in items for part in one.get("content", ())] for items in kinds]
    assert "t" in texts[0]
    assert [item["type"] for item in kinds[1]][-1] == "additional_tools"
    assert kinds[1][-1]["tools"][0]["name"] == "today"
    assert [body["tool_choice"] for body in bodies[2:4]] == [
        "auto",
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "today"}]},
    ]
    assert kinds[3][-1] == {"type": "configuration_update", "reasoning": {"effort": "high"}}
    assert kinds[4][-1]["text"]["format"]["type"] == "json_schema"
    assert kinds[5][-1] == {"type": "configuration_update", "text": {"format": {"type": "text"}}}
    assert any("new" in text for text in texts[5])


@pytest.mark.req("PRE-1", "RESP-10")
async def test_other_servers_get_changed_instructions_as_a_message() -> None:
    requests = changed_requests()[:2]
    with LoopbackServer(lambda _: "A.") as server:
        first, second = (body["input"] for body in await send_all(server, requests))
    assert second[: len(first)] == first
    assert {"system"} == {item["role"] for item in second if "t" in str(item["content"][0])[-4:]}


@pytest.mark.req("RESP-10")
@pytest.mark.usefixtures("_as_openai")
async def test_model_that_refuses_items_of_changes_gets_the_old_way_once_noted() -> None:
    def is_accepted(body: Json) -> bool:
        known = {"message", "function_call", "function_call_output", "reasoning"}
        return {item["type"] for item in body["input"]} <= known

    message = "Invalid value: 'additional_tools'. Supported values are: 'message', 'reasoning'."
    with LoopbackServer(unless(is_accepted, message)) as server:
        bodies = await send_all(server, changed_requests()[:5])
        count = len(server.requests)
    assert count == 6  # one refusal
    assert [[tool["name"] for tool in body["tools"]] for body in bodies[2:4]] == [
        ["weather", "today"], ["today"]
    ]  # fmt: skip
    assert bodies[4]["reasoning"]["effort"] == "high"
