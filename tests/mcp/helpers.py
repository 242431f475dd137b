"""Start MCP servers that follow a script (`scripted_server.py`), and read their logs.

server = scripted(tmp_path, calls={"greet": [{"result": "Hello"}]})
async with connected(server.launch) as connection:
    result = await connection.call("call-1", "greet", {})
assert server.received("tools/call")
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.mcp.connections.connection import Connection
from tests.kit.kinds import is_kind, make
from tests.mcp.scripted_server import Json, read_log

PROGRAM = Path(__file__).with_name("scripted_server.py")
FORM: Json = {
    "mode": "form",
    "message": "Which trip?",
    "requestedSchema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
"""Parameters of a question with one field."""
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Scripted:
    """A script in a file, and the log of the server that follows it."""

    launch: Any
    log: Path

    def logged(self) -> list[Json]:
        """Return the messages that the server received, and its notes."""
        return list(read_log(self.log))

    def received(self, method: str) -> list[Json]:
        """Return the messages with `method` that the server received."""
        return [message for message in self.logged() if message.get("method") == method]


def write_script(folder: Path, script: Json) -> tuple[Path, Path]:
    """Write `script` to a file in `folder`; return the file, and that of its log."""
    number = next(_numbers)
    file = folder / f"script-{number}.json"
    log = folder / f"log-{number}.jsonl"
    file.write_text(json.dumps({"log": str(log), **script}), encoding="utf-8")
    return file, log


def scripted(folder: Path, **script: Any) -> Scripted:
    """Return the launch of a server over stdio that follows `script`."""
    file, log = write_script(folder, script)
    return Scripted(
        make("stdio_launch", sys.executable, ("-I", "-S", str(PROGRAM), str(file))), log
    )


@contextmanager
def scripted_http(folder: Path, **script: Any) -> Iterator[Scripted]:
    """Run a server over HTTP that follows `script`."""
    file, log = write_script(folder, {"http": {}, **script})
    command = [sys.executable, "-I", "-S", str(PROGRAM), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            yield Scripted(make("http_launch", f"http://127.0.0.1:{port}/mcp"), log)
        finally:
            process.stdin.close()


def start_fails(reason: str = "") -> pytest.RaisesExc[jp.JpNbError]:
    """Expect that a server does not start, for a `reason` that matches."""
    return pytest.raises(jp.JpNbError, match=f"did not start: .*{reason}")


def error_of(caught: pytest.ExceptionInfo[jp.JpNbError]) -> Any:
    """Return the error of a server, with the facts that its attributes have."""
    assert is_kind(caught.value, "server_error", "server_not_started")
    return caught.value


@asynccontextmanager
async def connected(
    launch: Any,
    *,
    limits: Any | None = None,
    asks_users: bool = False,
    on_question: Any | None = None,
) -> AsyncIterator[Connection]:
    """Connect to a server that is named `test`, and end the connection afterwards."""
    connection = Connection("test", launch, limits, asks_users=asks_users, on_question=on_question)
    try:
        await connection.start()
        yield connection
    finally:
        await connection.aclose()


async def wait_until(condition: Callable[[], object], *, seconds: float = 10) -> None:
    """Wait until `condition` is true.

    Raises:
        TimeoutError: It is not true after so many `seconds`.
    """
    until = monotonic() + seconds
    while not condition():
        if monotonic() > until:
            raise TimeoutError(f"still false after {seconds} s")
        await asyncio.sleep(0.01)


def text_of(result: object) -> str:
    """Return the text of the blocks of a result."""
    content = getattr(result, "content", ())
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def list_group(group: int) -> list[int]:
    """Return the processes of a process group that run; a zombie does not."""
    members = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, member_of = file.read_text().rpartition(")")[2].split()[:3]
            if member_of == str(group) and state != "Z":
                members.append(int(file.parent.name))
    return members
