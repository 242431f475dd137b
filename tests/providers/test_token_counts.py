"""Numbers of input tokens that a server counts, and `%jp usage --count`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from tests.kit.kinds import make
from tests.kit.providers import new_provider
from tests.providers.helpers import WEATHER, answer, ask, list_details, user
from tests.support.loopback import LoopbackServer, Reply
from tests.support.sessions import Notebook

KEY = "sk-test-0123456789abcdefghij"
SHARED = {"model", "tools", "tool_choice"}
ANTHROPIC = {*SHARED, "messages", "system", "cache_control", "thinking", "output_config"}
RESPONSES = {*SHARED, "input", "reasoning", "truncation"}
GENERATE = {"model", "contents", "tools", "toolConfig", "systemInstruction", "generationConfig"}


def full_request(provider: str) -> Any:
    return ask(
        user("a"),
        answer("b"),
        user("c"),
        provider=provider,
        system=("Be brief.",),
        tools=(WEATHER,),
        attachments=(make("attachment", "n.md", "text/plain", "N"),),
        parameters=make("parameters", max_tokens=9, reasoning="high", temperature=0.5),
    )


async def count(name: str, settings: dict[str, Any], paths: dict[str, Any]) -> tuple[int, Any]:
    """Return the count of a request, and the query that the server received."""
    with LoopbackServer(paths=paths) as server:
        provider = new_provider(name, {"base_url": server.url, **settings})
        found = await provider.count_tokens(full_request(name), seconds=5)
        await provider.aclose()
    (query,) = server.requests
    return found, query


@pytest.mark.req("RESP-25")
@pytest.mark.parametrize(
    ("name", "settings", "path", "members"),
    [
        ("anthropic", {}, "/v1/messages/count_tokens", ANTHROPIC),
        ("openai", {"dialect": "responses"}, "/v1/responses/input_tokens", RESPONSES),
        ("llamacpp", {"dialect": "responses"}, "/v1/responses/input_tokens", RESPONSES),
        ("llamacpp", {}, "/v1/chat/completions/input_tokens", None),
    ],
)
async def test_server_counts_the_members_that_it_accepts(
    name: str, settings: dict[str, Any], path: str, members: set[str] | None
) -> None:
    found, query = await count(name, settings, {path: {"input_tokens": 1234}})
    assert found == 1234
    assert members is None or query.body.keys() == members
    for part in (b"Be brief.", b'"weather"', b"n.md"):
        assert part in query.raw


@pytest.mark.req("RESP-25")
@pytest.mark.parametrize(
    ("module", "name", "members"),
    [
        ("anthropic.types.message_count_tokens_params", "MessageCountTokensParams", ANTHROPIC),
        ("openai.types.responses.input_token_count_params", "InputTokenCountParams", RESPONSES),
    ],
)
def test_official_types_know_the_members_of_a_query(
    module: str, name: str, members: set[str]
) -> None:
    types = pytest.importorskip(module, reason="pip install -e '.[tiers]'")
    assert members <= getattr(types, name).__annotations__.keys()


@pytest.mark.req("RESP-25")
@pytest.mark.parametrize("dialect", ["interactions", "generate"])
async def test_google_counts_the_request_of_generate_content(dialect: str) -> None:
    path = "/v1/models/test-model:countTokens"
    found, query = await count("google", {"dialect": dialect}, {path: {"totalTokens": 7}})
    assert found == 7
    assert query.body.keys() == {"generateContentRequest"}
    counted = query.body["generateContentRequest"]
    assert counted.keys() == GENERATE
    assert counted["model"] == "models/test-model"


@pytest.mark.parametrize("name", ["openai", "ollama", "openrouter", "deepseek", "cerebras"])
async def test_provider_without_a_query_says_so_and_sends_nothing(name: str) -> None:
    with LoopbackServer([]) as server:
        provider = new_provider(name, {"base_url": server.url})
        with pytest.raises(jp.ProviderError, match=f"{name} does not count tokens") as failed:
            await provider.count_tokens(full_request(name), seconds=5)
        await provider.aclose()
    assert "`%jp request next` shows an estimate." in str(failed.value)
    assert server.requests == []


ANSWERS: dict[str, tuple[Any, str]] = {
    "no endpoint": (Reply(status=404, message="not found"), "does not count tokens"),
    "no model": (Reply(status=404, message="test-model does not exist"), "Check the model"),
    "no access": (Reply(status=401, message=f"{KEY} is invalid"), "Check the key"),
    "too slow": (Reply(delay=30), "did not count the tokens within 0.5 s"),
    "no number": ({"input_tokens": KEY}, "without a number of tokens"),
    "no list": ([1], "without a number of tokens"),
    "a word": ({"input_tokens": True}, "without a number of tokens"),
    "negative": ({"input_tokens": -1}, "without a number of tokens"),
    "huge": ({"input_tokens": 10**30}, "without a number of tokens"),
    "no JSON": (b"<html>", "instead of JSON"),
}


@pytest.mark.req("RESP-25")
@pytest.mark.parametrize("case", ANSWERS)
async def test_failed_count_says_why_and_shows_no_key(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    paths = {"/v1/messages/count_tokens": lambda _: ANSWERS[case][0]}
    with LoopbackServer(paths=paths) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        with pytest.raises(jp.ProviderError, match=ANSWERS[case][1]) as failed:
            await provider.count_tokens(full_request("anthropic"), seconds=0.5)
        await provider.aclose()
    assert not any(KEY in detail for detail in list_details(failed.value))


@pytest.fixture
def notebook(folder: Path) -> Notebook:
    return Notebook(folder)


@pytest.mark.req("RESP-25")
def test_usage_counts_the_next_request_only_when_asked(notebook: Notebook) -> None:
    counted: JsonValue = {"object": "response.input_tokens", "input_tokens": 12_345}
    replies = {"/v1/responses": "Well.", "/v1/responses/input_tokens": counted}
    with LoopbackServer(paths=replies) as server:
        notebook.jp(f"config providers.llm.openai.base_url={server.url}")
        notebook.jp("config providers.llm.openai.dialect=responses")
        notebook.jp("config assistant.model.id=openai/gpt-6.2")
        assert notebook.ask("One.") == "Well."
        stored = notebook.session.document.to_json()
        notebook.jp("usage")
        assert [each.path for each in server.requests] == ["/v1/responses"]
        shown = notebook.jp("usage --count")
        notebook.session.close()
    assert "The next request to `openai/gpt-6.2` has 12,345 input tokens." in shown
    query = server.requests[-1].body
    assert "Well." in str(query["input"][-2])
    assert query["input"][-1]["content"][0]["text"] == "(your next request)"
    assert notebook.session.document.to_json() == stored


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("usage --count 3", "counts the next request, and takes nothing else"),
        ("usage --count --why", "counts the next request, and takes nothing else"),
        ("usage --count", "a script replaces the model"),
    ],
)
def test_usage_explains_why_it_cannot_count(notebook: Notebook, line: str, error: str) -> None:
    with pytest.raises(jp.JpNbError, match=error) as failed:
        notebook.jp(line)
    assert isinstance(failed.value, jp.UsageError | jp.ProviderError)


def test_cassette_that_replaces_a_model_does_not_count(notebook: Notebook) -> None:
    with LoopbackServer(["Well."]) as server:
        notebook.jp(f"config providers.llm.openai.base_url={server.url}")
        notebook.jp("config assistant.model.id=openai/gpt-6.2")
        notebook.jp("cassette record c.jsonl")
        notebook.ask("One.")
        notebook.jp("cassette replay c.jsonl")
        with pytest.raises(jp.ProviderError, match="`%jp cassette off`"):
            notebook.jp("usage --count")
        notebook.session.close()
    assert len(server.requests) == 1
