"""llama.cpp without a configured address: the server is found at one of its default ports."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import pytest

from tests.kit.providers import new_provider, substitute
from tests.providers.helpers import ask, collect, collect_failure, text_of
from tests.support.loopback import LoopbackServer, Received, Reply
from tests.support.sessions import Notebook

PROBE_SECONDS = 0.2
READY = {"status": "ok"}
LOADING = Reply(status=503, message="Loading model")


@pytest.fixture(autouse=True)
def _no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    substitute(monkeypatch, "addresses that have answered", set())
    substitute(monkeypatch, "addresses that are silent", {})
    substitute(monkeypatch, "seconds to connect to an address", PROBE_SECONDS)


@pytest.fixture
def closed() -> Iterator[str]:
    """Return an address that refuses connections."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


@pytest.fixture
def hanging() -> Iterator[str]:
    """Return an address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def llama(health: Any = READY, answer: str = "Hello.") -> Iterator[LoopbackServer]:
    """Run a server that answers `/health` and requests."""

    def reply(request: Received) -> Any:
        return health if request.path == "/health" else answer

    with LoopbackServer(reply, strict=False) as server:
        yield server


def use(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    substitute(monkeypatch, "addresses of llamacpp", addresses)


def paths(server: LoopbackServer) -> list[str]:
    return [request.path for request in server.requests]


async def test_default_ports_are_the_current_and_the_earlier_one_of_llama_cpp() -> None:
    for port in (9931, 8080):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"a program of this computer uses port {port}")

    provider = new_provider("llamacpp")
    _, error = await collect_failure(provider, ask())
    await provider.aclose()
    path = "/v1/chat/completions"
    assert f"at http://127.0.0.1:9931{path} or http://127.0.0.1:8080." in str(error)


@pytest.mark.parametrize("health", [READY, LOADING], ids=["ready", "loading"])
async def test_first_default_address_that_answers_is_used_and_remembered(
    health: Any, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    with llama(health) as server, llama() as other:
        use(monkeypatch, closed, server.url, other.url)
        for _ in range(2):
            provider = new_provider("llamacpp")
            assert provider.address == f"{server.url}/v1/chat/completions"
            assert text_of(await collect(provider, ask())) == "Hello."
            await provider.aclose()
        assert paths(server) == ["/health", *["/v1/chat/completions"] * 2]
        assert not other.requests


async def test_port_that_hangs_or_belongs_to_another_program_is_skipped_soon(
    monkeypatch: pytest.MonkeyPatch, hanging: str
) -> None:
    with llama(Reply(status=404)) as other, llama() as server:
        use(monkeypatch, hanging, other.url, server.url)
        start = perf_counter()
        address = new_provider("llamacpp").address
        assert perf_counter() - start < 4 * PROBE_SECONDS
    assert address == f"{server.url}/v1/chat/completions"


def test_open_port_without_an_answer_is_better_than_a_closed_one_and_not_asked_each_time(
    monkeypatch: pytest.MonkeyPatch, closed: str, hanging: str
) -> None:
    use(monkeypatch, closed, hanging)
    provider = new_provider("llamacpp")
    assert provider.address.startswith(hanging)
    start = perf_counter()
    assert all(provider.address.startswith(hanging) for _ in range(100))
    assert perf_counter() - start < PROBE_SECONDS


async def test_configured_address_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    with llama() as server:
        use(monkeypatch, server.url)
        provider = new_provider("llamacpp", {"base_url": server.url})
        await collect(provider, ask())
        await provider.aclose()
        assert paths(server) == ["/v1/chat/completions"]


async def test_error_without_a_server_names_each_address(
    monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    use(monkeypatch, closed, "http://127.0.0.1:1")
    provider = new_provider("llamacpp")
    _, error = await collect_failure(provider, ask())
    assert (error.kind, error.retryable) == ("refused", False)
    assert f"runs at {closed}/v1/chat/completions or http://127.0.0.1:1." in str(error)
    assert "`llama-server -m MODEL.gguf`" in str(error)
    await provider.aclose()
    with llama() as server:  # is found at once, although the search has just failed
        use(monkeypatch, closed, server.url)
        provider = new_provider("llamacpp")
        assert text_of(await collect(provider, ask())) == "Hello."
        await provider.aclose()


async def test_server_that_moved_to_the_other_port_is_found_by_the_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with llama() as second:
        with llama() as first:
            use(monkeypatch, first.url, second.url)
            provider = new_provider("llamacpp")
            await collect(provider, ask())
        _, error = await collect_failure(provider, ask())
        assert (error.kind, error.retryable) == ("connect", True)
        assert f"the server of llamacpp at {first.url}/v1/chat/completions has stopped" in str(
            error
        )
        assert text_of(await collect(provider, ask())) == "Hello."
        assert paths(second) == ["/health", "/v1/chat/completions"]
        await provider.aclose()


def test_doctor_says_at_which_address_a_server_answers(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    notebook = Notebook(tmp_path)
    notebook.jp("config assistant.model.id=llamacpp/m")
    use(monkeypatch, closed, "http://127.0.0.1:1")
    nothing = f"no server answers at {closed} or http://127.0.0.1:1"
    assert nothing in notebook.jp("doctor")
    with llama() as server:
        use(monkeypatch, closed, server.url)
        assert f"llamacpp/m at {server.url}, which answers" in notebook.jp("doctor")
    assert f"no server answers at {closed} or {server.url}" in notebook.jp("doctor")
