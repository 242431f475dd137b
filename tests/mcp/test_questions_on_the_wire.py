"""Questions of real server processes, in both generations of the protocol."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent.interrupted_turns import interrupt_config
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.kinds import make
from tests.kit.questions import not_answered
from tests.kit.servers import McpServer
from tests.kit.turn_bench import TurnBench
from tests.mcp.helpers import FORM, Scripted, connected, scripted, wait_until
from tests.support.fakes import FakePrompter, yes

pytest.importorskip("mcp")

ERAS = pytest.mark.parametrize("era", ["2025", "2026"])
SIGN_IN = {"mode": "url", "message": "Please sign in.", "url": "https://a.example/login"}
DELFT: Any = {"city": "Delft"}


@asynccontextmanager
async def turn_with(
    server: Scripted, person: FakePrompter, *, limit_s: float = 300, asks_users: bool = True
) -> AsyncIterator[TurnBench]:
    """Yield a turn in which the model calls the tool `trip` of a running server."""
    make_tool, calls = McpServer.tool("trip")
    limits = make("connection_limits", call_timeout_secs=limit_s)
    async with connected(
        server.launch, limits=limits, asks_users=asks_users, on_question=calls.ask
    ) as connection:
        tool = make_tool(connection)
        config: Any = interrupt_config()
        config["conversation"] = {"tools": {"test__trip": {"source": "local", "run": "unattended"}}}
        yield TurnBench(
            [reply(call("test__trip", "c1")), DONE],
            person=person,
            config=config,
            executors={"local": {"test__trip": tool}},
        )
        await calls.aclose()


def asks(folder: Path, era: str, *questions: Any) -> Scripted:
    """Return a server whose tool asks `questions`, and returns the answers as JSON."""
    steps = [{"ask": {f"q{number}": each}} for number, each in enumerate(questions, 1)]
    return scripted(folder, era=era, calls={"trip": [*steps, {"answers": True}]})


def result_of(bench: TurnBench) -> tuple[str, bool]:
    [response] = bench.of("tool_call_response")
    return response.content, response.is_error


@ERAS
@pytest.mark.req("R-MCP-10", "R-MCP-44")
async def test_accept_decline_and_cancel_arrive_as_the_user_chose(tmp_path: Path, era: str) -> None:
    ends: dict[str, Any] = {
        "accept": yes(DELFT),
        "decline": not_answered("declined", "form"),
        "cancel": not_answered("cancelled", "form"),
    }
    for action, end in ends.items():
        server = asks(tmp_path, era, FORM)
        async with turn_with(server, FakePrompter(end)) as bench:
            await bench.run()
        text, is_error = result_of(bench)
        assert not is_error
        answer = json.loads(text)["q1"]
        assert answer["action"] == action
        assert answer.get("content") == (DELFT if action == "accept" else None)


@ERAS
@pytest.mark.req("R-MCP-53")
async def test_address_is_accepted_without_content(tmp_path: Path, era: str) -> None:
    sign_in = {**SIGN_IN, "elicitationId": "e1"} if era == "2025" else SIGN_IN
    async with turn_with(asks(tmp_path, era, sign_in), FakePrompter(yes(True))) as bench:
        await bench.run()
    assert json.loads(result_of(bench)[0]) == {"q1": {"action": "accept"}}


@ERAS
@pytest.mark.req("R-MCP-30")
async def test_user_may_think_three_times_as_long_as_the_limit_of_the_call(
    tmp_path: Path, era: str
) -> None:
    async def think() -> Any:
        await asyncio.sleep(3)
        return yes(DELFT)

    server = asks(tmp_path, era, FORM)
    async with turn_with(server, FakePrompter(think), limit_s=1) as bench:
        await bench.run()
    assert json.loads(result_of(bench)[0])["q1"]["action"] == "accept"


@ERAS
@pytest.mark.req("R-MCP-39", "R-MCP-40")
async def test_server_that_asks_without_a_user_gets_cancel(tmp_path: Path, era: str) -> None:
    server = asks(tmp_path, era, FORM)
    away = FakePrompter(away="no one is here")
    async with turn_with(server, away, asks_users=False) as bench:
        await bench.run()
        await wait_until(lambda: '"action": "cancel"' in json.dumps(server.logged()))
    assert result_of(bench)[1]
    said = json.dumps(server.logged())
    assert '"action": "decline"' not in said
    assert '"action": "accept"' not in said
    assert '"elicitation"' not in said  # the capability was not declared


@ERAS
@pytest.mark.req("R-MCP-95")
async def test_interrupt_at_a_question_leaves_no_call_at_the_server(
    tmp_path: Path, era: str
) -> None:
    server = scripted(tmp_path, era=era, calls={"trip": [{"ask": {"q": FORM}}, {"hang": True}]})
    interrupted = FakePrompter(not_answered("interrupted", "form"))
    async with turn_with(server, interrupted) as bench:
        await bench.run()
        await wait_until(lambda: '"action": "cancel"' in json.dumps(server.logged()))
        await wait_until(lambda: any("cancelled" in message for message in server.logged()))


@ERAS
@pytest.mark.req("R-MCP-29")
async def test_turn_that_the_user_ends_cancels_its_call_at_the_server(
    tmp_path: Path, era: str
) -> None:
    server = scripted(tmp_path, era=era, calls={"trip": [{"hang": True}]})
    async with turn_with(server, FakePrompter(yes("stop"))) as bench:
        running = asyncio.create_task(bench.run())
        await wait_until(lambda: server.received("tools/call"))
        bench.loop.interrupt()
        await asyncio.wait_for(running, 10)
        await wait_until(lambda: any("cancelled" in message for message in server.logged()))


@pytest.mark.req("R-MCP-55")
async def test_call_is_repeated_after_the_address_that_the_server_needs(tmp_path: Path) -> None:
    needed = {
        "code": -32042,
        "message": "URL elicitation required",
        "data": {"elicitations": [{**SIGN_IN, "elicitationId": "e1"}]},
    }
    server = scripted(tmp_path, era="2025", calls={"trip": [{"error": needed}]})
    ends: list[Any] = [yes(True), not_answered("cancelled", "form")]
    async with turn_with(server, FakePrompter(*ends)) as bench:
        await bench.run()
    assert len(server.received("tools/call")) == 2
    text, is_error = result_of(bench)
    assert is_error
    assert "did not confirm it" in text


@pytest.mark.req("R-MCP-51")
async def test_request_for_a_model_ends_the_call_with_its_name(tmp_path: Path) -> None:
    sampling = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
    server = asks(tmp_path, "2026", sampling)
    async with turn_with(server, FakePrompter()) as bench:
        await bench.run()
    text, is_error = result_of(bench)
    assert is_error
    assert "sampling/createMessage" in text


@pytest.mark.req("R-MCP-31")
async def test_progress_of_a_server_is_shown_with_its_share(tmp_path: Path) -> None:
    report = {"progress": 3, "total": 10, "message": "reading"}
    steps = [{"progress": report}, {"sleep": 0.2}, {"result": "done"}]
    server = scripted(tmp_path, era="2025", calls={"trip": steps})
    async with turn_with(server, FakePrompter()) as bench:
        await bench.run()
    assert "3 of 10, 30%: reading" in [getattr(x, "progress", "") for x in bench.passing]


@pytest.mark.parametrize("era", ["2025", "2026"])
async def test_form_closes_and_the_call_ends_if_the_server_dies(tmp_path: Path, era: str) -> None:
    steps = [{"ask": {"q": FORM}}, {"answers": True}]
    server = scripted(tmp_path, era=era, calls={"trip": steps})

    async def think() -> Any:
        shown.append(True)
        await asyncio.sleep(60)

    shown: list[bool] = []
    make_tool, calls = McpServer.tool("trip")
    async with connected(server.launch, asks_users=True, on_question=calls.ask) as connection:
        tool = make_tool(connection)
        config: Any = interrupt_config()
        config["conversation"] = {"tools": {"test__trip": {"source": "local", "run": "unattended"}}}
        bench = TurnBench(
            [reply(call("test__trip", "c1")), DONE],
            person=FakePrompter(think),
            config=config,
            executors={"local": {"test__trip": tool}},
        )
        running = asyncio.create_task(bench.run())
        await wait_until(lambda: shown)
        assert connection.pid is not None
        os.killpg(connection.pid, signal.SIGKILL)
        await asyncio.wait_for(running, 20)
    text, is_error = result_of(bench)
    assert is_error
    assert text.startswith("Trip of the MCP server test: ")
