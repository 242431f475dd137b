"""Interrupts while tools run."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import Any

import pytest

import jp_nb as jp
from tests.agent.interrupted_turns import (
    Slow,
    contents,
    gated_reply,
    has_said,
    interrupt_config,
    interrupt_twice,
    menus,
    one_interrupt,
)
from tests.agent.turn_bench import DONE, call, make_result_tool, reply
from tests.kit.kinds import is_kind, kind_of, make, select_kind
from tests.kit.questions import not_answered
from tests.kit.screens import display_event
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, forever, until, yes

BROKE_OFF = "The turn ended before this tool call finished. Its effects up to then may remain."
NEVER_RAN = "This tool call did not run. The turn ended first."
RAN_BEFORE = (
    "This call may already have run, fully or partly, and its effects may remain. It did"
    " not run again: {}"
)
STOPPED = "Interrupted before it finished. Its effects up to then may remain."
SKIPPED_BY_USER = "Tool skipped by user."
CANCELLATION = (
    "The user cancelled this tool call on purpose. Find out why from the conversation, or"
    " ask, before you call it again."
)


SLOW_RUNS = ["Continue", "Tell the model something …", "Run slow again", "End the turn"]


CALLS = reply(call("slow", "c1", index=1), call("fast", "c2", index=2))


def make_tool_bench(
    person: FakePrompter, *scripts: Any, config: dict[str, Any] | None = None
) -> Any:
    """Return a turn whose first response calls a slow and a fast tool, and the slow tool."""
    slow = Slow()
    fast = new_tool(lambda: "fast is done", name="fast")
    config = interrupt_config() if config is None else config
    bench = TurnBench([CALLS, *scripts], tools=[slow.tool, fast], person=person, config=config)
    return bench, slow, lambda: slow.runs and bench.shown_of("tool_ends")


async def test_continue_waits_for_running_tools() -> None:
    async def choose() -> Any:
        slow.gate.set()
        return yes("continue")

    person = FakePrompter(choose)
    bench, slow, ready = make_tool_bench(person, DONE)
    end = await one_interrupt(bench, ready)
    assert end.status == "completed"
    assert contents(bench) == [("c1", "slow is done"), ("c2", "fast is done")]
    assert (slow.runs, menus(person)) == (1, [SLOW_RUNS])


async def test_reply_is_the_response_of_cancelled_calls() -> None:
    person = FakePrompter(yes("reply"), yes("Use the other one."))
    bench, slow, ready = make_tool_bench(person, DONE)
    end = await one_interrupt(bench, ready)
    words = "Tool run cancelled by user with a custom message:\n\nUse the other one."
    assert contents(bench) == [("c1", words), ("c2", "fast is done")]
    assert [r.is_error for r in bench.of("tool_call_response")] == [False, False]
    assert (end.status, slow.cleaned) == ("completed", 1)
    assert len(bench.of("chat_request")) == 1, "the model sees responses, not a message"
    assert len(bench.provider.requests) == 2


async def test_blank_reply_uses_the_cancellation_response() -> None:
    bench, _, ready = make_tool_bench(FakePrompter(yes("reply"), yes("")), DONE)
    await one_interrupt(bench, ready)
    assert contents(bench)[0] == ("c1", CANCELLATION)
    assert bench.turn.text == "Done."


async def test_restart_runs_open_calls_again_with_a_new_permission() -> None:
    async def choose() -> Any:
        return yes("restart")

    async def allow() -> Any:
        slow.gate.set()
        return yes("run")

    config: Any = interrupt_config()
    config["conversation"] = {"tools": {"slow": {"run": "ask"}}}
    person = FakePrompter(yes("run"), choose, allow)
    bench, slow, ready = make_tool_bench(person, DONE, config=config)
    end = await one_interrupt(bench, ready)
    assert end.status == "completed"
    assert (slow.runs, slow.cleaned) == (2, 2)
    assert contents(bench) == [("c1", "slow is done"), ("c2", "fast is done")]
    begun = [event.name for event in bench.shown_of("tool_begins")]
    assert begun.count("slow") == 2
    assert begun.count("fast") == 1
    ended = [(event.name, event.skipped) for event in bench.shown_of("tool_ends")]
    assert ended == [("fast", False), ("slow", True), ("slow", False)]


async def test_stop_cancels_running_tools_and_ends_the_turn() -> None:
    bench, slow, ready = make_tool_bench(FakePrompter(yes("stop")))
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
    bench, slow, ready = make_tool_bench(person, DONE, config=interrupt_config(tool_call=action))
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
    bench, _, ready = make_tool_bench(FakePrompter(away="no kernel"))
    end = await one_interrupt(bench, ready)
    assert end.status == "interrupted"
    assert contents(bench) == [("c1", f"{STOPPED} The turn was ended."), ("c2", "fast is done")]


def asking_tool(name: str = "ask") -> Any:
    def ask(ctx: jp.ToolContext) -> jp.Outcome:
        if "sure" not in ctx.answers:
            return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"))
        return jp.Success(f"sure: {ctx.answers['sure']}")

    return new_tool(ask, name=name)


async def test_open_prompt_is_closed_before_the_menu_and_the_next_one_waits() -> None:
    person = FakePrompter(forever, yes("continue"), yes(True))
    calls = reply(call("a", "c1", index=1), call("b", "c2", index=2))
    tools = [asking_tool("a"), asking_tool("b")]
    bench = TurnBench([calls, DONE], tools=tools, person=person, config=interrupt_config())
    end = await one_interrupt(bench, lambda: person.asked)
    assert end.status == "completed"
    shown = [p.text if is_kind(p, "decision_prompt") else p.tool for p in person.asked]
    assert shown == ["a", "Interrupted: a and b", "b"]
    assert person.most_at_once == 1
    assert contents(bench) == [
        ("c1", "The tool's question was not answered: an interrupt closed it."),
        ("c2", "sure: True"),
    ]
    [first, second] = bench.of("inquiry_response")
    assert first.metadata == {"end": "interrupted", "channel": "form"}
    assert second.outcome == "answered"


async def test_menu_names_the_call_whose_question_was_closed() -> None:
    person = FakePrompter(forever, yes("continue"))
    calls = reply(call("a"))
    bench = TurnBench(
        [calls, DONE], tools=[asking_tool("a")], person=person, config=interrupt_config()
    )
    await one_interrupt(bench, lambda: person.asked)
    assert person.asked[-1].text == "Interrupted: a"
    assert menus(person) == [["Continue", "Tell the model something …", "End the turn"]]


@pytest.mark.parametrize("choice", ["stop", "restart"])
async def test_waiting_prompts_are_dropped_when_the_batch_is_canceled(choice: str) -> None:
    answers: dict[str, list[Any]] = {"stop": [yes("stop")], "restart": [yes("restart"), yes(False)]}
    person = FakePrompter(forever, *answers[choice])
    calls = reply(call("a", "c1", index=1), call("b", "c2", index=2))
    tools = [asking_tool("a"), asking_tool("b")]
    bench = TurnBench([calls, DONE], tools=tools, person=person, config=interrupt_config())
    await one_interrupt(bench, lambda: person.asked)
    outcomes = [(r.id, r.outcome, r.metadata.get("end")) for r in bench.of("inquiry_response")]
    assert outcomes[:2] == [
        ("c1.sure.1", "cancelled", "interrupted"),
        ("c2.sure.1", "cancelled", "interrupted"),
    ]
    if choice == "restart":
        assert outcomes[2] == ("c2.sure.2", "answered", "answered")
        assert contents(bench)[1] == ("c2", "sure: False")
    assert not bench.stream.repair()


async def test_interrupt_at_the_end_of_the_answer_reaches_its_tools() -> None:
    bench, slow, _ = make_tool_bench(FakePrompter(yes("stop")))
    loop = asyncio.get_running_loop()

    def on_change() -> None:
        if bench.entries[-1].type == "tool_call_request":
            bench.stream.on_change = lambda: None
            loop.call_soon(bench.loop.interrupt)  # the answer is complete by then

    bench.stream.on_change = on_change
    async with asyncio.timeout(5):
        end = await bench.run()
    assert end.status == "interrupted"
    assert [r.id for r in bench.of("tool_call_response")] == ["c1", "c2"]
    assert slow.cleaned == slow.runs


async def test_restarted_and_skipped_call_is_reported_as_run_before() -> None:
    config: Any = interrupt_config()
    config["conversation"] = {"tools": {"slow": {"run": "ask"}}}
    person = FakePrompter(yes("run"), yes("restart"), yes("skip"))
    bench, slow, ready = make_tool_bench(person, DONE, config=config)
    await one_interrupt(bench, ready)
    assert slow.runs == 1
    assert dict(contents(bench))["c1"] == RAN_BEFORE.format(SKIPPED_BY_USER)


async def test_result_after_cancellation_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jp_nb.agent.call_steps.batch.CLEANUP_GRACE_S", 0.02)
    stale = asyncio.Event()
    runs = 0

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

    bench = TurnBench(
        [reply(call("stubborn")), DONE],
        tools=[new_tool(stubborn)],
        person=FakePrompter(yes("restart")),
        config=interrupt_config(),
    )
    end = await one_interrupt(bench, lambda: runs)
    assert end.status == "completed"
    assert contents(bench) == [("call_1", "second")]


async def test_error_during_cancellation_is_logged_and_every_call_gets_a_response(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def stubborn() -> str:
        with suppress(asyncio.CancelledError):
            await forever()
        return "late"

    def fail(*_: Any, **options: Any) -> None:
        raise ZeroDivisionError("a fault of ours")

    slow = Slow()
    calls = reply(call("stubborn", "c1", index=1), call("slow", "c2", index=2))
    person = FakePrompter(yes("stop"))
    bench = TurnBench([calls], [new_tool(stubborn), slow.tool], person, interrupt_config())
    monkeypatch.setattr("jp_nb.agent.call_steps.call_results.limit_images", fail)
    with caplog.at_level(logging.ERROR, "jp_nb.agent.call_steps.batch"):
        await one_interrupt(bench, lambda: slow.runs)
    assert contents(bench) == [("c1", CANCELLATION), ("c2", CANCELLATION)]
    assert "a fault of ours" in caplog.text


@pytest.mark.parametrize("waits", [True, False])
async def test_tool_that_cancels_its_own_task_ends_alone(waits: bool) -> None:
    async def t() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if waits:
            await asyncio.sleep(0)
        return "fine"

    bench = TurnBench([reply(call("t")), DONE], [new_tool(t)])
    async with asyncio.timeout(5):
        assert (await bench.run()).status == "completed"
    content = "The tool cancelled itself." if waits else "fine"
    assert contents(bench) == [("call_1", content)]


async def test_tool_that_returns_during_cancellation_asks_nothing() -> None:
    runs = 0

    async def stubborn() -> jp.Outcome:
        nonlocal runs
        runs += 1
        with suppress(asyncio.CancelledError):
            await forever()
        return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"))

    person = FakePrompter(yes("stop"))
    bench = TurnBench([reply(call("stubborn"))], [new_tool(stubborn)], person, interrupt_config())
    await one_interrupt(bench, lambda: runs)
    assert contents(bench) == [("call_1", CANCELLATION)]
    assert runs == 1
    assert len(person.asked) == 1
    assert not bench.stream.repair()


async def test_line_of_a_restarted_call_ends_where_the_next_one_begins() -> None:
    """If all lines ended first, the display would begin a new output below the prompts."""
    calls = reply(call("a", "c1", index=1), call("b", "c2", index=2))
    tools = [new_tool(forever, name="a"), new_tool(forever, name="b")]
    person = FakePrompter(yes("restart"), yes("stop"))
    bench = TurnBench([calls], tools, person, interrupt_config())
    task = asyncio.create_task(bench.run())
    await until(lambda: len(bench.shown_of("tool_begins")) == 2)
    bench.loop.interrupt()
    await until(lambda: len(bench.shown_of("tool_begins")) == 4)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        await task
    lines = select_kind(bench.shown, "tool_begins", "tool_ends")
    assert [(kind_of(e), e.call_id) for e in lines[2:6]] == [
        (kind, call_id) for call_id in ("c1", "c2") for kind in ("tool_ends", "tool_begins")
    ]


async def test_interrupted_permission_is_reported_as_not_run() -> None:
    config: Any = {"conversation": {"tools": {"b": {"run": "ask"}}}}
    calls = reply(call("a", "c1", index=1), call("b", "c2", index=2))
    tools = [new_tool(forever, name="a"), new_tool(lambda: "x", name="b")]
    person = FakePrompter(forever, not_answered("timed_out", "form"))
    bench = TurnBench([calls], tools=tools, person=person, config={**interrupt_config(), **config})
    end = await one_interrupt(bench, lambda: person.asked)
    assert end.status == "interrupted"
    assert contents(bench) == [
        ("c1", f"{STOPPED} The turn was ended."),
        ("c2", "Tool not run: an interrupt came first."),
    ]


@pytest.mark.parametrize("choice", ["stop", "reply"])
async def test_undelivered_result_is_not_reported_as_cancelled(choice: str) -> None:
    async def say_it() -> Any:
        return yes("Enough.")

    config: Any = {"conversation": {"tools": {"b": {"result": "ask"}, "a": {"result": "ask"}}}}
    calls = reply(call("a", "c1", index=1), call("b", "c2", index=2))
    tools = [new_tool(lambda n=n: n, name=n) for n in ("a", "b")]
    person = FakePrompter(forever, yes(choice), say_it)
    bench = TurnBench(
        [calls, DONE], tools=tools, person=person, config={**interrupt_config(), **config}
    )
    await one_interrupt(bench, lambda: person.asked)
    told = "The tool ran. Its result is not delivered: an interrupt came first."
    assert contents(bench) == [("c1", told), ("c2", told)]
    words = [request.content for request in bench.of("chat_request")]
    assert words == (["Go.", "Enough."] if choice == "reply" else ["Go."])


async def test_cancelled_turn_does_not_report_calls_as_cancelled_by_the_user() -> None:
    config: Any = {"conversation": {"tools": {"b": {"run": "ask"}}}}
    calls = reply(call("forever", "c1", index=1), call("b", "c2", index=2))
    tools = [new_tool(forever), new_tool(lambda: "x", name="b")]
    bench = TurnBench([calls], tools=tools, person=FakePrompter(forever), config=config)
    task = asyncio.create_task(bench.run())
    await until(lambda: bench.person.asked and len(bench.shown_of("tool_begins")) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert contents(bench) == [("c1", BROKE_OFF), ("c2", NEVER_RAN)]


async def test_turn_cancelled_before_its_batch_answers_the_calls() -> None:
    bench = TurnBench([reply(call("t"))], tools=[new_tool(lambda: "x", name="t")])
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
    async def look() -> Any:
        shown.extend(bench.passing)
        return yes("stop")

    shown: list[Any] = []
    person = FakePrompter(look)
    if phase == "streaming":
        bench = TurnBench([gated_reply(asyncio.Event())], person=person, config=interrupt_config())
        end = await one_interrupt(bench, has_said(bench))
    else:
        bench, _, ready = make_tool_bench(person)
        end = await one_interrupt(bench, ready)
    assert end.status == "interrupted"
    heard = [event for event in shown if is_kind(event, "interrupt_received")]
    assert heard == [
        display_event("interrupt_received"),
        display_event("interrupt_received", "menu"),
    ]


async def test_interrupt_cancels_running_threads_and_keeps_finished_results() -> None:
    hold = threading.Event()

    def slow() -> str:
        hold.wait(10)
        return ""

    tool = new_tool(slow, thread=True)
    calls = [call("slow", "c1", index=1), call("fast", "c2", index=2)]
    bench = TurnBench([reply(*calls)], tools=[tool, make_result_tool("x", name="fast")])
    try:
        await interrupt_twice(bench, lambda: bench.shown_of("tool_ends"))
    finally:
        hold.set()
    contents = [(r.id, r.content, r.is_error) for r in bench.of("tool_call_response")]
    assert contents == [("c1", CANCELLATION, False), ("c2", "x", False)]


async def test_response_of_a_cancelled_call_is_configurable() -> None:
    async def slow() -> None:
        await forever()

    config = for_tool("slow", cancellation_response="Stop.")
    bench = TurnBench([reply(call("slow"))], tools=[new_tool(slow)], config=config)
    await interrupt_twice(bench, lambda: bench.shown_of("tool_begins"))
    assert bench.of("tool_call_response")[0].content == "Stop."


def interrupted_at_its_end(*ends: Any) -> TurnBench:
    """Return a turn in which an interrupt comes with the last response of a batch."""
    tool = new_tool(lambda: "fine", name="t")
    bench = TurnBench([reply(call("t")), DONE], [tool], FakePrompter(*ends))

    def display(event: Any) -> None:
        bench.show(event)
        if is_kind(event, "tool_ends"):
            bench.loop.interrupt()

    bench.use(display=display)
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
    assert [request.content for request in bench.of("chat_request")] == ["Go.", "Enough."]
    assert bench.shown_of("user_message") == [display_event("user_message", "Enough.")]


async def test_restart_drops_answers_and_edits() -> None:
    runs: list[dict[str, Any]] = []

    async def t(ctx: jp.ToolContext, n: int = 0) -> jp.Outcome:
        runs.append({"n": n, **ctx.answers})
        if "sure" not in ctx.answers:
            return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"))
        if len(runs) == 2:
            await forever()
        return jp.Success("fine")

    config: Any = for_tool("t", run="ask")
    person = FakePrompter(
        yes("edit"), yes({"n": "1"}), yes(True), yes("restart"), yes("run"), yes(False)
    )
    bench = TurnBench([reply(call("t")), DONE], [new_tool(t)], person, config)
    task = asyncio.create_task(bench.run())
    await until(lambda: len(runs) == 2)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        await task
    assert runs == [{"n": 1}, {"n": 1, "sure": True}, {"n": 0}, {"n": 0, "sure": False}]
    [response] = bench.of("tool_call_response")
    assert (response.content, response.metadata) == ("fine", {})


async def test_interrupt_during_cancellation_ends_the_turn() -> None:
    runs: list[str] = []

    async def slow() -> str:
        runs.append("begun")
        try:
            await forever()
        finally:
            if bench.loop.interrupt_count == 1:
                bench.loop.interrupt()  # while the batch waits for the clean-up
        return "never"

    config: Any = {"interrupt": {"escalation_cooldown_secs": 0}}
    bench = TurnBench([reply(call("slow"))], [new_tool(slow)], FakePrompter(yes("restart")), config)
    task = asyncio.create_task(bench.run())
    await until(lambda: runs)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert contents(bench) == [("call_1", CANCELLATION)]


async def test_interrupt_of_the_tool_menu_ends_the_turn() -> None:
    config: Any = {"interrupt": {"escalation_cooldown_secs": 0}}
    person = FakePrompter(forever)
    bench = TurnBench([reply(call("forever"))], [new_tool(forever)], person, config)
    task = asyncio.create_task(bench.run())
    await until(lambda: bench.shown_of("tool_begins"))
    bench.loop.interrupt()
    await until(lambda: person.asked)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert len(person.asked) == 1
    assert contents(bench) == [("call_1", CANCELLATION)]


async def test_bench_run_that_is_interrupted_before_its_first_batch_counts_as_stopped() -> None:
    run = make("bench_run", [[]], make("batch_context"), TurnBench([DONE]).loop.turn)
    run.interrupt()
    assert not await run.run_all()
    assert run.stopped  # so that `jp.call` raises `KeyboardInterrupt`
