"""An MCP server on this computer that needs a sign-in, with its authorization server."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "guarded", "version": "1"},
}


class GuardedServer:
    """The state of the server.

    Attributes:
        url: Address of the MCP server.
        tokens: Access tokens that the server accepts.
        requests: Method and path of each request, with the body of a form.
        metadata: Members that replace those of the metadata of the authorization server.
        expires_in: Lifetime of a token.
        renews: False to refuse refresh tokens.
        tools: The tools of the MCP server.
        token_answer: Status and body that replace the answer with the tokens.
    """

    def __init__(self) -> None:
        self.url = ""
        self.tokens: set[str] = set()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.metadata: dict[str, Any] = {}
        self.resource: dict[str, Any] = {}
        self.expires_in = 3600
        self.renews = True
        self.tools: list[dict[str, Any]] = []
        self.token_answer: tuple[int, Any] | None = None
        self.count = 0

    @property
    def base(self) -> str:
        """Address of the host."""
        return self.url.removesuffix("/mcp")

    def paths(self) -> list[str]:
        """Return the paths of the requests so far."""
        return [path for _, path, _ in self.requests]

    def issue(self) -> dict[str, Any]:
        """Return a new pair of tokens, which replaces the previous one."""
        self.count += 1
        self.tokens = {f"access-{self.count}-secret"}
        return {
            "access_token": f"access-{self.count}-secret",
            "refresh_token": f"refresh-{self.count}-secret",
            "token_type": "Bearer",
            "expires_in": self.expires_in,
        }


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        state: GuardedServer = self.server.state
        parts = urlsplit(self.path)
        state.requests.append(("GET", parts.path, {}))
        if parts.path.startswith("/.well-known/oauth-protected-resource"):
            resource = {"resource": state.url, "authorization_servers": [state.base]}
            self._send(200, resource | state.resource)
        elif parts.path.startswith("/.well-known/"):
            found: dict[str, Any] = {
                "issuer": state.base,
                "authorization_endpoint": f"{state.base}/authorize",
                "token_endpoint": f"{state.base}/token",
                "registration_endpoint": f"{state.base}/register",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
            self._send(200, found | state.metadata)
        elif parts.path == "/authorize":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            answer = {"code": "the-code", "state": query["state"], "iss": state.base}
            self.send_response(302)
            self.send_header("location", f"{query['redirect_uri']}?{urlencode(answer)}")
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            self._send(405, {})

    def do_POST(self) -> None:
        state: GuardedServer = self.server.state
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = urlsplit(self.path).path
        form = {}
        if "form" in self.headers.get("content-type", ""):
            form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        state.requests.append(("POST", path, form))
        if path == "/register":
            self._send(201, {**json.loads(body), "client_id": "client-1"})
        elif path == "/token":
            is_known = form.get("refresh_token", "").startswith("refresh-") and state.renews
            if state.token_answer is not None:
                self._send(*state.token_answer)
            elif form.get("code") == "the-code" or is_known:
                self._send(200, state.issue())
            else:
                self._send(400, {"error": "invalid_grant"})
        elif self.headers.get("authorization", "").removeprefix("Bearer ") in state.tokens:
            self._answer(json.loads(body))
        else:
            where = f"{state.base}/.well-known/oauth-protected-resource/mcp"
            self._send(401, {}, {"www-authenticate": f'Bearer resource_metadata="{where}"'})

    def _answer(self, message: dict[str, Any]) -> None:
        tools = self.server.state.tools
        results: dict[str, Any] = {"initialize": HANDSHAKE, "tools/list": {"tools": tools}}
        if "id" not in message:
            self._send(202, None)
        elif message["method"] in results:
            result = results[message["method"]]
            self._send(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})
        else:
            # It quotes the token of the request, as the page of a debugger would.
            error = {"code": -32601, "message": f"No method: {self.headers['authorization']}"}
            self._send(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})

    def do_DELETE(self) -> None:
        self._send(200, None)

    def _send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def guarded_server() -> Iterator[GuardedServer]:
    """Run a server that needs a sign-in."""
    state = GuardedServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.state = state  # type: ignore[attr-defined]
    state.url = f"http://127.0.0.1:{server.server_port}/mcp"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def press_sign_in(url: str) -> str:
    """Open the page as a browser, and return the address to which it is sent."""
    try:
        urllib.request.build_opener(_NoRedirect()).open(url, timeout=10)
    except urllib.error.HTTPError as error:
        return str(error.headers["location"])
    raise AssertionError("the page sent the browser nowhere")


def follow(address: str) -> str:
    """Open the address to which the browser was sent, and return the text of the page."""
    with urllib.request.urlopen(address, timeout=10) as response:
        return str(response.read().decode())
