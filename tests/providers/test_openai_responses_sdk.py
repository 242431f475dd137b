"""The official client of the Responses API: it accepts our requests, and reads the same streams."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter

from tests.kit.kinds import is_kind, make
from tests.kit.models import record_response
from tests.kit.providers import new_provider
from tests.kit.records import new_event
from tests.kit.streams import StreamReader
from tests.providers.helpers import WEATHER, ask, collect, result, text_of, user
from tests.support.images import figure, png
from tests.support.loopback import LoopbackServer, Reply, ToolCall, reply_events

if TYPE_CHECKING:
    import openai
    from openai.types.responses import response_create_params
else:
    openai = pytest.importorskip("openai", reason="pip install -e '.[tiers]'")
    from openai.types.responses import response_create_params

CALLS = (ToolCall("weather", {"city": "Delft"}), ToolCall("weather", {"city": "Brügge"}))
ITEMS: list[Any] = [{"type": "message", "role": "user", "content": "Weather?"}]
REPLY = Reply(reasoning="Hm — 🌦.", text="Let me look — 🌦", tool_calls=CALLS)


def client_of(server: LoopbackServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)


def check_body(body: dict[str, Any]) -> None:
    """Validate a body with the types of the client, without members that they do not have."""
    types: TypeAdapter[Any] = TypeAdapter(response_create_params.ResponseCreateParamsStreaming)
    found = types.dump_python(types.validate_python(body), mode="json", warnings=False)
    assert found == body


@pytest.mark.req("RESP-2", "RESP-8")
async def test_request_fits_the_types_of_the_client() -> None:
    attachments = (
        make("attachment", "notes.md", "text/plain", "a"),
        make("attachment", "plot.png", "image/png", png()),
        make("attachment", "paper.pdf", "application/pdf", b"%PDF-1.7"),
    )
    with LoopbackServer([REPLY, "Sun."]) as server:
        provider = new_provider("openai", {"base_url": server.url, "dialect": "responses"})
        context = ask(user("Weather?"), provider="openai").context
        request = make(
            "model_request",
            "m",
            context,
            system=("s",),
            attachments=attachments,
            tools=(WEATHER,),
            tool_choice="tool:weather",
            parameters=make(
                "parameters", reasoning="high", max_tokens=9, other={"verbosity": "low"}
            ),
            schema={"type": "object", "properties": {"a": {"type": "integer"}}},
            conversation_id="jp-1",
        )
        record_response(request, "openai", await collect(provider, request))
        context.add(result("call_1_0", "sun"), "openai")
        second = new_event("tool_call_response", id="call_1_1", content="rain", is_error=False)
        context.items.append(make("context_item", second, "openai", (figure(),)))
        await collect(provider, request)
        await provider.aclose()
    for sent in server.requests:
        check_body(sent.body)


@pytest.mark.req("RESP-2")
async def test_client_completes_a_tool_loop_against_the_server() -> None:
    with LoopbackServer([REPLY, "Sun."]) as server:
        items = [*ITEMS]
        tool: Any = {"type": "function", "name": "weather", "parameters": {}, "strict": False}
        async with client_of(server) as client:
            for _ in range(2):
                async with client.responses.stream(
                    model="m", input=items, tools=[tool], store=False
                ) as stream:
                    response = await stream.get_final_response()
                items += [item.to_dict() for item in response.output]
                items += [
                    {"type": "function_call_output", "call_id": item.call_id, "output": "sun"}
                    for item in response.output
                    if item.type == "function_call"
                ]
    assert response.output_text == "Sun."
    assert [item["type"] for item in items[1:7]] == [
        "reasoning", "message", *["function_call"] * 2, *["function_call_output"] * 2
    ]  # fmt: skip


def summarize(events: Iterable[Any]) -> dict[str, Any]:
    events = [*events]
    calls = {
        event.index: [event.id, event.name, ""] for event in events if is_kind(event, "call_start")
    }
    for event in events:
        if is_kind(event, "call_arguments"):
            calls[event.index][2] += event.text
    usage = next((event for event in events if is_kind(event, "usage")), None)
    return {
        "text": text_of(events),
        "reasoning": text_of(events, "reasoning"),
        "calls": [*calls.values()],
        "usage": usage and [usage.input_tokens, usage.output_tokens, usage.cache_write_tokens],
    }


async def summarize_with_client(body: bytes) -> tuple[dict[str, Any], set[str]]:
    """Return what the client reads in a stream, and the types of events that it does not know."""
    text: list[str] = []
    thought: list[str] = []
    unknown: set[str] = set()
    with LoopbackServer([Reply(raw=(body,))]) as server:
        async with client_of(server) as client:
            stream = await client.responses.create(model="m", input=ITEMS, store=False, stream=True)
            async for event in stream:
                if type(event).__name__ == "BaseModel":
                    unknown.add(event.type)
                if event.type == "response.output_text.delta":
                    text.append(event.delta)
                elif event.type in (
                    "response.reasoning_summary_text.delta", "response.reasoning_text.delta"
                ):  # fmt: skip
                    thought.append(event.delta)
                elif event.type == "response.completed":
                    final = event.response
    calls = [
        [item.call_id, item.name, item.arguments]
        for item in final.output
        if item.type == "function_call"
    ]
    usage = final.usage
    assert usage is not None
    counts = [
        usage.input_tokens,
        usage.output_tokens,
        usage.input_tokens_details.cache_write_tokens,
    ]
    summary = {"text": "".join(text), "reasoning": "".join(thought), "calls": calls}
    return {**summary, "usage": counts}, unknown


def every_event() -> bytes:
    """Return a stream with one event of each type beside those of `REPLY`."""
    others = [
        *(f"response.{kind}" for kind in ("queued", "compaction.compacting")),
        *(f"response.audio.{kind}" for kind in ("delta", "done", "transcript.delta")),
        *(f"response.code_interpreter_call.{kind}" for kind in ("in_progress", "completed")),
        *(f"response.file_search_call.{kind}" for kind in ("searching", "completed")),
        *(f"response.web_search_call.{kind}" for kind in ("searching", "completed")),
        *(f"response.image_generation_call.{kind}" for kind in ("generating", "partial_image")),
        *(f"response.mcp_call.{kind}" for kind in ("in_progress", "failed")),
        *(f"response.mcp_list_tools.{kind}" for kind in ("in_progress", "completed")),
        "response.custom_tool_call_input.delta",
        "response.output_text.annotation.added",
        "response.of.the.future",
    ]
    events = reply_events(REPLY, "responses", {"model": "m"}, 1)
    more = [{"type": kind, "output_index": 40, "item_id": "x", "delta": ""} for kind in others]
    made = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in more]
    return b"".join([*events[:2], *made, *events[2:]])


@pytest.mark.req("RESP-2", "RESP-20")
async def test_client_reads_the_same_in_every_event(caplog: pytest.LogCaptureFixture) -> None:
    body = every_event()
    read, unknown = await summarize_with_client(body)
    with caplog.at_level("DEBUG", "jp_nb.providers.openai.openai_responses_decoder"):
        response = StreamReader("responses").read([body])
    assert response.error is None
    assert summarize(response.events) == read
    assert unknown <= {message.rpartition(": ")[2] for message in caplog.messages}


@pytest.mark.req("RESP-3")
def test_stream_cut_at_every_byte_gives_the_same_events() -> None:
    body = every_event()

    def read(chunks: Iterable[bytes]) -> dict[str, Any]:
        response = StreamReader("responses").read(chunks)
        assert response.error is None
        return summarize(response.events)

    whole = read([body])
    assert read(bytes([byte]) for byte in body) == whole
    for place in range(1, len(body), 7):
        assert read([body[:place], body[place:]]) == whole
