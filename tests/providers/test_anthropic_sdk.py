"""Anthropic's own client as an independent check: requests, responses, and lists of models."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
)

import pytest
from typing_extensions import get_type_hints, is_typeddict

from tests.kit.kinds import is_kind, kind_of, make
from tests.kit.providers import new_provider
from tests.providers.helpers import (
    FIXTURES,
    TODAY,
    WEATHER,
    answer,
    ask,
    called,
    collect,
    result,
    thought,
    user,
)
from tests.support.images import png
from tests.support.loopback import LoopbackServer, Reply, ToolCall, reply_events

if TYPE_CHECKING:
    import anthropic
    from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming
else:
    anthropic = pytest.importorskip("anthropic", reason="pip install -e '.[tiers]'")
    params = pytest.importorskip("anthropic.types.beta.message_create_params")
    MessageCreateParamsStreaming = params.MessageCreateParamsStreaming

BETA = "thinking-binding-controls-2026-08-01"
REASONING: tuple[Any, ...] = (
    None, "off", "auto", "max", 3000, {"effort": "low", "exclude": True},
)  # fmt: skip
CALLS = (ToolCall("weather", {"city": "Brügge"}), ToolCall("today"))
MADE = Reply(text="Look — 🌦", reasoning="Hm.", tool_calls=CALLS)
STREAMS = {
    **{path.stem: path.read_bytes() for path in FIXTURES if path.name.startswith("anthropic")},
    "made": b"".join(reply_events(MADE, "anthropic", {"model": "m"}, 1)),
}


def accepts(hint: Any, value: Any) -> bool:
    """Return True if `value` fits the type `hint`, and has no key that `hint` does not know."""
    origin: Any = get_origin(hint)
    arguments = get_args(hint)
    if hint in (Any, object):
        return True
    if origin in (Annotated, Required, NotRequired):
        return accepts(arguments[0], value)
    if origin in (Union, UnionType):
        return any(accepts(each, value) for each in arguments)
    if origin is Literal:
        return value in arguments
    if is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        origins: dict[str, Any] = {name: get_origin(each) for name, each in hints.items()}
        required = {name for name, each in origins.items() if each is Required}
        return (
            isinstance(value, dict)
            and required <= value.keys() <= hints.keys()
            and all(accepts(hints[key], item) for key, item in value.items())
        )
    if origin is dict:
        return isinstance(value, dict) and all(accepts(arguments[1], x) for x in value.values())
    if origin is not None:  # a list, in several spellings
        return isinstance(value, list) and all(accepts(arguments[0], each) for each in value)
    return isinstance(value, (int, float) if hint is float else hint or NoneType)


def find_unknown_parts(body: Any) -> list[Any]:
    """Return the members, messages, and tools of `body` that the client does not know."""
    hints = get_type_hints(MessageCreateParamsStreaming, include_extras=True)
    parts = [(name, item) for name in body for item in as_items(name, body[name])]
    return [part for part in parts if part[0] not in hints or not accepts(hints[part[0]], part[1])]


def as_items(name: str, value: Any) -> list[Any]:
    return [[each] for each in value] if name in ("messages", "tools") else [value]


def requests() -> Iterable[Any]:
    """Yield requests that together have each kind of part."""
    entries = [
        user("Weather?"),
        thought("Two cities.", anthropic_thinking_signature="c2ln"),
        thought("", anthropic_redacted_thinking="b3A="),
        answer("Looking."),
        called("toolu_1", city="Delft"),
        called("toolu_2", city="Gouda"),
        result("toolu_1", "sun"),
        result("toolu_2", "no such city", is_error=True),
        answer("Sun in Delft."),
        user("And now?"),
    ]
    attachments = (
        make("attachment", "a.md", "text/plain", "A"),
        make("attachment", "b.png", "image/png", png()),
        make("attachment", "c.pdf", "application/pdf", b"%PDF-1.4"),
    )
    shared: dict[str, Any] = {"tools": (WEATHER, TODAY), "system": ("Be brief.",)}
    schema = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 1}}}
    for model in ("claude-fable-5-2", "claude-opus-5-5", "claude-opus-4-6", "claude-sonnet-4-5"):
        for reasoning in REASONING:
            parameters = make("parameters", reasoning=reasoning)
            yield ask(*entries, model=model, parameters=parameters, **shared)
    for choice in ("none", "required", "tool:weather"):
        yield ask(*entries, model="claude-haiku-5-5", tool_choice=choice, **shared)
    yield ask(model="claude-haiku-5-5", schema=schema, attachments=attachments)
    # The types no longer have `temperature`, `top_p`, and `top_k`, which older models accept.
    limits = make("parameters", stop_words=("END",), max_tokens=99)
    yield ask(user("a"), answer("cut"), model="claude-opus-4-6", parameters=limits)


def test_types_of_the_client_know_each_part_of_our_requests(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(
        "DEBUG", "jp_nb.providers.anthropic.anthropic_messages"
    )  # with cache diagnostics
    provider = new_provider("anthropic", {"beta_headers": [BETA]})
    seen = ""
    for request in requests():
        body = json.loads(provider.preview(request).body)
        assert find_unknown_parts(body) == []
        seen += json.dumps(body)
    for part in ("strict", "diagnostics", "block_binding", "adaptive", "budget_tokens", "effort"):
        assert f'"{part}"' in seen
    wrong = {"temperature": "warm", "bogus": 1, "tools": [{"name": "f"}]}
    assert {name for name, _ in find_unknown_parts(body | wrong)} == {*wrong}
    body["messages"][0]["content"][0]["unknown"] = 1
    assert find_unknown_parts(body) == [("messages", body["messages"][:1])]


def make_client(server: LoopbackServer) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0)


async def test_client_completes_a_tool_loop_with_our_test_server() -> None:
    call = ToolCall("weather", {"city": "Delft"})
    replies = [Reply(text="Look:", reasoning="Hm.", tool_calls=(call, call)), "Sunny."]
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    tools: list[Any] = [{"name": "weather", "input_schema": {"type": "object"}}]
    with LoopbackServer(replies) as server:
        async with make_client(server) as client:
            while True:
                async with client.messages.stream(
                    model="claude-opus-5-5", max_tokens=99, messages=messages, tools=tools
                ) as stream:
                    reply = await stream.get_final_message()
                messages.append({"role": "assistant", "content": resolve_blocks(reply)})
                if reply.stop_reason != "tool_use":
                    break
                calls = [block.id for block in reply.content if block.type == "tool_use"]
                results = [{"type": "tool_result", "tool_use_id": id_} for id_ in calls]
                messages.append({"role": "user", "content": results})
    assert [block["type"] for block in messages[1]["content"]] == [
        "thinking", "text", "tool_use", "tool_use",
    ]  # fmt: skip
    assert messages[-1]["content"] == [{"type": "text", "text": "Sunny."}]


def resolve_blocks(reply: Any) -> list[Any]:
    return [block.to_dict(exclude_unset=True, mode="json") for block in reply.content]


async def collect_ours(provider: Any) -> tuple[list[Any], dict[str, int | None]]:
    """Return the blocks of a response as our decoder reads them, and its tokens."""
    blocks: dict[int, dict[str, Any]] = {}
    usage: dict[str, int | None] = {}
    for event in await collect(provider, ask(tools=(WEATHER, TODAY))):
        add_event(event, blocks)
        if is_kind(event, "usage"):
            usage |= {"in": event.input_tokens, "out": event.output_tokens}
    return [blocks[index] for index in sorted(blocks)], usage


def add_event(event: Any, blocks: dict[int, dict[str, Any]]) -> None:
    match kind_of(event):
        case "text":
            block = blocks.setdefault(event.index, {"type": event.kind, "text": ""})
            block["text"] += event.text
        case "call_start":
            call = {"type": "call", "text": "", "id": event.id, "name": event.name}
            blocks[event.index] = call
        case "call_arguments":
            blocks[event.index]["text"] += event.text
        case "flush":
            blocks[event.index] |= event.metadata


async def collect_theirs(server: LoopbackServer) -> tuple[list[Any], dict[str, int | None]]:
    """Return the blocks of a response as the client reads them, in our form."""
    async with (
        make_client(server) as client,
        client.messages.stream(
            model="m", max_tokens=99, messages=[{"role": "user", "content": "a"}]
        ) as stream,
    ):
        message = await stream.get_final_message()
    blocks = []
    for block in message.content:
        match block.type:
            case "text":
                blocks.append({"type": "message", "text": block.text})
            case "thinking":
                signature = {"anthropic_thinking_signature": block.signature}
                blocks.append({"type": "reasoning", "text": block.thinking, **signature})
            case "redacted_thinking":
                redacted = {"anthropic_redacted_thinking": block.data}
                blocks.append({"type": "reasoning", "text": "", **redacted})
            case "tool_use":
                about = {"id": block.id, "name": block.name}
                blocks.append({"type": "call", "text": json.dumps(block.input), **about})
    used = message.usage
    cached = (used.cache_read_input_tokens or 0) + (used.cache_creation_input_tokens or 0)
    return blocks, {"in": used.input_tokens + cached, "out": used.output_tokens}


def parse_calls(blocks: list[Any]) -> list[Any]:
    return [
        block | {"text": json.loads(block["text"] or "{}")} if block["type"] == "call" else block
        for block in blocks
    ]


@pytest.mark.parametrize("stream", STREAMS)
async def test_client_and_our_decoder_read_the_same_from_a_stream(stream: str) -> None:
    reply = Reply(raw=(STREAMS[stream],))
    with LoopbackServer(lambda _: reply) as server:
        theirs, their_usage = await collect_theirs(server)
        provider = new_provider("anthropic", {"base_url": server.url})
        ours, our_usage = await collect_ours(provider)
        await provider.aclose()
    assert parse_calls(ours) == parse_calls(theirs)
    assert our_usage == their_usage
    assert ours


async def test_abilities_of_a_model_that_the_client_describes() -> None:
    yes = {"supported": True}
    no = {"supported": False}
    capabilities = {
        **dict.fromkeys(("batch", "citations", "code_execution"), yes),
        "context_management": yes,
        "effort": {**yes, **dict.fromkeys(("low", "medium", "high", "max"), yes), "xhigh": no},
        **dict.fromkeys(("image_input", "pdf_input"), yes),
        "server_tools": {**yes, "code_execution": yes, "web_search": yes},
        "structured_outputs": yes,
        "thinking": {
            **yes,
            "types": {"adaptive": yes, "enabled": no, "disabled": yes, "between_tools": no},
        },
    }
    known = anthropic.types.ModelInfo.model_validate(
        {
            "id": "claude-opus-5-5",
            "type": "model",
            "display_name": "Claude Opus 5.5",
            "created_at": "2026-09-01T00:00:00Z",
            "deprecated_at": "2026-10-01T00:00:00Z",
            "lifecycle": "deprecated",
            "line": "opus",
            "max_input_tokens": 1_000_000,
            "max_tokens": 128_000,
            "retires_at": "2027-10-01T00:00:00Z",
            "capabilities": capabilities,
        },
        extra="forbid",
    )
    page = {"data": [json.loads(known.to_json())], "has_more": False}
    with LoopbackServer(paths={"/v1/models": page}) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        (model,) = (await provider.models(seconds=5)).models
        bodies = [
            json.loads(provider.preview(ask(model=model.id, tools=(TODAY,), parameters=each)).body)
            for each in (
                make("parameters", reasoning="xhigh"),
                make("parameters", reasoning="off"),
            )
        ]
        await provider.aclose()

    assert model == make(
        "model_info",
        "claude-opus-5-5",
        "Claude Opus 5.5",
        context_window=1_000_000,
        max_output=128_000,
        inputs=("image", "pdf"),
        reasoning=True,
        created=model.created,
        state="deprecated",
        ends="2027-10-01",
        thinking=("disabled", "adaptive"),
        efforts=("high", "low", "max", "medium"),
        structured=True,
    )
    assert [body["thinking"]["type"] for body in bodies] == ["adaptive", "disabled"]
    assert bodies[0]["output_config"] == {"effort": "high"}
    assert bodies[0]["tools"][0]["strict"] is True
