"""Serve the page of this computer to which the browser returns after a sign-in.

The page is at a random path. Any other request, such as one of another program, gets an error.

Source: `docs/mcp.md`, Sign in.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from jp_nb.mcp.transports.limits import MAX_REDIRECT_BYTES

RETURN_LIMIT_S: Final = 30.0
"""Time in which the browser sends its request after it has connected."""


def _make_page(status: str, text: str) -> bytes:
    """Return an HTTP answer with a page that shows `text`."""
    body = f"<!doctype html><title>jp_nb</title><p>{text}</p>".encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


RETURNED: Final = _make_page("200 OK", "You can close this page.")
"""The answer to the browser of a user who signed in."""
UNKNOWN_PAGE: Final = _make_page("404 Not Found", "There is no such page.")
"""The answer to all other requests."""


@dataclass(slots=True)
class Redirect:
    """The page of this computer to which the browser returns.

    Attributes:
        url: Address of the page, with a random path.
        address: Is done with the address of the browser's request, relative to this computer.
    """

    url: str
    address: asyncio.Future[str]


@asynccontextmanager
async def listen() -> AsyncGenerator[Redirect]:
    """Listen on a free port of this computer, until the `with` block ends."""
    path = f"/callback/{secrets.token_urlsafe(16)}"
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection. Only a request for the random path is the return."""
        with suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            line = await asyncio.wait_for(reader.readuntil(b"\r\n"), RETURN_LIMIT_S)
            target = _read_target(line)
            is_return = urlsplit(target).path == path
            if is_return and not address.done():
                address.set_result(target)

            page = RETURNED if is_return else UNKNOWN_PAGE
            writer.write(page)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=MAX_REDIRECT_BYTES)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Redirect(f"http://127.0.0.1:{port}{path}", address)
    finally:
        server.close()
        address.cancel()


def _read_target(line: bytes) -> str:
    """Return the target of a GET request from its first line; "" for another method."""
    words = line.decode("latin-1").split()
    if len(words) < 2 or words[0] != "GET":
        return ""
    return words[1]
