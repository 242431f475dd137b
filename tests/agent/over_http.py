"""A turn whose model answers over a loopback server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.kit.turn_bench import TurnBench


def use_http_provider(bench: TurnBench, provider: Any, name: str) -> None:
    """Let `provider` be the model of `bench`."""
    resolve = bench.loop.resolve

    async def resolve_with_it() -> Any:
        return replace(await resolve(), provider=provider, provider_name=name)

    bench.loop.resolve = resolve_with_it


def sent_results(body: dict[str, Any], protocol: str) -> list[tuple[str, str]]:
    """Ids and contents of the results in a request."""
    if protocol == "openai":
        results = [m for m in body["messages"] if m["role"] == "tool"]
        return [(m["tool_call_id"], m["content"]) for m in results]
    blocks = [b for m in body["messages"] for b in m["content"] if b["type"] == "tool_result"]
    return [(b["tool_use_id"], b["content"]) for b in blocks]


def sent_calls(body: dict[str, Any], protocol: str) -> list[tuple[str, dict[str, Any]]]:
    """Ids and arguments of the calls in a request."""
    if protocol == "openai":
        calls = [c for m in body["messages"] for c in m.get("tool_calls", ())]
        return [(c["id"], json.loads(c["function"]["arguments"])) for c in calls]
    blocks = [b for m in body["messages"] for b in m["content"] if b["type"] == "tool_use"]
    return [(b["id"], b["input"]) for b in blocks]
