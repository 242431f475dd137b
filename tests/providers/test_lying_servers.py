"""A server may send anything: a response ends, in bounded time and memory, and says why."""

from __future__ import annotations

import json
import socket
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

import pytest

from jp_nb.agent.model_events import Finished, ProviderEvent, Usage
from jp_nb.agent.response import ResponseBuilder
from jp_nb.errors import ProtocolError, ProviderError
from jp_nb.providers import http, sse, streaming
from jp_nb.providers.anthropic_decoder import AnthropicDecoder
from jp_nb.providers.chat_decoder import ChatDecoder
from jp_nb.providers.chat_profiles import PROFILES
from jp_nb.providers.registry import create
from jp_nb.providers.retry import classify_in_stream, retry_after
from jp_nb.providers.sse import SseDecoder
from jp_nb.providers.streaming import StreamDecoder
from tests.support.provider_helpers import ask, collect, failure, text_of
from tests.support.raw_server import STREAM, raw_server

HELLO = b'data: {"choices": [{"delta": {"content": "Hello."}}]}\n\n'
STOP = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(streaming, "END_SECONDS", 0.2)
    monkeypatch.setattr(streaming, "PATIENCE", 2)
    monkeypatch.setattr(http, "ERROR_BODY_SECONDS", 0.2)


async def outcome(
    answer: Callable[[], Iterable[bytes]], *, name: str = "openai", **fields: Any
) -> tuple[list[ProviderEvent], ProviderError]:
    with raw_server(lambda _: answer()) as url:
        provider = create(name, {"base_url": url})
        seen = await failure(provider, ask(idle_timeout=fields.pop("idle_timeout", 20), **fields))
        await provider.aclose()
    return seen


def endless(piece: bytes, *first: bytes) -> Callable[[], Iterator[bytes]]:
    """A stream that begins with `first` and goes on with `piece`, for good."""

    def answer() -> Iterator[bytes]:
        yield STREAM
        yield from first
        yield from repeat(piece)

    return answer


EMPTY = b'data: {"choices": [{"delta": {"content": ""}}]}\n\n'
WITHOUT_CONTENT = {
    "empty deltas": EMPTY,
    "empty messages": b"data: {}\n\n",
    "blank data": b"data:\n\n",
    "unknown fields": b"id: 1\nretry: 5\n\n",
    "usage": b'data: {"choices": [], "usage": {"prompt_tokens": 1}}\n\n',
    "no messages": b"\n",
}


@pytest.mark.parametrize("kind", WITHOUT_CONTENT)
async def test_messages_without_content_do_not_extend_the_idle_timeout(kind: str) -> None:
    seen, error = await outcome(endless(WITHOUT_CONTENT[kind], HELLO), idle_timeout=0.5)
    assert text_of(seen) == "Hello."
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "sent no content for 0.5 s" in str(error)
    assert "stream_idle_timeout_secs" in str(error)


async def test_empty_blocks_do_not_extend_the_idle_timeout() -> None:
    begins = b'{"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}'
    block = b"data: %b\n\ndata: %b\n\n" % (begins, b'{"type": "content_block_stop", "index": 0}')
    _, error = await outcome(endless(block), name="anthropic", idle_timeout=0.5)
    assert "sent no content for 0.5 s" in str(error)


async def test_keep_alives_alone_extend_the_idle_timeout_to_a_bound() -> None:
    seen, error = await outcome(endless(b": still here\n\n", HELLO), idle_timeout=0.5)
    assert text_of(seen) == "Hello."
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "sent no content for 1 s, only keep-alives" in str(error)


@pytest.mark.parametrize("idle_timeout", [0, 60])
async def test_a_flood_of_empty_deltas_is_ended_before_the_idle_timeout(
    idle_timeout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "MAX_EMPTY_BYTES", 1 << 20)
    flood = endless(EMPTY * 1000, HELLO)
    seen, error = await outcome(flood, idle_timeout=idle_timeout, max_response_bytes=1 << 20)
    assert text_of(seen) == "Hello."
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "bytes without any content" in str(error)


async def test_pings_alone_do_not_keep_a_response_up() -> None:
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    _, error = await outcome(endless(ping), name="anthropic", idle_timeout=0.5)
    assert error.kind in ("timeout", "output_limit")


async def test_a_tool_call_that_never_goes_on_ends_too() -> None:
    begins = json.dumps({"index": 0, "id": "1", "function": {"name": "t", "arguments": "{"}})
    chunk = f'data: {{"choices": [{{"delta": {{"tool_calls": [{begins}]}}}}]}}\n\n'.encode()

    with socket.socket() as silent:  # a server that says no more, and does not close

        def answer() -> Iterator[bytes]:
            yield STREAM + HELLO + chunk
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            silent.settimeout(20)
            with pytest.raises(TimeoutError):
                silent.accept()

        seen, error = await outcome(answer, idle_timeout=0.5)
    assert text_of(seen) == "Hello."
    assert "an unfinished tool call" in str(error)


@pytest.mark.parametrize("after", [b"", b": ping\n\n", EMPTY])
async def test_an_answer_that_is_complete_waits_shortly_for_its_end(after: bytes) -> None:
    """Nothing of it is lost, and it is not asked for again."""

    def answer() -> Iterator[bytes]:
        yield STREAM + HELLO + STOP
        yield from repeat(after) if after else iter([STREAM[:0]] * 0)
        while True:
            yield b":\n"

    with raw_server(lambda _: answer()) as url:
        provider = create("openai", {"base_url": url})
        seen = await collect(provider, ask(idle_timeout=60))
        await provider.aclose()
    assert text_of(seen) == "Hello."
    assert seen[-1] == Finished()


MUCH = b"x" * 65_536


@pytest.mark.parametrize(
    ("kind", "first", "piece", "message"),
    [
        ("a line", b"data: ", MUCH, "an event of the stream is longer"),
        ("a comment", b": ", MUCH, "an event of the stream is longer"),
        ("an event", b"", b"data: " + MUCH + b"\n", "an event of the stream is longer"),
        ("short lines", b"", b"data: x\n" * 5000, "an event of the stream is longer"),
        ("a field", b"", MUCH, "an event of the stream is longer"),
    ],
)
async def test_what_never_ends_is_ended(
    kind: str, first: bytes, piece: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1 << 20)
    tracemalloc.start()
    try:
        seen, error = await outcome(endless(piece, HELLO, first))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert text_of(seen) == "Hello."
    assert message in str(error)
    assert isinstance(error, ProtocolError)
    assert peak < 40 << 20


def test_a_long_line_in_small_pieces_is_looked_through_once() -> None:
    class Counted(bytes):
        looks = 0

        def rfind(self, *args: Any) -> int:
            type(self).looks += len(self)
            return super().rfind(*args)

    decoder, piece = SseDecoder(), Counted(b"x" * 10)
    for _ in range(1000):
        assert list(decoder.feed(piece)) == []
    assert Counted.looks == 10_000
    assert len(list(decoder.feed(b"\n\n"))) == 0


def chat(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"delta": delta}]}


def call(**fields: Any) -> dict[str, Any]:
    return chat(tool_calls=[{"index": 0, **fields}])


HOARDS: dict[str, list[dict[str, Any]]] = {
    "refusal": [chat(refusal="x" * 100)],
    "details": [chat(reasoning_details=[{"type": "t", "index": 0, "data": "x" * 100}])],
    "many details": [chat(reasoning_details=[{"type": "t", "index": i, "text": "x" * 100}])
                     for i in range(400)],
    "arguments of nobody": [call(function={"arguments": "x" * 100})],
    "arguments": [call(id="1", function={"name": "t"}), call(function={"arguments": "x" * 100})],
    "calls": [chat(tool_calls=[{"index": i, "id": f"call {i}", "function": {"name": "t" * 90}}])
              for i in range(400)],
    "reasoning": [chat(reasoning_content="x" * 100)],
}  # fmt: skip


def feed(decoder: StreamDecoder, messages: Iterable[dict[str, Any]]) -> None:
    for message in messages:
        list(decoder.feed(f"data: {json.dumps(message)}\n\n".encode()))


@pytest.mark.parametrize("kind", HOARDS)
def test_all_that_is_kept_counts(kind: str) -> None:
    decoder = StreamDecoder(
        ChatDecoder(PROFILES["openai"]), provider="p", max_response_bytes=20_000
    )
    messages = [*HOARDS[kind], *[HOARDS[kind][-1]] * 300]
    with pytest.raises(ProviderError, match="longer than 20000 bytes") as caught:
        feed(decoder, messages)
    assert caught.value.kind == "output_limit"


def test_signatures_count_too() -> None:
    decoder = StreamDecoder(AnthropicDecoder(), provider="p", max_response_bytes=20_000)
    begins = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}}
    more = {
        "type": "content_block_delta", "index": 0,
        "delta": {"type": "signature_delta", "signature": "x" * 100},
    }  # fmt: skip
    feed(decoder, [begins])
    with pytest.raises(ProviderError, match="longer than 20000 bytes"):
        feed(decoder, [more] * 300)


def test_an_answer_has_its_share_of_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "MAX_OVERHEAD_BYTES", 100_000)
    decoder = StreamDecoder(ChatDecoder(PROFILES["openai"]), provider="p", max_response_bytes=100)
    with pytest.raises(ProviderError, match="bytes for an answer of 0") as caught:
        feed(decoder, [chat(content="")] * 10_000)
    assert caught.value.kind == "output_limit"


async def test_many_calls_in_one_place_are_not_read_again_and_again() -> None:
    """Some servers give every call the same place: where one ends is not looked for on and on."""
    reads = 0

    def counted(text: str) -> bool:
        nonlocal reads
        reads += len(text)
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jp_nb.providers.chat_decoder.is_json_object", counted)
        decoder = StreamDecoder(ChatDecoder(PROFILES["openai"]), provider="p")
        for number in range(5000):
            message = call(id=str(number), function={"name": "t", "arguments": "{"})
            list(decoder.feed(f"data: {json.dumps(message)}\n\n".encode()))
    assert reads < 20_000


# --- messages of the wrong shape ---------------------------------------------------------------

WRONG: dict[str, object] = {
    "index": call(index=[1], id="1", function={"name": "t"}),
    "id": call(id=5, function={"name": "t"}),
    "name": call(id="1", function={"name": ["t"]}),
    "arguments": call(id="1", function={"name": "t", "arguments": 5}),
    "text": chat(content=["a"]),
    "reason": {"choices": [{"delta": {}, "finish_reason": {"a": 1}}]},
    "choices": {"choices": {"a": 1}},
    "usage": {"usage": [1]},
}


async def test_a_message_of_the_wrong_shape_is_an_error_of_the_protocol(
    subtests: pytest.Subtests,
) -> None:
    for kind in WRONG:
        with subtests.test(kind=kind):
            data = f"data: {json.dumps(WRONG[kind])}\n\n".encode()
            seen, error = await outcome(lambda: [STREAM, HELLO, data, STOP, DONE])
            assert text_of(seen) == "Hello."
            assert isinstance(error, ProtocolError)
            assert "a message that its API does not document" in str(error)


@pytest.mark.parametrize("index", ["-1", "1" + "0" * 400, "1e999", "0.5", '"a"', "true", "null"])
async def test_a_strange_index_breaks_nothing(index: str) -> None:
    text = (
        f'{{"choices": [{{"delta": {{"tool_calls": [{{"index": {index}, "id": "1", '
        '"function": {"name": "t", "arguments": "{}"}}]}}]}'
    )
    with raw_server(lambda _: [STREAM, HELLO, f"data: {text}\n\n".encode(), STOP, DONE]) as url:
        provider = create("openai", {"base_url": url})
        builder = ResponseBuilder()
        entries = [builder.feed(e) for e in await collect(provider, ask())]
        await provider.aclose()
    assert [getattr(e, "name", "") for e in entries if e is not None][-1:] == ["t"]


@pytest.mark.parametrize("index", ['"a"', "null", "[1]", "1.5"])
async def test_a_place_that_is_no_number_is_an_error(index: str) -> None:
    text = (
        f'{{"type": "content_block_start", "index": {index}, '
        '"content_block": {"type": "tool_use", "id": "1", "name": "t"}}'
    )
    _, error = await outcome(lambda: [STREAM, f"data: {text}\n\n".encode()], name="anthropic")
    assert isinstance(error, ProtocolError)


async def test_counts_that_cannot_be_are_none(subtests: pytest.Subtests) -> None:
    """They would be added up, and Infinity is no JSON in a notebook."""
    for count in [
        "1e999",
        "-1",
        "-1e999",
        '"7"',
        "true",
        "[7]",
        "{}",
        "NaN",
        "1" + "0" * 400,
        "1.5",
    ]:
        with subtests.test(count=count):
            usage = f'{{"prompt_tokens": {count}, "completion_tokens": 3}}'
            data = f'data: {{"choices": [], "usage": {usage}}}\n\n'.encode()
            with raw_server(lambda _: [STREAM, HELLO, STOP, data, DONE]) as url:
                provider = create("openai", {"base_url": url})
                seen = await collect(provider, ask())
                await provider.aclose()
            assert [e for e in seen if isinstance(e, Usage)] == [Usage(output_tokens=3)]
            assert seen[-1] == Finished()


async def test_an_error_may_have_any_body(subtests: pytest.Subtests) -> None:
    for status in [400, 429, 500]:
        for body in [
            b"1e999",
            b"[" * 100_000,
            b'{"error": ' * 5000 + b"1" + b"}" * 5000,
            b'{"error": {"message": 1e999, "code": 1e999}}',
            b'{"error": {"message": {"a": [1]}, "code": [[1]]}}',
            b'{"error": {"message": "x", "code": ' + b"9" * 5000 + b"}}",
            b"try again in " + b"9" * 400 + b" s",
            b"retry after 1e999",
            b'{"retryDelay": "' + b"9" * 60_000 + b's"}',
            b"\xff\xfe\x00",
            b"",
        ]:
            with subtests.test(body=body, status=status):
                head = b"HTTP/1.1 %d No\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
                _, error = await outcome(lambda: [head + body])
                assert error.status == status
                assert len(str(error)) < 3000
                assert error.retry_after in (None, 1.0)  # of `1e999` the first digit
                in_stream = b'data: {"error": ' + body + b"}\n\n"
                _, error = await outcome(lambda: [STREAM, in_stream])
                assert len(str(error)) < 3000


async def test_the_body_of_an_error_may_never_end() -> None:
    def answer() -> Iterator[bytes]:
        yield b"HTTP/1.1 503 No\r\ncontent-length: 99999999\r\n\r\nI am busy"
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(20)
            with pytest.raises(TimeoutError):
                silent.accept()

    _, error = await outcome(answer)
    assert (error.status, error.kind) == (503, "transient")
    assert "I am busy" in str(error)


def test_an_absurd_wait_is_none_or_bounded(subtests: pytest.Subtests) -> None:
    for name in ["retry-after", "retry-after-ms", "x-ratelimit-reset", "x-ratelimit-reset-tokens"]:
        for value in [
            "-1",
            "nan",
            "inf",
            "1e999",
            "9" * 400,
            "0",
            "",
            "soon",
            "Fri, 31 Dec 9999 23:59:59 GMT",
            "Mon, 01 Jan 0001 00:00:00 GMT",
            "Fri, 99 Foo 99999 99:99:99 GMT",
            "31 Dec 1999",
            "5 5",
            "٣",
            "1_000_000_000_000",
            "-0.0",
            "Thu, 01 Jan 1970 00:00:00 -9999",
        ]:
            with subtests.test(value=value, name=name):
                wait = retry_after({name: value}, now=1e9)
                assert wait is None or 0 < wait <= 30 * 86400


def test_in_an_error_of_a_stream_anything_may_stand() -> None:
    values: list[Any] = [None, 1e999, [[]], {"message": [1], "code": {}, "type": 5}, "x" * 10**6]
    for value in values:
        error = classify_in_stream(value, provider="p")
        assert len(str(error)) < 2500


async def test_endless_headers_are_ended() -> None:
    def answer() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        for number in range(10**9):
            yield b"x-%d: %b\r\n" % (number, b"y" * 1000)

    _, error = await outcome(answer)
    assert error.kind == "transient"


@pytest.mark.parametrize(
    "body", [b"5\r\ndata", b"zz\r\n", b"5\r\ndata: \r\n", b"ffffffffffffffffffff\r\nx"]
)
async def test_a_body_that_is_cut_is_worth_another_try(body: bytes) -> None:
    head = STREAM[:-2] + b"transfer-encoding: chunked\r\n\r\n"
    hello = b"%x\r\n%b\r\n" % (len(HELLO), HELLO)
    seen, error = await outcome(lambda: [head + hello + body])
    assert text_of(seen) == "Hello."
    assert (error.kind, error.retryable) == ("transient", True)


async def test_a_second_end_changes_nothing() -> None:
    with raw_server(lambda _: [STREAM, HELLO, STOP, STOP, DONE, DONE, HELLO]) as url:
        provider = create("openai", {"base_url": url})
        seen = await collect(provider, ask())
        await provider.aclose()
    assert text_of(seen) == "Hello."
    assert [type(e) for e in seen].count(Finished) == 1
