"""Rows per second of `jp.complete_all` beside a loop with httpx at the same concurrency.

    python -m bench.rows [ROWS] [WORKERS] [LATENCY_MS]
    python -m bench.rows --calls

A server in another process answers each request after the latency. Both clients run in turns, three
times, and the medians are printed with their ratio.

With `--calls`, the calls of functions for each further row are counted and printed as JSON. They do
not depend on the load of the machine, so a test compares them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from types import FrameType
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


class CallCounter:
    """Counts the calls of functions, those of C included, on this thread and on later ones."""

    def __init__(self) -> None:
        self._calls = 0
        threading.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self._calls += 1

    def count(self, function: Callable[[], Any]) -> int:
        """Return the number of calls while `function` runs."""
        before = self._calls
        sys.setprofile(self._note)
        try:
            function()
        finally:
            sys.setprofile(None)
        return self._calls - before


@contextmanager
def running_server(latency: float) -> Iterator[str]:
    """Run the server in another process, and yield its address."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.Process(target=serve, args=(latency, sender), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{receiver.recv()}"
    finally:
        server.terminate()


WAYS = {"httpx": ask_with_httpx, "complete_all": ask_with_jp}


def print_times(count: int, workers: int, latency: int) -> None:
    """Measure both ways in turns, and print their medians."""
    rows = [f"row {number}" for number in range(count)]
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    with running_server(latency / 1000) as url:
        for _ in range(ROUNDS):
            for name, way in WAYS.items():
                seconds[name].append(measure(partial(way, url, rows, workers), count))

    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, median in medians.items():
        print(f"{name:13} {median:8.2f} s  {count / median:9.1f} rows/s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"ratio {medians['complete_all'] / medians['httpx']:.2f}, peak memory {memory:.0f} MB")


def print_calls(few: int, many: int, workers: int) -> None:
    """Print the calls for each row beyond `few`, so without those of the start."""
    counter = CallCounter()
    calls: dict[str, float] = {}
    with running_server(0.005) as url:
        for name, way in WAYS.items():
            way(url, ["warm up"], workers)
            of_few = counter.count(partial(way, url, ["row"] * few, workers))
            of_many = counter.count(partial(way, url, ["row"] * many, workers))
            calls[name] = round((of_many - of_few) / (many - few), 1)
    print(json.dumps(calls))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int, nargs="?", default=2000)
    parser.add_argument("workers", type=int, nargs="?", default=8)
    parser.add_argument("latency", type=int, nargs="?", default=200, help="in milliseconds")
    parser.add_argument("--calls", action="store_true", help="count calls instead of seconds")
    options = parser.parse_args()

    os.environ.setdefault("ANTHROPIC_API_KEY", "bench")
    if options.calls:
        print_calls(20, 80, options.workers)
    else:
        print_times(options.rows, options.workers, options.latency)


if __name__ == "__main__":
    main()
