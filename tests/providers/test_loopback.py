"""The official clients understand the protocols of the loopback server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.loopback import LoopbackServer, Reply, ToolCall

if TYPE_CHECKING:
    import anthropic
    import openai
else:
    anthropic = pytest.importorskip("anthropic", reason="pip install -e '.[tiers]'")
    openai = pytest.importorskip("openai", reason="pip install -e '.[tiers]'")

CALLS = Reply(
    text="Let me look — 🌦",
    tool_calls=(ToolCall("weather", {"city": "Delft"}), ToolCall("weather", {"city": "Brügge"})),
)


def claude(server: LoopbackServer) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0)


def gpt(server: LoopbackServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)


async def test_anthropic_client_understands_it() -> None:
    reply = Reply(text=CALLS.text, reasoning="Hm.", tool_calls=CALLS.tool_calls, chunk_bytes=7)
    with LoopbackServer([reply]) as server:
        async with (
            claude(server) as client,
            client.messages.stream(
                model="m",
                max_tokens=10,
                messages=[{"role": "user", "content": "Weather?"}],
                tools=[{"name": "weather", "input_schema": {"type": "object"}}],
            ) as stream,
        ):
            message = await stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    inputs = [block.input for block in message.content if block.type == "tool_use"]
    assert inputs == [{"city": "Delft"}, {"city": "Brügge"}]
    assert message.stop_reason == "tool_use"
    assert message.usage.output_tokens == 7


async def test_openai_client_understands_it() -> None:
    reply = Reply(text=CALLS.text, tool_calls=CALLS.tool_calls, interleave=True)
    with LoopbackServer([reply]) as server:
        async with (
            gpt(server) as client,
            client.chat.completions.stream(
                model="m",
                messages=[{"role": "user", "content": "Weather?"}],
                tools=[{"type": "function", "function": {"name": "weather", "parameters": {}}}],
                stream_options={"include_usage": True},
            ) as stream,
        ):
            completion = await stream.get_final_completion()
    (choice,) = completion.choices
    assert choice.message.content == CALLS.text
    assert choice.finish_reason == "tool_calls"
    assert [call.function.arguments for call in choice.message.tool_calls or []] == [
        '{"city": "Delft"}',
        '{"city": "Br\\u00fcgge"}',
    ]
    assert completion.usage is not None
    assert completion.usage.total_tokens == 18


async def test_clients_raise_its_errors() -> None:
    limited = Reply(status=429, message="slow down", headers={"retry-after": "3"})
    with LoopbackServer([limited, Reply(status=529, message="Overloaded")]) as server:
        async with gpt(server) as client:
            with pytest.raises(openai.RateLimitError, match="slow down") as caught:
                await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "a"}], stream=True
                )
        assert caught.value.response.headers["retry-after"] == "3"
        async with claude(server) as other:
            with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
                await other.messages.create(
                    model="m",
                    max_tokens=1,
                    messages=[{"role": "user", "content": "a"}],
                    stream=True,
                )


async def break_the_rules() -> None:
    with LoopbackServer(["never"]) as server:
        async with claude(server) as client:
            with pytest.raises(anthropic.BadRequestError):
                await client.messages.create(
                    model="m",
                    max_tokens=1,
                    messages=[{"role": "assistant", "content": "a"}],
                    stream=True,
                )


async def test_request_that_breaks_the_rules_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="roles must alternate"):
        await break_the_rules()
