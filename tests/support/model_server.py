"""A server on 127.0.0.1 that lists models as a test tells it to; it answers no requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Query = dict[str, str]
Answer = Any | Callable[[Query, Any], Any]
"""JSON, bytes (sent as HTML), an integer (a status), or what makes one of these."""


class ModelServer:
    """Answers `paths`; what is not there is an error 404.

    Attributes:
        url: The address, without a path.
        asked: Path, query and headers (lower-case) of each request, in order.
    """

    def __init__(self, paths: Mapping[str, Answer]) -> None:
        self.asked: list[tuple[str, Query, dict[str, str]]] = []
        self.closing = threading.Event()
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                self._answer(json.loads(body))

            def _answer(self, body: Any) -> None:
                parts = urlsplit(self.path)
                query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked.append((parts.path, query, headers))
                answer = paths.get(parts.path, 404)
                self._send(answer(query, body) if callable(answer) else answer, headers)

            def _send(self, answer: Any, headers: dict[str, str]) -> None:
                status, kind = 200, "application/json"
                if isinstance(answer, int):
                    status, answer = answer, {"error": {"message": f"no {headers}"}}
                if isinstance(answer, bytes):
                    content, kind = answer, "text/html"
                else:
                    content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Be quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


def anthropic_page(*models: Any, more: bool = False) -> dict[str, Any]:
    """One page of Anthropic's list of models."""
    ids = [model.get("id") for model in models if isinstance(model, dict)] or [None]
    return {"data": list(models), "has_more": more, "first_id": ids[0], "last_id": ids[-1]}


CLAUDE: dict[str, Any] = {
    "type": "model",
    "id": "claude-opus-4-5",
    "display_name": "Claude Opus 4.5",
    "created_at": "2025-11-24T00:00:00Z",
    "max_input_tokens": 200_000,
    "max_tokens": 64_000,
    "lifecycle": "active",
    "capabilities": {
        "image_input": {"supported": True},
        "pdf_input": {"supported": True},
        "thinking": {"supported": True},
    },
}
OLD_CLAUDE: dict[str, Any] = {
    **CLAUDE,
    "id": "claude-opus-3",
    "display_name": "Claude Opus 3",
    "created_at": "2024-02-29T00:00:00Z",
    "lifecycle": "deprecated",
    "retires_at": "2027-01-05T00:00:00Z",
}
GPT: dict[str, Any] = {"id": "gpt-5", "object": "model", "created": 1_754_425_777,
                       "owned_by": "openai"}  # fmt: skip
OLD_GPT: dict[str, Any] = {**GPT, "id": "gpt-4", "created": 1_687_882_411,
                           "shutdown_date": "2027-02-01"}  # fmt: skip
ROUTED: dict[str, Any] = {
    "id": "anthropic/claude-opus-4.5",
    "name": "Anthropic: Claude Opus 4.5",
    "created": 1_764_010_580,
    "context_length": 200_000,
    "architecture": {"input_modalities": ["text", "image", "file"]},
    "pricing": {"prompt": "0.000005", "completion": "0.000025"},
    "top_provider": {"max_completion_tokens": 32_000},
    "supported_parameters": ["tools", "reasoning", "max_tokens"],
    "expiration_date": None,
}
