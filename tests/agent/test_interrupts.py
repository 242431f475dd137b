"""What an interrupt does: menus, configured actions, escalation; nothing is lost, nothing hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jp_nb.agent.call_runner import RAN_BEFORE
from jp_nb.agent.coordinator import BROKE_OFF, NEVER_RAN
from jp_nb.agent.decisions import SKIPPED
from jp_nb.agent.display_events import (
    DiscardText,
    DisplayEvent,
    InterruptHeard,
    Notice,
    PersonSays,
    ShowText,
    ToolBegins,
    ToolEnds,
)
from jp_nb.agent.interrupts import (
    CONTINUE,
    ESCALATED,
    STOP,
    STOPPED,
    Interrupts,
    Verdict,
    menu,
    stream_menu,
    tool_menu,
)
from jp_nb.agent.interrupts import INTERRUPTED as MENU_TEXT
from jp_nb.agent.model_events import TextPart
from jp_nb.agent.prompts import (
    ActionPrompt,
    NotAnswered,
    Prompt,
    PromptEnd,
    QuestionPrompt,
    Unavailable,
)
from jp_nb.agent.questions import NOT_ANSWERED
from jp_nb.agent.turn import TurnEnd
from jp_nb.config.partial import Partial
from jp_nb.config.tree.style_config import Interrupt as InterruptConfig
from jp_nb.config.tree.tool_config import CANCELLATION
from jp_nb.errors import ProviderError
from jp_nb.record.events import ChatRequest, InquiryResponse, ToolCallRequest, ToolCallResponse
from jp_nb.record.unanswered import NoAnswer, no_answer
from jp_nb.tooling.base import CallInterrupted
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import NeedsInput, Outcome, Success
from jp_nb.tooling.python import PythonTool
from jp_nb.tooling.question import Question
from tests.support.fakes import (
    CANCELLED,
    Bench,
    FakePrompter,
    call,
    forever,
    reply,
    say,
    until,
    yes,
)

DONE = reply(say("Done."))
INTERRUPTED = NotAnswered("interrupted", "form")
End = PromptEnd | Callable[[], Awaitable[PromptEnd]]


def acting(**actions: str) -> Partial:
    """A configuration with these actions; a second interrupt never counts as one of the first."""
    interrupt: dict[str, Any] = {key: {"action": value} for key, value in actions.items()}
    return {"interrupt": {"escalation_cooldown_secs": 0, **interrupt}}


async def one_interrupt(bench: Bench, when: Callable[[], object]) -> TurnEnd:
    """Run the turn, interrupt it once when `when` holds, and see it end."""
    task = asyncio.create_task(bench.run())
    await until(when)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        return await task


def answering(gate: asyncio.Event, text: str = "So far") -> list[Any]:
    """A response that begins with `text` and goes on when `gate` is open."""

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


STREAMING = [
    "Continue",
    "Tell the model something …",
    "End the turn and keep the answer so far",
    "End the turn and discard the answer so far",
]
SLOW_RUNS = ["Continue", "Tell the model something …", "Run `slow` again", "End the turn"]
TWO_RUN = ["Continue", "Tell the model something …", "Run these 2 calls again", "End the turn"]


# --- while the model answers -----------------------------------------------------------------


async def test_continue_goes_on_with_the_same_stream() -> None:
    gate = asyncio.Event()
    person = FakePrompter(yes("continue"))
    bench = Bench([answering(gate)], person=person, config=acting())
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    await until(lambda: InterruptHeard("continue") in bench.passing)
    gate.set()
    assert (await task).status == "completed"
    assert bench.turn.text == "So far and more"
    assert menus(person) == [STREAMING]
    assert len(bench.provider.requests) == 1


async def test_an_answer_that_is_complete_while_the_menu_is_open_waits_for_the_decision() -> None:
    gate, chosen = asyncio.Event(), asyncio.Event()

    async def choose() -> PromptEnd:
        gate.set()
        await until(lambda: ShowText("message", " and more") in bench.shown)
        for _ in range(5):
            await asyncio.sleep(0)
        assert bench.kinds() == ["turn_start", "chat_request"]
        chosen.set()
        return yes("abort")

    bench = Bench([answering(gate)], person=FakePrompter(choose), config=acting())
    end = await one_interrupt(bench, has_said(bench))
    assert (end.status, chosen.is_set()) == ("interrupted", True)
    assert bench.kinds() == ["turn_start", "chat_request", "config_delta"]
    assert no_answer(bench.entries[-1]) == NoAnswer("interrupted")


async def test_an_interrupt_as_the_last_one_was_decided_is_decided_too() -> None:
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()
    heard: list[DisplayEvent] = []

    async def choose() -> PromptEnd:
        gate.set()
        await until(lambda: ShowText("message", " and more") in bench.shown)
        for _ in range(5):
            await asyncio.sleep(0)
        return yes("continue")

    def show(event: DisplayEvent) -> None:
        bench.show(event)
        if event == InterruptHeard("continue") and not heard:
            heard.append(event)
            loop.call_soon(bench.loop.interrupt)  # before the answer hears that it may go on

    person = FakePrompter(choose, yes("abort"))
    bench = Bench([answering(gate)], person=person, config=acting())
    bench.loop.display = show
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "interrupted"
    assert menus(person) == [STREAMING, STREAMING]
    assert bench.kinds() == ["turn_start", "chat_request", "config_delta"]


@pytest.mark.parametrize("broken", [False, True], ids=["alive", "dead"])
async def test_a_stream_that_dies_behind_the_menu_is_asked_again_after_continue(
    broken: bool,
) -> None:
    gate = asyncio.Event()
    response = answering(gate)
    if broken:
        response[2:] = [ProviderError("reset", kind="transient")]

    async def choose() -> PromptEnd:
        gate.set()
        await until(lambda: bench.provider.closed)
        for _ in range(5):
            await asyncio.sleep(0)
        assert bench.kinds() == ["turn_start", "chat_request"], "nothing is decided yet"
        return yes("continue")

    scripts = [response, reply(say(" the rest"))]
    bench = Bench(scripts, person=FakePrompter(choose), config=acting())
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "completed"
    assert bench.turn.text == ("So far\n\n the rest" if broken else "So far and more")
    assert len(bench.provider.requests) == (2 if broken else 1)


async def test_reply_keeps_the_partial_answer_and_streams_again_with_the_persons_words() -> None:
    person = FakePrompter(yes("reply"), yes("Shorter, please."))
    bench = Bench([[*say("So far")[:1], forever], DONE], person=person, config=acting())
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "completed"
    assert bench.kinds() == [
        "turn_start",
        "chat_request",
        "chat_response",
        "chat_request",
        "chat_response",
    ]
    assert bench.of(ChatRequest)[1].content == "Shorter, please."
    _, seen = bench.provider.requests[1]
    assert [getattr(entry, "content", None) or entry.message for entry in seen] == [  # type: ignore[union-attr]
        "Go.",
        "So far",
        "Shorter, please.",
    ]
    assert bench.shown_of(PersonSays) == [PersonSays("Shorter, please.")]
    assert bench.provider.closed == 2


async def test_who_thinks_better_of_a_reply_is_back_in_the_menu() -> None:
    person = FakePrompter(yes("reply"), CANCELLED, yes("reply"), yes("  "), yes("stop"))
    bench = Bench([[*say("So far")[:1], forever]], person=person, config=acting())
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "interrupted"
    assert menus(person) == [STREAMING] * 3


async def test_stop_keeps_what_arrived() -> None:
    arrived: list[Any] = [*say("All of it"), *call("t", index=1), *say("So far", index=2)[:1]]
    person = FakePrompter(yes("stop"))
    bench = Bench([[*arrived, forever]], person=person, config=acting())
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "interrupted"
    assert bench.turn.text == "All of it\n\nSo far"
    assert bench.of(ToolCallRequest) == []


async def test_abort_records_nothing_of_the_cycle_and_keeps_the_ones_before() -> None:
    tool = PythonTool(lambda: "x", name="t")
    scripts: list[Any] = [reply(say("Before."), call("t")), [*say("So far")[:1], forever]]
    bench = Bench(scripts, tools=[tool], person=FakePrompter(yes("abort")), config=acting())
    end = await one_interrupt(bench, has_said(bench))
    assert end.status == "interrupted"
    assert bench.turn.text == "Before."
    assert bench.kinds()[-1] == "tool_call_response"
    assert DiscardText() in bench.shown
    assert "discarded" in bench.shown_of(Notice)[-1].text


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (CANCELLED, "completed"),
        (NotAnswered("timed_out", "form"), "interrupted"),
        (Unavailable("gone"), "interrupted"),
        (RuntimeError("the page is gone"), "interrupted"),
    ],
    ids=["closed", "timed out", "nobody", "failed"],
)
async def test_a_menu_without_an_answer_goes_on_only_if_somebody_closed_it(
    end: Any, status: str
) -> None:
    gate = asyncio.Event()
    gate.set()
    bench = Bench([answering(gate)], person=FakePrompter(end), config=acting())
    hold = asyncio.Event()
    bench.provider._scripts[0].insert(1, hold.wait)  # type: ignore[attr-defined]
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    await until(lambda: bench.person.asked)
    hold.set()
    async with asyncio.timeout(5):
        assert (await task).status == status


async def test_an_interrupt_of_the_menu_ends_the_turn_and_keeps_what_arrived() -> None:
    person = FakePrompter(forever)
    bench = Bench([[*say("So far")[:1], forever]], person=person, config=acting())
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    await until(lambda: person.asked)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert bench.turn.text == "So far"
    assert len(person.asked) == 1


async def test_with_nobody_there_an_interrupt_stops_and_keeps_what_arrived() -> None:
    person = FakePrompter(away="no kernel")
    bench = Bench([[*say("So far")[:1], forever]], person=person, config=acting())
    end = await one_interrupt(bench, has_said(bench))
    assert (end.status, bench.turn.text, person.asked) == ("interrupted", "So far", [])


@pytest.mark.parametrize(
    ("action", "status", "text"),
    [
        ("stop", "interrupted", "So far"),
        ("abort", "interrupted", ""),
        ("reply", "completed", "So far\n\nDone."),
        ("continue", "completed", "So far and more"),
    ],
)
async def test_an_action_may_be_configured_for_streaming(
    action: str, status: str, text: str
) -> None:
    gate = asyncio.Event()
    person = FakePrompter(*([yes("Hm.")] if action == "reply" else []))
    bench = Bench([answering(gate), DONE], person=person, config=acting(streaming=action))
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    if action == "continue":
        gate.set()
    async with asyncio.timeout(5):
        end = await task
    assert (end.status, bench.turn.text) == (status, text)
    assert menus(person) == []


async def test_the_wait_for_a_retry_can_be_interrupted_and_gone_on_with() -> None:
    waiting, gate = asyncio.Event(), asyncio.Event()

    async def wait(seconds: float) -> None:
        waiting.set()
        await gate.wait()

    async def choose() -> PromptEnd:
        gate.set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(bench.provider.requests) == 1, "nothing is sent while the menu is open"
        return yes("continue")

    broken: list[Any] = [*say("So far")[:1], ProviderError("reset", kind="transient")]
    bench = Bench([broken, DONE], person=FakePrompter(choose), config=acting())
    bench.loop.sleep = wait
    end = await one_interrupt(bench, waiting.is_set)
    assert (end.status, bench.turn.text) == ("completed", "So far\n\nDone.")


# --- while tools run -------------------------------------------------------------------------


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
    """A bench whose first response calls a slow and a fast tool, and the slow one."""
    slow = Slow()
    fast = PythonTool(lambda: "fast is done", name="fast")
    config = acting() if config is None else config
    bench = Bench([CALLS, *scripts], tools=[slow.tool, fast], person=person, config=config)
    return bench, slow, lambda: slow.runs and bench.shown_of(ToolEnds)


def contents(bench: Bench) -> list[tuple[str, str]]:
    return [(response.id, response.content) for response in bench.of(ToolCallResponse)]


async def test_continue_waits_for_the_tools_that_still_run() -> None:
    async def choose() -> PromptEnd:
        slow.gate.set()
        return yes("continue")

    person = FakePrompter(choose)
    bench, slow, ready = with_tools(person, DONE)
    end = await one_interrupt(bench, ready)
    assert end.status == "completed"
    assert contents(bench) == [("c1", "slow is done"), ("c2", "fast is done")]
    assert (slow.runs, menus(person)) == (1, [SLOW_RUNS])


async def test_stop_and_reply_gives_the_words_to_what_was_cancelled_and_goes_on() -> None:
    person = FakePrompter(yes("reply"), yes("Use the other one."))
    bench, slow, ready = with_tools(person, DONE)
    end = await one_interrupt(bench, ready)
    words = "Tool run cancelled by user with a custom message:\n\nUse the other one."
    assert contents(bench) == [("c1", words), ("c2", "fast is done")]
    assert [r.is_error for r in bench.of(ToolCallResponse)] == [False, False]
    assert (end.status, slow.cleaned) == ("completed", 1)
    assert len(bench.of(ChatRequest)) == 1, "the model sees responses, not a message"
    assert len(bench.provider.requests) == 2


async def test_stop_and_reply_without_words_uses_the_cancellation_response() -> None:
    bench, _, ready = with_tools(FakePrompter(yes("reply"), yes("")), DONE)
    await one_interrupt(bench, ready)
    assert contents(bench)[0] == ("c1", CANCELLATION)
    assert bench.turn.text == "Done."


async def test_words_that_no_call_is_left_to_carry_are_said_to_the_model() -> None:
    async def say_it() -> PromptEnd:
        slow.gate.set()
        await until(lambda: len(bench.shown_of(ToolEnds)) == 2)
        return yes("Well done.")

    bench, slow, ready = with_tools(FakePrompter(yes("reply"), say_it), DONE)
    await one_interrupt(bench, ready)
    assert contents(bench) == [("c1", "slow is done"), ("c2", "fast is done")]
    assert [request.content for request in bench.of(ChatRequest)] == ["Go.", "Well done."]
    assert bench.kinds()[-2:] == ["chat_request", "chat_response"]


async def test_restart_runs_again_what_has_no_response_and_asks_for_permission_again() -> None:
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


async def test_stop_cancels_records_and_ends_the_turn() -> None:
    bench, slow, ready = with_tools(FakePrompter(yes("stop")))
    end = await one_interrupt(bench, ready)
    assert (end.status, slow.cleaned) == ("interrupted", 1)
    assert contents(bench) == [("c1", CANCELLATION), ("c2", "fast is done")]
    assert not bench.stream.repair()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(1.9, [SLOW_RUNS]), (2.0, [SLOW_RUNS, SLOW_RUNS])],
    ids=["within the cool-down", "after it"],
)
async def test_a_second_interrupt_stops_without_another_menu_within_the_cool_down(
    seconds: float, shown: list[list[str]]
) -> None:
    now = 100.0
    person = FakePrompter(yes("continue"), yes("stop"))
    bench, _, ready = with_tools(person, config={"interrupt": {"escalation_cooldown_secs": 2}})
    bench.loop.clock = lambda: now
    task = asyncio.create_task(bench.run())
    await until(ready)
    bench.loop.interrupt()
    await until(lambda: bench.cell.released)  # it goes on
    now += seconds
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert menus(person) == shown
    assert contents(bench)[0] == ("c1", CANCELLATION)


@pytest.mark.parametrize(
    ("action", "status", "first"),
    [
        ("stop", "interrupted", CANCELLATION),
        ("respond", "completed", "Tool run cancelled by user with a custom message:\n\nHm."),
        ("restart", "completed", "slow is done"),
        ("continue", "completed", "slow is done"),
    ],
)
async def test_an_action_may_be_configured_for_tools(action: str, status: str, first: str) -> None:
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


async def test_with_nobody_there_an_interrupt_cancels_the_tools_and_ends_the_turn() -> None:
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


async def test_a_prompt_on_screen_is_cancelled_before_the_menu_and_the_next_one_waits() -> None:
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


async def test_the_menu_names_the_call_whose_question_the_interrupt_closed() -> None:
    person = FakePrompter(forever, yes("continue"))
    calls = reply(call("a"))
    bench = Bench([calls, DONE], tools=[asking_tool("a")], person=person, config=acting())
    await one_interrupt(bench, lambda: person.asked)
    assert person.asked[-1].text == "Interrupted: `a`"


@pytest.mark.parametrize("choice", ["stop", "reply", "restart"])
async def test_prompts_that_wait_when_the_batch_is_cut_are_dropped(choice: str) -> None:
    answers: dict[str, list[Any]] = {
        "stop": [yes("stop")],
        "reply": [yes("reply"), yes("Enough.")],
        "restart": [yes("restart"), yes(False)],
    }
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


async def test_an_interrupt_as_the_answer_ends_reaches_the_tools_it_called() -> None:
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


async def test_of_a_call_that_is_restarted_and_skipped_the_model_reads_that_it_had_begun() -> None:
    config: Any = acting()
    config["conversation"] = {"tools": {"slow": {"run": "ask"}}}
    person = FakePrompter(yes("run"), yes("restart"), yes("skip"))
    bench, slow, ready = with_tools(person, DONE, config=config)
    await one_interrupt(bench, ready)
    assert slow.runs == 1
    assert dict(contents(bench))["c1"] == RAN_BEFORE.format(SKIPPED)


async def test_a_function_of_the_cell_that_was_cut_short_is_run_again_on_restart() -> None:
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


async def test_a_result_that_comes_after_the_cut_is_not_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


# --- what is decided without anybody ---------------------------------------------------------


def test_what_an_interrupt_does_before_anybody_is_asked() -> None:
    now = 0.0
    interrupts = Interrupts(FakePrompter(), clock=lambda: now)
    settings = InterruptConfig(escalation_cooldown_secs=2)
    assert interrupts.at_once("streaming", settings) is None
    now = 1.0
    assert interrupts.at_once("tool_call", settings) == ESCALATED
    now = 4.0
    assert interrupts.at_once("tool_call", settings) is None
    now = 40.0
    assert interrupts.at_once("tool_call", settings, in_menu=True) == ESCALATED
    alone = Interrupts(FakePrompter(away="headless"))
    assert alone.at_once("streaming", settings) == STOP


@pytest.mark.parametrize(
    ("tools", "text", "again"),
    [
        (["slow"], "Interrupted: `slow`", "Run `slow` again"),
        (["a", "b"], "Interrupted: `a` and `b`", "Run these 2 calls again"),
        (["a", "b", "c"], "Interrupted: `a`, `b` and `c`", "Run these 3 calls again"),
        (["a"] * 5, "Interrupted: `a`, `a`, `a` and 2 more", "Run these 5 calls again"),
        (["a\u202eb"], "Interrupted: `a⟨U+202E⟩b`", "Run `a⟨U+202E⟩b` again"),
        ([], "Interrupted", "Run the calls again"),
    ],
)
def test_the_menu_names_the_interrupted_calls(tools: list[str], text: str, again: str) -> None:
    shown = tool_menu(tools)
    assert shown.text == text
    assert [action.label for action in shown.actions if action.value == "restart"] == [again]


def test_the_menu_names_the_interrupted_request() -> None:
    assert stream_menu("Count\nthem.").text == "Interrupted: the answer to “Count them.”"
    assert stream_menu("x" * 10_000).text == f"Interrupted: the answer to “{'x' * 60}…”"


@pytest.mark.parametrize("phase", ["streaming", "tool_call"])
async def test_an_interrupted_menu_escalates(phase: Any) -> None:
    asked: list[Prompt] = []

    async def ask(prompt: Prompt) -> PromptEnd:
        asked.append(prompt)
        return INTERRUPTED

    shown = tool_menu(["slow"])
    assert await menu(ask, phase, InterruptConfig(), shown) == ESCALATED
    assert asked == [shown]
    assert len(asked) == 1


async def test_the_words_of_a_reply_are_asked_for_as_text() -> None:
    ends = iter([yes("reply"), yes("Go left.")])
    asked: list[Prompt] = []

    async def ask(prompt: Prompt) -> PromptEnd:
        asked.append(prompt)
        return next(ends)

    words = Verdict("reply", "Go left.", by="person")
    assert await menu(ask, "tool_call", InterruptConfig(), tool_menu(["slow"])) == words
    assert isinstance(asked[1], QuestionPrompt)
    assert asked[1].question.answer_type.type == "text"
    assert CONTINUE.choice == "continue"


async def test_the_next_turn_works_after_every_choice() -> None:
    for choice in ("continue", "stop", "abort"):
        gate = asyncio.Event()
        gate.set()
        hold = asyncio.Event()
        response: list[Any] = [*say("So far")[:1], hold.wait, *reply(say("", index=9))]
        bench = Bench([response], person=FakePrompter(yes(choice)), config=acting())
        task = asyncio.create_task(bench.run())
        await until(has_said(bench))
        bench.loop.interrupt()
        await until(lambda b=bench: b.person.asked)  # type: ignore[misc]
        hold.set()
        await task
        again = Bench([DONE], stream=bench.stream)
        assert (await again.run("And now?")).status == "completed"
        assert again.turn.text == "Done."


async def test_a_function_that_ends_as_the_batch_is_cut_runs_again_on_restart() -> None:
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
async def test_a_function_that_ends_its_interrupt_late_does_not_hold_up_the_turn(
    choice: str,
) -> None:
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


async def test_an_abort_during_the_wait_for_a_retry_says_what_is_kept() -> None:
    waiting = asyncio.Event()

    async def wait(seconds: float) -> None:
        waiting.set()
        await forever()

    broken: list[Any] = [*say("So far")[:1], ProviderError("reset", kind="transient")]
    bench = Bench([broken], person=FakePrompter(yes("abort")), config=acting())
    bench.loop.sleep = wait
    end = await one_interrupt(bench, waiting.is_set)
    assert (end.status, bench.turn.text) == ("interrupted", "So far")
    assert DiscardText() not in bench.shown
    assert "before the retry is kept" in bench.shown_of(Notice)[-1].text


async def test_an_interrupt_while_the_answer_ends_for_a_reply_stops_the_turn() -> None:
    ending = asyncio.Event()

    async def lingers() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.Event().wait()

    person = FakePrompter(yes("reply"), yes("Shorter, please."))
    script: list[Any] = [*say("So far")[:1], lingers]
    bench = Bench([script, DONE], person=person, config=acting())
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    await until(ending.is_set)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert len(bench.provider.requests) == 1
    assert bench.turn.text == "So far"


async def test_an_interrupt_ends_what_holds_up_an_ending_turn() -> None:
    async def stubborn() -> None:
        try:
            await forever()
        finally:
            await forever()  # a connection that does not close

    person = FakePrompter(yes("stop"))
    bench = Bench([[*say("So far")[:1], stubborn]], person=person, config=acting())
    task = asyncio.create_task(bench.run())
    await until(has_said(bench))
    bench.loop.interrupt()
    await until(lambda: InterruptHeard("stop") in bench.passing)
    await asyncio.sleep(0.01)
    assert not task.done()
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
    assert menus(person) == [STREAMING]
    assert bench.turn.text == "So far"


# --- what is offered, and what the model is told -----------------------------------------------


class CutCell:
    """A cell's thread on which every interrupt cuts the function that runs.

    It is heard of only when the turn knows of the interrupt: the worst order there is.
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
    """A bench whose `hold` is a function of the cell and is cut by the interrupt."""
    slow = Slow()
    tools = [PythonTool(lambda: "never", name="hold"), slow.tool]
    bench = Bench([reply(*calls), DONE], tools=tools, person=person, config=config or acting())
    bench.loop.cell = cell = CutCell()
    return bench, slow, cell


async def cut(bench: Bench, cell: CutCell, ready: Callable[[], object]) -> TurnEnd:
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
async def test_going_on_is_offered_only_while_something_can_go_on(closed: bool) -> None:
    person = FakePrompter(CANCELLED if closed else yes("stop"))
    bench, _, cell = cutting(person, HOLD)
    end = await cut(bench, cell, lambda: True)
    assert menus(person) == [ALONE]
    assert end.status == ("completed" if closed else "interrupted")
    told = f"{STOPPED} The user chose to go on." if closed else CANCELLATION
    assert contents(bench) == [("c1", told)]


async def test_beside_a_tool_that_was_cut_another_one_goes_on() -> None:
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


async def test_nothing_is_restarted_where_all_is_done() -> None:
    slow = Slow()

    async def finish() -> PromptEnd:
        return yes("continue")

    person = FakePrompter(forever, finish)
    tool = asking_tool("a")
    bench = Bench([reply(call("a")), DONE], tools=[tool], person=person, config=acting())
    end = await one_interrupt(bench, lambda: person.asked)
    assert (end.status, slow.runs) == ("completed", 0)
    assert menus(person) == [["Continue", "Tell the model something …", "End the turn"]]


async def test_a_call_that_waited_for_a_permission_did_not_run() -> None:
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
async def test_a_result_that_waits_to_be_delivered_was_not_cancelled(choice: str) -> None:
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


async def test_a_turn_that_breaks_off_does_not_say_that_somebody_cancelled_its_tools() -> None:
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


async def test_a_turn_cancelled_between_response_and_batch_answers_its_calls() -> None:
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
async def test_an_interrupt_is_shown_as_heard_before_anything_else_comes_of_it(phase: str) -> None:
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


async def test_an_interrupt_is_heard_while_a_function_still_has_the_cell() -> None:
    bench, _, cell = cutting(FakePrompter(yes("stop")), HOLD)
    task = asyncio.create_task(bench.run())
    await until(lambda: cell.heard)
    bench.loop.interrupt()
    assert bench.passing[-1] == InterruptHeard()
    assert not bench.person.asked, "who has the cell is not done yet"
    cell.heard[0].set()
    async with asyncio.timeout(5):
        assert (await task).status == "interrupted"
