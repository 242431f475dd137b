"""Short constructors for contexts and requests, and readers of responses."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import is_kind, kind_of, make
from tests.kit.providers import new_provider, substitute
from tests.kit.records import new_event
from tests.kit.streams import StreamReader
from tests.support.loopback import LoopbackServer

FIXTURES = sorted((Path(__file__).parents[1] / "providers" / "fixtures").glob("*.sse"))
WEATHER = make(
    "tool_definition",
    "weather",
    "Forecast.",
    {"type": "object", "properties": {"city": {"type": "string"}}},
)
TODAY = make("tool_definition", "today", "The date.", {})
CONTINUE_PROMPT = "Continue exactly where you stopped, without repeating anything."
NEAR = {"base_url": "http://127.0.0.1:9"}
CHAT_PROVIDERS = (
    "cerebras", "deepseek", "groq", "llamacpp", "mistral", "ollama", "openai", "openrouter", "xai"
)  # fmt: skip
DIALECTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "anthropic": ("anthropic", "claude-opus-5-5", NEAR),
    "chat": ("openai", "gpt-4.1", NEAR | {"dialect": "chat"}),
    "responses": ("openai", "gpt-6.2", {"dialect": "responses"}),  # at OpenAI's own address
    "other responses": ("llamacpp", "m", NEAR | {"dialect": "responses"}),
    "llamacpp": ("llamacpp", "m", NEAR),
    "deepseek": ("deepseek", "m", NEAR),
    "google": ("google", "gemini-3.8-flash", NEAR),
    "google generate": ("google", "gemini-3.8-flash", NEAR | {"dialect": "generate"}),
}
"""Provider, model, and settings of each dialect. Nothing answers at their addresses."""


def list_providers() -> list[str]:
    """Return the names of all providers, as the error about another one lists them."""
    with pytest.raises(jp.ConfigError) as caught:
        new_provider("unknown")
    return str(caught.value).partition("available: ")[2].split(", ")


def user(text: str) -> Any:
    """Return a request of the user."""
    return new_event("chat_request", content=text)


def answer(text: str, **metadata: Any) -> Any:
    """Return a text of the model."""
    return new_event("chat_response", message=text, metadata=metadata)


def thought(text: str, **metadata: Any) -> Any:
    """Return reasoning of the model."""
    return new_event("chat_response", reasoning=text, metadata=metadata)


def called(call_id: str, name: str = "weather", **arguments: Any) -> Any:
    """Return a tool call of the model."""
    return new_event("tool_call_request", id=call_id, name=name, arguments=arguments)


def result(call_id: str, content: str, *, is_error: bool = False) -> Any:
    """Return the result of a tool call."""
    return new_event("tool_call_response", id=call_id, content=content, is_error=is_error)


def make_context(*entries: Any, provider: str = "anthropic") -> Any:
    """Return the context with `entries`."""
    context = make("request_context")
    for entry in entries:
        context.add(entry, provider)
    return context


def encode_messages(rendering: Any) -> bytes:
    """Return the rendered messages as a JSON list."""
    return b"[" + b",".join(rendering.encode_messages()) + b"]"


def ask(*entries: Any, provider: str = "anthropic", **fields: Any) -> Any:
    """Return a request with `entries`, or with one request of the user."""
    context = make_context(*(entries or (user("Hi."),)), provider=provider)
    return make("model_request", model=fields.pop("model", "test-model"), context=context, **fields)


def preview_body(name: str, request: Any, **settings: Any) -> Any:
    """Return the body of `request` to the provider `name`, whose address nothing answers."""
    provider = new_provider(name, NEAR | settings)
    return json.loads(provider.preview(request).body)


def list_sent_messages(name: str, context: Any, **settings: Any) -> list[Any]:
    """Return the messages of `context` in a request, without marks for caches.

    The message that asks the model to continue a cut answer is omitted as well.
    """
    request = make("model_request", "test-model", context)
    body = preview_body(name, request, **settings)
    messages: list[Any]
    [messages] = (body[key] for key in ("messages", "input", "contents") if key in body)

    if CONTINUE_PROMPT in json.dumps(messages[-1:]):
        del messages[-1]
    return [_without_cache_marks(message) for message in messages]


def _without_cache_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_cache_marks(item) for item in value]
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key != "cache_control"}
        return {key: _without_cache_marks(item) for key, item in kept.items()}
    return value


async def send_growing(name: str, entries: Sequence[Any], **settings: Any) -> None:
    """Check that a conversation that grows by one entry sends the bytes of one sent at once."""
    with LoopbackServer(lambda _: "Yes.", strict=False) as server:
        settings = settings | {"base_url": server.url}
        provider = new_provider(name, settings)
        context = make_context(provider=name)
        for entry in entries:
            context.add(entry, name)
            request = make("model_request", "test-model", context)
            await collect(provider, request)
            at_once = new_provider(name, settings).preview(request)
            assert server.requests[-1].raw == at_once.body
        await provider.aclose()


async def collect(provider: Any, request: Any) -> list[Any]:
    """Return all events of a response."""
    return [event async for event in provider.stream(request)]


async def collect_failure(provider: Any, request: Any) -> tuple[list[Any], jp.ProviderError]:
    """Return the events before the expected error of a request, and the error."""
    seen: list[Any] = []
    try:
        async for event in provider.stream(request):
            seen.append(event)
    except jp.ProviderError as exc:
        return seen, exc
    raise AssertionError(f"no error after {seen}")


async def read_slowly(
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    pieces: Iterable[bytes | None],
    *,
    pause: float,
    idle_timeout: float = 1,
    consumer_pause: float = 0,
) -> StreamReader:
    """Read a response with `pause` seconds between its pieces, on a clock of its own.

    A piece that is None is silence. The consumer takes `consumer_pause` seconds for each event.
    """
    now = 0.0
    substitute(monkeypatch, "clock of streams", lambda: now)
    substitute(monkeypatch, "seconds between looks at the clock", 0.001)

    async def chunks() -> AsyncGenerator[bytes, None]:
        nonlocal now
        for piece in pieces:
            now += pause
            if pause > 0.5 or piece is None:
                await asyncio.sleep(0.01)  # the watch reads the clock meanwhile
            if piece is not None:
                yield piece

    seen = StreamReader(api)
    try:
        async for event in seen.iter_chunks(chunks(), idle_timeout=idle_timeout):
            now += consumer_pause
            seen.events.append(event)
    except jp.ProviderError as exc:
        seen.error = exc
    return seen


def text_of(events: Iterable[Any], kind: str = "message") -> str:
    """Return the text of one kind of parts."""
    return "".join(e.text for e in events if is_kind(e, "text") and e.kind == kind)


def join_texts(events: Iterable[Any]) -> list[Any]:
    """Return `events` without keep-alives, with adjacent pieces of one text as one event.

    The number of both depends on the chunks in which a body arrives.
    """
    joined: list[Any] = []
    for event in events:
        if is_kind(event, "keep_alive"):
            continue
        if is_kind(event, "text", "call_arguments") and joined:
            last = joined[-1]
            if is_kind(last, kind_of(event)) and replace(last, text="") == replace(event, text=""):
                joined[-1] = replace(event, text=last.text + event.text)
                continue
        joined.append(event)
    return joined


def list_details(exc: BaseException) -> Iterator[str]:
    """Yield all texts that a report may contain about an error, with causes and local variables."""
    link: BaseException | None = exc
    while link is not None:
        yield f"{link!s} {link!r} {vars(link)} {link.args}"
        yield from traceback.TracebackException.from_exception(link, capture_locals=True).format()
        link = link.__cause__ or link.__context__
