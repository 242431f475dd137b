"""Google's own client, as an independent check of requests, streams, and the loopback server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jp_nb.agent.provider import Attachment, ModelParameters, ModelRequest, TextPart
from jp_nb.providers import create_provider
from jp_nb.providers.google_interactions_decoder import InteractionsDecoder
from jp_nb.providers.streaming import StreamDecoder
from tests.providers.helpers import (
    TODAY,
    WEATHER,
    answer,
    called,
    decode,
    make_context,
    result,
    text_of,
    thought,
    user,
)
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.loopback_google import interaction_events, named

if TYPE_CHECKING:
    from google import genai
    from google.genai import interactions, types
else:
    genai = pytest.importorskip("google.genai", reason="pip install -e '.[tiers]'")
    from google.genai import interactions, types

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


def make_request(**fields: Any) -> ModelRequest:
    dream = {"type": "dream", "depth": 3}
    context = make_context(
        user("Weather?"), thought("Hm.", **SIGNED), thought("", google_step=dream),
        answer("Look."), called("fc_1", city="Delft"), result("fc_1", "none", is_error=True),
        answer("None."), user("Thanks."),
        provider="google",
    )  # fmt: skip
    return ModelRequest(
        "gemini-3.8-flash",
        context,
        system=("Be brief.",),
        attachments=(
            Attachment("a.png", "image/png", b"png"),
            Attachment("b.pdf", "application/pdf", b"pdf"),
        ),
        tools=(WEATHER, TODAY),
        parameters=ModelParameters(
            max_tokens=100, reasoning="max", temperature=0.5, top_p=0.5, stop_words=("END",),
            other={"seed": 1},
        ),
        **fields,
    )  # fmt: skip


@pytest.mark.req("GEM-2")
@pytest.mark.parametrize("choice", ["auto", "none", "required", "tool:weather"])
def test_request_is_valid_for_the_types_of_the_sdk(choice: str) -> None:
    request = make_request(tool_choice=choice, schema=SCHEMA)
    body = json.loads(create_provider("google").preview(request).body)
    parsed = interactions.CreateModelInteraction.model_validate(body, strict=True)
    dumped = parsed.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert dumped == body


@pytest.mark.req("GEM-2", "GEM-20")
def test_generate_request_is_valid_for_the_types_of_the_sdk() -> None:
    request = make_request(tool_choice="tool:weather", schema=SCHEMA)
    provider = create_provider("google", {"dialect": "generate"})
    body = json.loads(provider.preview(request).body)
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


@pytest.mark.req("GEM-2")
async def test_sdk_and_decoder_read_the_same_from_a_stream() -> None:
    with LoopbackServer([LOOK]) as server:
        async with make_client(server).aio as client:
            steps: Any = [ASKED]
            stream: Any = await client.interactions.create(
                model="m", input=steps, store=False, stream=True
            )
            events = [event async for event in stream]
    read = {"text": "", "thought_summary": "", "thought_signature": "", "arguments_delta": ""}
    for event in events:
        if event.event_type == "step.delta":
            delta: Any = event.delta
            read[delta.type] += {
                "text": lambda d: d.text,
                "thought_summary": lambda d: d.content.text,
                "thought_signature": lambda d: d.signature,
                "arguments_delta": lambda d: d.arguments,
            }[delta.type](delta)
    body = b"".join(map(named, interaction_events(LOOK, "m", 1)))
    ours, error = decode(StreamDecoder(InteractionsDecoder(), provider="google"), [body])
    assert error is None
    assert read["text"] == text_of(ours) == "Look 🌦: "
    assert read["thought_summary"] == text_of(ours, "reasoning") == "Hm, größer."
    assert read["thought_signature"] in str(ours)
    assert json.loads(read["arguments_delta"]) == {"city": "Brügge"}
    assert {type(event).__name__ for event in events} == {
        "InteractionCreatedEvent", "InteractionStatusUpdate", "StepStart", "StepDelta", "StepStop",
        "InteractionCompletedEvent",
    }  # fmt: skip
    assert sum(isinstance(event, TextPart) for event in ours) == 2


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
