"""A model server on 127.0.0.1 whose responses a test decides.

It speaks Anthropic Messages, OpenAI chat completions, OpenAI Responses
(`loopback_responses.py`), and Gemini (`loopback_google.py`), as streams over HTTP/1.1 with
keep-alive, and refuses requests that the real servers would refuse.

    with LoopbackServer([Reply(text="Hello."), Reply(status=529)]) as server:
        provider = create("anthropic", {"base_url": server.url})

The module imports nothing of the package: the official SDKs check it (`test_loopback.py`).
The server runs on its own thread.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import zip_longest
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from tests.support import loopback_google, loopback_responses

Json = dict[str, Any]
Protocol = Literal["anthropic", "chat", "responses", "interactions", "generate"]
PATHS: Mapping[str, Protocol] = {
    "/v1/messages": "anthropic",
    "/v1/chat/completions": "chat",
    "/api/v1/chat/completions": "chat",
    "/openai/v1/chat/completions": "chat",
    "/chat/completions": "chat",
    "/v1/interactions": "interactions",
    "/v1beta/interactions": "interactions",
    "/v1/responses": "responses",
    "/api/v1/responses": "responses",
}
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
"""The head of a response that ends with its connection."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call in a reply. Arguments given as a text are sent unchanged."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None

    @property
    def arguments_text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class Reply:
    """One response of the server.

    Attributes:
        signature: Of the reasoning (Anthropic), or its encrypted content (Responses).
        interleave: Whether fragments of parallel calls alternate (chat).
        finish: The protocol's own finish reason; None for the one that fits.
        delta_chars: Characters in one delta.
        delay: Seconds before the response begins.
        pause: Seconds between two events.
        chunk_bytes: Size of the pieces in which the body is written; None: one per event.
        cut_after: Bytes of the body after which the connection breaks.
        status: Other than 200: an error with `message` and `headers`.
        raw: The body, instead of all of the above; numbers are pauses in seconds.
    """

    text: str = ""
    reasoning: str = ""
    signature: str = "c2lnbmF0dXJl"
    tool_calls: tuple[ToolCall, ...] = ()
    interleave: bool = False
    finish: str | None = None
    input_tokens: int = 11
    output_tokens: int = 7
    cached_tokens: int = 3
    delta_chars: int = 8
    delay: float = 0.0
    pause: float = 0.0
    chunk_bytes: int | None = None
    cut_after: int | None = None
    status: int = 200
    message: str = "out of order"
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"
    raw: tuple[bytes | float, ...] | None = None


@dataclass(frozen=True, slots=True)
class RawResponse:
    """A response as bytes, its status line and headers included; then the connection ends.

    Attributes:
        pieces: The bytes, written one after the other; numbers are pauses in seconds.
    """

    pieces: Iterable[bytes | float] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Received:
    """A request. Names of headers are in lower case; `target` is the path with the query."""

    target: str
    headers: Mapping[str, str]
    raw: bytes
    body: Any

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def protocol(self) -> Protocol:
        if self.path.endswith(loopback_google.GENERATE):
            return "generate"
        return PATHS.get(self.path, "chat")


Answer = Any
"""A `Reply`, a `RawResponse`, a text to stream, the status of an error, or JSON; bytes are HTML."""


class _NotedConnection(asyncio.StreamReaderProtocol):
    """A connection whose transport is in a list from its first moment on."""

    def __init__(self, transports: list[asyncio.Transport], *args: Any) -> None:
        reader, on_connection, loop = args
        super().__init__(reader, on_connection, loop)
        self._transports = transports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transports.append(transport)
        super().connection_made(transport)


class LoopbackServer:
    """Answers requests with `replies` in order, or with the function `replies`.

    Args:
        replies: The answers, or a function that makes the answer to a request.
        paths: Answers by path, or functions that make them, instead of `replies`; error 404 for
            any other path.
        strict: Whether to refuse requests that break the protocol's rules. Their faults are in
            `violations`, and the block that the server was opened for fails at its end.

    Attributes:
        url: The address, without a path.
        requests: All requests so far.
        connections: Number of connections so far.
    """

    def __init__(
        self,
        replies: Iterable[Answer] | Callable[[Received], Answer] = (),
        *,
        paths: Mapping[str, Answer | Callable[[Received], Answer]] | None = None,
        strict: bool = True,
    ) -> None:
        self.url = ""
        self.requests: list[Received] = []
        self.violations: list[str] = []
        self.connections = 0
        self._strict = strict and paths is None
        self._answer_to = _by_path(paths) if paths is not None else _in_order(replies)
        self._loop = asyncio.new_event_loop()
        self._handlers: set[asyncio.Task[None]] = set()
        self._transports: list[asyncio.Transport] = []
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
        server = await self._loop.create_server(self._make_protocol, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        self._started.set()
        await self._stop.wait()

        # A connection needs an open server until it has a transport, or nothing closes its socket.
        self._loop.remove_reader(server.sockets[0].fileno())
        await asyncio.sleep(0)
        server.close()

        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

        # A connection that was accepted last has no handler yet that would close it.
        await asyncio.sleep(0)
        for transport in self._transports:
            transport.abort()

    def _make_protocol(self) -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader(limit=1 << 26, loop=self._loop)
        return _NotedConnection(self._transports, reader, self._connected, self._loop)

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
                validate(request)
        except InvalidRequestError as exc:
            self.violations.append(str(exc))
            answer: Answer = Reply(status=400, message=str(exc))
        else:
            answer = self._answer_to(request)
        if isinstance(answer, RawResponse):
            await _send(writer, answer.pieces)
            raise ConnectionAbortedError
        reply = _as_reply(answer, request)
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if reply.status != 200:
            body = error_body(request.protocol, reply.status, reply.message)
            headers = {"content-type": "application/json", "content-length": str(len(body))}
            await _send(writer, [_head(reply.status, {**headers, **reply.headers}) + body])
            return
        headers = {"content-type": reply.content_type, "transfer-encoding": "chunked"}
        await _send(writer, [_head(200, {**headers, **reply.headers})])
        await _send(writer, self._chunks(reply, request))
        if reply.cut_after is not None:
            raise ConnectionAbortedError
        await _send(writer, [b"0\r\n\r\n"])

    def _chunks(self, reply: Reply, request: Received) -> Iterator[bytes | float]:
        left = float("inf") if reply.cut_after is None else reply.cut_after
        for piece in self._pieces(reply, request):
            if isinstance(piece, float | int):
                yield piece
                continue
            kept = piece if left >= len(piece) else piece[: int(left)]
            left -= len(kept)
            if kept:
                yield b"%x\r\n%b\r\n" % (len(kept), kept)
            if not left:
                return

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


def _in_order(
    replies: Iterable[Answer] | Callable[[Received], Answer],
) -> Callable[[Received], Answer]:
    if callable(replies):
        return replies
    waiting = iter(replies)
    end = Reply(status=400, message="the loopback server has no further reply")
    return lambda _: next(waiting, end)


def _by_path(paths: Mapping[str, Answer]) -> Callable[[Received], Answer]:
    def answer_to(request: Received) -> Answer:
        answer = paths.get(request.path, 404)
        return answer(request) if callable(answer) else answer

    return answer_to


def _as_reply(answer: Answer, request: Received) -> Reply:
    match answer:
        case Reply():
            return answer
        case str():
            return Reply(text=answer)
        case int():
            return Reply(status=answer, message=f"no {dict(request.headers)}")
        case bytes():
            return Reply(raw=(answer,), content_type="text/html")
    return Reply(raw=(json.dumps(answer).encode(),), content_type="application/json")


async def _send(writer: asyncio.StreamWriter, pieces: Iterable[bytes | float]) -> None:
    for piece in pieces:
        if isinstance(piece, bytes):
            writer.write(piece)
            await writer.drain()
        else:
            await asyncio.sleep(piece)


async def _read(reader: asyncio.StreamReader) -> Received | None:
    """Return the next request on a connection; None at its end."""
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
    return Received(target=first.split(" ")[1], headers=headers, raw=raw, body=body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Error"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


# --- responses ---------------------------------------------------------------------------------


def reply_events(reply: Reply, protocol: Protocol, request: Json, number: int) -> list[bytes]:
    """Return the events of the body of `reply`, the response to request `number`."""
    if protocol == "anthropic":
        return [_named(event) for event in _anthropic(reply, request["model"], number)]
    if protocol == "generate":
        return [*map(_data, loopback_google.generate_chunks(reply, number))]
    if protocol == "interactions":
        events = loopback_google.interaction_events(reply, request["model"], number)
        return [*map(loopback_google.named, events)]
    if protocol == "responses":
        events = loopback_responses.iter_events(reply, request["model"], number)
        return [_named(event) for event in events]
    usage = bool((request.get("stream_options") or {}).get("include_usage"))
    chunks = _chat(reply, request["model"], number, usage=usage)
    return [*(_data(chunk) for chunk in chunks), b"data: [DONE]\n\n"]


def error_body(protocol: Protocol, status: int, message: str) -> bytes:
    """Return the body of an error response of the protocol."""
    if protocol in ("interactions", "generate"):
        return json.dumps(loopback_google.error_body(status, message)).encode()
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kinds |= {500: "api_error", 529: "overloaded_error"}
    error: Json = {"type": kinds.get(status, "invalid_request_error"), "message": message}
    if protocol == "anthropic":
        return json.dumps({"type": "error", "error": error}).encode()
    return json.dumps({"error": {**error, "param": None, "code": None}}).encode()


def _data(value: Json) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def _named(value: Json) -> bytes:
    return f"event: {value['type']}\n".encode() + _data(value)


def _deltas(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _anthropic(reply: Reply, model: str, number: int) -> Iterator[Json]:
    usage = {
        "input_tokens": reply.input_tokens - reply.cached_tokens,
        "cache_read_input_tokens": reply.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": 1,
    }
    message: Json = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": model,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    blocks: list[tuple[Json, list[Json]]] = []
    if reply.reasoning:
        deltas = [
            {"type": "thinking_delta", "thinking": text}
            for text in _deltas(reply.reasoning, reply.delta_chars)
        ]
        signature = {"type": "signature_delta", "signature": reply.signature}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]))
    if reply.text:
        deltas = [
            {"type": "text_delta", "text": text} for text in _deltas(reply.text, reply.delta_chars)
        ]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for place, call in enumerate(reply.tool_calls):
        start = {
            "type": "tool_use",
            "id": call.id or f"toolu_{number}_{place}",
            "name": call.name,
            "input": {},
        }
        pieces = ["", *_deltas(call.arguments_text, reply.delta_chars)]
        blocks.append((start, [{"type": "input_json_delta", "partial_json": p} for p in pieces]))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = reply.finish or ("tool_use" if reply.tool_calls else "end_turn")
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": reply.output_tokens},
    }
    yield {"type": "message_stop"}


def _chat(reply: Reply, model: str, number: int, *, usage: bool) -> Iterator[Json]:
    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }

    yield chunk({"role": "assistant", "content": ""})
    for text in _deltas(reply.reasoning, reply.delta_chars):
        yield chunk({"reasoning_content": text})
    for text in _deltas(reply.text, reply.delta_chars):
        yield chunk({"content": text})
    calls = [
        _call_deltas(call, index, number, reply.delta_chars)
        for index, call in enumerate(reply.tool_calls)
    ]
    if reply.interleave:
        for together in zip_longest(*calls):
            yield chunk({"tool_calls": [delta for delta in together if delta is not None]})
    else:
        for delta in (delta for call in calls for delta in call):
            yield chunk({"tool_calls": [delta]})
    yield chunk({}, reply.finish or ("tool_calls" if reply.tool_calls else "stop"))
    if usage:
        total = reply.input_tokens + reply.output_tokens
        counts = {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": total,
            "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        }
        yield {**chunk({}), "choices": [], "usage": counts}


def _call_deltas(call: ToolCall, index: int, number: int, size: int) -> list[Json]:
    start: Json = {
        "index": index,
        "id": f"call_{number}_{index}" if call.id is None else call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    pieces = _deltas(call.arguments_text, size)
    return [start, *({"index": index, "function": {"arguments": piece}} for piece in pieces)]


# --- what is accepted --------------------------------------------------------------------------


# --- rules for requests --------------------------------------------------------------------------


class InvalidRequestError(Exception):
    """The request does not match the documentation of the API."""


def validate(request: Received) -> None:
    """Validate a request.

    Raises:
        InvalidRequestError: At the first problem. The message has its path.
    """
    body = request.body
    is_known = request.path in PATHS or request.protocol == "generate"
    _require(is_known, f"no such path: {request.target}")
    _require(isinstance(body, dict), "the body is not an object")
    is_stream = request.protocol == "generate" or body.get("stream") is True
    _require(is_stream, "stream: only streams are served here")
    if request.protocol == "anthropic":
        _require("anthropic-version" in request.headers, "anthropic-version: header required")
        _validate_anthropic(body)
    elif request.protocol in ("interactions", "generate"):
        fault = loopback_google.find_fault(request.path, request.query, request.headers, body)
        _require(not fault, fault)
    elif request.protocol == "responses":
        fault = loopback_responses.find_fault(body)
        _require(not fault, fault)
    else:
        _validate_chat(body)


_ANTHROPIC_FIELDS = [
    "stream", "system", "tools", "tool_choice", "thinking", "output_config", "temperature",
    "top_p", "top_k", "stop_sequences", "metadata", "cache_control", "context_management",
    "service_tier", "diagnostics",
]  # fmt: skip
_ANTHROPIC_BLOCKS: Mapping[str, Mapping[str, tuple[list[str], list[str]]]] = {
    "user": {
        "text": (["text"], ["cache_control"]),
        "document": (["source"], ["title", "context", "citations", "cache_control"]),
        "image": (["source"], ["cache_control"]),
        "tool_result": (["tool_use_id"], ["content", "is_error", "cache_control"]),
    },
    "assistant": {
        "text": (["text"], ["cache_control"]),
        "thinking": (["thinking", "signature"], []),
        "redacted_thinking": (["data"], []),
        "tool_use": (["id", "name", "input"], ["cache_control"]),
    },
    "system": {
        "text": (["text"], ["cache_control"]),
        "tool_addition": (["tool"], ["cache_control"]),
        "tool_removal": (["tool"], ["cache_control"]),
    },
}


def _validate_anthropic(body: Json) -> None:
    _fields(body, ["model", "max_tokens", "messages"], _ANTHROPIC_FIELDS, "")
    _require(isinstance(body["max_tokens"], int) and body["max_tokens"] > 0, "max_tokens: > 0")
    markers = json.dumps(body).count('"cache_control"')
    _require(markers <= 4, f"cache_control: {markers} markers, at most 4")
    tools = body.get("tools", [])
    for number, tool in enumerate(tools):
        place = f"tools[{number}]"
        _fields(tool, ["name", "input_schema"], ["description", "cache_control", "strict"], place)
        _require(tool["input_schema"].get("type") == "object", f"{place}.input_schema: object")
    choice = body.get("tool_choice", {"type": "auto"})
    _require("tool_choice" not in body or bool(tools), "tool_choice: without tools")
    thinking = body.get("thinking", {"type": "disabled"})
    if thinking["type"] != "disabled":
        _require(choice["type"] in ("auto", "none"), "tool_choice: forced while thinking")
        _require(body.get("temperature", 1) == 1, "temperature: not 1 while thinking")
        _require("top_k" not in body, "top_k: while thinking")
    if thinking["type"] == "enabled":
        _require(1024 <= thinking["budget_tokens"] < body["max_tokens"], "budget_tokens")
    _texts(body.get("system", []), "system")
    _validate_anthropic_messages(body["messages"])


_ROLES_AFTER = {
    "user": ("user", "assistant", "system"),
    "assistant": ("user",),
    "system": ("assistant",),  # a system message follows a user message
}


def _validate_anthropic_messages(messages: Sequence[Json]) -> None:
    _require(bool(messages), "messages: empty")
    asked: list[str] = []
    seen: set[str] = set()
    before: Json = {"role": "assistant", "content": ()}
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        _fields(message, ["role", "content"], [], place)
        role = message["role"]
        _require(role in _ROLES_AFTER[before["role"]], f"{place}: roles must alternate")
        # The real server merges adjacent messages of one role. Only attachments, and a note that
        # they were removed, need that.
        merged = role == before["role"] == "user"
        _require(not merged or _attached(before) or _attached(message), f"{place}: two users")
        before = message
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        _require(bool(content), f"{place}.content: empty")
        for block in content:
            _require(block["type"] in _ANTHROPIC_BLOCKS[role], f"{place}: {block['type']} block")
            required, optional = _ANTHROPIC_BLOCKS[role][block["type"]]
            _fields(block, ["type", *required], optional, place)
            if "source" in block:
                _validate_source(block, place)
        _texts([block for block in content if block["type"] == "text"], place)
        kinds = [block["type"] for block in content]
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if role != "system":
            _require(sorted(results) == sorted(asked), f"{place}: results {results}, asked {asked}")
        _require("tool_result" not in kinds[len(results) :], f"{place}: results come first")
        asked = [block["id"] for block in content if block["type"] == "tool_use"]
        for name in (block["name"] for block in content if block["type"] == "tool_use"):
            is_name = re.fullmatch("[a-zA-Z0-9_-]{1,128}", name) is not None
            _require(is_name, f"{place}: tool_use.name: {name[:200]!r}")
        for id_ in asked:
            _require(re.fullmatch("[a-zA-Z0-9_-]+", id_) is not None, f"{place}: id {id_!r}")
            _require(id_ not in seen, f"{place}: tool_use ids must be unique: {id_}")
            seen.add(id_)
    _require(not asked, "messages: the last calls have no results")


_IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"]
_ANTHROPIC_SOURCES: Mapping[tuple[str, str], list[str]] = {
    ("document", "text"): ["text/plain"],
    ("document", "base64"): ["application/pdf"],
    ("image", "base64"): _IMAGES,
}


def _attached(message: Json) -> bool:
    blocks = [block for block in message.get("content", ()) if isinstance(block, dict)]
    removed = "The user removed these attachments: "
    return any(
        block.get("type") in ("document", "image") or block.get("text", "").startswith(removed)
        for block in blocks
    )


def _validate_source(block: Json, place: str) -> None:
    source = block["source"]
    _fields(source, ["type", "media_type", "data"], [], f"{place}.source")
    kind = (block["type"], source["type"])
    _require(kind in _ANTHROPIC_SOURCES, f"{place}.source: {kind}")
    _require(source["media_type"] in _ANTHROPIC_SOURCES[kind], f"{place}.source.media_type")
    _require(bool(source["data"].strip()), f"{place}.source.data: empty")
    _require(1 <= len(block.get("title", "-")) <= 500, f"{place}.title: 1 to 500 characters")
    if source["type"] == "base64":
        _validate_base64(source["data"], place)


def _validate_base64(data: str, place: str) -> None:
    try:
        empty = not base64.b64decode(data, validate=True)
    except ValueError as exc:
        raise InvalidRequestError(f"{place}: not base64") from exc
    _require(not empty, f"{place}: empty base64")


_CHAT_FIELDS = [
    "stream", "stream_options", "tools", "tool_choice", "response_format", "max_tokens",
    "max_completion_tokens", "temperature", "top_p", "top_k", "stop", "reasoning_effort",
    "reasoning", "reasoning_format", "thinking", "chat_template_kwargs", "provider", "seed",
    "random_seed", "verbosity", "min_p", "n", "user",
]  # fmt: skip
_CHAT_MESSAGES: Mapping[str, tuple[list[str], list[str]]] = {
    "system": (["content"], []),
    "user": (["content"], []),
    "assistant": (
        ["content"],
        ["tool_calls", "reasoning", "reasoning_content", "reasoning_details"],
    ),
    "tool": (["content", "tool_call_id"], []),
}


def _validate_chat(body: Json) -> None:
    _fields(body, ["model", "messages"], _CHAT_FIELDS, "")
    tools = body.get("tools", [])
    for number, tool in enumerate(tools):
        place = f"tools[{number}]"
        _fields(tool, ["type", "function"], [], place)
        _fields(tool["function"], ["name"], ["description", "parameters", "strict"], place)
    _require("tools" not in body or bool(tools), "tools: empty")
    _require("tool_choice" not in body or bool(tools), "tool_choice: without tools")
    messages = body["messages"]
    _require(bool(messages), "messages: empty")
    waiting: set[str] = set()
    seen: set[str] = set()
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        role = message.get("role")
        _require(role in _CHAT_MESSAGES, f"{place}: role {role!r}")
        required, optional = _CHAT_MESSAGES[role]
        _fields(message, ["role", *required], optional, place)
        if role == "tool":
            _require(message["tool_call_id"] in waiting, f"{place}: no such call is waiting")
            waiting.discard(message["tool_call_id"])
            continue
        _require(not waiting, f"{place}: calls without results: {sorted(waiting)}")
        if isinstance(message["content"], list):
            _require(role in ("system", "user"), f"{place}.content: parts")
            for part in message["content"]:
                _validate_part(part, place)
        calls = message.get("tool_calls")
        _require(calls != [], f"{place}.tool_calls: empty")
        _require(bool(message["content"] or len(message) > 2), f"{place}.content: empty")
        for call in calls or []:
            _fields(call, ["id", "type", "function"], [], place)
            _fields(call["function"], ["name", "arguments"], [], place)
            name = call["function"]["name"]
            id_ = call["id"]
            is_name = re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) is not None
            _require(is_name, f"{place}.tool_calls: name: {name[:200]!r}")
            _require(1 <= len(id_) <= 64 and id_.isprintable(), f"{place}.tool_calls: id: {id_!r}")
            arguments = json.loads(call["function"]["arguments"])
            _require(isinstance(arguments, dict), f"{place}: arguments are no object")
            _require(call["id"] not in seen, f"{place}: ids must be unique: {call['id']}")
            waiting.add(call["id"])
            seen.add(call["id"])
    _require(not waiting, "messages: the last calls have no results")


def _validate_part(part: Json, place: str) -> None:
    kind = part["type"]
    if kind == "text":
        _fields(part, ["type", "text"], ["cache_control"], place)
        _texts([part], place)
        return
    _require(kind in ("image_url", "file"), f"{place}: {kind} part")
    _fields(part, ["type", kind], [], place)
    if kind == "image_url":
        _fields(part[kind], ["url"], ["detail"], place)
        url = part[kind]["url"]
        media_types = _IMAGES
    else:
        _fields(part[kind], ["filename", "file_data"], [], place)
        url = part[kind]["file_data"]
        media_types = ["application/pdf"]
    found = re.fullmatch("data:([^;,]+);base64,(.*)", url)
    _require(found is not None and found[1] in media_types, f"{place}: {kind} {url[:30]!r}")
    assert found is not None
    _validate_base64(found[2], place)


def _fields(value: Json, required: Sequence[str], optional: Sequence[str], place: str) -> None:
    missing = [name for name in required if name not in value]
    unknown = [name for name in value if name not in {*required, *optional}]
    _require(not missing, f"{place}: missing {missing}")
    _require(not unknown, f"{place}: extra inputs are not permitted: {unknown}")


def _texts(blocks: Sequence[Json] | str, place: str) -> None:
    for block in blocks if not isinstance(blocks, str) else [{"text": blocks}]:
        _require(bool(block["text"].strip()), f"{place}: text must contain non-whitespace")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidRequestError(message)
