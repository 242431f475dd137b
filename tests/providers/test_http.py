from __future__ import annotations

import json
import logging
import socket
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.providers import new_provider, substitute
from tests.providers.helpers import ask, collect, collect_failure, list_details, text_of
from tests.support.loopback import LoopbackServer, RawResponse, Reply

HTTPX = "httpx" if find_spec("httpx2") is None else "httpx2"
httpx: Any = import_module(HTTPX)
MAX_ERROR_BYTES = 65_536
KEY = "sk-very-secret-0123456789"
KEYED = [
    ("anthropic", "ANTHROPIC_API_KEY", "x-api-key"),
    ("openai", "OPENAI_API_KEY", "authorization"),
]


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


async def test_httpx2_is_used_if_it_is_installed() -> None:
    provider = new_provider("llamacpp", {"base_url": "http://127.0.0.1:1"})
    _, error = await collect_failure(provider, ask())
    await provider.aclose()
    assert type(error.__cause__).__module__.partition(".")[0] == HTTPX


def test_base_address_may_end_in_the_version(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, str]] = [
        ("anthropic", "https://a.b", "https://a.b/v1/messages"),
        ("anthropic", "https://a.b/", "https://a.b/v1/messages"),
        ("openai", "http://a:1/v1/", "http://a:1/v1/chat/completions"),
        ("openrouter", "https://a.b/api/v1", "https://a.b/api/v1/chat/completions"),
        ("openrouter", "https://a.b/api", "https://a.b/api/v1/chat/completions"),
        (
            "openai",
            "https://a.b/x/v1/chat/completions",
            "https://a.b/x/v1/chat/completions",
        ),
    ]
    for name, base, url in rows:
        with subtests.test(name=name, base=base):
            assert new_provider(name, {"base_url": base}).address == url


@pytest.mark.parametrize(("name", "variable", "header"), KEYED)
async def test_key_is_read_for_each_request(
    name: str, variable: str, header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackServer(["A.", "B."]) as server:
        provider = new_provider(name, {"base_url": server.url})
        await collect(provider, ask())
        monkeypatch.setenv(variable, f" {KEY}\n")
        await collect(provider, ask())
        await provider.aclose()
    assert header not in server.requests[0].headers
    assert server.requests[1].headers[header].removeprefix("Bearer ") == KEY


@pytest.mark.parametrize(("name", "variable", "_header"), KEYED)
async def test_missing_key_is_an_error_that_names_its_variable(
    name: str, variable: str, _header: str
) -> None:
    _, error = await collect_failure(new_provider(name), ask())
    assert f"{variable} is not set" in str(error)
    assert f"providers.llm.{name}.api_key_env" in str(error)
    assert not error.retryable


@pytest.mark.parametrize("key", [f"{KEY}\nx", f"{KEY}ü"])
async def test_malformed_key_is_refused_without_showing_it(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    _, error = await collect_failure(new_provider("anthropic"), ask())
    assert "ANTHROPIC_API_KEY" in str(error)
    assert KEY not in str(error)


async def test_key_is_in_no_error_of_a_broken_connection(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name, variable, _ in KEYED:
        monkeypatch.setenv(variable, KEY)
        for fault in ("cut", "refused"):
            with subtests.test(name=name, fault=fault):
                with LoopbackServer([Reply(text="Hello.", cut_after=300)]) as server:
                    url = "http://127.0.0.1:1" if fault == "refused" else server.url
                    provider = new_provider(name, {"base_url": url})
                    _, error = await collect_failure(provider, ask())
                    await provider.aclose()
                shown = "".join(list_details(error)) + repr(provider) + caplog.text
                assert KEY not in shown


async def test_refused_connection_names_address_and_setting() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        provider = new_provider("llamacpp", {"base_url": url})
        _, error = await collect_failure(provider, ask())
        await provider.aclose()
    assert (error.kind, error.retryable) == ("refused", False)
    assert url in str(error)
    assert "llama-server" in str(error)
    assert "`%jp config providers.llm.llamacpp.base_url=http://HOST:PORT`" in str(error)
    assert isinstance(error.__cause__, httpx.ConnectError)


async def test_error_status_comes_with_advice(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, int, str]] = [
        ("anthropic", 401, "ANTHROPIC_API_KEY"),
        ("openai", 401, "OPENAI_API_KEY for the key is not set"),
        ("llamacpp", 401, "providers.llm.llamacpp.api_key_env"),
        ("openai", 404, "assistant.model.id"),
        ("ollama", 404, "ollama pull"),
    ]
    for name, status, hint in rows:
        with subtests.test(name=name, status=status):
            with LoopbackServer([Reply(status=status, message="the server's words")]) as server:
                provider = new_provider(name, {"base_url": server.url})
                _, error = await collect_failure(provider, ask())
                await provider.aclose()
            assert (error.kind, error.status) == ("other", status)
            assert "the server's words" in str(error)
            assert hint in str(error)


async def test_broken_connection_is_tried_again(subtests: pytest.Subtests) -> None:
    text = "Hello, world, once more."
    for name, cut in [("anthropic", 0), ("openai", 1), ("anthropic", 120), ("openai", 700)]:
        with subtests.test(name=name, cut=cut):
            with LoopbackServer([Reply(text=text, cut_after=cut)]) as server:
                provider = new_provider(name, {"base_url": server.url})
                seen, error = await collect_failure(provider, ask())
                await provider.aclose()
            assert (error.kind, error.retryable) == ("transient", True)
            assert text.startswith(text_of(seen))


async def test_html_page_instead_of_a_stream_is_a_protocol_error() -> None:
    page = Reply(raw=(b"<html>Welcome</html>",), content_type="text/html; charset=utf-8")
    with LoopbackServer([page]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        _, error = await collect_failure(provider, ask())
        await provider.aclose()
    assert "text/html" in str(error)
    assert server.url in str(error)


async def test_error_body_is_read_up_to_a_limit() -> None:
    with LoopbackServer([Reply(status=500, message="x" * 200_000)]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        _, error = await collect_failure(provider, ask())
        await provider.aclose()
    assert len(str(error)) < MAX_ERROR_BYTES


async def test_address_in_the_environment_replaces_the_configured_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with LoopbackServer(["A."]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        provider = new_provider("openai")  # the default address needs a key
        assert text_of(await collect(provider, ask())) == "A."
        await provider.aclose()


async def test_address_with_a_password_in_the_environment_is_refused_without_showing_it(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    for address in ["https://me:s3cret@host/v1", "me:s3cret@host", "http://s3cret@h"]:
        with subtests.test(address=address):
            monkeypatch.setenv("OPENAI_BASE_URL", address)
            provider = new_provider("openai")
            with pytest.raises(
                jp.ConfigError, match="OPENAI_BASE_URL cannot contain a user name"
            ) as caught:
                await collect(provider, ask())
            await provider.aclose()
            assert "s3cret" not in str(caught.value)


async def test_loopback_server_is_reached_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with LoopbackServer(["A."]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        assert text_of(await collect(provider, ask())) == "A."
        await provider.aclose()


async def test_httpx_errors_become_provider_errors(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[tuple[Exception, str]] = [
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
    ]
    for raised, kind in rows:
        with subtests.test(raised=raised, kind=kind):

            async def fail(*args: object, **kwargs: object) -> None:
                raise raised

            monkeypatch.setattr(httpx.AsyncClient, "send", fail)
            provider = new_provider("llamacpp", {"base_url": "http://127.0.0.1:1"})
            _, error = await collect_failure(provider, ask())
            await provider.aclose()
            assert error.kind == kind
            assert error.__cause__ is raised


# --- what to do ------------------------------------------------------------------------------


async def test_context_overflow_comes_with_ways_to_send_less(subtests: pytest.Subtests) -> None:
    message = "the request exceeds the available context size"
    error_object = json.dumps({"error": {"message": message, "code": 400}})
    for name, reply in [
        ("openai", Reply(status=400, message=message)),
        ("llamacpp", Reply(raw=(f"data: {error_object}\n\n".encode(),))),
    ]:
        with subtests.test(name=name):
            with LoopbackServer([reply]) as server:
                provider = new_provider(name, {"base_url": server.url})
                _, error = await collect_failure(provider, ask())
                await provider.aclose()
            assert (error.kind, error.retryable) == ("too_long", False)
            commands = ("%jp compact", "%jp resume", "%jp new", "%jp fork", "%jp config")
            assert all(words in str(error) for words in (message, *commands))
            assert ("--ctx-size" in str(error)) == (name == "llamacpp")


async def test_rate_limit_names_the_limit_the_wait_and_the_settings() -> None:
    headers = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-remaining-requests": "7",
               "retry-after": "35"}  # fmt: skip
    with LoopbackServer([Reply(status=429, message="Slow down.", headers=headers)]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        _, error = await collect_failure(provider, ask())
        await provider.aclose()
    assert "Slow down." in str(error)
    assert "the limit of tokens is reached; retry after 35 s" in str(error)
    assert "requests" not in str(error).partition(". Wait")[0]
    assert "assistant.request.max_retries" in str(error)


async def test_connection_refused_by_another_computer_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    substitute(monkeypatch, "names of this computer", frozenset())
    provider = new_provider("llamacpp", {"base_url": "http://127.0.0.1:9"})
    _, error = await collect_failure(provider, ask())
    await provider.aclose()
    assert (error.kind, error.retryable) == ("connect", True)
    assert "Is the server running?" in str(error)


async def test_key_variable_that_the_user_named_must_be_set(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ["openai", "anthropic", "llamacpp"]:
        with subtests.test(name=name):
            monkeypatch.delenv("MY_KEY", raising=False)
            with LoopbackServer(["Fine."]) as server:
                provider = new_provider(name, {"base_url": server.url, "api_key_env": "MY_KEY"})
                _, error = await collect_failure(provider, ask())
                assert server.requests == []
                assert "the environment variable MY_KEY is not set" in str(error)
                assert not error.retryable
                monkeypatch.setenv("MY_KEY", KEY)
                assert text_of(await collect(provider, ask())) == "Fine."
                await provider.aclose()


async def test_request_on_a_connection_that_the_server_has_closed_is_sent_again_at_once() -> None:
    closed = RawResponse(())
    with LoopbackServer([closed, "A.", closed, "B.", closed, closed, "C."]) as server:
        provider = new_provider("openai", {"base_url": server.url})
        await collect_failure(provider, ask())
        assert len(server.requests) == 1  # not sent again: the connection was new
        assert text_of(await collect(provider, ask())) == "A."
        assert text_of(await collect(provider, ask())) == "B."
        assert (len(server.requests), server.connections) == (4, 3)
        _, error = await collect_failure(provider, ask())  # the new connection ends, too
        assert (error.kind, error.retryable) == ("transient", True)
        assert (len(server.requests), server.connections) == (6, 4)
        assert text_of(await collect(provider, ask())) == "C."
        await provider.aclose()
