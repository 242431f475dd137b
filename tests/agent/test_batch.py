"""Batches of calls: shared ids, the journal, formatters, errors of tools and backends."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.session.questions.cell_questions import CellQuestions
from jp_nb.toolkit.current_run import CURRENT_RUN, ToolRun
from tests.agent.turn_bench import DONE, MockInquiryBackend, call, reply
from tests.kit.kinds import make
from tests.kit.questions import not_answered
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.fakes import FakePrompter, for_tool, forever, until, yes


def contents(bench: TurnBench) -> list[tuple[str, str]]:
    return [(response.id, response.content) for response in bench.of("tool_call_response")]


async def test_interrupt_after_the_end_of_the_turn_is_ignored() -> None:
    bench = TurnBench([DONE])
    await bench.run()
    bench.loop.interrupt()
    assert bench.loop.interrupt_count == 0


def make_asking_tool(name: str, question: str) -> Any:
    def ask(ctx: jp.ToolContext) -> jp.Outcome:
        if question not in ctx.answers:
            return jp.NeedsInput(jp.Question.boolean(question, f"{question}?"))
        return jp.Success(f"{question}: {ctx.answers[question]}")

    return new_tool(ask, name=name)


async def test_call_ids_with_dots_get_separate_inquiries() -> None:
    calls = reply(call("one", "a.b", index=1), call("two", "a", index=2))
    tools = [make_asking_tool("one", "c"), make_asking_tool("two", "b.c")]
    person = FakePrompter(forever, yes("stop"))
    bench = TurnBench([calls], tools, person)
    task = asyncio.create_task(bench.run())
    await until(lambda: len(bench.of("inquiry_request")) == 2 and person.asked)
    bench.loop.interrupt()
    async with asyncio.timeout(5):
        await task
    asked = [inquiry.id for inquiry in bench.of("inquiry_request")]
    assert asked == ["a.b.c.1", "a.b.c.2"]
    assert sorted(inquiry.id for inquiry in bench.of("inquiry_response")) == asked
    assert not bench.stream.repair()


async def test_inquiries_of_calls_with_one_id_are_numbered() -> None:
    config = for_tool("t", questions={"sure": {"target": "assistant"}})
    other = MockInquiryBackend({"same.sure.1": True, "same.sure.2": False})
    calls = reply(call("t", "same", index=1), call("t", "same", index=2))
    bench = TurnBench([calls, DONE], [make_asking_tool("t", "sure")], config=config, inquiry=other)
    await bench.run()
    assert [(inquiry.id, inquiry.number) for inquiry, _ in other.asked] == [
        ("same.sure.1", 1),
        ("same.sure.2", 2),
    ]
    assert contents(bench) == [("same", "sure: True"), ("same", "sure: False")]


async def test_bad_arguments_affect_one_call_of_several_with_one_id() -> None:
    calls = reply(
        call("t", "same", index=1, text="["),
        call("t", "same", index=2),
        call("t", "same", index=3, text="[]"),
    )
    bench = TurnBench([calls, DONE], [new_tool(lambda: "fine", name="t")])
    await bench.run()
    assert [(r.content[:25], r.is_error) for r in bench.of("tool_call_response")] == [
        ("The arguments are not JSO", True),
        ("fine", False),
        ("The arguments are not a J", True),
    ]


@pytest.mark.parametrize(
    ("end", "stages"),
    [
        (not_answered("interrupted", "form"), ["asked"]),
        (yes("skip"), ["asked"]),
        (yes("run"), ["asked", "permitted", "started", "finished"]),
    ],
)
async def test_journal_has_a_call_as_finished_only_with_a_result(
    end: Any, stages: list[str]
) -> None:
    """A restart of the kernel interrupts the form first, which is no decision of the user."""

    async def last() -> str:
        await until(lambda: bench.shown_of("tool_ends"))
        return "fine"

    calls = reply(call("t", "c1", index=1), call("last", "c2", index=2))
    tools = [new_tool(lambda: "fine", name="t"), new_tool(last)]
    bench = TurnBench([calls, DONE], tools, FakePrompter(end), for_tool("t", run="ask"))
    await bench.run()
    assert len(bench.of("tool_call_response")) == 2
    first = bench.kinds().index("tool_call_request")
    one, other = (bench.progress[bench.stream.event_id(first + n)] for n in range(2))
    assert one == stages
    assert other == ["permitted", "started"], "its response is recorded at once"


async def test_result_is_written_before_the_next_function_starts() -> None:
    """Else a function that ends the process destroys the result of the one before."""
    written: list[list[str]] = []
    calls = reply(call("t", "c1", index=1), call("t", "c2", index=2))
    bench = TurnBench([calls, DONE], [new_tool(lambda: "fine", name="t")])
    bench.use(progress=lambda kept: written.append([each.stage for each in kept.values()]))
    await bench.run()
    assert written[:3] == [["permitted", "permitted"], ["started"], ["finished", "started"]]


async def test_waiting_question_takes_an_answer_remembered_meanwhile() -> None:
    question = jp.Question.boolean("sure", "Sure?").with_persistence("turn")

    def t(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.Success("fine") if "sure" in ctx.answers else jp.NeedsInput(question)

    calls = reply(call("t", "c1", index=1), call("t", "c2", index=2))
    person = FakePrompter(yes(True, remember=True))
    bench = TurnBench([calls, DONE], [new_tool(t)], person)
    await bench.run()
    assert contents(bench) == [("c1", "fine"), ("c2", "fine")]
    assert len(person.asked) == 1


@pytest.mark.parametrize("steps", range(9, 15))
async def test_stop_at_a_question_ends_the_turn_although_another_call_just_ended(
    steps: int,
) -> None:
    """The other call ends `steps` steps of the event loop after the question is on screen."""
    answered = asyncio.Event()

    async def end_soon() -> str:
        await answered.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        return "fine"

    async def stop() -> Any:
        answered.set()
        for _ in range(12):
            await asyncio.sleep(0)
        return make("form_end", (not_answered("cancelled", "form"),), then="stop")

    needs = jp.NeedsInput(jp.Question.text("why", "Why?"), menu=True)
    tools = [new_tool(end_soon), new_tool(lambda: needs, name="ask")]
    calls = reply(call("end_soon", "c1", index=1), call("ask", "c2", index=2))
    assert (await TurnBench([calls, DONE], tools, FakePrompter(stop)).run()).status == "stopped"


async def test_user_may_be_asked_the_same_question_without_limit() -> None:
    def ask(ctx: jp.ToolContext) -> jp.Outcome:
        if ctx.answers.get("number") == "25":
            return jp.Success("at last")
        return jp.NeedsInput(jp.Question.text("number", "Which?"))

    person = FakePrompter(*(yes(str(n)) for n in range(1, 26)))
    bench = TurnBench([reply(call("ask")), DONE], tools=[new_tool(ask)], person=person)
    await bench.run()
    assert bench.of("tool_call_response")[0].content == "at last"


async def test_error_of_an_inquiry_backend_is_reported_by_its_type_alone() -> None:
    def ask(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.NeedsInput(jp.Question.boolean("sure", "Sure?"))

    for fault, told in (
        (asyncio.CancelledError(), "Error: Inquiry cancelled."),
        (RuntimeError("key-123"), "Error: RuntimeError."),
    ):

        class Backend:
            async def inquire(self, thread: Any, inquiry: Any, fault: Any = fault) -> Any:
                raise fault

        bench = TurnBench(
            [reply(call("ask")), DONE],
            tools=[new_tool(ask)],
            person=FakePrompter(away="headless"),
            inquiry=Backend(),
        )
        async with asyncio.timeout(5):
            await bench.run()
        [response] = bench.of("tool_call_response")
        assert told in response.content
        assert "key-123" not in repr(bench.stream.raw)
        assert bench.of("inquiry_response")[0].reason == "backend_error"


def raise_lookup_error(*args: Any) -> Any:
    raise LookupError("gone")


async def test_error_while_preparing_arguments_fails_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = new_tool(lambda: "x", name="broken")
    monkeypatch.setattr(broken, "prepare", raise_lookup_error)
    calls = reply(call("broken", "c1", index=1), call("t", "c2", index=2))
    bench = TurnBench([calls, DONE], tools=[broken, new_tool(lambda: "x", name="t")])
    await bench.run()
    contents = [(r.content, r.is_error) for r in bench.of("tool_call_response")]
    assert contents == [("LookupError: gone", True), ("x", False)]


async def test_threads_of_a_canceled_call_see_that_it_is_over() -> None:
    go_on = threading.Event()
    known = list[bool]()

    def work() -> str:
        run = CURRENT_RUN.get()
        assert run is not None
        known.append(run.is_over)
        go_on.wait(5)
        known.append(run.is_over)
        return "late"

    bench = TurnBench(
        [reply(call("work"))],
        tools=[new_tool(work, thread=True)],
        person=FakePrompter(away="headless"),
    )
    task = asyncio.create_task(bench.run())
    await until(lambda: known)
    bench.loop.interrupt()
    await task
    go_on.set()
    await until(lambda: len(known) == 2)
    assert known == [False, True]


def test_question_of_a_finished_call_is_refused() -> None:
    def ask() -> None:
        CURRENT_RUN.set(ToolRun(is_over=True))
        runner = object.__new__(CellQuestions)
        runner.ask([jp.Question.boolean("q", "Sure?")], label=None, tool=None)

    with pytest.raises(jp.PromptUnavailable, match="was asked too late"):
        contextvars.copy_context().run(ask)


@dataclass(frozen=True)
class Formatter:
    """Formats arguments, and logs each time."""

    log: list[str] = field(default_factory=list)

    async def format(self, arguments: Any, context: jp.ToolContext) -> str:
        self.log.append("format")
        assert context.action == "format_arguments"
        return f"<{arguments['a']}>"


@pytest.mark.parametrize(
    ("when", "order"),
    [("ask", ["permission", "format"]), ("unattended", ["format", "permission", "format"])],
)
async def test_arguments_are_formatted_before_permission_only_if_configured(
    when: str, order: list[str]
) -> None:
    log: list[str] = []

    async def permit() -> Any:
        log.append("permission")
        return yes("edit")

    tool = new_tool(lambda a: "x", name="t")
    bench = TurnBench(
        [reply(call("t", text='{"a": 1}')), DONE],
        tools=[tool],
        person=FakePrompter(permit, yes({"a": "2"})),
        config=for_tool("t", run="ask", format=when),
    )
    offered = bench.offer()
    offered.tools["t"] = replace(offered.tools["t"], formatter=Formatter(log))
    bench.offer = lambda: offered  # type: ignore[method-assign]
    await bench.run()
    assert log == order
    shown = [begins.formatted for begins in bench.shown_of("tool_begins")]
    assert shown[-1] == "<2>", "the shown arguments are the executed ones"
