"""A tool is told once that its call does not run again, whatever ended the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import JsonValue

import jp_nb as jp
from tests.agent.interrupted_turns import interrupt_config
from tests.agent.turn_bench import DONE, call, reply
from tests.kit.questions import not_answered
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, until, yes

CALL = reply(call("keep", "c1"))


class Keeper:
    """A tool that keeps something for its next run.

    Attributes:
        happened: The runs and ends, in order.
        work: Makes the outcome of a run.
    """

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.work: Callable[[jp.ToolContext], Any] = lambda context: jp.Success("kept")
        self.tool = new_tool("keep")
        self.tool.schema = {"type": "object", "properties": {}}
        self.tool.run = self._run
        self.tool.ended = self._end

    async def _run(
        self, arguments: Mapping[str, JsonValue], context: jp.ToolContext, cell: Any
    ) -> jp.Outcome:
        self.happened.append(f"run {context.call_id}")
        outcome = self.work(context)
        if asyncio.iscoroutine(outcome):
            outcome = await outcome
        result: jp.Outcome = outcome
        return result

    def _end(self, call_id: str) -> None:
        self.happened.append(f"end {call_id}")


def make_bench(keeper: Keeper, person: FakePrompter | None = None, *, run: str = "") -> TurnBench:
    config: Any = interrupt_config()
    tool: dict[str, Any] = {"source": "local", "run": run or "unattended"}
    config["conversation"] = {"tools": {"keep": tool}}
    return TurnBench(
        [CALL, DONE],
        person=person or FakePrompter(),
        config=config,
        executors={"local": {"keep": keeper.tool}},
    )


def ask(context: jp.ToolContext) -> jp.Outcome:
    if context.answers:
        return jp.Success("answered")
    return jp.NeedsInput(jp.Question.text("city", "Which city?"))


async def test_result_and_error_end_a_call() -> None:
    def fail(context: jp.ToolContext) -> jp.Outcome:
        raise ValueError("no shelf")

    for work in (lambda context: jp.Success("kept"), fail):
        keeper = Keeper()
        keeper.work = work
        await make_bench(keeper).run()
        assert keeper.happened == ["run c1", "end c1"]


async def test_call_ends_after_its_last_run() -> None:
    keeper = Keeper()
    keeper.work = ask
    await make_bench(keeper, FakePrompter(yes("Delft"))).run()
    assert keeper.happened == ["run c1", "run c1", "end c1"]


@pytest.mark.parametrize("end", ["declined", "cancelled", "timed_out", "interrupted"])
async def test_call_that_ends_at_its_question_has_ended(end: Any) -> None:
    keeper = Keeper()
    keeper.work = ask
    await make_bench(keeper, FakePrompter(not_answered(end, "form"))).run()
    assert keeper.happened[-1] == "end c1"
    assert keeper.happened.count("end c1") == 1


async def test_question_without_a_user_ends_the_call() -> None:
    keeper = Keeper()
    question = jp.Question.text("city", "City?").model_copy(update={"exclusive": True})
    keeper.work = lambda context: jp.NeedsInput(question)
    await make_bench(keeper, FakePrompter(away="headless")).run()
    assert keeper.happened == ["run c1", "end c1"]


async def test_refused_call_has_ended_without_a_run() -> None:
    keeper = Keeper()
    await make_bench(keeper, FakePrompter(yes("skip")), run="ask").run()
    assert keeper.happened == ["end c1"]


@pytest.mark.parametrize(
    ("choice", "then"),
    [("stop", ["end c1"]), ("restart", ["end c1", "run c1", "end c1"])],
)
async def test_interrupted_call_has_ended_before_it_starts_again(
    choice: str, then: list[str]
) -> None:
    keeper = Keeper()
    gate = asyncio.Event()
    keeper.work = lambda context: wait(gate)

    async def choose() -> Any:
        gate.set()
        return yes(choice)

    bench = make_bench(keeper, FakePrompter(choose))
    task = asyncio.create_task(bench.run())
    await until(lambda: keeper.happened)
    bench.loop.interrupt()
    await task
    # The gate opens with the decision: the first run is canceled, or has just ended.
    assert keeper.happened == ["run c1", *then]


async def wait(gate: asyncio.Event) -> jp.Outcome:
    await gate.wait()
    await asyncio.sleep(0.01)
    return jp.Success("kept")


async def test_cancellation_of_the_turn_ends_the_call() -> None:
    keeper = Keeper()
    keeper.work = lambda context: wait(asyncio.Event())
    bench = make_bench(keeper)
    task = asyncio.create_task(bench.run())
    await until(lambda: keeper.happened)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert keeper.happened == ["run c1", "end c1"]


async def test_call_that_ignores_its_cancellation_has_ended_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jp_nb.agent.call_steps.batch.CLEANUP_GRACE_S", 0.02)
    keeper = Keeper()
    released = asyncio.Event()

    async def ignore() -> jp.Outcome:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return jp.Success("late")

    keeper.work = lambda context: ignore()
    bench = make_bench(keeper, FakePrompter(yes("stop")))
    task = asyncio.create_task(bench.run())
    await until(lambda: keeper.happened)
    bench.loop.interrupt()
    await task
    assert keeper.happened == ["run c1", "end c1"]
    released.set()
    await asyncio.sleep(0.02)
    assert keeper.happened == ["run c1", "end c1"]


async def test_failed_release_does_not_lose_the_result() -> None:
    class Broken(Keeper):
        def _end(self, call_id: str) -> None:
            raise RuntimeError("stuck")

    bench = make_bench(Broken())
    await bench.run()
    assert [made.content for made in bench.turn.tool_calls] == ["kept"]
