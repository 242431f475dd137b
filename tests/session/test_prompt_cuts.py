"""A notice if a local server read much less than it was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.sessions import directive
from tests.support.images import png
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


def test_images_do_not_count(notebook: Notebook) -> None:
    (notebook.folder / "plan.png").write_bytes(png(640, 480, padding=500_000))
    notebook.session.configure(directive("attach", "plan.png"))
    reply = Reply(text="Yes.", input_tokens=40, cached_tokens=0)
    with LoopbackServer([reply]) as server:
        notebook.jp(f"config providers.llm.openai.base_url={server.url}")
        notebook.ask("Look.", model="openai/m")
    assert len(server.requests[0].raw) > 500_000
    assert NOTICE not in "\n".join(notebook.shown)


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://localhost:PORT/v1", True),  # not over the proxy
        ("http://127.0.0.1:PORT", True),
        ("http://[fd00::5]:8080", True),
        ("http://192.168.1.20:9931", True),
        ("http://10.0.0.4", True),
        ("http://gpu-box:8000", True),
        ("http://nas.local", True),
        ("http://api.openai.com/v1", False),
        ("http://8.8.8.8", False),
        ("http://[2606:4700::1111]", False),
    ],
)
def test_only_servers_of_this_network_are_watched(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, url: str, is_local: bool
) -> None:
    reply = Reply(text="Yes.", input_tokens=4_096, cached_tokens=0)
    with LoopbackServer([reply]) as proxy:  # it answers for every address
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        address = url.replace("PORT", proxy.url.rpartition(":")[2])
        notebook.jp(f"config providers.llm.openai.base_url={address}")
        notebook.shown.clear()
        notebook.ask(LONG, model="openai/m")
    assert (NOTICE in "\n".join(notebook.shown)) is is_local


@pytest.mark.parametrize(("reported", "count"), [([1, 9_500], 0), ([9_500, 1], 1)])
def test_counts_of_the_last_report_decide(
    notebook: Notebook, reported: list[int], count: int
) -> None:
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"content": "Hi."}}]}]
    for tokens in reported:
        chunks.append({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": 2}})
    chunks.insert(-1, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    text = "The quick brown fox jumps over the lazy dog. " * 1_500
    assert len(ask(notebook, "ollama", text, Reply(raw=(body.encode(),)))) == count
