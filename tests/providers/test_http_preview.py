"""A preview shows the request that a provider would send, byte for byte."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from jp_nb import UsageError
from tests.kit.kinds import is_kind, make
from tests.kit.providers import new_provider
from tests.providers.helpers import (
    CHAT_PROVIDERS,
    NEAR,
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
from tests.support.loopback import LoopbackServer, Received, Reply, ToolCall

NOT_SHOWN = "(set, not shown)"


KEY = "k-0123456789abcdef0123"
SCHEMA = {
    "type": "object",
    "properties": {"days": {"type": "integer"}},
    "required": ["days"],
    "additionalProperties": False,
}
TALK = (
    user("Weather in Brügge?"),
    thought("One city.", anthropic_thinking_signature="c2ln"),
    answer("Looking."),
    called("call_1", city="Brügge"),
    result("call_1", "sun ☀"),
    answer("Sun."),
    user("And \u202e now?"),
)
FILES = (
    make("attachment", "notes.md", "text/plain", "a < b"),
    make("attachment", "pic.png", "image/png", b"\x89PNG\r\n\x1a\n"),
    make("attachment", "old.bmp", "image/bmp", b"BM"),
)
EVERYTHING: dict[str, Any] = {
    "system": ("Be brief.", "Be kind."),
    "tools": (WEATHER, TODAY),
    "tool_choice": "tool:weather",
    "attachments": FILES,
    "schema": SCHEMA,
    "parameters": make(
        "parameters",
        max_tokens=500,
        reasoning="high",
        temperature=0.5,
        top_k=3,
        stop_words=("END",),
    ),
}


def create_at(name: str, server: LoopbackServer, **settings: Any) -> Any:
    return new_provider(name, {"base_url": server.url, "api_key_env": "PREVIEW_KEY", **settings})


@pytest.mark.parametrize("name", ["anthropic", *CHAT_PROVIDERS])
async def test_preview_is_the_request_byte_for_byte(
    name: str,
    subtests: pytest.Subtests,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("PREVIEW_KEY", KEY)
    settings = {"beta_headers": ["interleaved-thinking-2025-05-14"]} if name == "anthropic" else {}
    for number, fields in enumerate(({}, EVERYTHING)):
        with subtests.test(fields=fields):
            caplog.clear()
            request = ask(*TALK, provider=name, conversation_id=f"jp-c{number}", **fields)
            with LoopbackServer(["one", "two"]) as server:
                provider = create_at(name, server, **settings)
                before = provider.preview(request)
                assert not caplog.records  # only the request itself logs its omissions
                assert server.connections == 0
                await collect(provider, request)
                await collect(provider, request)
                after = provider.preview(request)
                await provider.aclose()
            for arrived in server.requests:
                assert before.body == after.body == arrived.raw
                assert before.url == server.url + arrived.target
                assert before.headers.items() <= arrived.headers.items()
                assert before.key is not None
                assert arrived.headers[before.key.header] == before.key.before + KEY
                assert before.key.variable == "PREVIEW_KEY"
            assert KEY not in repr(before)
            assert before.is_exact
            logged = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
            assert [line.partition(" is not sent")[0].partition(": ")[2] for line in logged] == [
                line.partition(": ")[0] for line in before.omitted
            ]


async def test_previews_do_not_change_the_rendering_of_a_conversation() -> None:
    with LoopbackServer(["one"] * 8) as server:
        provider = new_provider("llamacpp", {"base_url": server.url})
        live = ask(*TALK, provider="llamacpp")
        await collect(provider, live)
        for number in range(8):  # more than the cache holds
            provider.preview(ask(user(f"Another {number}")))
        live.context.add(answer("More."), "llamacpp")
        live.context.add(user("And then?"), "llamacpp")
        await collect(provider, live)
        await provider.aclose()
    fresh = provider.preview(ask(*TALK, answer("More."), user("And then?"), provider="llamacpp"))
    assert server.requests[-1].raw == fresh.body


def prefix(request: Any, items: int) -> Any:
    return replace(request, context=make("request_context", request.context.items[:items]))


async def test_preview_of_an_earlier_request_has_no_stale_signature() -> None:
    """Reasoning with a stale signature is sent as text, also in the preview of earlier requests."""
    stale = Reply(status=400, message="messages.1.content.0: Invalid `signature` in `thinking`")
    with LoopbackServer([stale, "Sun."]) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        request = ask(*TALK)
        assert is_kind((await collect(provider, request))[-1], "retry")
        await collect(provider, request)
        request.context.add(answer("Sun."), "anthropic")
        shown = provider.preview(prefix(request, len(TALK)))
        await provider.aclose()
    first, second = (received.raw for received in server.requests)
    assert b'"signature"' in first
    assert shown.body == second != first


async def test_preview_does_not_disable_thinking_that_cannot_be_disabled() -> None:
    refused = Reply(status=400, message="thinking: cannot be disabled for this model")
    with LoopbackServer([refused, "Sun."]) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        request = ask(user("Hi"), parameters=make("parameters", reasoning="off"))
        await collect(provider, request)
        await collect(provider, request)
        assert provider.preview(request).body == server.requests[1].raw != server.requests[0].raw
        await provider.aclose()


async def test_preview_of_each_cycle_of_a_turn_with_tools() -> None:
    def reply(received: Received) -> Reply:
        return Reply(tool_calls=(ToolCall("weather", {"city": "Delft"}, id=f"c{received.path}"),))

    with LoopbackServer(reply) as server:
        provider = new_provider("openai", {"base_url": server.url})
        request = ask(user("Go."), provider="openai", tools=(WEATHER,))
        for number in range(4):
            await collect(provider, request)
            request.context.add(called(f"call_{number}", city="Delft"), "openai")
            request.context.add(result(f"call_{number}", "sun"), "openai")
        for number, received in enumerate(server.requests):
            assert provider.preview(prefix(request, 1 + 2 * number)).body == received.raw
        await provider.aclose()


def test_preview_hides_a_key_in_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREVIEW_KEY", KEY)
    settings = {"base_url": f"http://127.0.0.1:1/{KEY}", "api_key_env": "PREVIEW_KEY"}
    shown = new_provider("openai", settings).preview(ask(user(f"My key is {KEY}."), system=(KEY,)))
    assert KEY not in repr(shown)
    assert not shown.is_exact
    assert json.loads(shown.body)["messages"][-1]["content"] == "My key is [key]."


def test_preview_hides_secrets_in_the_address(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[str, str]] = [
        ("https://host/a?api_key=s3cr3t&v=2", f"https://host/a?api_key={NOT_SHOWN}&v=2"),
        ("https://host/a?api%5Fkey=s3cr3t", f"https://host/a?api%5Fkey={NOT_SHOWN}"),
        ("https://host/a?v=2", "https://host/a?v=2"),
    ]
    for address, public in rows:
        with subtests.test(address=address, public=public):
            monkeypatch.setenv("OPENAI_BASE_URL", address)
            provider = new_provider("openai")
            shown = provider.preview(ask(user("Hi")))
            assert shown.url.startswith(public)
            assert "s3cr3t" not in repr(shown)


def test_preview_names_the_variable_of_a_missing_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    shown = new_provider("anthropic").preview(ask(user("Hi")))
    assert shown.key is not None
    assert (shown.key.variable, shown.key.header, shown.key.is_set) == (
        "ANTHROPIC_API_KEY",
        "x-api-key",
        False,
    )
    assert new_provider("llamacpp", {"base_url": "http://127.0.0.1:1"}).preview(ask()).key is None


def test_preview_of_a_script_shows_the_request() -> None:
    shown = new_provider("scripted").preview(ask(*TALK, model="welcome", system=("Be brief.",)))
    assert (shown.method, shown.url) == ("", "the script welcome")
    said_to_it = json.loads(shown.body)
    assert said_to_it["system"] == ["Be brief."]
    assert said_to_it["messages"][0] == {"type": "chat_request", "text": "Weather in Brügge?"}


def nest(levels: int, keyword: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        inner: Any = {"properties": {"a": schema}, "items": schema, "anyOf": [schema]}[keyword]
        schema = {keyword: inner}
    return schema


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("anthropic", {}),
        ("openai", {"dialect": "responses"}),
        ("openai", {"dialect": "chat"}),
        ("ollama", {}),
        ("deepseek", {}),
        ("google", {"dialect": "interactions"}),
        ("google", {"dialect": "generate"}),
    ],
)
def test_schema_that_is_nested_too_deeply_is_a_clear_error(
    name: str, settings: dict[str, Any]
) -> None:
    provider = new_provider(name, NEAR | settings)
    for keyword in ("properties", "items", "anyOf"):
        for levels in (100, 300, 5000):
            schema = {"type": "object", "properties": {"x": nest(levels, keyword)}}
            tool = make("tool_definition", "deep", "Go down.", schema)
            with pytest.raises(UsageError, match="the tool 'deep' cannot be sent"):
                provider.preview(ask(tools=(tool,)))
            with pytest.raises(UsageError, match="the schema of the answer cannot be sent"):
                provider.preview(ask(schema=schema))

    shallow = {"type": "object", "properties": {"x": nest(20, "properties")}}
    tool = make("tool_definition", "deep", "Go down.", shallow)
    provider.preview(ask(tools=(tool,), schema=shallow))
