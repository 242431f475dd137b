"""Measured times of a turn: requests, retries, runs of tools, and waits for the user."""

from __future__ import annotations

from typing import Any

import pytest

import jp_nb as jp
from tests.agent.turn_bench import DONE, call, make_result_tool, reply
from tests.kit.kinds import is_kind
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, yes


class Clock:
    """Seconds that the test sets, and that go on by a tenth with each reading."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.1
        return self.now


def measure(bench: TurnBench) -> Clock:
    clock = Clock()
    bench.measure_times(clock)
    return clock


def stored(bench: TurnBench) -> list[tuple[str, Any]]:
    """Return the type and the times of the entries that have some."""
    entries = [(entry.type, entry.metadata.get("times")) for entry in bench.stream.entries]
    return [(kind, times) for kind, times in entries if times is not None]


@pytest.mark.req("CELL-38")
async def test_request_has_its_time_and_that_of_its_first_token() -> None:
    bench = TurnBench([DONE])
    measure(bench)
    await bench.run()
    [(kind, times)] = stored(bench)
    [request] = times["requests"]
    assert kind == "chat_response"
    assert 0 < request["first_ms"] < request["ms"] < request["before_ms"]
    assert "failed" not in request


@pytest.mark.req("CELL-38")
async def test_failed_attempts_are_stored_with_the_response() -> None:
    errors = [[jp.ProviderError("secret-key-in-a-message", kind=kind)]
              for kind in ("rate_limit", "transient")]  # fmt: skip
    bench = TurnBench([*errors, DONE])
    measure(bench)
    await bench.run()
    [(_, times)] = stored(bench)
    ends = [request.get("failed") for request in times["requests"]]
    assert ends == ["rate_limit", "transient", None]
    starts = [request["before_ms"] for request in times["requests"]]
    assert starts == sorted(starts, reverse=True)
    assert "secret" not in str(times)


@pytest.mark.req("CELL-38")
async def test_attempts_of_a_turn_without_an_answer_are_kept() -> None:
    bench = TurnBench([[jp.ProviderError("x", kind="quota")]])
    measure(bench)
    with pytest.raises(jp.ProviderError):
        await bench.run()
    [(kind, times)] = stored(bench)
    assert kind == "config_delta"
    assert [request["failed"] for request in times["requests"]] == ["quota"]


@pytest.mark.req("CELL-38")
async def test_run_and_wait_for_permission_are_measured() -> None:
    clock = Clock()

    async def decide() -> Any:
        clock.now += 60
        return yes("run")

    bench = TurnBench(
        [reply(call("work")), DONE],
        tools=[make_result_tool("done", name="work")],
        person=FakePrompter(decide),
        config={"conversation": {"tools": {"work": {"run": "ask"}}}},
    )
    bench.measure_times(clock)
    await bench.run()
    [times] = [times for kind, times in stored(bench) if kind == "tool_call_response"]
    [wait] = times["waits"]
    [run] = times["runs"]
    assert 60_000 < wait["ms"] < 61_000
    assert run["ms"] < 1000
    assert wait["before_ms"] - wait["ms"] > run["before_ms"] - run["ms"] - 1


@pytest.mark.req("CELL-38")
async def test_nothing_is_measured_unless_the_session_allows_it() -> None:
    bench = TurnBench([DONE])
    await bench.run()
    assert stored(bench) == []
    assert [entry.type for entry in bench.stream.entries if is_kind(entry, "chat_response")]
