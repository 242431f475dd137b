"""A turn with `ask_user` over the real providers and a loopback server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from jp_nb.agent.turn import Resolved
from jp_nb.providers.registry import create
from jp_nb.tools.builtin.ask_user import DESCRIPTION, PARAMETERS
from tests.fakes import Bench, FakePrompter, yes
from tests.providers.loopback import LoopbackServer, Reply, ToolCall

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
async def test_every_provider_offers_it_each_time_and_sends_the_same_answer(protocol: str) -> None:
    call = ToolCall("ask_user", ARGUMENTS)
    with LoopbackServer([Reply(tool_calls=(call,)), "Shipped."]) as server:
        provider = create(protocol, {"base_url": server.url, "base_url_env": None})
        bench = Bench([], person=FakePrompter(yes(True)))
        resolve = bench.loop.resolve

        def over_http() -> Resolved:
            return replace(resolve(), provider=provider, provider_name=protocol)

        bench.loop.resolve = over_http
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
