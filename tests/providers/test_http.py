from __future__ import annotations

import json
import logging
import socket
import traceback

import httpx
import pytest

from jp_nb.errors import ConfigError, ProtocolError, ProviderError
from jp_nb.providers import http
from jp_nb.providers.endpoint import Endpoint, join_url
from jp_nb.providers.http import HttpClient
from jp_nb.providers.registry import create
from tests.support.loopback import LoopbackServer, Reply
from tests.support.provider_helpers import ask, collect, failure, text_of

KEY = "sk-very-secret-0123456789"
KEYED = [
    ("anthropic", "ANTHROPIC_API_KEY", "x-api-key"),
    ("openai", "OPENAI_API_KEY", "authorization"),
]


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://a.b", "/v1/messages", "https://a.b/v1/messages"),
        ("https://a.b/", "/v1/messages", "https://a.b/v1/messages"),
        ("http://a:1/v1/", "/v1/chat/completions", "http://a:1/v1/chat/completions"),
        ("https://a.b/api/v1", "/api/v1/chat/completions", "https://a.b/api/v1/chat/completions"),
        ("https://a.b/api", "/api/v1/chat/completions", "https://a.b/api/v1/chat/completions"),
        ("https://a.b/x/v1/chat/completions", "/v1/chat/completions",
         "https://a.b/x/v1/chat/completions"),
    ],
)  # fmt: skip
def test_addresses_with_and_without_the_version(base: str, path: str, url: str) -> None:
    assert join_url(base, path) == url


@pytest.mark.parametrize(("name", "variable", "header"), KEYED)
async def test_the_key_is_read_when_a_request_is_made(
    name: str, variable: str, header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackServer(["A.", "B."]) as server:
        provider = create(name, {"base_url": server.url})
        await collect(provider, ask())
        monkeypatch.setenv(variable, f" {KEY}\n")
        await collect(provider, ask())
        await provider.aclose()
    assert header not in server.requests[0].headers
    assert server.requests[1].headers[header].removeprefix("Bearer ") == KEY


@pytest.mark.parametrize(("name", "variable", "_header"), KEYED)
async def test_a_missing_key_is_named_by_its_variable(
    name: str, variable: str, _header: str
) -> None:
    _, error = await failure(create(name), ask())
    assert f"{variable} is not set" in str(error)
    assert f"providers.llm.{name}.api_key_env" in str(error)
    assert not error.retryable


@pytest.mark.parametrize("key", [f"{KEY}\nx", f"{KEY}ü"])
async def test_a_key_that_cannot_be_one_is_not_shown(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    _, error = await failure(create("anthropic"), ask())
    assert "ANTHROPIC_API_KEY" in str(error)
    assert KEY not in str(error)


@pytest.mark.parametrize(("name", "variable", "_header"), KEYED)
@pytest.mark.parametrize("fault", ["echo", "echo on success", "cut", "refused", "in stream"])
async def test_a_key_never_leaks(
    name: str,
    variable: str,
    _header: str,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv(variable, KEY)
    reply = {
        "echo": Reply(status=401, message=f"bad key: x-api-key: {KEY}"),
        "echo on success": Reply(raw=(f"you sent {KEY}".encode(),), content_type="text/html"),
        "cut": Reply(text="Hello.", cut_after=300),
        "refused": Reply(),
        "in stream": Reply(raw=(b'data: {"error": {"message": "no", "code": 401}}\n\n',)),
    }[fault]
    with LoopbackServer([reply]) as server:
        url = "http://127.0.0.1:1" if fault == "refused" else server.url
        provider = create(name, {"base_url": url})
        _, error = await failure(provider, ask())
        await provider.aclose()
    chain: list[BaseException] = [error]
    while (link := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(link)
    shown = "".join(
        str(traceback.TracebackException.from_exception(link, capture_locals=True).format())
        + "".join(traceback.TracebackException.from_exception(link, capture_locals=True).format())
        + f"{link!r} {link!s} {vars(link)}"
        for link in chain
    )
    assert KEY not in shown
    assert KEY not in caplog.text
    assert KEY not in repr(provider)


async def test_a_refused_connection_names_address_and_setting() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        provider = create("llamacpp", {"base_url": url})
        _, error = await failure(provider, ask())
        await provider.aclose()
    assert (error.kind, error.retryable) == ("refused", False)
    assert url in str(error)
    assert "llama-server" in str(error)
    assert "`%jp config providers.llm.llamacpp.base_url=http://HOST:PORT`" in str(error)
    assert isinstance(error.__cause__, httpx.ConnectError)


@pytest.mark.parametrize(
    ("name", "status", "hint"),
    [
        ("anthropic", 401, "ANTHROPIC_API_KEY"),
        ("llamacpp", 401, "providers.llm.llamacpp.api_key_env"),
        ("openai", 404, "assistant.model.id"),
        ("ollama", 404, "ollama pull"),
    ],
)
async def test_an_error_status_says_what_to_do(name: str, status: int, hint: str) -> None:
    with LoopbackServer([Reply(status=status, message="the server's words")]) as server:
        provider = create(name, {"base_url": server.url})
        _, error = await failure(provider, ask())
        await provider.aclose()
    assert (error.kind, error.status) == ("other", status)
    assert "the server's words" in str(error)
    assert hint in str(error)


async def test_a_rate_limit_keeps_its_hint() -> None:
    with LoopbackServer([Reply(status=429, headers={"Retry-After": "2"})]) as server:
        provider = create("anthropic", {"base_url": server.url})
        _, error = await failure(provider, ask())
        await provider.aclose()
    assert (error.kind, error.status, error.retry_after) == ("rate_limit", 429, 2.0)


async def test_a_connection_that_breaks_is_worth_another_try(subtests: pytest.Subtests) -> None:
    for name in ["anthropic", "openai"]:
        for cut in [0, 1, 120, 700]:
            with subtests.test(cut=cut, name=name):
                with LoopbackServer(
                    [Reply(text="Hello, world, once more.", cut_after=cut)]
                ) as server:
                    provider = create(name, {"base_url": server.url})
                    seen, error = await failure(provider, ask())
                    await provider.aclose()
                assert (error.kind, error.retryable) == ("transient", True)
                assert "Hello, world, once more.".startswith(text_of(seen))


async def test_a_page_where_a_stream_should_be_is_a_protocol_error() -> None:
    page = Reply(raw=(b"<html>Welcome</html>",), content_type="text/html; charset=utf-8")
    with LoopbackServer([page]) as server:
        provider = create("openai", {"base_url": server.url})
        _, error = await failure(provider, ask())
        await provider.aclose()
    assert isinstance(error, ProtocolError)
    assert "text/html" in str(error)
    assert server.url in str(error)


async def test_an_error_body_is_read_up_to_a_limit() -> None:
    with LoopbackServer([Reply(status=500, message="x" * 200_000)]) as server:
        client = HttpClient(Endpoint("p", server.url, "/v1/messages"))
        with pytest.raises(ProviderError) as caught:
            await anext(client.post(b'{"stream": true}'))
        await client.aclose()
        server.violations.clear()
    assert len(str(caught.value)) < http.MAX_ERROR_BYTES


async def test_an_address_in_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackServer(["A."]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        provider = create("openai")  # whose own address would ask for a key
        assert text_of(await collect(provider, ask())) == "A."
        await provider.aclose()


@pytest.mark.parametrize(
    "address", ["https://me:s3cret@host/v1", "me:s3cret@host", "http://s3cret@h"]
)
async def test_an_address_in_the_environment_with_a_password_is_refused_unseen(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    provider = create("openai")
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL holds no user") as caught:
        await collect(provider, ask())
    await provider.aclose()
    assert "s3cret" not in str(caught.value)


async def test_a_server_on_loopback_is_not_asked_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with LoopbackServer(["A."]) as server:
        provider = create("openai", {"base_url": server.url})
        assert text_of(await collect(provider, ask())) == "A."
        await provider.aclose()


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (httpx.ConnectTimeout("t"), "connect"),
        (httpx.ReadTimeout("t"), "timeout"),
        (httpx.PoolTimeout("t"), "timeout"),
        (httpx.ReadError("t"), "transient"),
        (httpx.WriteError("t"), "transient"),
        (httpx.RemoteProtocolError("t"), "transient"),
        (httpx.DecodingError("t"), "transient"),
        (httpx.LocalProtocolError("t"), "other"),
        (httpx.UnsupportedProtocol("t"), "other"),
        (httpx.TooManyRedirects("t"), "other"),
        (httpx.InvalidURL("t"), "other"),
    ],
)
async def test_every_error_of_the_library_is_translated(
    raised: Exception, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*args: object, **kwargs: object) -> None:
        raise raised

    monkeypatch.setattr(httpx.AsyncClient, "send", fail)
    client = HttpClient(Endpoint("p", "http://127.0.0.1:1", "/v1"))
    with pytest.raises(ProviderError) as caught:
        await anext(client.post(b""))
    await client.aclose()
    assert caught.value.kind == kind
    assert caught.value.__cause__ is raised


# --- what to do ------------------------------------------------------------------------------

TOO_LONG = {
    "deepseek": "This model's maximum prompt length is 131072 but the request has 200000 tokens",
    "openrouter": "The input token count (2000000) exceeds the maximum number of tokens allowed",
    "openai": "This model's maximum context length is 8192 tokens",
    "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    "llamacpp": "the request exceeds the available context size",
    "ollama": "input is too long",
}


async def test_an_overflow_says_how_to_send_less(subtests: pytest.Subtests) -> None:
    for in_stream in [False, True]:
        for name in TOO_LONG:
            with subtests.test(name=name, in_stream=in_stream):
                error_object = {"error": {"message": TOO_LONG[name], "code": 400}}
                reply = Reply(status=400, message=TOO_LONG[name])
                if in_stream:
                    reply = Reply(raw=(f"data: {json.dumps(error_object)}\n\n".encode(),))
                with LoopbackServer([reply]) as server:
                    provider = create(name, {"base_url": server.url})
                    _, error = await failure(provider, ask())
                    await provider.aclose()
                assert (error.kind, error.retryable) == ("too_long", False)
                for words in (
                    TOO_LONG[name],
                    "%jp compact",
                    "%jp resume",
                    "%jp new",
                    "%jp fork",
                    "%jp config assistant.model.id=",
                ):
                    assert words in str(error)
                assert ("--ctx-size" in str(error)) == (name == "llamacpp")


async def test_a_rate_limit_says_which_how_long_and_what_to_do() -> None:
    headers = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-remaining-requests": "7",
               "retry-after": "35"}  # fmt: skip
    with LoopbackServer([Reply(status=429, message="Slow down.", headers=headers)]) as server:
        provider = create("openai", {"base_url": server.url})
        _, error = await failure(provider, ask())
        await provider.aclose()
    assert "Slow down." in str(error)
    assert "the limit of tokens is reached; it asks to wait 35 s" in str(error)
    assert "requests" not in str(error).partition(". Wait")[0]
    assert "assistant.request.max_retries" in str(error)


async def test_a_key_that_is_not_set_is_named_where_a_server_wants_one() -> None:
    with LoopbackServer([Reply(status=401, message="no key")]) as server:
        provider = create("openai", {"base_url": server.url})
        _, error = await failure(provider, ask())
        await provider.aclose()
    assert "OPENAI_API_KEY, which holds the key, is not set" in str(error)


async def test_a_refused_connection_elsewhere_is_worth_another_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_LOOPBACK", frozenset())
    provider = create("llamacpp", {"base_url": "http://127.0.0.1:9"})
    _, error = await failure(provider, ask())
    await provider.aclose()
    assert (error.kind, error.retryable) == ("connect", True)
    assert "Is the server running?" in str(error)


@pytest.mark.parametrize("name", ["openai", "anthropic", "llamacpp"])
async def test_a_key_variable_that_somebody_named_has_to_be_set(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with LoopbackServer(["Fine."]) as server:
        provider = create(name, {"base_url": server.url, "api_key_env": "MY_KEY"})
        _, error = await failure(provider, ask())
        assert server.requests == []
        assert "the environment variable MY_KEY is not set" in str(error)
        assert not error.retryable
        monkeypatch.setenv("MY_KEY", KEY)
        assert text_of(await collect(provider, ask())) == "Fine."
        await provider.aclose()
