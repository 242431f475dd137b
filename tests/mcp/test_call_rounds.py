"""Rounds of a call, with a clock that jumps over the pauses."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

import jp_nb as jp
from tests.kit.kinds import make

NOT_READY = make("input_required", {}, "later")
ASKS = make("input_required", {"who": make("server_question", "who", "form", "Who?")}, "asked")
RESULT = make("server_result", ({"type": "text", "text": "hi"},))

MAX_CALL_ROUNDS = 10
HOUR_S = 3600.0


class JumpingSelector(selectors.DefaultSelector):
    """Moves the clock of the loop instead of waiting for its next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            return super().select(None)
        self.now += max(timeout, 0.0)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """Event loop whose pauses take no time."""

    def __init__(self) -> None:
        self.selector = JumpingSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now


class Server:
    """Server that gives the same response until it is ready, `latency_s` after each request."""

    def __init__(self, *, ready_after_s: float, latency_s: float = 0.0) -> None:
        self.ready_after_s = ready_after_s
        self.latency_s = latency_s
        self.response = NOT_READY
        self.times: list[float] = []

    async def send(self, request: Any) -> Any:
        now = asyncio.get_running_loop().time()
        self.times.append(now)
        await asyncio.sleep(self.latency_s)
        return RESULT if now >= self.ready_after_s else self.response


def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(work())


async def call(rounds: Any, server: Server) -> Any:
    request = make("call_request", tool="poll", arguments={}, report=lambda _: None)
    return await rounds.run("1", request, server.send)


@pytest.mark.req("R-MCP-50")
def test_slow_server_gets_pauses_that_double_up_to_five_seconds() -> None:
    server = Server(ready_after_s=15)
    assert run(lambda: call(make("call_rounds", "books"), server)) == RESULT
    pauses = [later - sooner for sooner, later in pairwise(server.times)]
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])


@pytest.mark.req("R-MCP-50")
def test_server_that_is_never_ready_ends_the_call_without_being_told_to_have_asked() -> None:
    server = Server(ready_after_s=1e9)
    with pytest.raises(jp.JpNbError) as info:
        run(lambda: call(make("call_rounds", "books"), server))
    reason = f"it was not ready after {MAX_CALL_ROUNDS + 1} attempts"
    assert str(info.value) == f"poll of the MCP server books: {reason}"
    assert len(server.times) == MAX_CALL_ROUNDS + 1


@pytest.mark.req("R-MCP-50")
def test_questions_and_waits_of_a_call_count_together() -> None:
    server = Server(ready_after_s=1e9)
    rounds = make("call_rounds", "books")

    async def ask_then_wait() -> None:
        server.response = ASKS
        for _ in range(4):
            assert await call(rounds, server) == ASKS
        server.response = NOT_READY
        await call(rounds, server)

    reason = f"books: it asked, or was not ready, in more than {MAX_CALL_ROUNDS} rounds"
    with pytest.raises(jp.JpNbError, match=reason):
        run(ask_then_wait)
    assert len(server.times) == MAX_CALL_ROUNDS + 1


@pytest.mark.req("R-MCP-50")
def test_rounds_that_take_an_hour_end_the_call() -> None:
    server = Server(ready_after_s=1e9, latency_s=0.4 * HOUR_S)
    with pytest.raises(jp.JpNbError, match="books: it gave no result within an hour"):
        run(lambda: call(make("call_rounds", "books"), server))
    assert len(server.times) == 3
