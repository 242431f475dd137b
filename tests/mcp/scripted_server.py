"""An MCP server that follows a script, also where the protocol forbids it.

It is a program of its own, and imports only the standard library. Tests start it with
`tests/mcp/helpers.py`. The script is one JSON object:

    era               "2025", "2026", or "both" (the default)
    tools             definitions, sent as they are; default: one for each name in `calls`
    calls             name of a tool -> list of steps; after the last step the call ends
    list_raw          text that is written to stdout instead of the answer to `tools/list`
    page_size         number of tools in a page; -1 repeats the first page without an end
    resources         address -> contents of a resource, or None; default: a text with the address
    title, instructions, capabilities, ttl_ms
    greeting          text that is written to stdout before anything else
    stderr            text that is written to stderr before anything else
    start_delay       seconds before the first message is read
    silent            methods that get no answer
    exit_at           method at which the server exits
    ignores_end       True: the end of stdin does not end the server
    ignores_signals   True: SIGTERM does not end it
    child             True: a child process of the server holds its stdout, and ignores SIGTERM
    log               file to which each received message is appended, as one line of JSON
    http              settings of the server on the network, see `HttpServer`

A step is an object with one key:

    result            a result object; a text or a list of content blocks is short for one
    arguments         True: the result is the arguments as JSON text
    answers           True: the result is the answers of the user as JSON text
    error             {"code": …, "message": …}
    ask               {key: parameters of `elicitation/create`}, with `state` (optional): the next
                      step runs when the client has answered
    state             text: the server of 2026 returns only this state
    progress          parameters of `notifications/progress` without the token
    notify            {"method": …, "params": …}
    request           {"method": …, "params": …}; the reply is in `answers`
    sleep             seconds; a cancellation ends the call
    hang              True: no answer until the client cancels
    raw               text that is written to stdout as it is
    unended           number of bytes that are written to stdout without the end of a line
    big               number of bytes of the text that is the result
    tools             definitions of tools that replace those of the script
    stderr            text
    signal            name of a signal that the server sends to itself
    exit              exit code; None kills the process
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Send = Callable[[Json], None]

OLD = "2025-11-25"
NEW = "2026-07-28"
CACHE: Json = {"resultType": "complete", "cacheScope": "private", "ttlMs": 0}
METHOD_NOT_FOUND = -32601
NO_RESOURCE = -32602
ENDS = ("result", "arguments", "answers", "big", "error")
"""Steps that end a call."""


class Cancelled(Exception):  # noqa: N818 - the protocol's word
    """The client cancelled the call."""


class Server:
    """Answers messages as the script says, on a thread for each call."""

    def __init__(self, script: Json) -> None:
        self.script = script
        self.calls: dict[str, list[Json]] = script.get("calls", {})
        self.cancelled: dict[Any, threading.Event] = {}
        self.replies: dict[Any, queue.Queue[Json]] = {}
        self._count = 0
        self._lock = threading.Lock()

    # --- messages --------------------------------------------------------------------------

    def receive(self, message: Json, send: Send) -> None:
        """Handle one message of the client. `send` sends one of the server."""
        self.log(message)
        method = message.get("method")
        if method is None:
            self.replies[message["id"]].put(message)
            return

        if method == self.script.get("exit_at"):
            os._exit(3)
        if method == "notifications/cancelled":
            self.cancelled.setdefault(message["params"]["requestId"], threading.Event()).set()
        if "id" not in message or method in self.script.get("silent", ()):
            return

        if method == "tools/call":
            self._call(message, send)
        elif method == "tools/list" and "list_raw" in self.script:
            identifier = json.dumps(message["id"])
            write(self.script["list_raw"].replace('"id":2', f'"id":{identifier}'))
        else:
            send(self._answer(message, method))

    def log(self, message: Json) -> None:
        """Append `message` to the log."""
        path = self.script.get("log")
        if path:
            with self._lock, Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(message) + "\n")

    def _answer(self, message: Json, method: str) -> Json:
        era = self.script.get("era", "both")
        if method == "server/discover" and era != "2025":
            result = {
                **CACHE,
                "supportedVersions": [NEW],
                "capabilities": self._capabilities(),
                "_meta": {"io.modelcontextprotocol/serverInfo": self._info()},
            }
        elif method == "initialize" and era != "2026":
            result = {
                "protocolVersion": self.script.get("version", OLD),
                "capabilities": self._capabilities(),
                "serverInfo": self._info(),
            }
        elif method == "tools/list":
            result = self._list((message.get("params") or {}).get("cursor"))
        elif method == "resources/read":
            uri = message["params"]["uri"]
            default = [{"uri": uri, "text": f"text of {uri}"}]
            contents = self.script.get("resources", {}).get(uri, default)
            if contents is None:
                error = {"code": NO_RESOURCE, "message": "no such resource"}
                return {"jsonrpc": "2.0", "id": message["id"], "error": error}
            result = {**CACHE, "contents": contents}
        elif method == "ping":
            result = {}
        else:
            error = {"code": METHOD_NOT_FOUND, "message": f"unknown method {method}"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}

        if method in ("server/discover", "initialize") and "instructions" in self.script:
            result["instructions"] = self.script["instructions"]
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def _capabilities(self) -> Json:
        default = {"tools": {"listChanged": True}, "resources": {}}
        capabilities: Json = self.script.get("capabilities", default)
        return capabilities

    def _info(self) -> Json:
        return {"name": self.script.get("title", "scripted"), "version": "1"}

    def _list(self, cursor: str | None) -> Json:
        default = [{"name": name, "inputSchema": {"type": "object"}} for name in self.calls]
        tools = self.script.get("tools", default)
        begin = int(cursor or 0)
        size = self.script.get("page_size", len(tools))
        result = {**CACHE, "ttlMs": self.script.get("ttl_ms", 0)}
        if size < 0:
            return {**result, "tools": tools, "nextCursor": str(begin + 1)}
        result["tools"] = tools[begin : begin + size]
        if begin + size < len(tools):
            result["nextCursor"] = str(begin + size)
        return result

    # --- calls -----------------------------------------------------------------------------

    def _call(self, message: Json, send: Send) -> None:
        identifier = message["id"]
        name = message["params"]["name"]
        self.cancelled.setdefault(identifier, threading.Event())
        if name not in self.calls:
            error = {"code": -32602, "message": f"unknown tool {name}"}
            send({"jsonrpc": "2.0", "id": identifier, "error": error})
            return
        try:
            outcome = self._run(message, self.calls[name], send)
        except Cancelled:
            self.log({"cancelled": identifier})
            return
        send({"jsonrpc": "2.0", "id": identifier, **outcome})

    def _run(self, message: Json, steps: list[Json], send: Send) -> Json:
        parameters = message["params"]
        answers: Json = {}
        begin = 0
        state = parameters.get("requestState")
        if state is not None:  # a later round of a call of 2026
            begin = int(state.split(":")[0])
            answers = json.loads(state.split(":", 2)[2])
            answers.update(parameters.get("inputResponses", {}))

        for position, step in enumerate(steps[begin:], begin):
            if "ask" in step or "state" in step:
                if self._is_new(message):
                    kept = f"{position + 1}:{step.get('state', '')}:{json.dumps(answers)}"
                    return {"result": self._require_input(step, kept)}
                for key, asked in step.get("ask", {}).items():
                    answers[key] = self._request(
                        {"method": "elicitation/create", "params": asked}, message, send
                    )
                continue
            outcome = self._run_step(step, message, answers, send)
            if outcome is not None:
                return outcome
        return {"result": {"content": [], "resultType": "complete"}}

    def _is_new(self, message: Json) -> bool:
        meta: Json = message["params"].get("_meta", {})
        version = meta.get("io.modelcontextprotocol/protocolVersion")
        return bool(version == NEW)

    def _require_input(self, step: Json, state: str) -> Json:
        result: Json = {"resultType": "input_required", "requestState": state}
        requests = {
            key: asked if "method" in asked else {"method": "elicitation/create", "params": asked}
            for key, asked in step.get("ask", {}).items()
        }
        if requests:
            result["inputRequests"] = requests
        return result

    def _run_step(self, step: Json, message: Json, answers: Json, send: Send) -> Json | None:
        [(kind, value)] = step.items()
        if kind in ENDS:
            return self._make_outcome(kind, value, message, answers)
        if kind == "request":
            answers[value["method"]] = self._request(value, message, send)
        elif kind in ("sleep", "hang"):
            if self.cancelled[message["id"]].wait(value if kind == "sleep" else None):
                raise Cancelled
        elif kind == "tools":
            self.script["tools"] = value
        elif kind in ("progress", "notify"):
            send(self._make_notification(kind, value, message))
        else:
            EFFECTS[kind](value)
        return None

    def _make_outcome(self, kind: str, value: Any, message: Json, answers: Json) -> Json:
        match kind:
            case "error":
                return {"error": value}
            case "arguments":
                value = json.dumps(message["params"].get("arguments"))
            case "answers":
                value = json.dumps(answers)
            case "big":
                value = "x" * value
        return {"result": self._expand(value)}

    def _make_notification(self, kind: str, value: Json, message: Json) -> Json:
        if kind == "notify":
            return {"jsonrpc": "2.0", **value}
        token = message["params"].get("_meta", {}).get("progressToken")
        value = {**value, "progressToken": token}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": value}

    def _expand(self, value: Any) -> Json:
        if isinstance(value, str):
            value = [{"type": "text", "text": value}]
        if isinstance(value, list):
            value = {"content": value}
        return {"resultType": "complete", **value}

    def _request(self, asked: Json, message: Json, send: Send) -> Json:
        with self._lock:
            self._count += 1
            identifier = f"from-server-{self._count}"
        self.replies[identifier] = queue.Queue()
        send({"jsonrpc": "2.0", "id": identifier, **asked})
        cancelled = self.cancelled[message["id"]]
        while not cancelled.is_set():
            try:
                reply = self.replies[identifier].get(timeout=0.02)
            except queue.Empty:
                continue
            answer: Json = reply.get("result") or {"error": reply.get("error")}
            return answer
        raise Cancelled


# --- stdio -----------------------------------------------------------------------------------

_writing = threading.Lock()


def write(text: str) -> None:
    """Write `text` to stdout as it is."""
    with _writing:
        sys.stdout.write(text)
        sys.stdout.flush()


def end_process(code: int | None) -> None:
    """Exit with `code`; None kills the process."""
    if code is None:
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        os._exit(code)


EFFECTS: dict[str, Callable[[Any], None]] = {
    "raw": write,
    "unended": lambda size: write("x" * size),
    "stderr": lambda text: print(text, file=sys.stderr, flush=True),
    "signal": lambda name: os.kill(os.getpid(), signal.Signals[name]),
    "exit": end_process,
}
"""Steps that do something to the process or its output."""


def serve_stdio(script: Json) -> None:
    """Serve lines of JSON until the end of stdin."""
    if script.get("ignores_signals"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if script.get("child"):
        program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
        subprocess.Popen([sys.executable, "-c", f"{program}; time.sleep(600)"])
    if "greeting" in script:
        write(script["greeting"])
    if "stderr" in script:
        print(script["stderr"], file=sys.stderr, flush=True)
    if script.get("exit_at") == "start":
        sys.exit(3)
    time.sleep(script.get("start_delay", 0))

    server = Server(script)

    def send(message: Json) -> None:
        write(json.dumps(message) + "\n")

    for line in sys.stdin:
        message = json.loads(line)
        threading.Thread(target=server.receive, args=(message, send), daemon=True).start()
        if message.get("method") in ("initialize", "server/discover"):
            time.sleep(0.01)

    server.log({"end": "stdin"})
    while script.get("ignores_end"):
        time.sleep(1)
    os._exit(0)


# --- HTTP ------------------------------------------------------------------------------------


class HttpServer(ThreadingHTTPServer):
    """Serves the script over HTTP. Settings in `http` of the script:

    sse             True: answer with event streams instead of JSON
    session         True: servers of 2025 keep a session with an id
    forget          number of calls after which the session is lost
    token           value of `authorization` that each request needs
    refusals        list of {"status", "headers", "body", "method"}, one for each of the first
                    requests (with this JSON-RPC method, if there is one)
    moved           path to which requests with the other path are redirected
    redirect        address to which each request is redirected
    cut             number of the first calls in whose answer the connection closes
    encoding        value of `content-encoding`
    """

    daemon_threads = True

    def __init__(self, script: Json) -> None:
        super().__init__(("127.0.0.1", 0), HttpHandler)
        self.script = script
        self.settings: Json = script.get("http", {})
        self.server = Server(script)
        self.refusals = list(self.settings.get("refusals", []))
        self.sessions: set[str] = set()
        self.served_calls = 0


class HttpHandler(BaseHTTPRequestHandler):
    """Handles one connection."""

    protocol_version = "HTTP/1.1"
    server: HttpServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base
        """Write nothing to stderr."""

    def do_GET(self) -> None:
        """Refuse the stream of messages outside of calls."""
        self._reply(405, b"")

    def do_DELETE(self) -> None:
        """End the session."""
        self.server.sessions.discard(self.headers.get("mcp-session-id", ""))
        self.server.server.log({"deleted": True})
        self._reply(204, b"")

    def do_POST(self) -> None:
        """Answer one message."""
        length = int(self.headers.get("content-length", 0))
        message = json.loads(self.rfile.read(length))
        if self._refuse(message):
            return

        headers = {}
        method = message.get("method")
        if self.server.settings.get("session") and method == "initialize":
            session = f"session-{len(self.server.sessions) + 1}-{time.monotonic_ns()}"
            self.server.sessions.add(session)
            headers["mcp-session-id"] = session
        if "id" not in message or method is None:
            self.server.server.receive(message, lambda _: None)
            self._reply(202, b"")
            return

        if self.server.settings.get("sse"):
            self._answer_as_events(message, headers)
        else:
            self._answer_as_json(message, headers)

    def _refuse(self, message: Json) -> bool:
        settings = self.server.settings
        method = message.get("method")
        logged = {"http": "POST", "headers": dict(self.headers), "message": message}
        if "token" in settings and self.headers.get("authorization") != settings["token"]:
            self.server.server.log({"refused": 401})
            self._reply(401, b"", {"www-authenticate": "Bearer"})
            return True
        moved = settings.get("moved", self.path)
        if "redirect" in settings or self.path != moved:
            self._reply(307, b"", {"location": settings.get("redirect", moved)})
            return True

        refusals = self.server.refusals
        if refusals and refusals[0].get("method", method) == method:
            refusal = refusals.pop(0)
            self.server.server.log({**logged, "refused": refusal["status"]})
            body = json.dumps(refusal.get("body", "")).encode()
            self._reply(refusal["status"], body, refusal.get("headers", {}))
            return True

        session = self.headers.get("mcp-session-id")
        if method == "tools/call":
            self.server.served_calls += 1
            if self.server.served_calls == settings.get("forget"):
                self.server.sessions.clear()
        if session is not None and session not in self.server.sessions:
            self._reply(404, b"")
            return True
        return False

    def _answer_as_json(self, message: Json, headers: Json) -> None:
        answers: list[Json] = []
        self.server.server.receive(message, answers.append)
        last = [answer for answer in answers if answer.get("id") == message["id"]]
        body = json.dumps(last[0]).encode() if last else b""
        if self._is_cut(message):
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body) + 100))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True
            return
        self._reply(200, body, {"content-type": "application/json", **headers})

    def _is_cut(self, message: Json) -> bool:
        count: int = self.server.settings.get("cut", 0)
        return message["method"] == "tools/call" and self.server.served_calls <= count

    def _answer_as_events(self, message: Json, headers: Json) -> None:
        self.send_response(200)
        for name, value in {"content-type": "text/event-stream", **headers}.items():
            self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        gone = self.server.server.cancelled.setdefault(message["id"], threading.Event())

        def send(sent: Json) -> None:
            if self._is_cut(message):
                return
            data = json.dumps(sent)
            try:
                self.wfile.write(f"event: message\ndata: {data}\n\n".encode())
                self.wfile.flush()
            except OSError:
                gone.set()

        watcher = threading.Thread(target=self._watch, args=(gone,), daemon=True)
        watcher.start()
        self.server.server.receive(message, send)

    def _watch(self, gone: threading.Event) -> None:
        # The client cancels a call of 2026 by closing its stream.
        try:
            if not self.connection.recv(1):
                gone.set()
        except OSError:
            gone.set()

    def _reply(self, status: int, body: bytes, headers: Json | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "encoding" in self.server.settings:
            self.send_header("content-encoding", self.server.settings["encoding"])
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def read_log(path: Path) -> Iterator[Json]:
    """Yield the logged messages so far."""
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def main() -> None:
    """Serve the script in the file that the first argument names, over stdio or HTTP."""
    script = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if "http" not in script:
        serve_stdio(script)
        return
    server = HttpServer(script)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # until the test closes it


if __name__ == "__main__":
    main()
