"""A model server for rows: its answer to each prompt is decided by the prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock
from time import monotonic
from typing import Any

from tests.support.loopback import LoopbackServer, Received, Reply

MODEL = "anthropic/claude-test"


def prompt_of(request: Received) -> str:
    """Return the text of the first message."""
    content = request.body["messages"][0]["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request for one row, and its time."""

    prompt: str
    at: float


class RowServer:
    """A running server.

    Attributes:
        options: Arguments with which `jp.complete` and `jp.complete_all` reach it.
        arrivals: The requests, in order.
    """

    def __init__(self, server: LoopbackServer, arrivals: list[Arrival], arrived: Event) -> None:
        self.options: dict[str, Any] = {
            "model": MODEL,
            "cfg": [
                f"providers.llm.anthropic.base_url={server.url}",
                "assistant.request.base_backoff_ms=1",
            ],
        }
        self.arrivals = arrivals
        self.received = server.requests
        self._server = server
        self._arrived = arrived

    def wait_for_request(self) -> None:
        """Wait until a request has arrived."""
        assert self._arrived.wait(30)

    @property
    def connections(self) -> int:
        """The number of connections so far."""
        return self._server.connections

    @property
    def prompts(self) -> list[str]:
        """The prompts that were asked, in the order of their arrival."""
        return [each.prompt for each in self.arrivals]


@contextmanager
def serve_rows(answer: Callable[[str, int], Reply]) -> Iterator[RowServer]:
    """Run a server that replies with `answer(prompt, number of earlier requests with it)`."""
    arrivals: list[Arrival] = []
    arrived = Event()
    lock = Lock()

    def reply(request: Received) -> Reply:
        prompt = prompt_of(request)
        with lock:
            earlier = sum(each.prompt == prompt for each in arrivals)
            arrivals.append(Arrival(prompt, monotonic()))
        arrived.set()
        return answer(prompt, earlier)

    with LoopbackServer(reply) as server:
        yield RowServer(server, arrivals, arrived)


def echo(prompt: str, earlier: int) -> Reply:
    """Answer with the prompt in capital letters."""
    return Reply(text=prompt.upper())
