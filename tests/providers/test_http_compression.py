"""A compressed response cannot take much more memory than a usual one."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

import jp_nb as jp
from tests.kit.providers import new_provider
from tests.providers.helpers import ask, collect, collect_failure, text_of
from tests.support.loopback import STREAM, LoopbackServer, RawResponse, Reply, reply_events

ENCODINGS = ("gzip, gzip", "GZIP,deflate", "deflate, identity, gzip", "br", "zstd", "gzip, br")
BOMB = gzip.compress(gzip.compress(bytes(50_000_000)))


def respond(body: bytes, encoding: str, status: int = 200) -> RawResponse:
    head = (
        f"HTTP/1.1 {status} X\r\ncontent-type: text/event-stream\r\n"
        f"content-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return RawResponse([head.encode(), body])


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_chain_of_encodings_is_refused(encoding: str, status: int) -> None:
    with LoopbackServer(lambda _: respond(BOMB, encoding, status), strict=False) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        tracemalloc.start()
        try:
            _, error = await collect_failure(provider, ask())
            with pytest.raises(jp.ProviderError, match="compressed its response"):
                await provider.models(seconds=5)
            with pytest.raises(jp.ProviderError, match="compressed its response"):
                await provider.count_tokens(ask(), seconds=5)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        await provider.aclose()
    assert "Only one of gzip and deflate is accepted" in str(error)
    assert peak < 20_000_000


BOMBS = {
    "gzip": gzip.compress(bytes(100_000_000), 9),
    "deflate": zlib.compress(bytes(100_000_000), 9),
}


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("encoding", BOMBS)
async def test_compressed_bomb_is_decompressed_up_to_the_bounds(encoding: str, status: int) -> None:
    reply = respond(BOMBS[encoding], encoding, status)
    with LoopbackServer(lambda _: reply, strict=False) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        tracemalloc.start()
        try:
            await collect_failure(provider, ask())
            with pytest.raises(jp.ProviderError):
                await provider.models(seconds=20)
            with pytest.raises(jp.ProviderError):
                await provider.count_tokens(ask(), seconds=20)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        await provider.aclose()
    assert peak < MOST_BYTES[status]


MOST_BYTES = {200: 5 * 2**24, 400: 5_000_000, 500: 5_000_000}
"""An event or a JSON text of 16 MiB is read and copied before it is refused. Errors are shorter."""


@pytest.mark.parametrize("size", [1, 65_000, 70_000, 1_000_000])
@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
async def test_compressed_pieces_are_the_whole_body(encoding: str, size: int, step: int) -> None:
    reply = Reply(text="x" * size, delta_chars=size)
    body = b"".join(reply_events(reply, "anthropic", {"model": "m"}, 1))
    compress = zlib.compressobj(wbits=-15 if "raw" in encoding else 15)
    sent = gzip.compress(body) if encoding == "gzip" else compress.compress(body) + compress.flush()

    head = STREAM[:-2] + b"content-encoding: %b\r\n\r\n" % encoding.split()[-1].encode()
    pieces = [sent[at : at + step] for at in range(0, len(sent), step)]
    after_the_end = b"later" * 100
    with LoopbackServer(lambda _: RawResponse([head, *pieces, after_the_end])) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        events = await collect(provider, ask())
        await provider.aclose()
    assert text_of(events) == reply.text


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", "identity, gzip"])
async def test_compressed_response_is_read(encoding: str) -> None:
    body = b"".join(reply_events(Reply(text="Hello."), "anthropic", {"model": "m"}, 1))
    if "gzip" in encoding:
        body = gzip.compress(body)
    elif encoding == "deflate":
        body = zlib.compress(body)
    with LoopbackServer(lambda _: respond(body, encoding)) as server:
        provider = new_provider("anthropic", {"base_url": server.url})
        events = await collect(provider, ask())
        await provider.aclose()
        accepted = server.requests[0].headers["accept-encoding"]
    assert text_of(events) == "Hello."
    assert accepted == "deflate, gzip"
