"""Interrupts of functions in the cell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.interrupted_turns import (
    TWO_RUN,
    CuttingCell,
    Slow,
    contents,
    interrupt_config,
    menus,
)
from tests.agent.turn_bench import DONE, call, make_result_tool, reply
from tests.kit.kinds import make
from tests.kit.screens import display_event
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import CANCELLED, FakePrompter, forever, until, yes

STOPPED = "Interrupted before it finished. Its effects up to then may remain."
CANCELLATION = (
    "The user cancelled this tool call on purpose. Find out why from the conversation, or"
    " ask, before you call it again."
)


async def test_restart_runs_an_interrupted_function_again() -> None:
    class Cell:
        runs = released = 0

        async def call(self, function: Any) -> Any:
            self.runs += 1
            if self.runs == 1:
                bench.loop.interrupt()
                raise make("call_interrupted") from KeyboardInterrupt()
            return function()

        def release(self) -> None:
            self.released += 1

    cell = Cell()
    tool = new_tool(lambda: "at last", name="t")
    person = FakePrompter(yes("restart"))
    bench = TurnBench(
        [reply(call("t")), DONE], tools=[tool], person=person, config=interrupt_config()
    )
    bench.use(cell=cell)
    assert (await bench.run()).status == "completed"
    assert contents(bench) == [("call_1", "at last")]
    assert (cell.runs, cell.released) == (2, 1)


async def test_function_that_ends_during_cancellation_runs_again_on_restart() -> None:
    class Cell:
        runs = 0

        async def call(self, function: Any) -> Any:
            self.runs += 1
            if self.runs > 1:
                return function()
            bench.loop.interrupt()
            try:
                return await forever()
            except asyncio.CancelledError:
                raise make("call_interrupted") from KeyboardInterrupt()

        def release(self) -> None:
            pass

    tool = new_tool(lambda: "at last", name="t")
    bench = TurnBench(
        [reply(call("t")), DONE], tools=[tool], config=interrupt_config(tool_call="restart")
    )
    bench.use(cell=Cell())
    async with asyncio.timeout(5):
        assert (await bench.run()).status == "completed"
    assert contents(bench) == [("call_1", "at last")]


@pytest.mark.parametrize("choice", ["continue", "stop"])
async def test_function_that_ends_late_does_not_delay_the_turn(choice: str) -> None:
    decided = asyncio.Event()

    class Cell:
        async def call(self, function: Any) -> Any:
            bench.loop.interrupt()
            await decided.wait()
            raise make("call_interrupted") from KeyboardInterrupt()

        def release(self) -> None:
            decided.set()

    tool = new_tool(lambda: "never", name="t")
    config = interrupt_config(tool_call=choice)
    bench = TurnBench([reply(call("t")), DONE], tools=[tool], config=config)
    bench.use(cell=Cell())
    async with asyncio.timeout(5):
        end = await bench.run()
    assert end.status == ("completed" if choice == "continue" else "interrupted")
    told = f"{STOPPED} The turn continues." if choice == "continue" else CANCELLATION
    assert contents(bench) == [("call_1", told)]


class CutCell:
    """A cell's thread on which every interrupt ends the running function.

    The turn learns of the cut only after it learned of the interrupt, the worst order.
    """

    def __init__(self) -> None:
        self.heard: list[asyncio.Event] = []
        self.released = 0

    async def call(self, function: Any) -> Any:
        function()
        self.heard.append(asyncio.Event())
        await self.heard[-1].wait()
        for _ in range(20):
            await asyncio.sleep(0)
        raise make("call_interrupted") from KeyboardInterrupt()

    def release(self) -> None:
        self.released += 1


def make_cell_bench(person: FakePrompter, *calls: Any, config: dict[str, Any] | None = None) -> Any:
    """Return a turn whose tool `hold` runs in the cell, where an interrupt ends it."""
    slow = Slow()
    tools = [new_tool(lambda: "never", name="hold"), slow.tool]
    bench = TurnBench(
        [reply(*calls), DONE], tools=tools, person=person, config=config or interrupt_config()
    )
    cell = CutCell()
    bench.use(cell=cell)
    return bench, slow, cell


async def interrupt_functions(bench: TurnBench, cell: CutCell, ready: Callable[[], object]) -> Any:
    """Run the turn, interrupt it when `ready` holds, and end the functions in the cell."""
    task = asyncio.create_task(bench.run())
    await until(lambda: cell.heard and ready())
    bench.loop.interrupt()
    for heard in cell.heard:
        heard.set()
    async with asyncio.timeout(5):
        return await task


HOLD = call("hold", "c1", index=1)
SLOW = call("slow", "c2", index=2)


ALONE = ["Tell the model something …", "Run hold again", "End the turn"]


@pytest.mark.parametrize("closed", [False, True], ids=["chosen", "closed"])
async def test_continue_is_offered_only_while_a_call_can_continue(closed: bool) -> None:
    person = FakePrompter(CANCELLED if closed else yes("stop"))
    bench, _, cell = make_cell_bench(person, HOLD)
    end = await interrupt_functions(bench, cell, lambda: True)
    assert menus(person) == [ALONE]
    assert end.status == ("completed" if closed else "interrupted")
    told = f"{STOPPED} The user chose to continue." if closed else CANCELLATION
    assert contents(bench) == [("c1", told)]


async def test_continue_keeps_the_calls_that_were_not_interrupted() -> None:
    async def choose() -> Any:
        slow.gate.set()
        return yes("continue")

    person = FakePrompter(choose)
    bench, slow, cell = make_cell_bench(person, HOLD, SLOW)
    assert (await interrupt_functions(bench, cell, lambda: slow.runs)).status == "completed"
    assert menus(person) == [TWO_RUN]
    assert contents(bench) == [
        ("c1", f"{STOPPED} The user chose to continue."),
        ("c2", "slow is done"),
    ]
    _, seen = bench.provider.requests[1]
    assert "cancelled" not in repr(seen)


async def test_interrupt_is_acknowledged_while_a_function_has_the_cell() -> None:
    bench, _, cell = make_cell_bench(FakePrompter(yes("stop")), HOLD)
    task = asyncio.create_task(bench.run())
    await until(lambda: cell.heard)
    bench.loop.interrupt()
    assert bench.passing[-1] == display_event("interrupt_received")
    assert not bench.person.asked, "who has the cell is not done yet"
    cell.heard[0].set()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"


async def test_function_interrupted_without_a_user_is_reported_as_stopped() -> None:
    class Cell:
        async def call(self, function: Any) -> Any:
            bench.loop.interrupt()  # as the cell's thread does, whose tool was interrupted
            raise make("call_interrupted") from KeyboardInterrupt()

        def release(self) -> None:
            pass

    person = FakePrompter(away="no kernel")
    bench = TurnBench([reply(call("t"))], tools=[make_result_tool("x")], person=person)
    bench.use(cell=Cell())
    assert (await bench.run()).status == "interrupted"
    [response] = bench.of("tool_call_response")
    assert response.content == f"{STOPPED} The turn was ended."
    assert not response.is_error
    assert bench.shown_of("tool_ends")[0].traceback is None


@pytest.mark.parametrize("asked", [False, True], ids=["configured", "chosen"])
async def test_interrupted_function_gets_a_response_when_the_batch_continues(asked: bool) -> None:
    config: Any = {"interrupt": {"tool_call": {"action": "prompt" if asked else "continue"}}}
    person = FakePrompter(*([yes("continue")] if asked else []))
    calls = reply(call("t", "c1", index=1), call("t", "c2", index=2))
    bench = TurnBench([calls, DONE], [new_tool(lambda: "fine", name="t")], person, config)
    cell = CuttingCell()
    bench.use(cell=cell)
    cell.bench = bench
    async with asyncio.timeout(5):
        assert (await bench.run()).status == "completed"
    went_on = "The user chose to continue." if asked else "The turn continues."
    assert contents(bench) == [("c1", f"{STOPPED} {went_on}"), ("c2", "fine")]
    assert (cell.runs, cell.released) == (2, 1)


async def test_restarted_function_is_not_taken_for_the_interrupted_one() -> None:
    gate = asyncio.Event()

    class Cell(CuttingCell):
        async def call(self, function: Any) -> Any:
            result = await super().call(function)
            await gate.wait()
            return result

    config: Any = {"interrupt": {"escalation_cooldown_secs": 0}}
    person = FakePrompter(yes("restart"), yes("continue"))
    bench = TurnBench(
        [reply(call("t")), DONE], [new_tool(lambda: "fine", name="t")], person, config
    )
    cell = Cell()
    bench.use(cell=cell)
    cell.bench = bench
    task = asyncio.create_task(bench.run())
    await until(lambda: cell.runs == 2)
    bench.loop.interrupt()
    gate.set()  # before that nothing can be asked: the function has the cell's thread
    async with asyncio.timeout(5):
        assert (await task).status == "completed"
    assert contents(bench) == [("call_1", "fine")]


async def test_waiting_function_is_ended_by_its_own_interrupt() -> None:
    runs = 0

    def function() -> str:
        nonlocal runs
        runs += 1
        if runs < 3:  # the interrupt is heard of only later
            asyncio.get_running_loop().call_later(0.01, bench.loop.interrupt)
            raise KeyboardInterrupt
        return "fine"

    class Cell:
        def __init__(self) -> None:
            self.one, self.free = asyncio.Lock(), asyncio.Event()
            self.free.set()

        async def call(self, function: Any) -> Any:
            async with self.one:
                await self.free.wait()
                try:
                    return function()
                except KeyboardInterrupt as exc:
                    self.free.clear()
                    raise make("call_interrupted") from exc

        def release(self) -> None:
            self.free.set()

    config: Any = {"interrupt": {"escalation_cooldown_secs": 0}}
    person = FakePrompter(yes("continue"), yes("restart"))
    calls = reply(call("t", "c1", index=1), call("t", "c2", index=2))
    bench = TurnBench([calls, DONE], [new_tool(function, name="t")], person, config)
    bench.use(cell=Cell())
    async with asyncio.timeout(5):
        assert (await bench.run()).status == "completed"
    went_on = f"{STOPPED} The user chose to continue."
    assert contents(bench) == [("c1", went_on), ("c2", "fine")]


async def test_function_that_turns_an_interrupt_into_an_error_has_failed() -> None:
    def function() -> str:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as exc:
            raise LookupError("gone") from exc

    bench = TurnBench([reply(call("t")), DONE], tools=[new_tool(function, name="t")])
    async with asyncio.timeout(5):
        await bench.run()
    [response] = bench.of("tool_call_response")
    assert (response.content, response.is_error) == ("LookupError: gone", True)


async def test_function_is_queued_before_the_first_prompt_opens() -> None:
    """On stdin, a prompt blocks the cell's thread."""
    person = FakePrompter(yes(True))
    open_prompts = list[int]()

    class Cell:
        async def call(self, function: Any) -> Any:
            open_prompts.append(len(person.asked))
            return function()

        def release(self) -> None:
            pass

    async def asks(ctx: jp.ToolContext) -> jp.Outcome:
        question = jp.Question.boolean("sure", "Sure?")
        return jp.Success("fine") if ctx.answers else jp.NeedsInput(question)

    calls = reply(call("asks", "c1", index=1), call("t", "c2", index=2))
    bench = TurnBench([calls, DONE], [new_tool(asks), make_result_tool("fine")], person)
    bench.use(cell=Cell())
    await bench.run()
    assert len(person.asked) == 1
    assert open_prompts == [0]


async def test_next_function_begins_before_a_prompt_that_follows_a_run_opens() -> None:
    """On stdin, an interrupted prompt also ends the question of that function (`docs/turns.md`)."""
    person = FakePrompter(yes(True), yes(True))
    order = list[str]()

    class Cell:
        """The cell's thread, which takes its next function late."""

        def __init__(self) -> None:
            self.one = asyncio.Lock()

        async def call(self, function: Any) -> Any:
            async with self.one:
                for _ in range(20):
                    await asyncio.sleep(0)
                order.append(f"function begins, {len(person.asked)} prompts so far")
                return function()

        def release(self) -> None:
            pass

    def asks(ctx: jp.ToolContext) -> jp.Outcome:
        question = jp.Question.boolean("sure", "Sure?").with_persistence("none")
        return jp.Success("fine") if ctx.answers else jp.NeedsInput(question)

    calls = reply(call("asks", "c1", index=1), call("asks", "c2", index=2))
    bench = TurnBench([calls, DONE], [new_tool(asks)], person)
    bench.use(cell=Cell())
    async with asyncio.timeout(5):
        await bench.run()
    assert order[:2] == ["function begins, 0 prompts so far"] * 2
    assert len(person.asked) == 2
