"""Rows per second of `jp.complete_all` beside a loop with httpx at the same concurrency.

    python -m bench.rows [ROWS] [WORKERS] [LATENCY_MS]

A server in another process answers each request after the latency. Both clients run in turns, three
times, and the medians are printed with their ratio.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import resource
import statistics
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import httpx

import jp_nb as jp

ROUNDS = 3
MODEL = "anthropic/bench"
EVENTS = "".join(
    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
    for event in (
        {
            "type": "message_start",
            "message": {"role": "assistant", "usage": {"input_tokens": 10, "output_tokens": 1}},
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "yes"},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    )
).encode()
HEAD = (
    f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(EVENTS)}\r\n\r\n"
).encode()


def serve(latency: float, port: Any) -> None:
    """Answer each request after `latency` seconds, until the process is ended."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = head.lower().split(b"\r\n")
                length = next(line for line in fields if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                await asyncio.sleep(latency)
                writer.write(HEAD + EVENTS)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def ask_with_httpx(url: str, rows: list[str], workers: int) -> list[str]:
    """Ask with a plain loop: stream, join the texts."""

    async def ask(client: httpx.AsyncClient, row: str) -> str:
        body = {
            "model": "bench",
            "max_tokens": 4096,
            "stream": True,
            "messages": [{"role": "user", "content": row}],
        }
        text = ""
        async with client.stream("POST", f"{url}/v1/messages", json=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    event = json.loads(line[6:])
                    if event["type"] == "content_block_delta":
                        text += event["delta"]["text"]
        return text

    async def run() -> list[str]:
        limit = asyncio.Semaphore(workers)
        limits = httpx.Limits(max_connections=workers, max_keepalive_connections=workers)
        async with httpx.AsyncClient(limits=limits) as client:

            async def limited(row: str) -> str:
                async with limit:
                    return await ask(client, row)

            return await asyncio.gather(*map(limited, rows))

    return asyncio.run(run())


def ask_with_jp(url: str, rows: list[str], workers: int) -> list[str]:
    """Ask with `jp.complete_all`."""
    cfg = f"providers.llm.anthropic.base_url={url}"
    answers = jp.complete_all(rows, model=MODEL, cfg=cfg, workers=workers, progress=False)
    return [answer.text for answer in answers if isinstance(answer, jp.Completion)]


def measure(ask: Callable[[], list[str]], expected: int) -> float:
    """Return the seconds of `ask`, whose answers are counted."""
    began = perf_counter()
    answers = ask()
    seconds = perf_counter() - began
    assert len(answers) == expected
    return seconds


def main() -> None:
    """Measure and print."""
    given = [int(argument) for argument in sys.argv[1:]]
    count, workers, latency = (*given, *(2000, 8, 200)[len(given) :])
    rows = [f"row {number}" for number in range(count)]
    os.environ.setdefault("ANTHROPIC_API_KEY", "bench")

    receiver, sender = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.Process(target=serve, args=(latency / 1000, sender), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{receiver.recv()}"

    ways: dict[str, Callable[[], list[str]]] = {
        "httpx": lambda: ask_with_httpx(url, rows, workers),
        "complete_all": lambda: ask_with_jp(url, rows, workers),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, ask in ways.items():
            seconds[name].append(measure(ask, count))
    server.terminate()

    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, median in medians.items():
        print(f"{name:13} {median:8.2f} s  {count / median:9.1f} rows/s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"ratio {medians['complete_all'] / medians['httpx']:.2f}, peak memory {memory:.0f} MB")


if __name__ == "__main__":
    main()
