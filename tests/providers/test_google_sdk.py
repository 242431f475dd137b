"""Google's own client, as an independent check of requests, streams, and the loopback server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import pytest

from tests.kit.kinds import make
from tests.kit.records import new_event
from tests.kit.streams import StreamReader
from tests.providers.helpers import (
    TODAY,
    WEATHER,
    answer,
    called,
    make_context,
    preview_body,
    result,
    thought,
    user,
)
from tests.support.images import figure, pdf
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.loopback_google import named

if TYPE_CHECKING:
    from google import genai
    from google.genai import interactions, types
else:
    genai = pytest.importorskip("google.genai", reason="pip install -e '.[tiers]'")
    from google.genai import interactions, types

Wire = dict[str, Any]
SIGNED = {"google_thought_signature": "c2ln"}
LOOK = Reply(
    reasoning="Hm, größer.", text="Look 🌦: ", tool_calls=(ToolCall("weather", {"city": "Brügge"}),)
)
ASKED = {"type": "user_input", "content": [{"type": "text", "text": "Hi."}]}
TOOL: Any = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}


def make_client(server: LoopbackServer) -> genai.Client:
    return genai.Client(
        api_key="k", http_options=types.HttpOptions(base_url=server.url, api_version="v1")
    )


def make_request(**fields: Any) -> Any:
    dream = {"type": "dream", "depth": 3}
    context = make_context(
        user("Weather?"), thought("Hm.", **SIGNED), thought("", google_step=dream),
        answer("Look."), called("fc_1", city="Delft"), result("fc_1", "none", is_error=True),
        answer("None."), user("Thanks."), called("fc_2", city="Gouda"),
        provider="google",
    )  # fmt: skip
    shown = new_event("tool_call_response", id="fc_2", content="", is_error=False)
    context.items.append(make("context_item", shown, "google", (figure(), pdf())))
    return make("model_request", 
        "gemini-3.8-flash",
        context,
        system=("Be brief.",),
        attachments=(
            make("attachment", "a.png", "image/png", b"png"),
            make("attachment", "b.pdf", "application/pdf", b"pdf"),
        ),
        tools=(WEATHER, TODAY),
        parameters=make("parameters", 
            max_tokens=100, reasoning="max", temperature=0.5, top_p=0.5, stop_words=("END",),
            other={"seed": 1},
        ),
        **fields,
    )  # fmt: skip


@pytest.mark.req("GEM-2")
@pytest.mark.parametrize("choice", ["auto", "none", "required", "tool:weather"])
def test_request_is_valid_for_the_types_of_the_sdk(choice: str) -> None:
    request = make_request(tool_choice=choice, schema=SCHEMA)
    body = preview_body("google", request)
    parsed = interactions.CreateModelInteraction.model_validate(body, strict=True)
    dumped = parsed.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert dumped == body


@pytest.mark.req("GEM-2", "GEM-20")
def test_generate_request_is_valid_for_the_types_of_the_sdk() -> None:
    request = make_request(tool_choice="tool:weather", schema=SCHEMA)
    body = preview_body("google", request, dialect="generate")
    for content in body["contents"]:
        types.Content.model_validate(content)
    for tool in body["tools"]:
        types.Tool.model_validate(tool)
    types.ToolConfig.model_validate(body["toolConfig"])
    types.GenerationConfig.model_validate(body["generationConfig"])
    types.Content.model_validate(body["systemInstruction"])
    assert body.keys() == {
        "contents", "tools", "toolConfig", "generationConfig", "systemInstruction",
    }  # fmt: skip


def vendor_call(kind: str, **fields: Any) -> tuple[Wire, list[Wire], Wire]:
    """Return a call of a tool of Google: its start, its deltas, and the whole step."""
    start = {"type": f"{kind}_call", "id": kind, **fields}
    return start, [{"type": f"{kind}_call", "signature": "c2ln", **fields}], {
        **start, "signature": "c2ln",
    }  # fmt: skip


def vendor_result(kind: str, result: Any, **fields: Any) -> tuple[Wire, list[Wire], Wire]:
    """Return a result of a tool of Google: its start, its deltas, and the whole step."""
    start = {"type": f"{kind}_result", "call_id": kind, **fields}
    if result is None:
        return start, [{"type": f"{kind}_result", "signature": "c2ln"}], {
            **start, "signature": "c2ln",
        }  # fmt: skip
    delta = {"type": f"{kind}_result", "result": result, **fields}
    empty = result[:0] if isinstance(result, list) else ""
    return {**start, "result": empty}, [delta], {**start, "result": result}


def media(kind: str, subtype: str) -> Wire:
    return {"type": kind, "mime_type": f"{kind}/{subtype}", "data": "aW1n"}


def text_part(text: str, **fields: Any) -> Wire:
    return {"type": "text", "text": text, **fields}


CITATION = {"type": "url_citation", "url": "https://a.b", "start_index": 0, "end_index": 1}
IMAGE = media("image", "png")
AUDIO = media("audio", "wav")
VIDEO = media("video", "mp4")
DOCUMENT = {"type": "document", "mime_type": "application/pdf", "data": "cGRm"}
CALL = {"type": "function_call", "id": "fc_1", "name": "weather", "arguments": {}}
STEPS: list[tuple[Wire, list[Wire], Wire | None]] = [
    ({"type": "user_input"}, [], None),
    ({"type": "function_result", "call_id": "c0", "result": ""},
     [{"type": "function_result", "result": "sun"}], None),
    (
        {"type": "thought"},
        [
            {"type": "thought_summary", "content": text_part("Hm, ")},
            {"type": "thought_summary", "content": text_part("größer.")},
            {"type": "thought_summary", "content": IMAGE},
            {"type": "thought_signature", "signature": "c2ln"},
        ],
        {"type": "thought", "signature": "c2ln", "summary": [text_part("Hm, größer."), IMAGE]},
    ),
    vendor_call("google_search", arguments={"queries": ["a"]}),
    vendor_result("google_search", [{"search_suggestions": "b"}]),
    vendor_call("code_execution", arguments={"code": "1", "language": "python"}),
    vendor_result("code_execution", "1"),
    vendor_call("url_context", arguments={"urls": ["https://a.b"]}),
    vendor_result("url_context", [{"url": "https://a.b", "status": "success"}]),
    vendor_call("file_search"),
    vendor_result("file_search", []),
    vendor_call("google_maps", arguments={"queries": ["a"]}),
    vendor_result("google_maps", [{"places": []}]),
    vendor_call("retrieval", arguments={"queries": ["a"]}),
    vendor_result("retrieval", None),
    vendor_call("processing"),
    vendor_result("processing", None),
    vendor_call("tool_search", arguments={"query": "a"}),
    vendor_result("tool_search", None),
    (
        {"type": "mcp_server_tool_call", "id": "m", "name": "f", "server_name": "s",
         "arguments": {}},
        [{"type": "mcp_server_tool_call", "name": "f", "server_name": "s",
          "arguments": {"a": 1}}],
        {"type": "mcp_server_tool_call", "id": "m", "name": "f", "server_name": "s",
         "arguments": {"a": 1}},
    ),
    vendor_result("mcp_server_tool", "sun"),
    (
        {"type": "model_output", "content": [text_part("Look ")]},
        [text_part("🌦: "), {"type": "text_annotation_delta", "annotations": [CITATION]}, IMAGE,
         AUDIO, VIDEO, DOCUMENT],
        {"type": "model_output",
         "content": [text_part("Look 🌦: ", annotations=[CITATION]), IMAGE, AUDIO, VIDEO,
                     DOCUMENT]},
    ),
    (
        CALL,
        [{"type": "arguments_delta", "arguments": part} for part in ('{"city": "Br', 'ügge"}')],
        {**CALL, "arguments": {"city": "Brügge"}},
    ),
]  # fmt: skip


def all_events() -> list[Wire]:
    """Return a stream with each kind of event, step, and delta."""
    usage = {"total_input_tokens": 9, "total_output_tokens": 5, "total_tokens": 14}
    made = {"id": "v1_1", "object": "interaction", "model": "m"}
    events: list[Wire] = [
        {"event_type": "interaction.created", "interaction": {**made, "status": "in_progress"}},
        {
            "event_type": "interaction.status_update", "interaction_id": "v1_1",
            "status": "in_progress", "usage": usage,
        },
    ]  # fmt: skip
    for index, (start, deltas, _) in enumerate(STEPS):
        events.append({"event_type": "step.start", "index": index, "step": start})
        events += [
            {
                "event_type": "step.delta", "index": index, "delta": delta,
                "metadata": {"total_usage": usage},
            }
            for delta in deltas
        ]  # fmt: skip
        events.append({"event_type": "step.stop", "index": index, "usage": usage})
    done = {**made, "status": "requires_action", "usage": usage}
    events.append({"event_type": "interaction.completed", "interaction": done})
    return [{**event, "event_id": f"e{number}"} for number, event in enumerate(events)]


@pytest.mark.req("GEM-2", "GEM-4", "GEM-17")
async def test_sdk_and_decoder_agree_about_each_kind_of_event() -> None:
    events = all_events()
    with LoopbackServer([Reply(raw=tuple(map(named, events)))]) as server:
        async with make_client(server).aio as client:
            asked: Any = [ASKED]
            stream: Any = await client.interactions.create(
                model="m", input=asked, store=False, stream=True
            )
            read = [event async for event in stream]
    assert [event.model_dump(mode="json", exclude_none=True) for event in read] == events
    # The client keeps a kind that it does not know, so each kind of this stream is one of the API.
    assert "UNKNOWN" not in {event.event_type for event in read}
    parts = [event.delta for event in read if event.event_type == "step.delta"]
    parts += [event.step for event in read if event.event_type == "step.start"]
    assert "UNKNOWN" not in {part.type for part in parts}

    response = StreamReader("interactions").read(map(named, events))
    assert response.error is None
    assert len(response.entries) == sum(whole is not None for *_, whole in STEPS)
    context = make_context(user("Hi."), *response.entries, provider="google")
    context.add(result("fc_1", "sun"), "google")
    body = preview_body("google", make("model_request", "gemini-3.8-flash", context))
    sent = body["input"][1:-1]
    assert {step["type"] for step in sent} == {"thought", "model_output", "function_call"}
    assert IMAGE["data"] not in json.dumps(sent)
    parsed: Any = interactions.CreateModelInteraction.model_validate(body, strict=True)
    assert parsed.model_dump(mode="json", by_alias=True, exclude_none=True) == body
    assert "UNKNOWN" not in {step.type for step in parsed.input}


@pytest.mark.req("GEM-2")
async def test_sdk_knows_no_other_kind_of_event() -> None:
    kinds = {
        "InteractionSSEEvent": {event["event_type"] for event in all_events()} | {"error"},
        "Step": {start["type"] for start, *_ in STEPS},
        "StepDeltaData": {delta["type"] for _, deltas, _ in STEPS for delta in deltas},
    }
    for name, ours in kinds.items():
        union, *_ = get_args(getattr(interactions, name))
        default = "event_type" if name == "InteractionSSEEvent" else "type"
        known = {each.model_fields[default].default for each in get_args(union)}
        assert known - {"UNKNOWN"} == ours


@pytest.mark.req("GEM-2", "GEM-10")
async def test_sdk_and_decoder_agree_about_an_error() -> None:
    event = {"event_type": "error", "error": {"code": "unavailable", "message": "busy"}}
    with LoopbackServer([Reply(raw=(named(event),))]) as server:
        async with make_client(server).aio as client:
            asked: Any = [ASKED]
            stream: Any = await client.interactions.create(
                model="m", input=asked, store=False, stream=True
            )
            (read,) = [each async for each in stream]
    assert read.model_dump(mode="json", exclude_none=True) == event
    error = StreamReader("interactions").read([named(event)]).error
    assert error is not None
    assert (error.kind, "busy" in str(error)) == ("transient", True)


@pytest.mark.req("GEM-22")
async def test_sdk_completes_a_tool_loop_with_steps() -> None:
    with LoopbackServer([LOOK, "Sun."]) as server:
        async with make_client(server).aio as client:
            steps: list[Any] = [
                {"type": "user_input", "content": [{"type": "text", "text": "Hi."}]}
            ]
            said = ""
            for _ in range(2):
                stream: Any = await client.interactions.create(
                    model="m", input=steps, store=False, stream=True,
                    tools=[TOOL],
                )  # fmt: skip
                arguments = ""
                async for event in stream:
                    if event.event_type == "step.start" and event.step.type == "function_call":
                        steps.append(event.step.model_dump(mode="json", exclude_none=True))
                    elif event.event_type == "step.delta" and event.delta.type == "arguments_delta":
                        arguments += event.delta.arguments or ""
                    elif event.event_type == "step.delta" and event.delta.type == "text":
                        said += event.delta.text
                if arguments:
                    steps[-1]["arguments"] = json.loads(arguments)
                    steps.append(
                        {"type": "function_result", "call_id": steps[-1]["id"], "result": "sun"}
                    )
    assert said == "Look 🌦: Sun."
    assert server.requests[1].body["input"][1]["arguments"] == {"city": "Brügge"}


@pytest.mark.req("GEM-22", "GEM-20")
async def test_sdk_completes_a_tool_loop_with_contents() -> None:
    def weather(city: str) -> str:
        """Return the weather."""
        asked.append(city)
        return "sun"

    asked: list[str] = []
    with LoopbackServer([LOOK, "Sun."]) as server:
        async with make_client(server).aio as client:
            chat = client.chats.create(
                model="m", config=types.GenerateContentConfig(tools=[weather])
            )
            stream = await chat.send_message_stream("Weather?")
            said = "".join([chunk.text or "" async for chunk in stream])
    assert asked == ["Brügge"]
    assert said.endswith("Sun.")
    parts = [part for each in server.requests[1].body["contents"] for part in each["parts"]]
    calls = [part for part in parts if "functionCall" in part]
    assert [part["thoughtSignature"] for part in calls] == ["c2lnbmF0dXJl"]
