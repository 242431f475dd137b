from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.kinds import is_kind, select_kind
from tests.kit.models import model_event
from tests.kit.providers import new_provider, substitute
from tests.kit.streams import StreamReader
from tests.providers.helpers import (
    FIXTURES,
    ask,
    collect,
    collect_failure,
    join_texts,
    read_slowly,
    text_of,
)
from tests.support.loopback import LoopbackServer, Protocol, Reply, ToolCall, reply_events

EXPECTED: dict[str, list[Any]] = {
    "anthropic-thinking-tools": [
        model_event(
            "usage", input_tokens=115, output_tokens=1, cache_read_tokens=100, cache_write_tokens=10
        ),
        model_event("keep_alive"),
        model_event("text", 0, "reasoning", "Zwei Städte —"),
        model_event("text", 0, "reasoning", " zwei Aufrufe."),
        model_event("flush", 0, {"anthropic_thinking_signature": "RXVp"}),
        model_event("text", 1, "reasoning", ""),
        model_event("flush", 1, {"anthropic_redacted_thinking": "b3BhcXVl"}),
        model_event("text", 2, "message", "One line\u2028and the next 🌦"),
        model_event("flush", 2),
        model_event("call_start", 3, "toolu_a", "weather"),
        model_event("call_arguments", 3, '{"city": "Delft"}'),
        model_event("flush", 3),
        model_event("call_start", 4, "toolu_b", "today"),
        model_event("flush", 4),
        model_event(
            "usage",
            input_tokens=115,
            output_tokens=42,
            cache_read_tokens=100,
            cache_write_tokens=10,
        ),
        model_event("finished"),
    ],
    "chat-reasoning-tools": [
        model_event("text", 0, "reasoning", "Zwei Städte"),
        model_event("flush", 0),
        model_event("text", 1, "message", "Let me look 🌦"),
        model_event("flush", 1),
        model_event("call_start", 2, "call_a", "weather"),
        model_event("call_start", 3, "call_b", "weather"),
        model_event(
            "usage", input_tokens=115, output_tokens=42, reasoning_tokens=9, cache_read_tokens=100
        ),
        model_event("call_arguments", 2, '{"city": "Delft"}'),
        model_event("flush", 2),
        model_event("call_arguments", 3, '{"city": "Brügge"}'),
        model_event("flush", 3),
        model_event("finished"),
    ],
    "chat-think-tags-crlf": [
        model_event("text", 0, "reasoning", "Kurz: ja."),
        model_event("flush", 0),
        model_event("text", 1, "message", "Ja <b>"),
        model_event("text", 1, "message", "sehr</b>."),
        model_event("flush", 1),
        model_event("finished", "max_tokens"),
    ],
}


def without_pings(events: list[Any]) -> list[Any]:
    """Return `events` without keep-alives, whose number depends on the chunks."""
    return [event for event in events if not is_kind(event, "keep_alive")]


def read_fixture(fixture: Path, chunks: Iterable[bytes]) -> StreamReader:
    """Read the recorded body `fixture`, which arrives in `chunks`."""
    return StreamReader(api_of(fixture.stem)).read(chunks)


def api_of(name: str) -> str:
    """Return the API of a recorded body, or of a provider."""
    return "anthropic" if name.startswith("anthropic") else "chat/llamacpp"


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_recorded_body_gives_the_expected_events(fixture: Path) -> None:
    response = read_fixture(fixture, [fixture.read_bytes()])
    assert response.error is None
    assert join_texts(response.events) == join_texts(EXPECTED[fixture.stem])


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_chunk_boundaries_do_not_change_the_events(fixture: Path) -> None:
    body = fixture.read_bytes()
    whole = without_pings(EXPECTED[fixture.stem])
    for cut in range(0, len(body), 13):
        response = read_fixture(fixture, [body[:cut], body[cut:]])
        assert response.error is None
        assert join_texts(response.events) == join_texts(whole)

    response = read_fixture(fixture, (body[i : i + 1] for i in range(len(body))))
    assert without_pings(response.events) == whole


def test_pieces_of_a_text_in_one_chunk_are_one_event() -> None:
    body = b"".join(reply_events(Reply(text="abc", delta_chars=1), "chat", {"model": "m"}, 1))
    assert select_kind(StreamReader("chat").feed(body), "text") == [
        model_event("text", 1, "message", "abc")
    ]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda path: path.stem)
def test_body_that_breaks_off_gives_no_wrong_event(fixture: Path) -> None:
    body = fixture.read_bytes()
    whole = without_pings(EXPECTED[fixture.stem])
    for cut in range(0, len(body), 5):
        response = read_fixture(fixture, body[:cut].splitlines(keepends=True))
        seen = without_pings(response.events)
        if response.error is None:
            # Only usage and the end mark are missing, which may follow the finish reason.
            assert is_kind(seen[-1], "finished")
            assert [e for e in whole if e in seen] == seen
        else:
            assert response.error.kind == "transient"
            assert seen == whole[: len(seen)]


async def test_response_above_the_limit_ends() -> None:
    with LoopbackServer([Reply(text="x" * 1000)]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        seen, error = await collect_failure(provider, ask(max_response_bytes=500))
        await provider.aclose()
    assert (error.kind, error.retryable) == ("output_limit", False)
    assert 480 < len(text_of(seen)) <= 500


@pytest.mark.parametrize(
    ("name", "ping"),
    [("anthropic", b'event: ping\ndata: {"type": "ping"}\n\n'), ("openai", b": ping\n\n")],
)
async def test_pings_keep_a_stream_alive(
    name: str, ping: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol: Protocol = "anthropic" if name == "anthropic" else "chat"
    end = reply_events(Reply(text="Done."), protocol, {"model": "m"}, 1)
    pieces = (ping, ping, ping, *end)
    response = await read_slowly(monkeypatch, api_of(name), pieces, pause=0.9)
    assert len(select_kind(response.events, "keep_alive")) >= 3
    assert text_of(response.events) == "Done."


NO_MESSAGES = (
    b"data: null\n\n", b"data: ping\n\n", b'data: "ping"\n\n', b"data: :keep-alive\n\n",
    b"data: heartbeat\n\n", b"data:\n\n", b"data:  \n\n", b": comment\n\n", b"\n",
)  # fmt: skip


APIS: tuple[Protocol, ...] = ("anthropic", "chat", "responses", "interactions", "generate")


@pytest.mark.parametrize("api", APIS)
def test_data_that_is_no_message_changes_nothing(api: Protocol) -> None:
    reply = Reply(text="Hi.", tool_calls=(ToolCall("weather", {"city": "Delft"}),))
    body = reply_events(reply, api, {"model": "m"}, 1)
    filled = [each for event in body for each in (*NO_MESSAGES, event)]

    response = StreamReader(api).read(filled)
    assert response.error is None
    assert join_texts(response.events) == join_texts(StreamReader(api).read(body).events)


@pytest.mark.parametrize("name", ["anthropic", "openai"])
async def test_silence_inside_a_tool_call_is_waited_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol: Protocol = "anthropic" if name == "anthropic" else "chat"
    reply = Reply(tool_calls=(ToolCall("weather", {"city": "Delft"}),))
    body = reply_events(reply, protocol, {"model": "m"}, 1)
    place = next(i for i, event in enumerate(body) if b"city" in event)
    parts = (*body[:place], None, None, None, *body[place:])
    response = await read_slowly(monkeypatch, api_of(name), parts, pause=0.9)
    assert response.events[-1] == model_event("finished")


@pytest.mark.parametrize(
    "reply",
    [Reply(delay=5), Reply(raw=(b"data: {", 5.0))],
    ids=["before the first byte", "inside an event"],
)
async def test_silence_ends_a_stream(reply: Reply) -> None:
    with LoopbackServer([reply]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        _, error = await collect_failure(provider, ask(idle_timeout=0.1))
        await provider.aclose()
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "stream_idle_timeout_secs" in str(error)


async def test_slow_stream_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    body = reply_events(Reply(text="x" * 20, delta_chars=1), "chat", {"model": "m"}, 1)
    response = await read_slowly(monkeypatch, "chat", body, pause=0.9)
    assert text_of(response.events) == "x" * 20
    assert response.events[-1] == model_event("finished")


async def test_time_of_the_consumer_is_not_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = reply_events(Reply(text="abc", delta_chars=1), "chat", {"model": "m"}, 1)
    pieces = [b": ping\n\n"] * 3 + list(answer)
    response = await read_slowly(monkeypatch, "chat", pieces, pause=0, consumer_pause=100)
    assert text_of(response.events) == "abc"
    assert response.error is None


async def test_clock_that_jumps_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection of a laptop that slept for an hour times out at the next check."""
    substitute(monkeypatch, "seconds between looks at the clock", 0.02)
    readings = iter([0.0] * 6)
    substitute(monkeypatch, "clock of streams", lambda: next(readings, 3600.0))
    with LoopbackServer([Reply(delay=5)]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        _, error = await collect_failure(provider, ask(idle_timeout=60))
        await provider.aclose()
    assert "sent no content for 60 s" in str(error)


async def test_cancellation_wins_over_the_idle_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    substitute(monkeypatch, "clock of streams", lambda: now)
    substitute(monkeypatch, "seconds between looks at the clock", 0.001)

    async def chunks() -> AsyncGenerator[bytes, None]:
        nonlocal now
        try:
            await asyncio.sleep(5)
        finally:
            now += 100.0
            await asyncio.sleep(0.01)  # the timeout expires meanwhile
        yield b""

    async def consume() -> None:
        async for _ in StreamReader("chat").iter_chunks(chunks()):
            pass

    task = asyncio.create_task(consume())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelling() == 1


async def test_leaving_early_closes_the_connection() -> None:
    with LoopbackServer([Reply(text="x" * 999, pause=0.01), "Again."]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        stream = provider.stream(ask())
        await anext(stream)
        await stream.aclose()
        assert text_of(await collect(provider, ask())) == "Again."
        assert server.connections == 2
        await provider.aclose()


async def test_responses_read_to_their_end_share_a_connection() -> None:
    with LoopbackServer(["One.", "Two.", Reply(status=500), "Three."]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        for text in ("One.", "Two."):
            assert text_of(await collect(provider, ask())) == text
        await collect_failure(provider, ask())
        assert text_of(await collect(provider, ask())) == "Three."
        assert server.connections == 1
        await provider.aclose()
