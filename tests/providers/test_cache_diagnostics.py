"""Reasons of cache misses, which servers tell on request, in the debug log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pydantic import JsonValue

from tests.kit.kinds import is_kind, make
from tests.kit.providers import new_provider
from tests.providers.helpers import ask, collect, user
from tests.support.loopback import LoopbackServer, Received, Reply

KEY = "sk-test-0123456789abcdefghij"
Json = dict[str, Any]
Dialect = tuple[Json, str, Callable[[Json | None, int], Iterable[Json]], Callable[[Json], Any], str]


def tell_anthropic(reason: Json | None, number: int) -> Iterable[Json]:
    message = {"id": f"r_{number}", "diagnostics": reason}
    return {"type": "message_start", "message": message}, {"type": "message_stop"}


def tell_openai(reason: Json | None, number: int) -> Iterable[Json]:
    response = {"id": f"r_{number}", "status": "completed", "output": []}
    told = {**response, "prompt_cache_diagnostics": reason}
    return ({"type": "response.completed", "response": told},)


DIALECTS: dict[str, Dialect] = {
    "anthropic": (
        {},
        "jp_nb.providers.anthropic.anthropic_messages",
        tell_anthropic,
        lambda body: body.get("diagnostics", {}).get("previous_message_id"),
        "diagnostics: Extra inputs are not permitted",
    ),
    "openai": (
        {"dialect": "responses"},
        "jp_nb.providers.openai.openai_responses",
        tell_openai,
        lambda body: body.get("prompt_cache_options", {}).get("comparison_response_id"),
        "Unknown parameter: 'prompt_cache_options.comparison_response_id'.",
    ),
}


@pytest.mark.req("PRE-8")
@pytest.mark.parametrize("name", DIALECTS)
async def test_diagnostics_are_logged_and_end_when_the_server_rejects_them(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, logger, make_events, read_asked, refusal = DIALECTS[name]
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    missed = {"type": "cache_miss", "reason": "tools_changed", "echo": KEY}
    numbers = iter(range(1, 9))

    def reply(request: Received) -> Reply:
        number = next(numbers)
        if number == 5:
            return Reply(status=400, message=refusal)
        events = make_events(missed if number == 2 else None, number)
        return Reply(raw=tuple(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events))

    with LoopbackServer(reply) as server:
        provider = new_provider(name, {"base_url": server.url, **settings})
        request = ask()
        other = ask(user("inquiry"))
        with caplog.at_level("DEBUG", logger):
            for each in (request, request, other):
                await collect(provider, each)
            assert b'"r_2"' in provider.preview(request).body
        await collect(provider, request)  # without the log
        with caplog.at_level("DEBUG", logger):
            (retry,) = await collect(provider, request)
            assert is_kind(retry, "retry")
            await collect(provider, request)
        await provider.aclose()
    asked = [read_asked(request.body) for request in server.requests]
    assert asked == [None, "r_1", None, None, "r_4", None]
    assert not {"diagnostics", "prompt_cache_options"} & server.requests[-1].body.keys()
    logged = [each.getMessage() for each in caplog.records if "diagnostics" in each.getMessage()]
    assert len(logged) == 1
    assert "tools_changed" in logged[0]
    assert KEY not in caplog.text


@pytest.mark.req("PRE-8")
async def test_comparison_keeps_the_cache_options_of_the_user(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "jp_nb.providers.openai.openai_responses")
    options: dict[str, JsonValue] = {"prompt_cache_options": {"ttl": "12h"}}
    request = ask(parameters=make("parameters", other=options), provider="openai")
    with LoopbackServer(["A.", "B."]) as server:
        provider = new_provider("openai", {"base_url": server.url, "dialect": "responses"})
        for _ in range(2):
            await collect(provider, request)
        await provider.aclose()
    first, second = (each.body["prompt_cache_options"] for each in server.requests)
    assert first == {"ttl": "12h"}
    assert second == {"ttl": "12h", "comparison_response_id": "resp_1"}
