"""A turn with `ask_user` over the real providers and a loopback server."""

from __future__ import annotations

import asyncio
import json
from itertools import chain, repeat
from typing import Any

import pytest

from jp_nb.providers.registry import create
from jp_nb.tooling.builtin.ask_user import DESCRIPTION, PARAMETERS
from jp_nb.tooling.python import PythonTool
from tests.support.fakes import Bench, FakePrompter, yes
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.over_http import over_http, sent_calls, sent_results
from tests.support.raw_server import STREAM, raw_server

ARGUMENTS = {"question": "Ship it?", "answer_type": "boolean"}


def offered(body: dict[str, Any], protocol: str) -> tuple[str, dict[str, Any]]:
    """Description and schema of ask_user as `protocol` puts them into a request."""
    if protocol == "anthropic":
        [tool] = [tool for tool in body["tools"] if tool["name"] == "ask_user"]
        return tool["description"], tool["input_schema"]
    [tool] = [t["function"] for t in body["tools"] if t["function"]["name"] == "ask_user"]
    return tool["description"], tool["parameters"]


def answer(body: dict[str, Any], protocol: str) -> str:
    """The tool's result as `protocol` puts it into a request."""
    last = body["messages"][-1]
    content = last["content"][0]["content"] if protocol == "anthropic" else last["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


@pytest.mark.req("R083-1", "R083-28", "R083-41", "R083-42", "R083-101")
@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_every_provider_offers_ask_user_and_sends_its_answer(protocol: str) -> None:
    call = ToolCall("ask_user", ARGUMENTS)
    with LoopbackServer([Reply(tool_calls=(call,)), "Shipped."]) as server:
        provider = create(protocol, {"base_url": server.url, "base_url_env": None})
        bench = Bench([], person=FakePrompter(yes(True)))
        over_http(bench, provider, protocol)
        try:
            await bench.run()
        finally:
            await provider.aclose()
    assert bench.turn.text == "Shipped."
    assert len(server.requests) == 2
    for request in server.requests:
        description, schema = offered(request.body, protocol)
        assert description == DESCRIPTION
        assert list(schema["properties"]) == list(PARAMETERS)
        assert schema["required"] == ["question"]
        assert '"any"' not in json.dumps(schema)
    sent = answer(server.requests[1].body, protocol)
    assert sent == '{"answer_type":"boolean","answer":true}'


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_results_of_calls_with_one_id_are_sent_with_their_calls(
    protocol: str,
) -> None:
    numbers = iter(range(100))

    async def again(name: str) -> str:
        await asyncio.sleep(0)  # the later one ends first, for all that anybody knows
        return f"{name} in call {next(numbers)}"

    def calls(*names: str) -> Reply:
        made = (ToolCall("again", {"name": name}, id="call_0") for name in names)
        return Reply(tool_calls=tuple(made))

    broken = ToolCall("again", "[", id="call_0")
    replies: list[Reply | str] = [
        calls("a", "b", "c"),
        Reply(tool_calls=(broken, *calls("d").tool_calls)),
        "Done.",
    ]
    with LoopbackServer(replies) as server:
        provider = create(protocol, {"base_url": server.url, "base_url_env": None})
        bench = Bench([], tools=[PythonTool(again)])
        over_http(bench, provider, protocol)
        try:
            assert (await bench.run()).status == "completed"
        finally:
            await provider.aclose()
    first, second, third = (sent_results(request.body, protocol) for request in server.requests)
    assert first == []
    assert second == third[:3], "what was sent stays as it was"
    assert len({id_ for id_, _ in third}) == 5
    told = [content.partition(" in ")[0] for _, content in third]
    assert told == ["a", "b", "c", told[3], "d"]
    assert told[3].startswith("The arguments are not JSON")
    called = sent_calls(server.requests[2].body, protocol)
    assert [id_ for id_, _ in called] == [id_ for id_, _ in third]
    assert [arguments.get("name") for _, arguments in called] == ["a", "b", "c", None, "d"]


async def test_request_with_only_empty_deltas_is_retried() -> None:
    bodies = iter(
        [
            repeat(b'data: {"choices": [{"delta": {"content": ""}}]}\n\n' * 1000),
            [
                b'data: {"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]}'
                b"\n\ndata: [DONE]\n\n"
            ],
        ]
    )
    with raw_server(lambda _: chain([STREAM], next(bodies))) as url:
        provider = create("openai", {"base_url": url, "base_url_env": None})
        bench = Bench([])
        over_http(bench, provider, "openai")
        try:
            await bench.run()
        finally:
            await provider.aclose()
    assert bench.turn.text == "Hello."
    assert any("no answer in time, attempt 2" in text for text in bench.waits())
