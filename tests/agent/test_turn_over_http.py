"""Turns over the real providers and a loopback server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.over_http import sent_calls, sent_results, use_http_provider
from tests.kit.kinds import make
from tests.kit.providers import new_provider
from tests.kit.questions import not_answered
from tests.kit.tools import configured, new_tool, offer_now
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, yes
from tests.support.loopback import STREAM, LoopbackServer, RawResponse, Reply, ToolCall

ASK = offer_now(configured({})).tools["ask"].definition

ARGUMENTS = {"question": "Ship it?", "answer_type": "boolean"}


def offered_ask_user(body: dict[str, Any], protocol: str) -> tuple[str, dict[str, Any]]:
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
        provider = new_provider(protocol, {"base_url": server.url, "base_url_env": None})
        bench = TurnBench([], person=FakePrompter(yes(True)))
        use_http_provider(bench, provider, protocol)
        try:
            await bench.run()
        finally:
            await provider.aclose()
    assert bench.turn.text == "Shipped."
    assert len(server.requests) == 2
    for request in server.requests:
        description, schema = offered_ask_user(request.body, protocol)
        offered = bench.offer().tools["ask_user"].definition
        assert description == offered.description
        assert list(schema["properties"]) == list(offered.parameters["properties"])
        assert schema["required"] == ["question"]
        assert '"any"' not in json.dumps(schema)
    sent = answer(server.requests[1].body, protocol)
    assert sent == '{"answer_type":"boolean","answer":true}'


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_results_of_calls_with_one_id_are_sent_with_their_calls(
    protocol: str,
) -> None:
    numbers = iter(range(100))

    async def repeat(name: str) -> str:
        await asyncio.sleep(0)  # the results may come in any order
        return f"{name} in call {next(numbers)}"

    def calls(*names: str) -> Reply:
        made = (ToolCall("repeat", {"name": name}, id="call_0") for name in names)
        return Reply(tool_calls=tuple(made))

    broken = ToolCall("repeat", "[", id="call_0")
    replies: list[Reply | str] = [
        calls("a", "b", "c"),
        Reply(tool_calls=(broken, *calls("d").tool_calls)),
        "Done.",
    ]
    with LoopbackServer(replies) as server:
        provider = new_provider(protocol, {"base_url": server.url, "base_url_env": None})
        bench = TurnBench([], tools=[new_tool(repeat)])
        use_http_provider(bench, provider, protocol)
        try:
            assert (await bench.run()).status == "completed"
        finally:
            await provider.aclose()
    first, second, third = (sent_results(request.body, protocol) for request in server.requests)
    assert first == []
    assert second == third[:3], "sent messages do not change"
    assert len({id_ for id_, _ in third}) == 5
    told = [content.partition(" in ")[0] for _, content in third]
    assert told == ["a", "b", "c", told[3], "d"]
    assert told[3].startswith("The arguments are not JSON")
    called = sent_calls(server.requests[2].body, protocol)
    assert [id_ for id_, _ in called] == [id_ for id_, _ in third]
    assert [arguments.get("name") for _, arguments in called] == ["a", "b", "c", None, "d"]


async def test_request_with_only_empty_deltas_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jp_nb.providers.response_parts.stream_decoder.MAX_EMPTY_BYTES", 100_000)
    bodies = [
        repeat(b'data: {"choices": [{"delta": {"content": ""}}]}\n\n' * 1000),
        [
            b'data: {"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]}'
            b"\n\ndata: [DONE]\n\n"
        ],
    ]
    with LoopbackServer(RawResponse(chain([STREAM], body)) for body in bodies) as server:
        provider = new_provider("openai", {"base_url": server.url, "base_url_env": None})
        bench = TurnBench([])
        use_http_provider(bench, provider, "openai")
        try:
            await bench.run()
        finally:
            await provider.aclose()
    assert bench.turn.text == "Hello."
    assert any("no answer in time, attempt 2" in text for text in bench.waits())


@pytest.mark.parametrize("provider_name", ["anthropic", "openai", "google"])
async def test_answer_that_the_connection_cuts_is_requested_once_and_for_each_retry(
    provider_name: str,
) -> None:
    cut = Reply(text="Once upon a time, there was a cut.", cut_after=700)
    with LoopbackServer([cut] * 30, strict=False) as server:
        provider = new_provider(provider_name, {"base_url": server.url, "base_url_env": None})
        bench = TurnBench([], request={"max_retries": 5})
        use_http_provider(bench, provider, provider_name)
        try:
            with pytest.raises(jp.ProviderError, match="It was tried 6 times"):
                await bench.run()
        finally:
            await provider.aclose()
    assert bench.turn.text.startswith("Once upo")
    assert len(server.requests) == 6


QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "database",
        "question": "Which database?",
        "options": [{"label": "PostgreSQL", "value": "pg"}, {"label": "SQLite"}],
        "recommended": 1,
    },
    {"id": "parts", "question": "Which?", "options": [{"label": "API"}], "multi": True},
    {"id": "name", "question": "Which name?", "mode": "freetext", "required": False},
]


def offered(body: dict[str, Any], protocol: str) -> tuple[str, dict[str, Any]]:
    """Description and schema of ask as `protocol` puts them into a request."""
    if protocol == "anthropic":
        [tool] = [tool for tool in body["tools"] if tool["name"] == "ask"]
        return tool["description"], tool["input_schema"]
    [tool] = [t["function"] for t in body["tools"] if t["function"]["name"] == "ask"]
    assert "strict" not in tool, "optional fields are not null"
    return tool["description"], tool["parameters"]


def schemas(schema: Any) -> Iterator[dict[str, Any]]:
    """`schema` and those of all its properties and items."""
    yield schema
    for below in (*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])):
        yield from schemas(below)


@pytest.mark.req("RPI-4", "RPI-5", "RCP-2")
@pytest.mark.parametrize("protocol", ["anthropic", "openai", "openrouter", "deepseek", "llamacpp"])
async def test_every_provider_gets_the_whole_schema_of_ask(protocol: str) -> None:
    call = ToolCall("ask", {"questions": QUESTIONS})
    person = FakePrompter(make("form_end", (yes("pg"), yes([]), not_answered("declined", "form"))))
    with LoopbackServer([Reply(tool_calls=(call,)), "Noted."]) as server:
        provider = new_provider(protocol, {"base_url": server.url, "base_url_env": None})
        bench = TurnBench([], person=person)
        use_http_provider(bench, provider, protocol)
        try:
            assert (await bench.run()).status == "completed"
        finally:
            await provider.aclose()
    assert bench.turn.text == "Noted."
    wire = "anthropic" if protocol == "anthropic" else "openai"
    for request in server.requests:
        description, schema = offered(request.body, wire)
        assert description == ASK.description
        assert schema == ASK.parameters
    [(_, told)] = sent_results(server.requests[1].body, wire)
    assert told == (
        "User answers:\n"
        "database: PostgreSQL (value: pg)\n"
        "parts: [] (none of these)\n"
        "name: not answered (the user left it open on purpose)"
    )
    assert "jp_nb.ask" not in json.dumps(server.requests[1].body), "the object is for programs"


def test_schema_of_ask_uses_common_keywords() -> None:
    assert set().union(*schemas(ASK.parameters)) == {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "description",
        "enum",
    }
