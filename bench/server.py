"""Server with several protocols that replies with prepared bytes, as fast as possible.

It runs in its own process, so that client and server do not share an interpreter lock. It prints
its address, and stops when its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter


def _chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}
    return f"data: {json.dumps(body)}\n\n".encode()


def _call(index: int, number: int) -> list[bytes]:
    function = {"name": "add", "arguments": ""}
    start = {"index": index, "id": f"call_{number}_{index}", "type": "function"}
    return [
        _chunk({"tool_calls": [{**start, "function": function}]}),
        _chunk({"tool_calls": [{"index": index, "function": {"arguments": '{"a": 1, '}}]}),
        _chunk({"tool_calls": [{"index": index, "function": {"arguments": '"b": 2}'}}]}),
    ]


def _calls(number: int, count: int) -> bytes:
    calls = [piece for index in range(count) for piece in _call(index, number)]
    return b"".join([*calls, _chunk({}, "tool_calls"), b"data: [DONE]\n\n"])


def _text(deltas: int) -> bytes:
    pieces = [_chunk({"content": "word "}) for _ in range(deltas)]
    return b"".join([*pieces, _chunk({}, "stop"), b"data: [DONE]\n\n"])


def _responses_text(deltas: int) -> bytes:
    place = {"output_index": 0, "content_index": 0, "item_id": "m"}
    delta = {"type": "response.output_text.delta", **place, "delta": "word "}
    part = {"type": "output_text", "text": "word " * deltas, "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    end = {"type": "response.completed", "response": {"status": "completed", "output": [item]}}
    pieces = [json.dumps(one) for one in (*[delta] * deltas, done, end)]
    return "".join(f"data: {piece}\n\n" for piece in pieces).encode()


def _interactions_text(deltas: int) -> bytes:
    start = {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}
    text = {"type": "text", "text": "word "}
    delta = {"event_type": "step.delta", "index": 0, "delta": text}
    stop = {"event_type": "step.stop", "index": 0}
    end = {"event_type": "interaction.completed", "interaction": {"status": "completed"}}
    pieces = [json.dumps(one) for one in (start, *[delta] * deltas, stop, end)]
    return "".join(f"data: {piece}\n\n" for piece in pieces).encode()


def reply(scenario: str, number: int) -> bytes:
    """Reply `number` (from 0) of a scenario: `cycles-N-P` (P calls each) or `text-N`.

    `responses-N` is a text in the Responses API, `interactions-N` one in Google's Interactions API.
    `chunks-N` is `text-N` with a chunk of HTTP for each delta.
    """
    kind, *counts = scenario.split("-")
    if kind == "chunks":
        pieces = _text(int(counts[0])).split(b"\n\n")[:-1]
        chunks = [b"%x\r\n%b\n\n\r\n" % (len(piece) + 2, piece) for piece in pieces]
        return b"".join([*chunks, b"0\r\n\r\n"])
    if kind == "interactions":
        return _interactions_text(int(counts[0]))
    if kind == "responses":
        return _responses_text(int(counts[0]))
    if kind == "text":
        return _text(int(counts[0]))
    cycles, parallel = map(int, counts)
    place = number % (cycles + 1)
    return _text(3) if place == cycles else _calls(number, parallel)


async def _serve() -> None:
    seen: Counter[str] = Counter()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.decode().split("\r\n")
            scenario = lines[0].split("/")[1]
            length = next(int(x[15:]) for x in lines if x.lower().startswith("content-length:"))
            await reader.readexactly(length)
            body = reply(scenario, seen[scenario])
            seen[scenario] += 1
            size = b"content-length: %d" % len(body)
            if scenario.startswith("chunks"):
                size = b"transfer-encoding: chunked"
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n%b\r\n\r\n%b" % (size, body)
            )
            await writer.drain()

    async def forgiving(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await connected(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(forgiving, "127.0.0.1", 0, limit=1 << 24)
    host, port = server.sockets[0].getsockname()[:2]
    print(f"http://{host}:{port}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
