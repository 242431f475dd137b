"""Interrupts while tools run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from jp_nb.agent.call_runner import RAN_BEFORE
from jp_nb.agent.coordinator import BROKE_OFF, NEVER_RAN
from jp_nb.agent.decisions import SKIPPED
from jp_nb.agent.display_events import (
    DisplayEvent,
    InterruptHeard,
    PersonSays,
    ShowText,
    ToolBegins,
    ToolEnds,
)
from jp_nb.agent.interrupts import INTERRUPTED as MENU_TEXT
from jp_nb.agent.interrupts import STOP, STOPPED, stopped
from jp_nb.agent.model_events import TextPart
from jp_nb.agent.prompts import ActionPrompt, NotAnswered, PromptEnd
from jp_nb.agent.questions import NOT_ANSWERED
from jp_nb.agent.turn import TurnEnd
from jp_nb.config.partial import Partial
from jp_nb.config.tree.tool_config import CANCELLATION
from jp_nb.record.events import ChatRequest, InquiryResponse, ToolCallResponse
from jp_nb.record.stream import ConversationStream
from jp_nb.tooling.base import CallInterrupted
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import NeedsInput, Outcome, Success
from jp_nb.tooling.python import PythonTool
from jp_nb.tooling.question import Question
from tests.support.entries import open_inquiries
from tests.support.fakes import (
    CANCELLED,
    Bench,
    FakeClock,
    FakePrompter,
    call,
    for_tool,
    forever,
    reply,
    say,
    until,
    yes,
)

DONE = reply(say("Done."))


def acting(**actions: str) -> Partial:
    """A configuration with these actions; a second interrupt never counts as one of the first."""
    interrupt: dict[str, Any] = {key: {"action": value} for key, value in actions.items()}
    return {"interrupt": {"escalation_cooldown_secs": 0, **interrupt}}


async def one_interrupt(bench: Bench, when: Callable[[], object]) -> TurnEnd:
    """Run the turn, interrupt it once when `when` holds, and return its end."""
    task = asyncio.create_task(bench.run())
    await until(when)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        return await task


def answering(gate: asyncio.Event, text: str = "So far") -> list[Any]:
    """Return a response that begins with `text` and continues when `gate` is open."""

    async def wait() -> None:
        await gate.wait()

    return [TextPart(0, "message", text), wait, *say(" and more")[:1], *reply(say("", index=9))]


def has_said(bench: Bench, text: str = "So far") -> Callable[[], bool]:
    return lambda: ShowText("message", text) in bench.shown


def menus(person: FakePrompter) -> list[list[str]]:
    """The labels of each menu that was shown."""
    return [
        [action.label for action in prompt.actions]
        for prompt in person.asked
        if isinstance(prompt, ActionPrompt) and prompt.text.startswith(MENU_TEXT)
    ]


SLOW_RUNS = ["Continue", "Tell the model something …", "Run `slow` again", "End the turn"]


TWO_RUN = ["Continue", "Tell the model something …", "Run these 2 calls again", "End the turn"]


class Slow:
    """A tool that counts its runs and waits in each until `gate` is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.runs = 0
        self.cleaned = 0

        async def slow() -> str:
            self.runs += 1
            try:
                await self.gate.wait()
            finally:
                self.cleaned += 1
            return "slow is done"

        self.tool = PythonTool(slow)


CALLS = reply(call("slow", "c1", index=1), call("fast", "c2", index=2))


def with_tools(person: FakePrompter, *scripts: Any, config: Partial | None = None) -> Any:
    """Return a turn whose first response calls a slow and a fast tool, and the slow tool."""
    slow = Slow()
    fast = PythonTool(lambda: "fast is done", name="fast")
    config = acting() if config is None else config
    bench = Bench([CALLS, *scripts], tools=[slow.tool, fast], person=person, config=config)
    return bench, slow, lambda: slow.runs and bench.shown_of(ToolEnds)


def contents(bench: Bench) -> list[tuple[str, str]]:
    return [(response.id, response.content) for response in bench.of(ToolCallResponse)]


async def test_continue_waits_for_running_tools() -> None:
    async def choose() -> PromptEnd:
        slow.gate.set()
        return yes("continue")

    person = FakePrompter(choose)
    bench, slow, ready = with_tools(person, DONE)
    end = await one_interrupt(bench, ready)
    assert end.status == "completed"
    assert contents(bench) == [("c1", "slow is done"), ("c2", "fast is done")]
    assert (slow.runs, menus(person)) == (1, [SLOW_RUNS])


async def test_reply_is_the_response_of_cancelled_calls() -> None:
    person = FakePrompter(yes("reply"), yes("Use the other one."))
    bench, slow, ready = with_tools(person, DONE)
    end = await one_interrupt(bench, ready)
    words = "Tool run cancelled by user with a custom message:\n\nUse the other one."
    assert contents(bench) == [("c1", words), ("c2", "fast is done")]
    assert [r.is_error for r in bench.of(ToolCallResponse)] == [False, False]
    assert (end.status, slow.cleaned) == ("completed", 1)
    assert len(bench.of(ChatRequest)) == 1, "the model sees responses, not a message"
    assert len(bench.provider.requests) == 2


async def test_blank_reply_uses_the_cancellation_response() -> None:
    bench, _, ready = with_tools(FakePrompter(yes("reply"), yes("")), DONE)
    await one_interrupt(bench, ready)
    assert contents(bench)[0] == ("c1", CANCELLATION)
    assert bench.turn.text == "Done."


async def test_restart_runs_open_calls_again_with_a_new_permission() -> None:
    async def choose() -> PromptEnd:
        return yes("restart")

    async def allow() -> PromptEnd:
        slow.gate.set()
        return yes("run")

    config: Any = acting()
    config["conversation"] = {"tools": {"slow": {"run": "ask"}}}
    person = FakePrompter(yes("run"), choose, allow)
    bench, slow, ready = with_tools(person, DONE, config=config)
    end = await one_interrupt(bench, ready)
    assert end.status == "completed"
    assert (slow.runs, slow.cleaned) == (2, 2)
    assert contents(bench) == [("c1", "slow is done"), ("c2", "fast is done")]
    begun = [event.name for event in bench.shown_of(ToolBegins)]
    assert begun.count("slow") == 2
    assert begun.count("fast") == 1
    ended = [(event.name, event.skipped) for event in bench.shown_of(ToolEnds)]
    assert ended == [("fast", False), ("slow", True), ("slow", False)]


async def test_stop_cancels_running_tools_and_ends_the_turn() -> None:
    bench, slow, ready = with_tools(FakePrompter(yes("stop")))
    end = await one_interrupt(bench, ready)
    assert (end.status, slow.cleaned) == ("interrupted", 1)
    assert contents(bench) == [("c1", CANCELLATION), ("c2", "fast is done")]
    assert not bench.stream.repair()


@pytest.mark.parametrize(
    ("action", "status", "first"),
    [
        ("stop", "interrupted", CANCELLATION),
        ("respond", "completed", "Tool run cancelled by user with a custom message:\n\nHm."),
        ("restart", "completed", "slow is done"),
        ("continue", "completed", "slow is done"),
    ],
)
async def test_configured_action_for_tools_needs_no_menu(
    action: str, status: str, first: str
) -> None:
    person = FakePrompter(*([yes("Hm.")] if action == "respond" else []))
    bench, slow, ready = with_tools(person, DONE, config=acting(tool_call=action))
    task = asyncio.create_task(bench.run())
    await until(ready)
    bench.loop.interrupt()
    if action == "restart":
        await until(lambda: slow.runs == 2)
    if action in ("restart", "continue"):
        slow.gate.set()
    async with asyncio.timeout(5):
        end = await task
    assert (end.status, contents(bench)[0]) == (status, ("c1", first))
    assert menus(person) == []


async def test_interrupt_without_a_user_ends_the_turn() -> None:
    bench, _, ready = with_tools(FakePrompter(away="no kernel"))
    end = await one_interrupt(bench, ready)
    assert end.status == "interrupted"
    assert contents(bench) == [("c1", f"{STOPPED} The turn was ended."), ("c2", "fast is done")]


def asking_tool(name: str = "ask") -> PythonTool:
    def ask(ctx: ToolContext) -> Outcome:
        if "sure" not in ctx.answers:
            return NeedsInput(Question.boolean("sure", "Sure?"))
        return Success(f"sure: {ctx.answers['sure']}")

    return PythonTool(ask, name=name)


async def test_open_prompt_is_closed_before_the_menu_and_the_next_one_waits() -> None:
    person = FakePrompter(forever, yes("continue"), yes(True))
    calls = reply(call("a", "c1", index=1), call("b", "c2", index=2))
    tools = [asking_tool("a"), asking_tool("b")]
    bench = Bench([calls, DONE], tools=tools, person=person, config=acting())
    end = await one_interrupt(bench, lambda: person.asked)
    assert end.status == "completed"
    shown = [p.text if isinstance(p, ActionPrompt) else p.tool for p in person.asked]
    assert shown == ["a", "Interrupted: `a` and `b`", "b"]
    assert person.most_at_once == 1
    assert contents(bench) == [("c1", NOT_ANSWERED["interrupted"]), ("c2", "sure: True")]
    [first, second] = bench.of(InquiryResponse)
    assert first.metadata == {"end": "interrupted", "channel": "form"}
    assert second.outcome == "answered"


async def test_menu_names_the_call_whose_question_was_closed() -> None:
    person = FakePrompter(forever, yes("continue"))
    calls = reply(call("a"))
    bench = Bench([calls, DONE], tools=[asking_tool("a")], person=person, config=acting())
    await one_interrupt(bench, lambda: person.asked)
    assert person.asked[-1].text == "Interrupted: `a`"
    assert menus(person) == [["Continue", "Tell the model something …", "End the turn"]]


@pytest.mark.parametrize("choice", ["stop", "restart"])
async def test_waiting_prompts_are_dropped_when_the_batch_is_cut(choice: str) -> None:
    answers: dict[str, list[Any]] = {"stop": [yes("stop")], "restart": [yes("restart"), yes(False)]}
    person = FakePrompter(forever, *answers[choice])
    calls = reply(call("a", "c1", index=1), call("b", "c2", index=2))
    tools = [asking_tool("a"), asking_tool("b")]
    bench = Bench([calls, DONE], tools=tools, person=person, config=acting())
    await one_interrupt(bench, lambda: person.asked)
    outcomes = [(r.id, r.outcome, r.metadata.get("end")) for r in bench.of(InquiryResponse)]
    assert outcomes[:2] == [
        ("c1.sure.1", "cancelled", "interrupted"),
        ("c2.sure.1", "cancelled", "interrupted"),
    ]
    if choice == "restart":
        assert outcomes[2] == ("c2.sure.2", "answered", "answered")
        assert contents(bench)[1] == ("c2", "sure: False")
    assert not bench.stream.repair()


async def test_interrupt_at_the_end_of_the_answer_reaches_its_tools() -> None:
    bench, slow, _ = with_tools(FakePrompter(yes("stop")))
    loop = asyncio.get_running_loop()

    def on_change() -> None:
        if bench.entries[-1].type == "tool_call_request":
            bench.stream.on_change = lambda: None
            loop.call_soon(bench.loop.interrupt)  # the answer is complete by then

    bench.stream.on_change = on_change
    async with asyncio.timeout(5):
        end = await bench.run()
    assert end.status == "interrupted"
    assert [r.id for r in bench.of(ToolCallResponse)] == ["c1", "c2"]
    assert slow.cleaned == slow.runs


async def test_restarted_and_skipped_call_is_reported_as_run_before() -> None:
    config: Any = acting()
    config["conversation"] = {"tools": {"slow": {"run": "ask"}}}
    person = FakePrompter(yes("run"), yes("restart"), yes("skip"))
    bench, slow, ready = with_tools(person, DONE, config=config)
    await one_interrupt(bench, ready)
    assert slow.runs == 1
    assert dict(contents(bench))["c1"] == RAN_BEFORE.format(SKIPPED)


async def test_restart_runs_a_cut_function_again() -> None:
    class Cell:
        runs = released = 0

        async def call(self, function: Any) -> Any:
            self.runs += 1
            if self.runs == 1:
                bench.loop.interrupt()
                raise CallInterrupted from KeyboardInterrupt()
            return function()

        def release(self) -> None:
            self.released += 1

    cell = Cell()
    tool = PythonTool(lambda: "at last", name="t")
    person = FakePrompter(yes("restart"))
    bench = Bench([reply(call("t")), DONE], tools=[tool], person=person, config=acting())
    bench.loop.cell = cell
    assert (await bench.run()).status == "completed"
    assert contents(bench) == [("call_1", "at last")]
    assert (cell.runs, cell.released) == (2, 1)


async def test_result_after_the_cut_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jp_nb.agent.batch_events.STOP_GRACE", 0.02)
    stale, runs = asyncio.Event(), 0

    async def stubborn() -> str:
        nonlocal runs
        runs += 1
        if runs == 2:
            stale.set()
            await asyncio.sleep(0.01)
            return "second"
        while not stale.is_set():
            try:
                await stale.wait()
            except asyncio.CancelledError:
                continue
        return "first"

    bench = Bench(
        [reply(call("stubborn")), DONE],
        tools=[PythonTool(stubborn)],
        person=FakePrompter(yes("restart")),
        config=acting(),
    )
    end = await one_interrupt(bench, lambda: runs)
    assert end.status == "completed"
    assert contents(bench) == [("call_1", "second")]


async def test_function_that_ends_during_the_cut_runs_again_on_restart() -> None:
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
                raise CallInterrupted from KeyboardInterrupt()

        def release(self) -> None:
            pass

    tool = PythonTool(lambda: "at last", name="t")
    bench = Bench([reply(call("t")), DONE], tools=[tool], config=acting(tool_call="restart"))
    bench.loop.cell = Cell()
    async with asyncio.timeout(5):
        assert (await bench.run()).status == "completed"
    assert contents(bench) == [("call_1", "at last")]


@pytest.mark.parametrize("choice", ["continue", "stop"])
async def test_function_that_is_cut_late_does_not_delay_the_turn(choice: str) -> None:
    decided = asyncio.Event()

    class Cell:
        async def call(self, function: Any) -> Any:
            bench.loop.interrupt()
            await decided.wait()
            raise CallInterrupted from KeyboardInterrupt()

        def release(self) -> None:
            decided.set()

    tool = PythonTool(lambda: "never", name="t")
    config = acting(tool_call=choice)
    bench = Bench([reply(call("t")), DONE], tools=[tool], config=config)
    bench.loop.cell = Cell()
    async with asyncio.timeout(5):
        end = await bench.run()
    assert end.status == ("completed" if choice == "continue" else "interrupted")
    told = f"{STOPPED} The turn goes on." if choice == "continue" else CANCELLATION
    assert contents(bench) == [("call_1", told)]


class CutCell:
    """A cell's thread on which every interrupt cuts the function that runs.

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
        raise CallInterrupted from KeyboardInterrupt()

    def release(self) -> None:
        self.released += 1


def cutting(person: FakePrompter, *calls: Any, config: Partial | None = None) -> Any:
    """Return a turn whose tool `hold` runs in the cell and is cut by the interrupt."""
    slow = Slow()
    tools = [PythonTool(lambda: "never", name="hold"), slow.tool]
    bench = Bench([reply(*calls), DONE], tools=tools, person=person, config=config or acting())
    bench.loop.cell = cell = CutCell()
    return bench, slow, cell


async def cut(bench: Bench, cell: CutCell, ready: Callable[[], object]) -> TurnEnd:
    """Run the turn, interrupt it when `ready` holds, and cut the functions in the cell."""
    task = asyncio.create_task(bench.run())
    await until(lambda: cell.heard and ready())
    bench.loop.interrupt()
    for heard in cell.heard:
        heard.set()
    async with asyncio.timeout(5):
        return await task


HOLD, SLOW = call("hold", "c1", index=1), call("slow", "c2", index=2)


ALONE = ["Tell the model something …", "Run `hold` again", "End the turn"]


@pytest.mark.parametrize("closed", [False, True], ids=["chosen", "closed"])
async def test_continue_is_offered_only_while_a_call_can_continue(closed: bool) -> None:
    person = FakePrompter(CANCELLED if closed else yes("stop"))
    bench, _, cell = cutting(person, HOLD)
    end = await cut(bench, cell, lambda: True)
    assert menus(person) == [ALONE]
    assert end.status == ("completed" if closed else "interrupted")
    told = f"{STOPPED} The user chose to go on." if closed else CANCELLATION
    assert contents(bench) == [("c1", told)]


async def test_continue_keeps_the_calls_that_were_not_cut() -> None:
    async def choose() -> PromptEnd:
        slow.gate.set()
        return yes("continue")

    person = FakePrompter(choose)
    bench, slow, cell = cutting(person, HOLD, SLOW)
    assert (await cut(bench, cell, lambda: slow.runs)).status == "completed"
    assert menus(person) == [TWO_RUN]
    assert contents(bench) == [
        ("c1", f"{STOPPED} The user chose to go on."),
        ("c2", "slow is done"),
    ]
    _, seen = bench.provider.requests[1]
    assert "cancelled" not in repr(seen)


async def test_interrupted_permission_is_reported_as_not_run() -> None:
    config: Any = {"conversation": {"tools": {"b": {"run": "ask"}}}}
    calls = reply(call("a", "c1", index=1), call("b", "c2", index=2))
    tools = [PythonTool(forever, name="a"), PythonTool(lambda: "x", name="b")]
    person = FakePrompter(forever, NotAnswered("timed_out", "form"))
    bench = Bench([calls], tools=tools, person=person, config={**acting(), **config})
    end = await one_interrupt(bench, lambda: person.asked)
    assert end.status == "interrupted"
    assert contents(bench) == [
        ("c1", f"{STOPPED} The turn was ended."),
        ("c2", "Tool not run: an interrupt came first."),
    ]


@pytest.mark.parametrize("choice", ["stop", "reply"])
async def test_undelivered_result_is_not_reported_as_cancelled(choice: str) -> None:
    async def say_it() -> PromptEnd:
        return yes("Enough.")

    config: Any = {"conversation": {"tools": {"b": {"result": "ask"}, "a": {"result": "ask"}}}}
    calls = reply(call("a", "c1", index=1), call("b", "c2", index=2))
    tools = [PythonTool(lambda n=n: n, name=n) for n in ("a", "b")]
    person = FakePrompter(forever, yes(choice), say_it)
    bench = Bench([calls, DONE], tools=tools, person=person, config={**acting(), **config})
    await one_interrupt(bench, lambda: person.asked)
    told = "The tool ran; its result is not delivered: an interrupt came first."
    assert contents(bench) == [("c1", told), ("c2", told)]
    words = [request.content for request in bench.of(ChatRequest)]
    assert words == (["Go.", "Enough."] if choice == "reply" else ["Go."])


async def test_cancelled_turn_does_not_report_calls_as_cancelled_by_the_user() -> None:
    config: Any = {"conversation": {"tools": {"b": {"run": "ask"}}}}
    calls = reply(call("forever", "c1", index=1), call("b", "c2", index=2))
    tools = [PythonTool(forever), PythonTool(lambda: "x", name="b")]
    bench = Bench([calls], tools=tools, person=FakePrompter(forever), config=config)
    task = asyncio.create_task(bench.run())
    await until(lambda: bench.person.asked and len(bench.shown_of(ToolBegins)) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert contents(bench) == [("c1", BROKE_OFF), ("c2", NEVER_RAN)]


async def test_turn_cancelled_before_its_batch_answers_the_calls() -> None:
    bench = Bench([reply(call("t"))], tools=[PythonTool(lambda: "x", name="t")])
    task = asyncio.create_task(bench.run())

    def on_change() -> None:
        if bench.entries[-1].type == "tool_call_request":
            bench.stream.on_change = None
            task.cancel()  # the answer is in the record, and nothing of it has begun

    bench.stream.on_change = on_change
    with pytest.raises(asyncio.CancelledError):
        await task
    assert contents(bench) == [("call_1", NEVER_RAN)]
    assert not bench.stream.repair()


@pytest.mark.parametrize("phase", ["streaming", "tools"])
async def test_interrupt_is_acknowledged_before_the_menu(phase: str) -> None:
    async def look() -> PromptEnd:
        shown.extend(bench.passing)
        return yes("stop")

    shown: list[Any] = []
    person = FakePrompter(look)
    if phase == "streaming":
        bench = Bench([answering(asyncio.Event())], person=person, config=acting())
        end = await one_interrupt(bench, has_said(bench))
    else:
        bench, _, ready = with_tools(person)
        end = await one_interrupt(bench, ready)
    assert end.status == "interrupted"
    heard = [event for event in shown if isinstance(event, InterruptHeard)]
    assert heard == [InterruptHeard(), InterruptHeard("menu")]


async def test_interrupt_is_acknowledged_while_a_function_has_the_cell() -> None:
    bench, _, cell = cutting(FakePrompter(yes("stop")), HOLD)
    task = asyncio.create_task(bench.run())
    await until(lambda: cell.heard)
    bench.loop.interrupt()
    assert bench.passing[-1] == InterruptHeard()
    assert not bench.person.asked, "who has the cell is not done yet"
    cell.heard[0].set()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"


def returning(content: str, *, name: str = "t") -> PythonTool:
    return PythonTool(lambda: content, name=name)


def well_formed(stream: ConversationStream) -> bool:
    """Return True if every call has a response and every inquiry an end."""
    again = ConversationStream(stream.head, clock=FakeClock(), raw=list(stream.raw))
    return not again.repair() and not stream.unanswered() and not open_inquiries(stream)


async def interrupted(bench: Bench, when: Callable[[], object]) -> None:
    """Run until `when` holds, interrupt twice, and check the end of the turn."""
    task = asyncio.create_task(bench.run())
    await until(when)
    bench.loop.interrupt()
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        end = await task
    assert end.status == "interrupted"
    assert well_formed(bench.stream)


async def test_interrupt_cancels_running_threads_and_keeps_finished_results() -> None:
    hold = threading.Event()

    def slow() -> str:
        hold.wait(10)
        return ""

    tool = PythonTool(slow, thread=True)
    calls = [call("slow", "c1", index=1), call("fast", "c2", index=2)]
    bench = Bench([reply(*calls)], tools=[tool, returning("x", name="fast")])
    try:
        await interrupted(bench, lambda: bench.shown_of(ToolEnds))
    finally:
        hold.set()
    contents = [(r.id, r.content, r.is_error) for r in bench.of(ToolCallResponse)]
    assert contents == [("c1", CANCELLATION, False), ("c2", "x", False)]


async def test_response_of_a_cancelled_call_is_configurable() -> None:
    async def slow() -> None:
        await forever()

    config = for_tool("slow", cancellation_response="Stop.")
    bench = Bench([reply(call("slow"))], tools=[PythonTool(slow)], config=config)
    await interrupted(bench, lambda: bench.shown_of(ToolBegins))
    assert bench.of(ToolCallResponse)[0].content == "Stop."


async def test_function_cut_by_an_interrupt_without_a_user_is_reported_as_stopped() -> None:
    class Cell:
        async def call(self, function: Any) -> Any:
            bench.loop.interrupt()  # as the cell's thread does, whose tool was interrupted
            raise CallInterrupted from KeyboardInterrupt()

        def release(self) -> None:
            pass

    person = FakePrompter(away="no kernel")
    bench = Bench([reply(call("t"))], tools=[returning("x")], person=person)
    bench.loop.cell = Cell()
    assert (await bench.run()).status == "interrupted"
    [response] = bench.of(ToolCallResponse)
    assert (response.content, response.is_error) == (stopped(STOP, ran=True), False)
    assert bench.shown_of(ToolEnds)[0].traceback is None


class CuttingCell:
    """A cell's thread that is interrupted in its first function."""

    def __init__(self) -> None:
        self.bench: Bench | None = None
        self.runs = self.released = 0

    async def call(self, function: Any) -> Any:
        self.runs += 1
        if self.runs == 1:
            assert self.bench is not None
            self.bench.loop.interrupt()
            raise CallInterrupted from KeyboardInterrupt()
        return function()

    def release(self) -> None:
        self.released += 1


@pytest.mark.parametrize("asked", [False, True], ids=["configured", "chosen"])
async def test_cut_function_gets_a_response_when_the_batch_continues(asked: bool) -> None:
    config: Any = {"interrupt": {"tool_call": {"action": "prompt" if asked else "continue"}}}
    person = FakePrompter(*([yes("continue")] if asked else []))
    calls = reply(call("t", "c1", index=1), call("t", "c2", index=2))
    bench = Bench([calls, DONE], [PythonTool(lambda: "fine", name="t")], person, config)
    cell = bench.loop.cell = CuttingCell()
    cell.bench = bench
    async with asyncio.timeout(5):
        assert (await bench.run()).status == "completed"
    went_on = "The user chose to go on." if asked else "The turn goes on."
    assert contents(bench) == [("c1", f"{STOPPED} {went_on}"), ("c2", "fine")]
    assert (cell.runs, cell.released) == (2, 1)


def interrupted_at_its_end(*ends: Any) -> Bench:
    """Return a turn in which an interrupt comes with the last response of a batch."""
    tool = PythonTool(lambda: "fine", name="t")
    bench = Bench([reply(call("t")), DONE], [tool], FakePrompter(*ends))

    def display(event: DisplayEvent) -> None:
        bench.show(event)
        if isinstance(event, ToolEnds):
            bench.loop.interrupt()

    bench.loop.display = display
    return bench


async def test_interrupt_with_the_last_response_opens_the_menu() -> None:
    bench = interrupted_at_its_end(yes("stop"))
    assert (await bench.run()).status == "interrupted"
    assert contents(bench) == [("call_1", "fine")]
    assert len(bench.provider.requests) == 1


@pytest.mark.parametrize("choice", ["continue", "restart"])
async def test_continue_and_restart_change_nothing_after_the_last_response(choice: str) -> None:
    bench = interrupted_at_its_end(yes(choice))
    assert (await bench.run()).status == "completed"
    assert contents(bench) == [("call_1", "fine")]


async def test_reply_after_the_last_response_is_a_message() -> None:
    bench = interrupted_at_its_end(yes("reply"), yes("Enough."))
    assert (await bench.run()).status == "completed"
    assert contents(bench) == [("call_1", "fine")]
    assert [request.content for request in bench.of(ChatRequest)] == ["Go.", "Enough."]
    assert bench.shown_of(PersonSays) == [PersonSays("Enough.")]


async def test_restart_drops_answers_and_edits() -> None:
    runs: list[dict[str, Any]] = []

    async def t(ctx: ToolContext, n: int = 0) -> Outcome:
        runs.append({"n": n, **ctx.answers})
        if "sure" not in ctx.answers:
            return NeedsInput(Question.boolean("sure", "Sure?"))
        if len(runs) == 2:
            await forever()
        return Success("fine")

    config: Any = for_tool("t", run="ask")
    person = FakePrompter(
        *(yes("edit"), yes('{"n": 1}'), yes(True), yes("restart"), yes("run"), yes(False))
    )
    bench = Bench([reply(call("t")), DONE], [PythonTool(t)], person, config)
    task = asyncio.create_task(bench.run())
    await until(lambda: len(runs) == 2)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        await task
    assert runs == [{"n": 1}, {"n": 1, "sure": True}, {"n": 0}, {"n": 0, "sure": False}]
    [response] = bench.of(ToolCallResponse)
    assert (response.content, response.metadata) == ("fine", {})


async def test_interrupt_during_the_cut_ends_the_turn() -> None:
    runs: list[str] = []

    async def slow() -> str:
        runs.append("begun")
        try:
            await forever()
        finally:
            if bench.loop.interrupts_heard == 1:
                bench.loop.interrupt()  # while the coordinator waits for the clean-up
        return "never"

    config: Any = {"interrupt": {"escalation_cooldown_secs": 0}}
    bench = Bench([reply(call("slow"))], [PythonTool(slow)], FakePrompter(yes("restart")), config)
    task = asyncio.create_task(bench.run())
    await until(lambda: runs)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert contents(bench) == [("call_1", CANCELLATION)]


async def test_interrupt_of_the_tool_menu_ends_the_turn() -> None:
    config: Any = {"interrupt": {"escalation_cooldown_secs": 0}}
    person = FakePrompter(forever)
    bench = Bench([reply(call("forever"))], [PythonTool(forever)], person, config)
    task = asyncio.create_task(bench.run())
    await until(lambda: bench.shown_of(ToolBegins))
    bench.loop.interrupt()
    await until(lambda: person.asked)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert len(person.asked) == 1
    assert contents(bench) == [("call_1", CANCELLATION)]


async def test_restarted_function_is_not_taken_for_the_cut_one() -> None:
    gate = asyncio.Event()

    class Cell(CuttingCell):
        async def call(self, function: Any) -> Any:
            result = await super().call(function)
            await gate.wait()
            return result

    config: Any = {"interrupt": {"escalation_cooldown_secs": 0}}
    person = FakePrompter(yes("restart"), yes("continue"))
    bench = Bench([reply(call("t")), DONE], [PythonTool(lambda: "fine", name="t")], person, config)
    cell = bench.loop.cell = Cell()
    cell.bench = bench
    task = asyncio.create_task(bench.run())
    await until(lambda: cell.runs == 2)
    bench.loop.interrupt()
    gate.set()  # before that nothing can be asked: the function has the cell's thread
    async with asyncio.timeout(5):
        assert (await task).status == "completed"
    assert contents(bench) == [("call_1", "fine")]


async def test_waiting_function_is_cut_by_its_own_interrupt() -> None:
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
                    raise CallInterrupted from exc

        def release(self) -> None:
            self.free.set()

    config: Any = {"interrupt": {"escalation_cooldown_secs": 0}}
    person = FakePrompter(yes("continue"), yes("restart"))
    calls = reply(call("t", "c1", index=1), call("t", "c2", index=2))
    bench = Bench([calls, DONE], [PythonTool(function, name="t")], person, config)
    bench.loop.cell = Cell()
    async with asyncio.timeout(5):
        assert (await bench.run()).status == "completed"
    went_on = f"{STOPPED} The user chose to go on."
    assert contents(bench) == [("c1", went_on), ("c2", "fine")]


async def test_function_that_turns_an_interrupt_into_an_error_has_failed() -> None:
    def function() -> str:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as exc:
            raise LookupError("gone") from exc

    bench = Bench([reply(call("t")), DONE], tools=[PythonTool(function, name="t")])
    async with asyncio.timeout(5):
        await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert (response.content, response.is_error) == ("LookupError: gone", True)
