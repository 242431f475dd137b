"""A model server on 127.0.0.1 that says what a test tells it to.

It speaks Anthropic Messages and OpenAI chat completions, as streams over HTTP/1.1 with
keep-alive, and refuses requests that the real ones would refuse.

    with LoopbackServer([Reply(text="Hello."), Reply(status=529)]) as server:
        provider = create("anthropic", {"base_url": server.url})

Standard library only; the server runs on a thread of its own.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self

from tests.support.provider_wire import (
    PATHS,
    InvalidRequestError,
    Protocol,
    Reply,
    ToolCall,
    error_body,
    reply_events,
    validate,
)

__all__ = ["LoopbackServer", "Received", "Reply", "ToolCall"]


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came. Names of headers are lower-case."""

    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Any

    @property
    def protocol(self) -> Protocol:
        return PATHS.get(self.path.partition("?")[0], "chat")


Script = Iterable[Reply | str] | Callable[[Received], Reply]


class LoopbackServer:
    """Answers requests with `replies` in order; a text stands for a reply of that text.

    Args:
        replies: The replies, or a function that makes one for a request.
        strict: Whether to refuse requests that break the protocol's rules. What was refused is
            in `violations`, and the block that the server was opened for fails at its end.

    Attributes:
        url: The address, without a path.
        requests: All requests so far.
        connections: Number of connections so far.
    """

    def __init__(self, replies: Script, *, strict: bool = True) -> None:
        self.url = ""
        self.requests: list[Received] = []
        self.violations: list[str] = []
        self.connections = 0
        self._strict = strict
        self._reply_to = replies if callable(replies) else _in_order(replies)
        self._loop = asyncio.new_event_loop()
        self._handlers: set[asyncio.Task[None]] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loopback", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *rest: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if exc_type is None and self.violations:
            raise AssertionError(f"requests that a real server would refuse: {self.violations}")

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 26)
        host, port = server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        self._started.set()
        await self._stop.wait()
        server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.connections += 1
        try:
            while (request := await _read(reader)) is not None:
                await self._answer(request, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            self._handlers.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        try:
            if self._strict:
                if request.path.partition("?")[0] not in PATHS:
                    raise InvalidRequestError(f"no such path: {request.path}")
                validate(request.protocol, request.headers, request.body)
        except InvalidRequestError as exc:
            self.violations.append(str(exc))
            reply = Reply(status=400, message=str(exc))
        else:
            reply = self._reply_to(request)
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if reply.status != 200:
            body = error_body(request.protocol, reply.status, reply.message)
            headers = {"content-type": "application/json", "content-length": str(len(body))}
            writer.write(_head(reply.status, {**headers, **reply.headers}) + body)
            await writer.drain()
            return
        await self._stream(reply, request, writer)

    async def _stream(self, reply: Reply, request: Received, writer: asyncio.StreamWriter) -> None:
        headers = {"content-type": reply.content_type, "transfer-encoding": "chunked"}
        writer.write(_head(200, {**headers, **reply.headers}))
        sent = 0
        waiting: list[bytes] = []
        for piece in self._pieces(reply, request):
            if isinstance(piece, float | int):
                writer.writelines(waiting)
                waiting.clear()
                await writer.drain()
                await asyncio.sleep(piece)
                continue
            if reply.cut_after is not None:
                piece = piece[: reply.cut_after - sent]
            sent += len(piece)
            if piece:
                waiting.append(b"%x\r\n%b\r\n" % (len(piece), piece))
            if sent == reply.cut_after:
                writer.writelines(waiting)
                await writer.drain()
                writer.close()
                raise ConnectionAbortedError
        writer.writelines([*waiting, b"0\r\n\r\n"])
        await writer.drain()

    def _pieces(self, reply: Reply, request: Received) -> Iterator[bytes | float]:
        if reply.raw is not None:
            yield from reply.raw
            return
        events = reply_events(reply, request.protocol, request.body, len(self.requests))
        if reply.chunk_bytes is not None:
            body = b"".join(events)
            events = [
                body[start : start + reply.chunk_bytes]
                for start in range(0, len(body), reply.chunk_bytes)
            ]
        for event in events:
            yield event
            if reply.pause:
                yield reply.pause


def _in_order(replies: Iterable[Reply | str]) -> Callable[[Received], Reply]:
    waiting = iter(replies)

    def next_reply(request: Received) -> Reply:
        reply = next(waiting, None)
        if reply is None:
            return Reply(status=400, message="the loopback server has no further reply")
        return Reply(text=reply) if isinstance(reply, str) else reply

    return next_reply


async def _read(reader: asyncio.StreamReader) -> Received | None:
    """The next request on a connection; None at its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    return Received(path=first.split(" ")[1], headers=headers, raw=raw, body=body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Error"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
