"""Requests to npm's `@copilotkit/aimock`, an independent mock server of both protocols."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.kinds import is_kind
from tests.kit.models import model_event
from tests.kit.providers import new_provider
from tests.providers.helpers import (
    WEATHER,
    answer,
    ask,
    called,
    collect,
    collect_failure,
    result,
    text_of,
    user,
)

PACKAGE = "@copilotkit/aimock"
INSTALLED = os.environ.get("JP_NB_AIMOCK_DIR")
pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason=f"{PACKAGE} needs Node.js"),
    pytest.mark.skipif(
        not INSTALLED and os.environ.get("JP_NB_AIMOCK") != "1",
        reason=f"set JP_NB_AIMOCK=1 to install {PACKAGE}, or JP_NB_AIMOCK_DIR to where it is",
    ),
]
CALLS = [
    {"name": "weather", "arguments": {"city": "Delft"}},
    {"name": "weather", "arguments": {"city": "Brügge"}},
]
FIXTURES = {
    "fixtures": [
        {"match": {"userMessage": "greet"}, "response": {"content": "Grüß dich — 🌦!"}},
        {
            "match": {"userMessage": "weather", "hasToolResult": True},
            "response": {"content": "Sun in both."},
        },
        {
            "match": {"userMessage": "weather"},
            "response": {"content": "Let me look.", "toolCalls": CALLS},
        },
        {
            "match": {"userMessage": "busy"},
            "response": {
                "error": {"message": "slow down", "type": "rate_limit_error"},
                "status": 429,
            },
        },
    ]
}  # fmt: skip


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with `FIXTURES`."""
    folder = Path(INSTALLED) if INSTALLED else tmp_path_factory.mktemp("aimock")
    if not INSTALLED:
        command = ["npm", "install", "--no-audit", "--no-fund", PACKAGE]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    fixtures = tmp_path_factory.mktemp("fixtures") / "jp_nb.json"
    fixtures.write_text(json.dumps(FIXTURES))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = folder / "node_modules" / ".bin" / "llmock"
    options = ["--port", str(port), "--fixtures", str(fixtures), "--strict", "--chunk-size", "3"]
    with subprocess.Popen(
        [str(program), *options, "--log-level", "silent"], stdout=subprocess.DEVNULL
    ) as process:
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


@pytest.mark.parametrize("name", ["anthropic", "openai"])
async def test_text(aimock: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "mock")
    monkeypatch.setenv("OPENAI_API_KEY", "mock")
    provider = new_provider(name, {"base_url": aimock})
    seen = await collect(provider, ask(user("greet"), system=("Be kind.",)))
    await provider.aclose()
    assert text_of(seen) == "Grüß dich — 🌦!"
    assert seen[-1] == model_event("finished")


@pytest.mark.parametrize("name", ["anthropic", "openai"])
async def test_tool_loop(aimock: str, name: str) -> None:
    provider = new_provider(name, {"base_url": aimock})
    request = ask(user("weather"), tools=(WEATHER,), provider=name)
    seen = await collect(provider, request)
    calls = [event for event in seen if is_kind(event, "call_start")]
    assert [call.name for call in calls] == ["weather", "weather"]
    flushed = {event.index for event in seen if is_kind(event, "flush")}
    assert {call.index for call in calls} <= flushed
    request.context.add(answer(text_of(seen)), name)
    for call in calls:
        request.context.add(called(call.id, city="x"), name)
    for call in calls:
        request.context.add(result(call.id, "sun"), name)
    assert text_of(await collect(provider, request)) == "Sun in both."
    await provider.aclose()


@pytest.mark.parametrize("name", ["anthropic", "openai"])
async def test_rate_limit(aimock: str, name: str) -> None:
    provider = new_provider(name, {"base_url": aimock})
    _, error = await collect_failure(provider, ask(user("busy")))
    await provider.aclose()
    assert (error.kind, error.status) == ("rate_limit", 429)
    assert error.retry_after is not None
