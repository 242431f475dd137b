"""A real llama-server, in each of its three protocols.

Set the addresses of servers with any model. The template of a model decides how its grammar forces
a tool call: after any text, or, as in this template of llama.cpp's source, at once.

    llama-server -m MODEL.gguf
    llama-server -m MODEL.gguf --port 9932 \\
        --chat-template-file models/templates/meetkai-functionary-medium-v3.2.jinja
    JP_NB_LLAMA_SERVER=http://127.0.0.1:9931 JP_NB_LLAMA_TOOL_SERVER=http://127.0.0.1:9932 \\
        pytest -n0 tests/providers/test_llama_server.py
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.kit.kinds import is_kind, make
from tests.kit.providers import new_provider
from tests.providers.helpers import ask, called, collect, result, text_of, user

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Delft", "Gouda"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = make("tool_definition", "weather", "Forecast of a city.", CITY)
FEW = make("parameters", max_tokens=40, temperature=0.0, reasoning="off")
PROTOCOLS = {
    "chat": ("llamacpp", {}),
    "responses": ("llamacpp", {"dialect": "responses"}),
    "messages": ("anthropic", {}),
}


QUESTION = user("What is the weather in Delft?")


async def connect(protocol: str, variable: str) -> tuple[Any, dict[str, Any]]:
    """Return the provider, and members of all requests to it."""
    if not (address := os.environ.get(variable)):
        pytest.skip(f"set {variable} to the address of llama-server")
    name, settings = PROTOCOLS[protocol]
    provider = new_provider(name, {"base_url": address, **settings})
    model = (await provider.models(seconds=20)).models[0].id
    # A slow machine reads a long prompt for minutes.
    return provider, {"model": model, "provider": name, "parameters": FEW, "idle_timeout": 300.0}


@pytest.mark.req("RESP-22")
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_text_structured_answer_and_result_of_a_tool(
    protocol: str, subtests: pytest.Subtests
) -> None:
    provider, fields = await connect(protocol, "JP_NB_LLAMA_SERVER")
    with subtests.test("text"):
        events = await collect(provider, ask(user("Say hello."), **fields))
        assert text_of(events).strip()
        assert is_kind(events[-1], "finished")
        assert any(is_kind(each, "usage") and each.input_tokens for each in events)
    if protocol != "messages":  # llama-server ignores the schema of the Messages API
        with subtests.test("structured answer"):
            request = ask(user("Name a city, as JSON."), schema=CITY, **fields)
            answer = json.loads(text_of(await collect(provider, request), "structured"))
            assert answer["city"] in ("Delft", "Gouda")
    with subtests.test("result of a tool"):
        told = called("c1", city="Delft"), result("c1", "Sunny, 21 degrees.")
        request = ask(QUESTION, *told, tools=(WEATHER,), **fields)
        assert text_of(await collect(provider, request)).strip()
    await provider.aclose()


@pytest.mark.req("RESP-22")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("choice", ["required", "tool:weather"])
async def test_grammar_forces_a_call_with_valid_arguments(protocol: str, choice: str) -> None:
    provider, fields = await connect(protocol, "JP_NB_LLAMA_TOOL_SERVER")
    events = await collect(provider, ask(QUESTION, tools=(WEATHER,), tool_choice=choice, **fields))
    await provider.aclose()
    assert [each.name for each in events if is_kind(each, "call_start")] == ["weather"]
    assert is_kind(events[-1], "finished")
    parts = [each.text for each in events if is_kind(each, "call_arguments")]
    assert json.loads("".join(parts))["city"] in ("Delft", "Gouda")


@pytest.mark.req("RESP-25")
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_counted_tokens_are_those_of_the_response(protocol: str) -> None:
    provider, fields = await connect(protocol, "JP_NB_LLAMA_SERVER")
    request = ask(QUESTION, system=("Be brief.",), **fields)
    counted = await provider.count_tokens(request, seconds=60)
    used = [each for each in await collect(provider, request) if is_kind(each, "usage")]
    await provider.aclose()
    assert counted == sum((each.input_tokens or 0) for each in used[-1:])
