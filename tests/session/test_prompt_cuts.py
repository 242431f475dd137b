"""A notice if a local server read much less than it was sent."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from jp_nb.agent.provider import ProviderEvent
from jp_nb.providers.prompt_cuts import count_least_tokens, is_local, watch_prompt
from tests.kit.models import model_event
from tests.support.loopback import LoopbackServer, Reply
from tests.support.sessions import Notebook

LONG = "The quick brown fox jumps over the lazy dog. " * 2_000  # 18,000 words
NOTICE = "⚠ The server read only"


@pytest.fixture
def notebook(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-test-0123456789abcdef")
    notebook = Notebook(bare_folder)
    yield notebook
    notebook.session.close()


def ask(notebook: Notebook, provider: str, text: str, *replies: Reply) -> list[str]:
    """Ask `text` once for each reply; return the notices about a cut prompt."""
    with LoopbackServer(replies) as server:
        notebook.jp(f"config providers.llm.{provider}.base_url={server.url}")
        notebook.shown.clear()
        for _ in replies:
            notebook.ask(text, model=f"{provider.rpartition('.')[2]}/m")
    return [line for text in notebook.shown for line in text.splitlines() if NOTICE in line]


@pytest.mark.parametrize(
    ("provider", "setting"),
    [
        ("ollama", "num_ctx"),
        ("llamacpp", "--ctx-size"),
        ("openai", "num_ctx"),
        ("servers.lab", "--ctx-size"),
    ],
)
def test_cut_prompt_is_reported_once(notebook: Notebook, provider: str, setting: str) -> None:
    cut = Reply(text="Yes.", input_tokens=4_096, cached_tokens=0)
    [line] = ask(notebook, provider, LONG, cut, cut)
    assert "4,096 tokens of a request with at least 10,8" in line
    assert setting in line
    notebook.jp("new")
    assert len(ask(notebook, provider, LONG, cut)) == 1


@pytest.mark.parametrize(
    ("provider", "text", "reply"),
    [
        ("ollama", LONG, Reply(text="Yes.", input_tokens=15_400)),  # a tokenizer 30 % better
        ("ollama", LONG, Reply(text="Yes.", input_tokens=200, cached_tokens=20_000)),
        ("ollama", LONG, Reply(text="Yes.", input_tokens=0, cached_tokens=0)),
        ("ollama", "Short.", Reply(text="Yes.", input_tokens=3, cached_tokens=0)),
        ("ollama", "词" * 20_000, Reply(text="Yes.", input_tokens=9_000, cached_tokens=0)),
        ("ollama", " " * 90_000 + "x", Reply(text="Yes.", input_tokens=900, cached_tokens=0)),
        ("anthropic", LONG, Reply(text="Yes.", input_tokens=40, cached_tokens=0)),
        ("google", LONG, Reply(text="Yes.", input_tokens=40, cached_tokens=0)),
    ],
)
def test_other_counts_are_no_cut(
    notebook: Notebook, provider: str, text: str, reply: Reply
) -> None:
    assert ask(notebook, provider, text, reply) == []


def test_images_do_not_count() -> None:
    image = base64.b64encode(bytes(range(256)) * 2_000)
    message = (
        b'{"role":"user","content":[{"image_url":{"url":"data:image/png;base64,%b"}}]}' % image
    )
    assert count_least_tokens([message]) < 20


def test_addresses_of_local_servers(subtests: pytest.Subtests) -> None:
    rows = {
        "http://localhost:11434/v1": True,
        "http://127.0.0.1:8080": True,
        "http://[::1]:8080": True,
        "http://192.168.1.20:9931": True,
        "http://10.0.0.4": True,
        "http://gpu-box:8000": True,
        "http://nas.local": True,
        "https://api.openai.com/v1": False,
        "https://8.8.8.8": False,
        "http://[2606:4700::1111]": False,
    }
    for url, local in rows.items():
        with subtests.test(url=url):
            assert is_local(url) is local


def test_counts_of_the_last_report_decide() -> None:
    async def collect(*events: ProviderEvent) -> list[ProviderEvent]:
        async def stream() -> AsyncGenerator[ProviderEvent, None]:
            for event in events:
                yield event

        watched = watch_prompt(stream(), sent=9_000, advice="", on_cut=list)
        return [event async for event in watched]

    first = model_event("usage", input_tokens=1)
    last = model_event("usage", input_tokens=9_500)
    end = model_event("finished")
    assert asyncio.run(collect(first, last, end)) == [first, last, end]
    cut = model_event("prompt_cut", 1, 9_000, "")
    assert asyncio.run(collect(last, first, end)) == [last, first, cut, end]
