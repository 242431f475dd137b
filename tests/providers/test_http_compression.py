"""A compressed response cannot take much more memory than a usual one."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from jp_nb.agent.provider import TextPart
from jp_nb.errors import ProtocolError, ProviderError
from jp_nb.providers import create_provider
from tests.providers.helpers import ask, collect, collect_failure
from tests.support.loopback import LoopbackServer, RawResponse, Reply, reply_events

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
        provider = create_provider("anthropic", {"base_url": server.url})
        tracemalloc.start()
        try:
            _, error = await collect_failure(provider, ask())
            with pytest.raises(ProviderError, match="compressed its response"):
                await provider.models(seconds=5)
            with pytest.raises(ProviderError, match="compressed its response"):
                await provider.count_tokens(ask(), seconds=5)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        await provider.aclose()
    assert isinstance(error, ProtocolError)
    assert "Only one of gzip and deflate is accepted" in str(error)
    assert peak < 20_000_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", "identity, gzip"])
async def test_compressed_response_is_read(encoding: str) -> None:
    body = b"".join(reply_events(Reply(text="Hello."), "anthropic", {"model": "m"}, 1))
    if "gzip" in encoding:
        body = gzip.compress(body)
    elif encoding == "deflate":
        body = zlib.compress(body)
    with LoopbackServer(lambda _: respond(body, encoding)) as server:
        provider = create_provider("anthropic", {"base_url": server.url})
        events = await collect(provider, ask())
        await provider.aclose()
        accepted = server.requests[0].headers["accept-encoding"]
    assert "".join(event.text for event in events if isinstance(event, TextPart)) == "Hello."
    assert accepted == "deflate, gzip"
