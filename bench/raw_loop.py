"""Minimal tool loop over httpx, with which the benchmarks compare turns."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

SYSTEM = "You are a helpful assistant."
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


def add(a: int, b: int) -> int:
    return a + b


async def turn(client: httpx.AsyncClient, url: str, request: str) -> str:
    """Stream, run the tools, stream again, until there is a text without tool calls."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": request},
    ]
    while True:
        text: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        body = {"model": "m", "messages": messages, "tools": [ADD], "stream": True}
        async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                message = json.loads(line[6:])
                if "choices" not in message:  # of the Responses or the Interactions API
                    delta = message.get("delta", "")
                    text.append(delta["text"] if isinstance(delta, dict) else delta)
                    continue
                delta = message["choices"][0]["delta"]
                if "content" in delta:
                    text.append(delta["content"])
                for piece in delta.get("tool_calls", ()):
                    function = piece["function"]
                    call = calls.setdefault(piece["index"], {"arguments": ""})
                    call["arguments"] += function["arguments"]
                    if "id" in piece:
                        call.update(id=piece["id"], name=function["name"])
        if not calls:
            return "".join(text)
        messages.append(
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": call["id"],
                        "type": "function",
                        "function": {"name": call["name"], "arguments": call["arguments"]},
                    }
                    for call in calls.values()
                ],
            }
        )
        for call in calls.values():
            result = add(**json.loads(call["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})


class RawLoop:
    """Turns on one event loop and one client."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._client = httpx.AsyncClient(timeout=60, verify=False)

    def ask(self, url: str, request: str) -> str:
        return self._runner.run(turn(self._client, url, request))

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
