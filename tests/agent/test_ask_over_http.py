"""A turn with `ask` over the real providers and a loopback server: what the model reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from jp_nb.agent.prompts import FormEnd, NotAnswered
from jp_nb.providers.registry import create
from jp_nb.tooling.builtin.ask import DESCRIPTION, SCHEMA
from tests.support.fakes import Bench, FakePrompter, yes
from tests.support.loopback import LoopbackServer, Reply, ToolCall
from tests.support.over_http import over_http, sent_results

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
    assert "strict" not in tool, "fields that may be left out are not to be null instead"
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
    person = FakePrompter(FormEnd((yes("pg"), yes([]), NotAnswered("declined", "form"))))
    with LoopbackServer([Reply(tool_calls=(call,)), "Noted."]) as server:
        provider = create(protocol, {"base_url": server.url, "base_url_env": None})
        bench = Bench([], person=person)
        over_http(bench, provider, protocol)
        try:
            assert (await bench.run()).status == "completed"
        finally:
            await provider.aclose()
    assert bench.turn.text == "Noted."
    wire = "anthropic" if protocol == "anthropic" else "openai"
    for request in server.requests:
        description, schema = offered(request.body, wire)
        assert description == DESCRIPTION
        assert schema == SCHEMA
    [(_, told)] = sent_results(server.requests[1].body, wire)
    assert told == (
        "User answers:\n"
        "database: PostgreSQL (value: pg)\n"
        "parts: [] (none of these)\n"
        "name: not answered (the user left it open on purpose)"
    )
    assert "jp_nb.ask" not in json.dumps(server.requests[1].body), "the object is for programs"


def test_schema_of_ask_uses_common_keywords() -> None:
    assert set().union(*schemas(SCHEMA)) == {
        *("type", "properties", "required", "additionalProperties", "items", "minItems"),
        *("description", "enum"),
    }
