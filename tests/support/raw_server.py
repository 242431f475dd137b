"""A server on 127.0.0.1 that answers each request with the bytes that a test gives it."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

Answer = Callable[[bytes], Iterable[bytes]]
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    answer: Answer
    requests = 0


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        self.server.requests += 1
        with suppress(OSError):  # the client goes away, as it should
            head = _read_request(self.request)
            for piece in self.server.answer(head):
                self.request.sendall(piece)


def _read_request(connection: socket.socket) -> bytes:
    """The head of a request, whose body is read too."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(1 << 16)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += connection.recv(1 << 16)
    return head


@contextmanager
def raw_server(answer: Answer) -> Iterator[str]:
    """The address of a server that answers with the pieces that `answer` makes of a request."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.answer = answer
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
