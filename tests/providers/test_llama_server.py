"""A real llama-server, in each of its three protocols.

Set `JP_NB_LLAMA_SERVER` to its address. Any model will do, with a chat template that knows tools:

    llama-server -m MODEL.gguf
    JP_NB_LLAMA_SERVER=http://127.0.0.1:9931 pytest -n0 tests/providers/test_llama_server.py
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from jp_nb.agent.provider import (
    Finished,
    ModelParameters,
    Provider,
    ToolCallArguments,
    ToolCallStart,
    ToolDefinition,
    Usage,
)
from jp_nb.providers import create_provider
from tests.providers.helpers import ask, called, collect, result, text_of, user

ADDRESS = os.environ.get("JP_NB_LLAMA_SERVER", "")
pytestmark = [
    pytest.mark.skipif(not ADDRESS, reason="set JP_NB_LLAMA_SERVER to the address of llama-server")
]
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Delft", "Gouda"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = ToolDefinition("weather", "Forecast of a city.", CITY)
FEW = ModelParameters(max_tokens=40, temperature=0.0, reasoning="off")
PROTOCOLS = {
    "chat": ("llamacpp", {}),
    "responses": ("llamacpp", {"dialect": "responses"}),
    "messages": ("anthropic", {}),
}


@pytest.fixture(params=PROTOCOLS)
def named(request: pytest.FixtureRequest) -> tuple[str, Provider]:
    """Return the name of a provider and the provider, once for each protocol."""
    name, settings = PROTOCOLS[request.param]
    return name, create_provider(name, {"base_url": ADDRESS, **settings})


@pytest.mark.req("RESP-22")
async def test_text_structured_answer_and_forced_tool(
    named: tuple[str, Provider], subtests: pytest.Subtests
) -> None:
    name, provider = named
    fields: dict[str, Any] = {"parameters": FEW, "provider": name}
    fields["model"] = (await provider.models(seconds=20)).models[0].id
    with subtests.test("text"):
        events = await collect(provider, ask(user("Say hello."), **fields))
        assert text_of(events).strip()
        assert isinstance(events[-1], Finished)
        assert any(isinstance(each, Usage) and each.input_tokens for each in events)
    if name != "anthropic":  # llama-server ignores the schema of the Messages API
        with subtests.test("structured answer"):
            request = ask(user("Name a city, as JSON."), schema=CITY, **fields)
            answer = json.loads(text_of(await collect(provider, request), "structured"))
            assert answer["city"] in ("Delft", "Gouda")
    with subtests.test("forced tool"):
        question = user("What is the weather in Delft?")
        tools = {"tools": (WEATHER,), **fields}
        events = await collect(provider, ask(question, tool_choice="tool:weather", **tools))
        names = [each.name for each in events if isinstance(each, ToolCallStart)]
        # llama-server lets a model write text before the call that it was forced to make, and a
        # small model then ends without a call.
        assert names == ["weather"] or (not names and text_of(events).strip())
        assert isinstance(events[-1], Finished)
        if names:
            parts = [each.text for each in events if isinstance(each, ToolCallArguments)]
            assert json.loads("".join(parts))["city"] in ("Delft", "Gouda")
    with subtests.test("result of a tool"):
        told = called("c1", city="Delft"), result("c1", "Sunny, 21 degrees.")
        assert text_of(await collect(provider, ask(question, *told, **tools))).strip()
    await provider.aclose()
