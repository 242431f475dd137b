"""A response of any bytes ends in bounded time and memory, with an error."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, repeat
from time import perf_counter
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import kind_of, select_kind
from tests.kit.models import model_event
from tests.kit.providers import new_provider, substitute
from tests.kit.streams import StreamReader
from tests.providers.helpers import ask, collect, collect_failure, read_slowly, text_of
from tests.support.loopback import STREAM, LoopbackServer, RawResponse

HELLO = b'data: {"choices": [{"delta": {"content": "Hello."}}]}\n\n'
STOP = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
EMPTY = b'data: {"choices": [{"delta": {"content": ""}}]}\n\n'
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    substitute(monkeypatch, "seconds between looks at the clock", 0.02)
    substitute(monkeypatch, "seconds for the end of an answer", 0.2)
    substitute(monkeypatch, "idle timeouts with keep-alives", 2)
    substitute(monkeypatch, "seconds for the body of an error", 0.2)


async def collect_outcome(
    answer: Callable[[], Iterable[bytes | float]], **fields: Any
) -> tuple[list[Any], jp.ProviderError]:
    """Return the events and the error of a request to a server that replies with these bytes."""
    with LoopbackServer(lambda _: RawResponse(answer())) as server:
        provider = new_provider("openai", {"base_url": server.url})
        seen = await collect_failure(
            provider, ask(idle_timeout=fields.pop("idle_timeout", 20), **fields)
        )
        await provider.aclose()
    return seen


async def collect_timed(
    monkeypatch: pytest.MonkeyPatch,
    pieces: Iterable[bytes | None],
    *,
    api: str = "chat",
    pause: float = 0.01,
) -> tuple[list[Any], jp.ProviderError]:
    """Return the events and the error of a response with `pause` seconds between its pieces.

    The clock is fake. A piece that is None is silence.
    """
    response = await read_slowly(monkeypatch, api, pieces, pause=pause)
    assert response.error is not None
    return response.events, response.error


def endless(piece: bytes, *first: bytes) -> Iterator[bytes]:
    yield from first
    yield from repeat(piece)


# --- time --------------------------------------------------------------------------------------

BLOCK = b"".join(
    b"data: %b\n\n" % json.dumps({"index": 0, **message}).encode()
    for message in (
        {"type": "content_block_start", "content_block": {"type": "text"}},
        {"type": "content_block_stop"},
    )
)


async def test_messages_without_content_do_not_extend_the_idle_timeout(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, piece in {
        "empty deltas": EMPTY,
        "empty messages": b"data: {}\n\n",
        "blank data": b"data:\n\n",
        "unknown fields": b"id: 1\nretry: 5\n\n",
        "usage": b'data: {"choices": [], "usage": {"prompt_tokens": 1}}\n\n',
        "no messages": b"\n",
    }.items():
        with subtests.test(kind=kind):
            seen, error = await collect_timed(monkeypatch, endless(piece, HELLO))
            assert text_of(seen) == "Hello."
            assert (error.kind, error.retryable) == ("timeout", True)
            assert "sent no content for 1 s" in str(error)
            assert "stream_idle_timeout_secs" in str(error)
    _, error = await collect_timed(monkeypatch, endless(BLOCK), api="anthropic")
    assert "sent no content for 1 s" in str(error)


@pytest.mark.parametrize(
    ("api", "message"),
    [
        ("interactions", {"event_type": "interaction.status_update"}),
        ("responses", {"type": "response.in_progress"}),
        ("responses", {"type": "response.queued"}),
    ],
)
@pytest.mark.parametrize("pause", [0.01, 0.9])
async def test_reports_of_a_state_do_not_extend_the_idle_timeout(
    api: str, message: dict[str, Any], pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = b"data: %b\n\n" % json.dumps(message).encode()
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield piece

    _, error = await collect_timed(monkeypatch, pieces(), api=api, pause=pause)
    assert "sent no content for 1 s (assistant." in str(error)
    assert sent * pause < 3


async def test_keep_alives_alone_extend_the_idle_timeout_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for piece, api in ((b": still here\n\n", "chat"), (PING, "anthropic")):
        _, error = await collect_timed(monkeypatch, endless(piece), api=api)
        assert (error.kind, error.retryable) == ("timeout", True)
        assert "sent no content for 2 s, only keep-alives (2 times assistant." in str(error)
        assert "`%jp config assistant.request.stream_idle_timeout_secs=SECONDS`" in str(error)


async def test_server_that_only_sends_keep_alives_ends_and_a_slow_one_may_answer(
    subtests: pytest.Subtests,
) -> None:
    pings = 0

    def answer() -> Iterable[bytes | float]:
        yield STREAM
        for _ in range(pings):
            yield from (b": still here\n\n", 0.1)
        yield from (HELLO, STOP, DONE)

    with LoopbackServer(lambda _: RawResponse(answer())) as server:
        provider = new_provider("openai", {"base_url": server.url})
        with subtests.test("a slow model"):
            pings = 6
            start = perf_counter()
            assert text_of(await collect(provider, ask(idle_timeout=0.5))) == "Hello."
            assert perf_counter() - start > 0.5
        with subtests.test("nothing but keep-alives"):
            pings = 10_000
            start = perf_counter()
            _, error = await collect_failure(provider, ask(idle_timeout=0.5))
            assert "sent no content for 1 s, only keep-alives" in str(error)
            assert perf_counter() - start < 5
        await provider.aclose()


async def test_silent_tool_call_ends_after_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    begins = json.dumps(call(id="1", function={"name": "t", "arguments": "{"}))
    pieces = chain([HELLO, f"data: {begins}\n\n".encode()], repeat(None))
    seen, error = await collect_timed(monkeypatch, pieces, pause=0.1)
    assert text_of(seen) == "Hello."
    assert "sent no content for 2 s within a tool call" in str(error)


@pytest.mark.parametrize("idle_timeout", [0, 60])
async def test_flood_without_content_ends_before_the_idle_timeout(
    idle_timeout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    substitute(monkeypatch, "bytes without content", 1 << 20)
    flood = endless(EMPTY * 1000, STREAM, HELLO)
    seen, error = await collect_outcome(
        lambda: flood, idle_timeout=idle_timeout, max_response_bytes=1 << 20
    )
    assert text_of(seen) == "Hello."
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "bytes without any content" in str(error)


@pytest.mark.parametrize("after", [b"", b": ping\n\n", EMPTY])
async def test_complete_answer_waits_shortly_for_its_end(after: bytes) -> None:
    """The answer is complete, and the request is not repeated."""

    def answer() -> Iterator[bytes]:
        yield STREAM + HELLO + STOP
        yield from repeat(after) if after else iter([STREAM[:0]] * 0)
        while True:
            yield b":\n"

    with LoopbackServer(lambda _: RawResponse(answer())) as server:
        provider = new_provider("openai", {"base_url": server.url})
        seen = await collect(provider, ask(idle_timeout=60))
        await provider.aclose()
    assert text_of(seen) == "Hello."
    assert seen[-1] == model_event("finished")


async def test_body_of_an_error_that_never_ends_is_read_in_part() -> None:
    def answer() -> Iterator[bytes | float]:
        yield b"HTTP/1.1 503 No\r\ncontent-length: 99999999\r\n\r\nI am \xff busy"
        yield 20.0

    _, error = await collect_outcome(answer)
    assert (error.status, error.kind) == (503, "transient")
    assert "I am \ufffd busy" in str(error)


async def test_endless_headers_are_refused() -> None:
    def answer() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        for number in range(10**9):
            yield b"x-%d: %b\r\n" % (number, b"y" * 1000)

    _, error = await collect_outcome(answer)
    assert error.kind == "transient"


# --- memory ------------------------------------------------------------------------------------


def test_endless_event_is_refused_in_bounded_memory(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    substitute(monkeypatch, "bytes of an event", 1 << 20)
    much = b"x" * 65_536
    for kind, first, piece in [
        ("a line", b"data: ", much),
        ("a comment", b": ", much),
        ("an event", b"", b"data: " + much + b"\n"),
        ("short lines", b"", b"data: x\n" * 5000),
        ("a field", b"", much),
    ]:
        with subtests.test(kind=kind):
            tracemalloc.start()
            try:
                response = StreamReader("chat").read(endless(piece, HELLO, first))
                assert "an event of the stream is longer" in str(response.error)
                assert tracemalloc.get_traced_memory()[1] < 40 << 20
            finally:
                tracemalloc.stop()


def chat(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"delta": delta}]}


def call(**fields: Any) -> dict[str, Any]:
    return chat(tool_calls=[{"index": 0, **fields}])


def test_everything_that_is_held_back_counts_toward_the_limit(subtests: pytest.Subtests) -> None:
    hoards: dict[str, list[dict[str, Any]]] = {
        "refusal": [chat(refusal="x" * 100)],
        "details": [chat(reasoning_details=[{"type": "t", "index": 0, "data": "x" * 100}])],
        "many details": [
            chat(reasoning_details=[{"type": "t", "index": i, "text": "x" * 100}])
            for i in range(400)
        ],
        "arguments without a call": [
            call(function={"arguments": "{"}),
            call(function={"arguments": "x" * 100}),
        ],
        "arguments": [
            call(id="1", function={"name": "t", "arguments": "{"}),
            call(function={"arguments": "x" * 100}),
        ],
        "calls": [
            chat(tool_calls=[{"index": i, "id": f"call {i}", "function": {"name": "t" * 90}}])
            for i in range(400)
        ],
        "reasoning": [chat(reasoning_content="x" * 100)],
    }
    for kind, hoard in hoards.items():
        with subtests.test(kind=kind):
            response = StreamReader("chat", max_response_bytes=20_000)
            with pytest.raises(jp.ProviderError, match="longer than 20000 bytes") as caught:
                response.feed(*hoard, *[hoard[-1]] * 300)
            assert caught.value.kind == "output_limit"


def test_signatures_count_toward_the_limit() -> None:
    response = StreamReader("anthropic", max_response_bytes=20_000)
    begins = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}}
    signature = {"type": "signature_delta", "signature": "x" * 100}
    response.feed(begins)
    with pytest.raises(jp.ProviderError, match="longer than 20000 bytes"):
        response.feed(*[{"type": "content_block_delta", "index": 0, "delta": signature}] * 300)


def test_bytes_on_the_wire_are_limited_by_the_size_of_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    substitute(monkeypatch, "bytes besides an answer", 100_000)
    response = StreamReader("chat", max_response_bytes=100)
    with pytest.raises(jp.ProviderError, match="bytes for an answer of 0") as caught:
        response.feed(*[chat(content="")] * 10_000)
    assert caught.value.kind == "output_limit"


def test_calls_with_one_index_are_read_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some servers give every call the same index, so the search for its end is limited."""
    reads = 0

    def counted(text: str) -> bool:
        nonlocal reads
        reads += len(text)
        return False

    substitute(monkeypatch, "check of complete arguments", counted)
    part = {"name": "t", "arguments": "{"}
    StreamReader("chat").feed(*(call(id=str(number), function=part) for number in range(5000)))
    assert reads < 20_000


# --- messages of the wrong shape ---------------------------------------------------------------


def test_message_of_the_wrong_shape_is_an_error_of_the_protocol(subtests: pytest.Subtests) -> None:
    wrong: dict[str, Any] = {
        "index": call(index=[1], id="1", function={"name": "t"}),
        "id": call(id=["5"], function={"name": "t"}),
        "name": call(id="1", function={"name": ["t"]}),
        "arguments": call(id="1", function={"name": "t", "arguments": 5}),
        "text": chat(content=[5]),
        "number": chat(content=3),
        "reason": {"choices": [{"delta": {}, "finish_reason": {"a": 1}}]},
        "choices": {"choices": {"a": 1}},
        "choice": {"choices": [3]},
        "usage": {"usage": [1]},
        "list": [],
        "text alone": "x",
    }
    for kind, message in wrong.items():
        with (
            subtests.test(kind=kind),
            pytest.raises(jp.ProviderError, match="p sent a message that"),
        ):
            StreamReader("chat").feed(message)

    for data in (b"{", b"[" * 200_000):
        with pytest.raises(jp.ProviderError, match="a message that its API does not document"):
            StreamReader("chat").feed(b"data: " + data + b"\n\n")

    block = {"type": "tool_use", "id": "1", "name": "t"}
    begins = {"type": "content_block_start", "index": [1], "content_block": block}
    with pytest.raises(jp.ProviderError, match="p sent a message that"):
        StreamReader("anthropic").feed(begins)


async def test_events_before_a_wrong_message_are_kept() -> None:
    seen, error = await collect_outcome(lambda: [STREAM, HELLO, b"data: {\n\n", STOP, DONE])
    assert text_of(seen) == "Hello."
    assert "sent a message that its API does not document" in str(error)


def test_strange_index_of_a_call_is_accepted(subtests: pytest.Subtests) -> None:
    for index in ["-1", "1" + "0" * 400, "1e999", "0.5", '"a"', "true", "null"]:
        with subtests.test(index=index[:10]):
            text = (
                f'{{"choices": [{{"delta": {{"tool_calls": [{{"index": {index}, "id": "1", '
                '"function": {"name": "t", "arguments": "{}"}}]}}]}'
            )
            parts = (HELLO, f"data: {text}\n\n".encode(), STOP, DONE)
            response = StreamReader("chat").read(parts)
            assert [called.name for called in response.valid_calls] == ["t"]


def test_usage_that_is_no_count_is_dropped(subtests: pytest.Subtests) -> None:
    """Counts are added up, and JSON has no Infinity."""
    for count in ["1e999", "-1", '"7"', "true", "[7]", "{}", "NaN", "1" + "0" * 400, "1.5"]:
        with subtests.test(count=count[:10]):
            usage = f'{{"prompt_tokens": {count}, "completion_tokens": 3}}'
            data = f'data: {{"choices": [], "usage": {usage}}}\n\n'.encode()
            seen = StreamReader("chat").feed(HELLO, STOP, data, DONE)
            assert select_kind(seen, "usage") == [model_event("usage", output_tokens=3)]
            assert seen[-1] == model_event("finished")


@pytest.mark.parametrize("body", [b"5\r\ndata", b"zz\r\n", b"ffffffffffffffffffff\r\nx"])
async def test_body_that_is_cut_is_tried_again(body: bytes) -> None:
    head = STREAM[:-2] + b"transfer-encoding: chunked\r\n\r\n"
    hello = b"%x\r\n%b\r\n" % (len(HELLO), HELLO)
    seen, error = await collect_outcome(lambda: [head + hello + body])
    assert text_of(seen) == "Hello."
    assert (error.kind, error.retryable) == ("transient", True)


def test_second_end_changes_nothing() -> None:
    seen = StreamReader("chat").feed(HELLO + STOP + STOP + DONE + DONE + HELLO)
    assert text_of(seen) == "Hello."
    assert [kind_of(each) for each in seen].count("finished") == 1
