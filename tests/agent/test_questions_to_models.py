"""Questions of tools that a model answers, in whole turns."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

import jp_nb as jp
from jp_nb.record.request_context.context import RequestContext
from tests.agent.turn_bench import DONE, MockInquiryBackend, call, reply, say
from tests.kit.kinds import is_kind, make
from tests.kit.models import EventProvider, model_event
from tests.kit.tools import new_tool
from tests.kit.turn_bench import TurnBench, new_question_model
from tests.support.entries import open_inquiries
from tests.support.fakes import FakePrompter, for_tool, forever, until
from tests.support.partials import merge

AWAY = "headless"
SURE = jp.Question.boolean("sure", "Create backups?")
KEEP = jp.Question.select("keep", "Keep it?", ["keep", "drop"])
NAME = jp.Question.text("name", "Which name?")
BY_MODEL: dict[str, Any] = {"target": "assistant"}
FAILED = (
    "The tool 'rename' asked a follow-up question (\"Create backups?\") that was routed to a "
    "secondary assistant for resolution, but the secondary assistant failed to provide a valid "
    "answer. Error: {}. You may retry the tool call or end the turn."
)


def make_asking_tool(
    *questions: jp.Question, name: str = "rename", runs: list[Any] | None = None
) -> Any:
    """A tool that asks one question after the other and returns the answers."""

    def function(ctx: jp.ToolContext, path: str = "") -> jp.Outcome:
        if runs is not None:
            runs.append((path, dict(ctx.answers)))
        for question in questions:
            if question.id not in ctx.answers:
                return jp.NeedsInput(question)
        return jp.Success(json.dumps(ctx.answers))

    return new_tool(function, name=name)


def by_model(*names: str, **questions: dict[str, Any]) -> dict[str, Any]:
    """A partial in which a model answers these questions of all `names`."""
    partial: dict[str, Any] = {}
    for name in names:
        partial = merge(partial, for_tool(name, questions=dict(questions)))
    return partial


def answer_events(answer: Any, call_id: str = "call_1", *, tool: str = "rename") -> list[Any]:
    """Events of a structured answer with a thought before it."""
    text = json.dumps({"inquiry_id": f"tool_call.{tool}.{call_id}", "answer": answer})
    thought: list[Any] = [
        model_event("text", 0, "reasoning", "Hm, let me think."),
        model_event("flush", 0),
    ]
    return reply(thought, [model_event("text", 1, "structured", text), model_event("flush", 1)])


def make_llm(*scripts: Any) -> tuple[Any, EventProvider]:
    """Return the real backend, and its provider."""
    provider = EventProvider(*scripts)
    return new_question_model(provider), provider


def ends(bench: TurnBench) -> list[tuple[str, Any, str | None]]:
    """Return the outcome, answer and reason of each inquiry."""
    return [(e.outcome, e.answer, e.reason) for e in bench.of("inquiry_response")]


def list_results(bench: TurnBench) -> list[tuple[str, bool]]:
    return [(response.content, response.is_error) for response in bench.of("tool_call_response")]


@pytest.mark.req("R028-1", "R028-2", "R028-4", "R028-13", "R028-16", "R028-23")
async def test_tool_runs_again_with_the_answer_of_a_model() -> None:
    runs: list[Any] = []
    backend, other = make_llm(answer_events(True))
    bench = TurnBench(
        [reply(say("Renaming."), call("rename", text='{"path": "a.txt"}')), DONE],
        tools=[make_asking_tool(SURE, runs=runs)],
        config=by_model("rename", sure=BY_MODEL),
        inquiry=backend,
    )
    assert (await bench.run("Rename a.txt, with backups.")).status == "completed"
    assert runs == [("a.txt", {}), ("a.txt", {"sure": True})]
    assert list_results(bench) == [('{"sure": true}', False)]
    assert len(bench.of("tool_call_request")) == 1
    # The main model was asked twice, and saw one request and one response of the call.
    [(_, before), (_, after)] = bench.provider.requests
    added = [entry.type for entry in after[len(before) :]]
    assert added == ["chat_response", "tool_call_request", "tool_call_response"]
    # The answering model saw the same conversation.
    [(_, seen)] = other.requests
    assert [entry.type for entry in seen] == [
        "chat_request", "chat_response", "tool_call_request", "tool_call_response", "chat_request",
    ]  # fmt: skip
    assert seen[:3] == after[:3]
    assert ends(bench) == [("answered", True, None)]


@pytest.mark.req("R028-15", "R028-35")
async def test_inquiry_leaves_its_request_and_response_alone() -> None:
    backend, other = make_llm(answer_events(True))
    bench = TurnBench(
        [reply(call("rename")), DONE],
        tools=[make_asking_tool(SURE)],
        config=by_model("rename", sure=BY_MODEL),
        inquiry=backend,
    )
    await bench.run()
    [(_, seen)] = other.requests
    assert is_kind(seen[-1], "chat_request")  # the question was put, and:
    assert bench.kinds() == [
        "turn_start", "chat_request", "tool_call_request", "inquiry_request", "inquiry_response",
        "tool_call_response", "chat_response",
    ]  # fmt: skip
    kinds = [item.entry.type for item in bench.rebuild_context()]
    assert [item.entry.type for item in bench.context] == kinds
    shown = bench.render_cell()
    everything = [
        json.dumps(list(bench.stream.raw)),
        *[repr(item.entry) for item in bench.context],
        shown["text/plain"],
        shown["text/markdown"],
        bench.render_log(),
    ]
    for text in everything:
        for unwanted in ("Tool paused", "is paused and asks", "tool_call.rename", "let me think"):
            assert unwanted not in text
    [question] = bench.of("inquiry_request")
    assert question.id == "call_1.sure.1"
    assert "Create backups?" in shown["text/plain"]


@pytest.mark.req("R028-14")
async def test_inquiry_shows_the_question_and_its_answer_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def bench(question: dict[str, Any]) -> TurnBench:
        return TurnBench(
            [reply(call("rename")), DONE],
            tools=[make_asking_tool(SURE)],
            config=by_model("rename", sure=question),
            inquiry=make_llm([jp.ProviderError("x", retry_after=0)], answer_events(True))[0],
        )

    asked = bench(BY_MODEL)
    configured = bench({"answer": True})
    await asked.run()
    await configured.run()
    [ended] = asked.shown_of("question_ends")
    assert (ended.outcome.channel, ended.answer) == ("model", True)

    def comparable(bench: TurnBench) -> list[Any]:
        """Return the display events without the channel and the duration."""
        shown: list[Any] = []
        for event in bench.shown:
            if is_kind(event, "question_ends"):
                event = replace(event, outcome=replace(event.outcome, channel=None))
            if is_kind(event, "tool_ends"):
                event = replace(event, seconds=0.0)
            shown.append(event)
        return shown

    assert comparable(asked) == comparable(configured)
    assert not any("Hm" in event.text for event in asked.shown_of("show_text"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.req("R028-22")
async def test_thread_is_copied_only_when_a_model_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[RequestContext] = []
    init = RequestContext.__init__

    def noted(self: RequestContext, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if self.items:
            made.append(self)

    rows: list[tuple[dict[str, Any], int]] = [(BY_MODEL, 1), ({"answer": True}, 0)]
    for question, copies in rows:
        backend, other = make_llm(answer_events(True))
        bench = TurnBench(
            [reply(call("rename")), DONE],
            tools=[make_asking_tool(SURE)],
            config=by_model("rename", sure=question),
            person=FakePrompter(away=AWAY),
            inquiry=backend,
        )
        made.clear()
        with monkeypatch.context() as patch:
            patch.setattr(RequestContext, "__init__", noted)
            await bench.run()
        assert len(made) == copies
        assert [request.context for request, _ in other.requests] == made
        assert {id(sent.context) for sent, _ in bench.provider.requests} == {id(bench.context)}
        assert list_results(bench) == [('{"sure": true}', False)]


@pytest.mark.req("R028-23", "R028-25", "R028-27")
async def test_questions_of_one_call_are_asked_one_by_one() -> None:
    runs: list[Any] = []
    backend, other = make_llm(answer_events(True), answer_events("drop"), answer_events("b.txt"))
    bench = TurnBench(
        [reply(call("rename")), DONE],
        tools=[make_asking_tool(SURE, KEEP, NAME, runs=runs)],
        config=by_model("rename", sure=BY_MODEL, keep=BY_MODEL, name=BY_MODEL),
        inquiry=backend,
    )
    await bench.run()
    assert [answers for _, answers in runs] == [
        {},
        {"sure": True},
        {"sure": True, "keep": "drop"},
        {"sure": True, "keep": "drop", "name": "b.txt"},
    ]
    assert len(other.requests) == 3
    for request, seen in other.requests:
        assert request.schema is not None
        assert set(request.schema["properties"]) == {"inquiry_id", "answer"}
        assert sum(is_kind(entry, "chat_request") for entry in seen) == 2
    ids = [entry.id for entry in bench.of("inquiry_request")]
    assert ids == ["call_1.sure.1", "call_1.keep.1", "call_1.name.1"]
    assert [answer for _, answer, _ in ends(bench)] == [True, "drop", "b.txt"]


@pytest.mark.req("R028-3")
async def test_other_tools_run_during_an_inquiry() -> None:
    go = asyncio.Event()
    ran: list[str] = []

    async def slow_answer() -> Any:
        await go.wait()
        return True

    async def look() -> str:
        ran.append("begun")
        await until(lambda: mock.running)
        ran.append("done")
        go.set()  # the answer comes only after the other tool is done
        return "seen"

    mock = MockInquiryBackend({"call_1.sure.1": slow_answer})
    bench = TurnBench(
        [reply(call("rename", "call_1"), call("look", "call_2", index=2)), DONE],
        tools=[make_asking_tool(SURE), new_tool(look)],
        config=by_model("rename", sure=BY_MODEL),
        inquiry=mock,
    )
    await asyncio.wait_for(bench.run(), 5)
    assert ran == ["begun", "done"]
    assert list_results(bench) == [('{"sure": true}', False), ("seen", False)]


@pytest.mark.req("R028-26")
async def test_inquiries_of_parallel_calls_run_in_parallel() -> None:
    everyone = asyncio.Event()

    def answer(value: Any) -> Any:
        async def wait() -> Any:
            if mock.running == 3:
                everyone.set()
            await everyone.wait()
            return value

        return wait

    mock = MockInquiryBackend(
        {"c1.sure.1": answer(True), "c2.keep.1": answer("drop"), "c3.name.1": answer("x")}
    )
    names = ("one", "two", "three")
    calls = [call(name, f"c{n}", index=n) for n, name in enumerate(names, start=1)]
    bench = TurnBench(
        [reply(*calls), DONE],
        tools=[make_asking_tool(q, name=n) for q, n in zip((SURE, KEEP, NAME), names, strict=True)],
        config=by_model(*names, sure=BY_MODEL, keep=BY_MODEL, name=BY_MODEL),
        inquiry=mock,
    )
    await asyncio.wait_for(bench.run(), 5)
    assert mock.most_at_once == 3
    assert [(asked.tool, asked.call_id) for asked, _ in mock.asked] == [
        ("one", "c1"), ("two", "c2"), ("three", "c3"),
    ]  # fmt: skip
    assert list_results(bench) == [
        ('{"sure": true}', False), ('{"keep": "drop"}', False), ('{"name": "x"}', False),
    ]  # fmt: skip
    assert sorted(end.id for end in bench.of("inquiry_response")) == [
        "c1.sure.1", "c2.keep.1", "c3.name.1",
    ]  # fmt: skip


@pytest.mark.req("R028-28", "R083-82", "R083-83")
async def test_model_answers_if_configured_or_without_a_user() -> None:
    rows: list[tuple[Any, str | None]] = [
        (None, AWAY),
        ("user", AWAY),
        ("assistant", None),
        ({"system_prompt": "Be brief."}, AWAY),
    ]
    for target, away in rows:
        person = FakePrompter(away=away)
        mock = MockInquiryBackend({"tool_call.rename.call_1": False})
        bench = TurnBench(
            [reply(call("rename")), DONE],
            tools=[make_asking_tool(SURE)],
            config=by_model("rename", sure={"target": target}) if target else {},
            person=person,
            inquiry=mock,
        )
        await bench.run()
        assert list_results(bench) == [('{"sure": false}', False)]
        assert ends(bench) == [("answered", False, None)]
        assert [asked.id for asked, _ in mock.asked] == ["call_1.sure.1"]
        assert person.asked == []


@pytest.mark.req("R028-24")
async def test_failed_inquiry_ends_the_call_with_an_error() -> None:
    runs: list[Any] = []
    bench = TurnBench(
        [reply(call("rename"), call("look", "call_2", index=2)), DONE],
        tools=[make_asking_tool(SURE, runs=runs), new_tool(lambda: "seen", name="look")],
        config=by_model("rename", sure=BY_MODEL),
        inquiry=make_llm(reply(say("Yes.")))[0],
    )
    assert (await bench.run()).status == "completed"
    told = FAILED.format("No structured data in the LLM response")
    assert list_results(bench) == [(told, True), ("seen", False)]
    assert ends(bench) == [("cancelled", None, "backend_error")]
    assert len(runs) == 1


@pytest.mark.req("R028-33")
async def test_failed_inquiry_leaves_no_answers_for_the_next_call() -> None:
    runs: list[Any] = []
    failing = make("inquiry_error", "No structured data in the LLM response")
    mock = MockInquiryBackend(
        {"c1.sure.1": True, "c1.name.1": failing, "c2.sure.1": False, "c2.name.1": "b"}
    )
    bench = TurnBench(
        [reply(call("rename", "c1")), reply(call("rename", "c2")), DONE],
        tools=[make_asking_tool(SURE, NAME, runs=runs)],
        config=by_model("rename", sure=BY_MODEL, name=BY_MODEL),
        inquiry=mock,
    )
    await bench.run()
    assert [answers for _, answers in runs] == [
        {}, {"sure": True}, {}, {"sure": False}, {"sure": False, "name": "b"},
    ]  # fmt: skip
    assert [is_error for _, is_error in list_results(bench)] == [True, False]


@pytest.mark.req("R028-29")
@pytest.mark.parametrize("how", ["interrupt", "cancel"])
async def test_end_of_the_batch_cancels_inquiries(how: str) -> None:
    closed = EventProvider([model_event("text", 0, "structured", "{"), forever], [forever])
    bench = TurnBench(
        [reply(call("one", "c1"), call("two", "c2", index=2))],
        tools=[make_asking_tool(SURE, name="one"), make_asking_tool(SURE, name="two")],
        person=FakePrompter(away=AWAY),
        inquiry=new_question_model(closed),
    )
    task = asyncio.create_task(bench.run())
    await until(lambda: len(closed.requests) == 2)
    if how == "interrupt":
        bench.loop.interrupt()
        assert (await asyncio.wait_for(task, 5)).status == "interrupted"
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert closed.closed == 2
    assert ends(bench) == [("cancelled", None, "user")] * 2
    assert len(bench.of("tool_call_response")) == 2
    assert not bench.stream.list_open_tool_calls()
    assert not open_inquiries(bench.stream)
