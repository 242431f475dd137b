"""A server with the batch APIs of Anthropic and OpenAI, whose answers the prompts decide."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

Json = dict[str, Any]


@dataclass(slots=True)
class Batch:
    """A batch that the server was given.

    Attributes:
        requests: Body of each request by its name.
        is_cancelled: True if the client has cancelled it.
    """

    id: str
    requests: Mapping[str, Json]
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer of the server, in parts. Without a length, it ends with the connection."""

    parts: Iterable[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def _send_unchanged(path: str, content: bytes) -> bytes:
    return content


@dataclass(slots=True)
class BatchServer:
    """A running server.

    Attributes:
        answer: Returns the text of an answer, or an object with an error, for a prompt.
        batches: The batches, in order.
        is_done: Set once the server has answered the requests.
        was_asked: Set by each question for the state of a batch.
        unknown: True if the server has forgotten its batches.
        problem: The reason why it rejects each batch; "" if it does not.
        sent_headers: Headers of all requests.
        paths: Their addresses.
        change: Returns what is sent in place of the content of an answer, by its address.
    """

    answer: Callable[[str], str | Json]
    url: str = ""
    batches: list[Batch] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    is_done: Event = field(default_factory=Event)
    was_asked: Event = field(default_factory=Event)
    unknown: bool = False
    problem: str = ""
    sent_headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    change: Callable[[str, bytes], bytes | Sent] = _send_unchanged

    def options(self, kind: str) -> Json:
        """Return the arguments with which `jp.complete_all` reaches the server."""
        provider = "anthropic" if kind == "anthropic" else "openai"
        cfg = [f"providers.llm.{provider}.base_url={self.url}"]
        if provider == "openai":
            cfg.append(f"providers.llm.openai.dialect={kind}")
        return {"model": f"{provider}/test-model", "cfg": cfg}

    def submit(self, requests: Mapping[str, Json]) -> Batch:
        """Keep a batch."""
        batch = Batch(f"batch_{len(self.batches)}", requests)
        self.batches.append(batch)
        return batch

    def find(self, batch_id: str) -> Batch | None:
        """Return a batch; None if the server does not know it."""
        if self.unknown:
            return None
        return next((batch for batch in self.batches if batch.id == batch_id), None)

    def list_answers(self, batch: Batch) -> Iterator[tuple[str, Json, str | Json]]:
        """Yield the name, the body, and the answer of each request, in an order of its own."""
        for name, body in reversed(list(batch.requests.items())):
            yield name, body, self.answer(read_prompt(body))


def read_prompt(body: Json) -> str:
    """Return the text of the last message of a request."""
    messages = body.get("messages") or body["input"]
    content = messages[-1]["content"]
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


# --- the shapes of the three APIs -----------------------------------------------------------------


def make_message(text: str) -> Json:
    """Return a whole message of Anthropic."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "test-model",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 2},
    }


def make_completion(text: str) -> Json:
    """Return a whole completion of Chat Completions."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "test-model",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }


def make_response(text: str) -> Json:
    """Return a whole response of the Responses API."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "m", "status": "completed", "role": "assistant"}
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "output": [{**item, "content": [part]}],
        "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
    }


def _name_anthropic_state(server: BatchServer, batch: Batch) -> Json:
    count = len(batch.requests)
    is_done = server.is_done.is_set() or batch.is_cancelled
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if is_done else "in_progress",
        "request_counts": {
            "processing": 0 if is_done else count,
            "succeeded": count if is_done else 0,
            "errored": 0,
            "canceled": 0,
            "expired": 0,
        },
        "created_at": "2026-01-01T00:00:00Z",
        "expires_at": "2026-01-02T00:00:00Z",
        "ended_at": None,
        "archived_at": None,
        "cancel_initiated_at": None,
        "results_url": "http://attacker.example/results",
    }


def _list_anthropic_results(server: BatchServer, batch: Batch) -> Iterator[Json]:
    for name, _, answer in server.list_answers(batch):
        if batch.is_cancelled:
            yield {"custom_id": name, "result": {"type": "canceled"}}
        elif isinstance(answer, str):
            result = {"type": "succeeded", "message": make_message(answer)}
            yield {"custom_id": name, "result": result}
        else:
            error = {"type": "error", "error": answer}
            yield {"custom_id": name, "result": {"type": "errored", "error": error}}


def _name_openai_state(server: BatchServer, batch: Batch) -> Json:
    status = "in_progress"
    if server.problem:
        status = "failed"
    elif batch.is_cancelled:
        status = "cancelled"
    elif server.is_done.is_set():
        status = "completed"
        server.files[f"output-{batch.id}"] = _write_openai_results(server, batch)

    count = len(batch.requests) if status == "completed" else 0
    errors = {"object": "list", "data": [{"code": "invalid", "message": server.problem}]}
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": "/v1/responses",
        "input_file_id": "file",
        "completion_window": "24h",
        "created_at": 1,
        "status": status,
        "errors": errors if server.problem else None,
        "output_file_id": f"output-{batch.id}" if status == "completed" else None,
        "error_file_id": None,
        "request_counts": {"total": len(batch.requests), "completed": count, "failed": 0},
    }


def _write_openai_results(server: BatchServer, batch: Batch) -> bytes:
    lines: list[str] = []
    for name, body, answer in server.list_answers(batch):
        status = 200
        content: Any = {"error": answer}
        if isinstance(answer, str):
            content = make_response(answer) if "input" in body else make_completion(answer)
        else:
            status = 400
        response = {"status_code": status, "request_id": "r", "body": content}
        lines.append(json.dumps({"custom_id": name, "response": response, "error": None}))
    return "\n".join(lines).encode()


# --- HTTP -----------------------------------------------------------------------------------------


def _answer_request(server: BatchServer, method: str, path: str, body: bytes, head: Any) -> Any:
    """Return the answer to a request: an object, bytes, or None for an unknown address."""
    match = re.fullmatch(r"/v1/(?:messages/)?batches/([^/]+)(/\w+)?", path)
    is_anthropic = path.startswith("/v1/messages/")
    name_state = _name_anthropic_state if is_anthropic else _name_openai_state

    if method == "POST" and path == "/v1/messages/batches":
        listed = json.loads(body)["requests"]
        batch = server.submit({each["custom_id"]: each["params"] for each in listed})
        return _name_anthropic_state(server, batch)

    if method == "POST" and path == "/v1/files":
        fields = read_form(body, head["content-type"])
        assert fields["purpose"] == b"batch"
        server.files[f"input-{len(server.files)}"] = fields["file"]
        return {"id": [*server.files][-1], "object": "file", "purpose": "batch", "bytes": 1}

    if method == "POST" and path == "/v1/batches":
        given = json.loads(body)
        assert given["completion_window"] == "24h"
        lines = map(json.loads, server.files[given["input_file_id"]].splitlines())
        requests = {line["custom_id"]: line["body"] for line in lines}
        return _name_openai_state(server, server.submit(requests))

    if path.startswith("/v1/files/"):
        return server.files.get(path.split("/")[3])

    batch_or_none = server.find(match[1]) if match else None
    if match is None or batch_or_none is None:
        return None
    if match[2] == "/cancel":
        batch_or_none.is_cancelled = True
    if match[2] == "/results":
        results = _list_anthropic_results(server, batch_or_none)
        return "\n".join(map(json.dumps, results)).encode()

    server.was_asked.set()
    return name_state(server, batch_or_none)


def read_form(body: bytes, content_type: str) -> dict[str, bytes]:
    """Return the fields of a multipart form."""
    head = f"content-type: {content_type}\r\n\r\n".encode()
    message = BytesParser(policy=HTTP).parsebytes(head + body)
    fields: dict[str, bytes] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        fields[str(name)] = content
    return fields


@contextmanager
def serve_batches(answer: Callable[[str], str | Json]) -> Iterator[BatchServer]:
    """Run a server that answers each prompt with `answer(prompt)` once `is_done` is set."""
    server = BatchServer(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            server.sent_headers.append(dict(self.headers))
            server.paths.append(self.path)
            found = _answer_request(server, self.command, self.path, body, self.headers)

            status = 200
            if found is None:
                status = 404
                found = {"error": {"type": "not_found_error", "message": "no such thing"}}
            content = found if isinstance(found, bytes) else json.dumps(found).encode()

            changed = server.change(self.path, content)
            if isinstance(changed, bytes):
                length = {"content-length": str(len(changed))}
                changed = Sent((changed,), status, length)
            else:
                self.close_connection = True

            self.send_response(changed.status)
            kind = "application/octet-stream" if isinstance(found, bytes) else "application/json"
            self.send_header("content-type", kind)
            for name, value in changed.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # the client may have enough
                for part in changed.parts:
                    self.wfile.write(part)

        do_GET = do_POST = handle_request  # noqa: N815 - names of the standard library

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = Thread(target=http.serve_forever, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
