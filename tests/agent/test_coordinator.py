"""A batch of calls at the moments that are easily missed: its end, a cut, one id for two calls."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from jp_nb.agent.display_events import DisplayEvent, PersonSays, ToolBegins, ToolEnds
from jp_nb.agent.interrupts import STOPPED
from jp_nb.agent.prompts import NotAnswered, PromptEnd
from jp_nb.config.tree.tool_config import CANCELLATION
from jp_nb.errors import PromptUnavailable
from jp_nb.record.events import (
    ChatRequest,
    InquiryRequest,
    InquiryResponse,
    ToolCallResponse,
)
from jp_nb.record.thread import thread_of
from jp_nb.session.turns import TurnRunner
from jp_nb.tooling.base import RUN, CallInterrupted, Run
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import NeedsInput, Outcome, Success
from jp_nb.tooling.python import PythonTool
from jp_nb.tooling.question import Question
from tests.support.fakes import (
    Bench,
    FakePrompter,
    MockInquiryBackend,
    call,
    for_tool,
    forever,
    reply,
    say,
    until,
    yes,
)

DONE = reply(say("Done."))


def contents(bench: Bench) -> list[tuple[str, str]]:
    return [(response.id, response.content) for response in bench.of(ToolCallResponse)]


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


# --- interrupts ------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [False, True], ids=["configured", "chosen"])
async def test_a_function_that_was_cut_short_has_a_response_when_the_batch_goes_on(
    asked: bool,
) -> None:
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
    """A bench on which an interrupt comes with the last response of a batch."""
    tool = PythonTool(lambda: "fine", name="t")
    bench = Bench([reply(call("t")), DONE], [tool], FakePrompter(*ends))

    def display(event: DisplayEvent) -> None:
        bench.show(event)
        if isinstance(event, ToolEnds):
            bench.loop.interrupt()

    bench.loop.display = display
    return bench


async def test_an_interrupt_that_comes_with_the_last_response_is_asked_about() -> None:
    bench = interrupted_at_its_end(yes("stop"))
    assert (await bench.run()).status == "interrupted"
    assert contents(bench) == [("call_1", "fine")]
    assert len(bench.provider.requests) == 1


@pytest.mark.parametrize("choice", ["continue", "restart"])
async def test_with_every_response_there_the_turn_goes_on_as_it_is(choice: str) -> None:
    bench = interrupted_at_its_end(yes(choice))
    assert (await bench.run()).status == "completed"
    assert contents(bench) == [("call_1", "fine")]


async def test_what_is_said_with_every_response_there_is_a_message() -> None:
    bench = interrupted_at_its_end(yes("reply"), yes("Enough."))
    assert (await bench.run()).status == "completed"
    assert contents(bench) == [("call_1", "fine")]
    assert [request.content for request in bench.of(ChatRequest)] == ["Go.", "Enough."]
    assert bench.shown_of(PersonSays) == [PersonSays("Enough.")]


async def test_an_interrupt_after_the_end_is_not_counted_as_heard() -> None:
    bench = Bench([DONE])
    await bench.run()
    bench.loop.interrupt()
    assert bench.loop.interrupts_heard == 0


# --- ids -------------------------------------------------------------------------------------


def asking(name: str, question: str) -> PythonTool:
    def ask(ctx: ToolContext) -> Outcome:
        if question not in ctx.answers:
            return NeedsInput(Question.boolean(question, f"{question}?"))
        return Success(f"{question}: {ctx.answers[question]}")

    return PythonTool(ask, name=name)


async def test_ids_with_dots_in_them_never_make_one_inquiry_of_two() -> None:
    calls = reply(call("one", "a.b", index=1), call("two", "a", index=2))
    tools = [asking("one", "c"), asking("two", "b.c")]
    person = FakePrompter(forever, yes("stop"))
    bench = Bench([calls], tools, person)
    task = asyncio.create_task(bench.run())
    await until(lambda: len(bench.of(InquiryRequest)) == 2 and person.asked)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        await task
    asked = [inquiry.id for inquiry in bench.of(InquiryRequest)]
    assert asked == ["a.b.c.1", "a.b.c.2"]
    assert sorted(inquiry.id for inquiry in bench.of(InquiryResponse)) == asked
    assert not bench.stream.repair()


async def test_a_model_that_answers_is_told_which_of_two_calls_with_one_id_asks() -> None:
    config = for_tool("t", questions={"sure": {"target": "assistant"}})
    other = MockInquiryBackend({"same.sure.1": True, "same.sure.2": False})
    calls = reply(call("t", "same", index=1), call("t", "same", index=2))
    bench = Bench([calls, DONE], [asking("t", "sure")], config=config, inquiry=other)
    await bench.run()
    assert [(inquiry.id, inquiry.number) for inquiry, _ in other.asked] == [
        ("same.sure.1", 1),
        ("same.sure.2", 2),
    ]
    assert contents(bench) == [("same", "sure: True"), ("same", "sure: False")]


async def test_arguments_that_are_no_json_are_those_of_one_call_alone() -> None:
    calls = reply(
        call("t", "same", index=1, text="["),
        call("t", "same", index=2),
        call("t", "same", index=3, text="[]"),
    )
    bench = Bench([calls, DONE], [PythonTool(lambda: "fine", name="t")])
    await bench.run()
    assert [(r.content[:25], r.is_error) for r in bench.of(ToolCallResponse)] == [
        ("The arguments are not JSO", True),
        ("fine", False),
        ("The arguments are not a J", True),
    ]


async def test_the_view_grown_in_a_turn_is_the_one_of_the_record() -> None:
    bench = Bench([reply(call("t")), DONE], [PythonTool(lambda: "fine", name="t")])
    await bench.run()
    assert bench.loop.thread.items == thread_of(bench.stream, ["test"]).items


# --- going on, and ending all the same ---------------------------------------------------------


async def test_restart_forgets_answers_and_edits_and_remembers_what_was_to_be_remembered() -> None:
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


@pytest.mark.parametrize(
    ("end", "stages"),
    [
        (NotAnswered("interrupted", "form"), ["asked"]),
        (yes("skip"), ["asked"]),
        (yes("run"), ["asked", "permitted", "started", "finished"]),
    ],
)
async def test_only_a_result_is_kept_as_finished(end: PromptEnd, stages: list[str]) -> None:
    """A restart of the kernel interrupts it first: the user has decided nothing by that."""
    tool = PythonTool(lambda: "fine", name="t")
    bench = Bench([reply(call("t")), DONE], [tool], FakePrompter(end), for_tool("t", run="ask"))
    await bench.run()
    assert len(bench.of(ToolCallResponse)) == 1
    assert bench.progress == stages


async def test_a_question_that_waits_uses_what_was_meanwhile_remembered() -> None:
    question = Question.boolean("sure", "Sure?").with_persistence("turn")

    def t(ctx: ToolContext) -> Outcome:
        return Success("fine") if "sure" in ctx.answers else NeedsInput(question)

    calls = reply(call("t", "c1", index=1), call("t", "c2", index=2))
    person = FakePrompter(yes(True, remember=True))
    bench = Bench([calls, DONE], [PythonTool(t)], person)
    await bench.run()
    assert contents(bench) == [("c1", "fine"), ("c2", "fine")]
    assert len(person.asked) == 1


async def test_an_interrupt_of_the_cut_itself_ends_the_turn() -> None:
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


async def test_an_interrupt_of_the_menu_ends_the_turn_whatever_it_says() -> None:
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


@pytest.mark.parametrize("choice", ["continue", "reply"])
async def test_while_the_model_answers_going_on_lets_functions_run_again(choice: str) -> None:
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    async def choose() -> Any:
        gate.set()
        return yes(choice)

    first: list[Any] = [*say("So far")[:1], wait, *reply(say("", index=9))]
    person = FakePrompter(choose, *([yes("Hm.")] if choice == "reply" else []))
    bench = Bench([first, DONE], person=person)
    cell = bench.loop.cell = CuttingCell()
    task = asyncio.create_task(bench.run())
    await until(lambda: bench.shown)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        assert (await task).status == "completed"
    assert cell.released == 1


async def test_an_interrupt_as_an_answer_without_calls_ends_stops_the_turn() -> None:
    bench = Bench([DONE])
    loop = asyncio.get_running_loop()

    def on_change() -> None:
        if bench.entries[-1].type == "chat_response":
            loop.call_soon(bench.loop.interrupt)  # the answer is complete by then

    bench.stream.on_change = on_change
    assert (await bench.run()).status == "interrupted"
    assert bench.turn.text == "Done."


async def test_a_function_that_was_begun_again_is_not_the_one_that_was_cut() -> None:
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


async def test_a_function_that_waited_for_another_is_cut_by_an_interrupt_of_its_own() -> None:
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


async def test_a_function_that_raises_something_else_because_of_an_interrupt_has_failed() -> None:
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


# --- faults of others ------------------------------------------------------------------------


async def test_a_tool_that_never_takes_its_answer_is_ended_and_the_turn_goes_on() -> None:
    def ask(ctx: ToolContext) -> Outcome:
        return NeedsInput(Question.boolean("sure", "Sure?"))

    config = for_tool("ask", questions={"sure": {"answer": False}})
    bench = Bench([reply(call("ask")), DONE], tools=[PythonTool(ask)], config=config)
    async with asyncio.timeout(5):
        await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert response.is_error
    assert response.content.startswith("ask asked the question 'sure' 20 times")
    assert len(bench.of(InquiryResponse)) == 20
    assert bench.turn.text == "Done."


async def test_a_person_may_be_asked_the_same_question_as_often_as_it_takes() -> None:
    def ask(ctx: ToolContext) -> Outcome:
        if ctx.answers.get("number") == "25":
            return Success("at last")
        return NeedsInput(Question.text("number", "Which?"))

    person = FakePrompter(*(yes(str(n)) for n in range(1, 26)))
    bench = Bench([reply(call("ask")), DONE], tools=[PythonTool(ask)], person=person)
    await bench.run()
    assert bench.of(ToolCallResponse)[0].content == "at last"


async def test_a_backend_that_ends_by_itself_or_breaks_tells_nothing_but_its_kind() -> None:
    def ask(ctx: ToolContext) -> Outcome:
        return NeedsInput(Question.boolean("sure", "Sure?"))

    for fault, told in (
        (asyncio.CancelledError(), "Error: Inquiry cancelled."),
        (RuntimeError("key-123"), "Error: RuntimeError."),
    ):

        class Backend:
            async def inquire(self, thread: Any, inquiry: Any, fault: Any = fault) -> Any:
                raise fault

        bench = Bench(
            [reply(call("ask")), DONE],
            tools=[PythonTool(ask)],
            person=FakePrompter(away="headless"),
            inquiry=Backend(),
        )
        async with asyncio.timeout(5):
            await bench.run()
        [response] = bench.of(ToolCallResponse)
        assert told in response.content
        assert "key-123" not in repr(bench.stream.raw)
        assert bench.of(InquiryResponse)[0].reason == "backend_error"


async def test_a_tool_whose_check_of_arguments_breaks_fails_alone() -> None:
    class Broken(PythonTool):
        def prepare(self, *args: Any) -> Any:
            raise LookupError("gone")

    broken = Broken(lambda: "x", name="broken")
    calls = reply(call("broken", "c1", index=1), call("t", "c2", index=2))
    bench = Bench([calls, DONE], tools=[broken, PythonTool(lambda: "x", name="t")])
    await bench.run()
    contents = [(r.content, r.is_error) for r in bench.of(ToolCallResponse)]
    assert contents == [("LookupError: gone", True), ("x", False)]


@pytest.mark.parametrize("text", ['{"a": 1e999}', '{"a": ' + "[" * 900 + "]" * 900 + "}"])
async def test_arguments_that_no_record_can_hold_fail_the_call_alone(text: str) -> None:
    bench = Bench([reply(call("t", text=text)), DONE], tools=[PythonTool(lambda: "x", name="t")])
    await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert response.content.startswith("The arguments are not JSON: ")
    assert bench.turn.text == "Done."
    json.dumps(bench.stream.raw, allow_nan=False)


async def test_the_threads_of_a_call_that_was_cut_know_that_it_is_over() -> None:
    go_on, known = threading.Event(), list[bool]()

    def work() -> str:
        run = RUN.get()
        assert run is not None
        known.append(run.over)
        go_on.wait(5)
        known.append(run.over)
        return "late"

    bench = Bench(
        [reply(call("work"))],
        tools=[PythonTool(work, thread=True)],
        person=FakePrompter(away="headless"),
    )
    task = asyncio.create_task(bench.run())
    await until(lambda: known)
    bench.loop.interrupt()
    await task
    go_on.set()
    await until(lambda: len(known) == 2)
    assert known == [False, True]


def test_a_question_of_a_call_that_is_over_is_refused() -> None:
    def ask() -> None:
        RUN.set(Run(over=True))
        TurnRunner.ask_person(
            object.__new__(TurnRunner), Question.boolean("q", "Sure?"), label=None, tool=None
        )

    with pytest.raises(PromptUnavailable, match="comes too late"):
        contextvars.copy_context().run(ask)


# --- formatters ------------------------------------------------------------------------------


class Formatter:
    """Writes arguments, and says when."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    async def format(self, arguments: Any, context: ToolContext) -> str:
        self._log.append("format")
        assert context.action == "format_arguments"
        return f"<{arguments['a']}>"


@pytest.mark.parametrize(
    ("when", "order"),
    [("ask", ["permission", "format"]), ("unattended", ["format", "permission", "format"])],
)
async def test_arguments_are_written_before_permission_only_if_that_is_configured(
    when: str, order: list[str]
) -> None:
    log: list[str] = []

    async def permit() -> Any:
        log.append("permission")
        return yes("edit")

    tool = PythonTool(lambda a: "x", name="t")
    bench = Bench(
        [reply(call("t", text='{"a": 1}')), DONE],
        tools=[tool],
        person=FakePrompter(permit, yes('{"a": 2}')),
        config=for_tool("t", run="ask", format=when),
    )
    offered = bench.offer()
    offered.tools["t"] = replace(offered.tools["t"], formatter=Formatter(log))
    bench.offer = lambda: offered  # type: ignore[method-assign]
    await bench.run()
    assert log == order
    shown = [begins.formatted for begins in bench.shown_of(ToolBegins)]
    assert shown[-1] == "<2>", "what is shown is what runs"
