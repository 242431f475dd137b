"""Short constructors for contexts and requests, and readers of responses."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jp_nb as jp
from jp_nb.agent.provider import ProviderEvent
from jp_nb.agent.response import ResponseBuilder
from jp_nb.providers.anthropic_decoder import AnthropicDecoder
from jp_nb.providers.chat_profiles import PROFILES
from jp_nb.providers.event_buffer import EventBuffer
from jp_nb.providers.messages import Rendering
from jp_nb.providers.openai_chat_decoder import ChatDecoder
from jp_nb.providers.stream_decoder import Decoder, StreamDecoder
from jp_nb.record.events import Entry
from tests.kit.kinds import is_kind
from tests.kit.models import request_value
from tests.kit.records import new_event

FIXTURES = sorted((Path(__file__).parents[1] / "providers" / "fixtures").glob("*.sse"))
WEATHER = request_value(
    "tool_definition",
    "weather",
    "Forecast.",
    {"type": "object", "properties": {"city": {"type": "string"}}},
)
TODAY = request_value("tool_definition", "today", "The date.", {})
NEAR = {"base_url": "http://127.0.0.1:9"}
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


def make_context(*entries: Entry, provider: str = "anthropic") -> Any:
    """Return the context with `entries`."""
    context = request_value("request_context")
    for entry in entries:
        context.add(entry, provider)
    return context


def encode_messages(rendering: Rendering) -> bytes:
    """Return the rendered messages as a JSON list."""
    return b"[" + b",".join(rendering.encode_messages()) + b"]"


def ask(*entries: Entry, provider: str = "anthropic", **fields: Any) -> Any:
    """Return a request with `entries`, or with one request of the user."""
    context = make_context(*(entries or (user("Hi."),)), provider=provider)
    return request_value(
        "model_request", model=fields.pop("model", "test-model"), context=context, **fields
    )


async def collect(provider: Any, request: Any) -> list[ProviderEvent]:
    """Return all events of a response."""
    return [event async for event in provider.stream(request)]


async def entries_of(provider: Any, request: Any) -> list[Entry]:
    """Return the entries of a response as they are recorded."""
    builder = ResponseBuilder()
    fed = [builder.feed(event) for event in await collect(provider, request)]
    return [entry for entry in fed if entry is not None]


async def collect_failure(
    provider: Any, request: Any
) -> tuple[list[ProviderEvent], jp.ProviderError]:
    """Return the events before the expected error of a request, and the error."""
    seen: list[ProviderEvent] = []
    try:
        async for event in provider.stream(request):
            seen.append(event)
    except jp.ProviderError as exc:
        return seen, exc
    raise AssertionError(f"no error after {seen}")


def decoder_for(fixture: Path) -> StreamDecoder:
    """Return the decoder for a recorded stream."""
    protocol: Decoder = (
        AnthropicDecoder()
        if fixture.name.startswith("anthropic")
        else ChatDecoder(PROFILES["llamacpp"])
    )
    return StreamDecoder(protocol, provider="test")


def decode(
    decoder: StreamDecoder, chunks: Iterable[bytes]
) -> tuple[list[ProviderEvent], jp.ProviderError | None]:
    """Decode a body that arrives in `chunks`. Returns its events, and the error at its end."""
    seen: list[ProviderEvent] = []
    try:
        for chunk in chunks:
            for event in decoder.feed(chunk):
                seen.append(event)
            if decoder.events.finished:
                return seen, None
        for event in decoder.finish():
            seen.append(event)
    except jp.ProviderError as exc:
        return seen, exc
    return seen, None


def decode_messages(
    decoder: Decoder, messages: Iterable[dict[str, Any]], *, finish: bool = False
) -> list[ProviderEvent]:
    """Return the events of `messages`, each decoded alone."""
    buffer = EventBuffer()
    events = list[ProviderEvent]()
    for message in messages:
        decoder.feed(message, buffer)
        events += buffer.take()
    if finish:
        decoder.finish(buffer)
    return events + buffer.take()


def text_of(events: Iterable[ProviderEvent], kind: str = "message") -> str:
    """Return the text of one kind of parts."""
    return "".join(e.text for e in events if is_kind(e, "text") and e.kind == kind)


def list_details(exc: BaseException) -> Iterator[str]:
    """Yield all texts that a report may contain about an error, with causes and local variables."""
    link: BaseException | None = exc
    while link is not None:
        yield f"{link!s} {link!r} {vars(link)} {link.args}"
        yield from traceback.TracebackException.from_exception(link, capture_locals=True).format()
        link = link.__cause__ or link.__context__
