"""A model answers a tool's question, in whole turns: what runs, what is recorded, what is shown."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from jp_nb.agent.display_events import QuestionEnds, ShowText, ToolEnds
from jp_nb.agent.model_events import Flush, Provider, ProviderEvent, TextPart, Usage
from jp_nb.agent.model_inquiry import BESIDE, InquiryError, InquiryModel, LlmInquiryBackend
from jp_nb.agent.resolved import Resolved
from jp_nb.config.partial import Partial, merge
from jp_nb.errors import ProviderError
from jp_nb.providers.registry import create
from jp_nb.providers.scripted import Script, ScriptedProvider
from jp_nb.record.document import Document
from jp_nb.record.events import (
    ChatRequest,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from jp_nb.record.thread import Thread, thread_of
from jp_nb.rendering.conversation_log import log
from jp_nb.rendering.transcript import Transcript
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import NeedsInput, Outcome, Success
from jp_nb.tooling.python import PythonTool
from jp_nb.tooling.question import Question
from tests.support.entries import open_inquiries
from tests.support.fakes import (
    Bench,
    EventProvider,
    FakePrompter,
    MockInquiryBackend,
    call,
    for_tool,
    forever,
    reply,
    say,
    until,
)
from tests.support.loopback import LoopbackServer, Reply, ToolCall

AWAY = "nobody is there"
SURE = Question.boolean("sure", "Create backups?")
KEEP = Question.select("keep", "Keep it?", ["keep", "drop"])
NAME = Question.text("name", "Which name?")
DONE = reply(say("Done."))
BY_MODEL: Partial = {"target": "assistant"}
FAILED = (
    "The tool 'rename' asked a follow-up question (\"Create backups?\") that was routed to a "
    "secondary assistant for resolution, but the secondary assistant failed to provide a valid "
    "answer. Error: {}. You may retry the tool call or end the turn."
)


def asking(*questions: Question, name: str = "rename", runs: list[Any] | None = None) -> PythonTool:
    """A tool that asks one question after the other and returns the answers."""

    def function(ctx: ToolContext, path: str = "") -> Outcome:
        if runs is not None:
            runs.append((path, dict(ctx.answers)))
        for question in questions:
            if question.id not in ctx.answers:
                return NeedsInput(question)
        return Success(json.dumps(ctx.answers))

    return PythonTool(function, name=name)


def by_model(*names: str, **questions: Partial) -> Partial:
    """A partial in which a model answers these questions of all `names`."""
    partial: Partial = {}
    for name in names:
        partial = merge(partial, for_tool(name, questions=dict(questions)))
    return partial


def answering(answer: Any, call_id: str = "call_1", *, tool: str = "rename") -> list[Any]:
    """Events of a structured answer with a thought before it."""
    text = json.dumps({"inquiry_id": f"tool_call.{tool}.{call_id}", "answer": answer})
    thought: list[ProviderEvent] = [TextPart(0, "reasoning", "Hm, let me think."), Flush(0)]
    return reply(thought, [TextPart(1, "structured", text), Flush(1)])


def llm(*scripts: Any) -> tuple[LlmInquiryBackend, EventProvider]:
    """The real backend over a provider of its own."""
    provider = EventProvider(*scripts)
    return LlmInquiryBackend(InquiryModel(provider, "small")), provider


def ends(bench: Bench) -> list[tuple[str, Any, str | None]]:
    """How the inquiries were closed."""
    return [(e.outcome, e.answer, e.reason) for e in bench.of(InquiryResponse)]


def results(bench: Bench) -> list[tuple[str, bool]]:
    return [(response.content, response.is_error) for response in bench.of(ToolCallResponse)]


# --- one question ----------------------------------------------------------------------------


@pytest.mark.req("R028-1", "R028-2", "R028-4", "R028-13", "R028-16", "R028-23")
async def test_the_tool_runs_again_with_the_answer_and_the_model_sees_the_result_alone() -> None:
    runs: list[Any] = []
    backend, other = llm(answering(True))
    bench = Bench(
        [reply(say("Renaming."), call("rename", text='{"path": "a.txt"}')), DONE],
        tools=[asking(SURE, runs=runs)],
        config=by_model("rename", sure=BY_MODEL),
        inquiry=backend,
    )
    assert (await bench.run("Rename a.txt, with backups.")).status == "completed"
    assert runs == [("a.txt", {}), ("a.txt", {"sure": True})]
    assert results(bench) == [('{"sure": true}', False)]
    assert len(bench.of(ToolCallRequest)) == 1
    # The main model was asked twice, and saw one request and one response of the call.
    [(_, before), (_, after)] = bench.provider.requests
    added = [entry.type for entry in after[len(before) :]]
    assert added == ["chat_response", "tool_call_request", "tool_call_response"]
    # The one who answered saw the same conversation.
    [(_, seen)] = other.requests
    assert [entry.type for entry in seen] == [
        "chat_request", "chat_response", "tool_call_request", "tool_call_response", "chat_request",
    ]  # fmt: skip
    assert seen[:3] == after[:3]
    assert ends(bench) == [("answered", True, None)]


@pytest.mark.req("R028-15", "R028-35")
async def test_record_thread_log_and_transcript_hold_the_audit_pair_alone() -> None:
    backend, other = llm(answering(True))
    bench = Bench(
        [reply(call("rename")), DONE],
        tools=[asking(SURE)],
        config=by_model("rename", sure=BY_MODEL),
        inquiry=backend,
    )
    await bench.run()
    [(_, seen)] = other.requests
    assert isinstance(seen[-1], ChatRequest)  # the question was put, and:
    assert bench.kinds() == [
        "turn_start", "chat_request", "tool_call_request", "inquiry_request", "inquiry_response",
        "tool_call_response", "chat_response",
    ]  # fmt: skip
    kinds = [item.entry.type for item in thread_of(bench.stream)]
    assert [item.entry.type for item in bench.loop.thread] == kinds
    transcript = Transcript()
    transcript.apply(bench.shown)
    shown = log(Document(bench.stream), [bench.turn])
    everything = [
        json.dumps(list(bench.stream.raw)),
        *[repr(item.entry) for item in bench.loop.thread],
        transcript.plain_text(),
        transcript.markdown(),
        str(shown),
        repr(shown),
    ]
    for text in everything:
        for unwanted in ("Tool paused", "is paused and asks", "tool_call.rename", "let me think"):
            assert unwanted not in text
    [question] = bench.of(InquiryRequest)
    assert question.id == "call_1.sure.1"
    assert "Create backups?" in transcript.plain_text()


@pytest.mark.req("R028-14")
async def test_nothing_is_shown_but_the_question_and_its_answer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def bench(question: Partial) -> Bench:
        return Bench(
            [reply(call("rename")), DONE],
            tools=[asking(SURE)],
            config=by_model("rename", sure=question),
            inquiry=llm([ProviderError("x", retry_after=0)], answering(True))[0],
        )

    asked, configured = bench(BY_MODEL), bench({"answer": True})
    await asked.run()
    await configured.run()
    [ended] = asked.shown_of(QuestionEnds)
    assert (ended.channel, ended.answer) == ("model", True)

    def comparable(bench: Bench) -> list[Any]:
        """What was shown, without who answered and how long it took."""
        shown: list[Any] = []
        for event in bench.shown:
            if isinstance(event, QuestionEnds):
                event = replace(event, channel=None)
            if isinstance(event, ToolEnds):
                event = replace(event, seconds=0.0)
            shown.append(event)
        return shown

    assert comparable(asked) == comparable(configured)
    assert not any("Hm" in event.text for event in asked.shown_of(ShowText))
    assert capsys.readouterr() == ("", "")


@pytest.mark.req("R028-22")
@pytest.mark.parametrize(
    ("question", "copies"), [(BY_MODEL, 1), ({"answer": True}, 0), ({"target": "user"}, 1)]
)
async def test_the_thread_is_copied_when_a_model_is_asked_and_not_before(
    question: Partial, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Thread] = []
    init = Thread.__init__

    def noted(self: Thread, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if self.items:
            made.append(self)

    backend, other = llm(answering(True))
    bench = Bench(
        [reply(call("rename")), DONE],
        tools=[asking(SURE)],
        config=by_model("rename", sure=question),
        person=FakePrompter(away=AWAY),
        inquiry=backend,
    )
    monkeypatch.setattr(Thread, "__init__", noted)
    await bench.run()
    assert len(made) == copies
    assert [request.thread for request, _ in other.requests] == made
    assert {id(request.thread) for request, _ in bench.provider.requests} == {id(bench.loop.thread)}
    assert results(bench) == [('{"sure": true}', False)]


# --- several ---------------------------------------------------------------------------------


@pytest.mark.req("R028-23", "R028-25", "R028-27")
async def test_questions_of_one_call_are_put_one_by_one_and_answers_add_up() -> None:
    runs: list[Any] = []
    backend, other = llm(answering(True), answering("drop"), answering("b.txt"))
    bench = Bench(
        [reply(call("rename")), DONE],
        tools=[asking(SURE, KEEP, NAME, runs=runs)],
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
        assert set(request.schema["properties"]) == {"inquiry_id", "answer"}  # type: ignore[arg-type]
        assert sum(isinstance(entry, ChatRequest) for entry in seen) == 2
    ids = [entry.id for entry in bench.of(InquiryRequest)]
    assert ids == ["call_1.sure.1", "call_1.keep.1", "call_1.name.1"]
    assert [answer for _, answer, _ in ends(bench)] == [True, "drop", "b.txt"]


@pytest.mark.req("R028-3")
async def test_other_tools_go_on_while_a_model_is_asked() -> None:
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
    bench = Bench(
        [reply(call("rename", "call_1"), call("look", "call_2", index=2)), DONE],
        tools=[asking(SURE), PythonTool(look)],
        config=by_model("rename", sure=BY_MODEL),
        inquiry=mock,
    )
    await asyncio.wait_for(bench.run(), 5)
    assert ran == ["begun", "done"]
    assert results(bench) == [('{"sure": true}', False), ("seen", False)]


@pytest.mark.req("R028-26")
async def test_inquiries_of_parallel_calls_run_at_once_and_are_settled_one_by_one() -> None:
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
    bench = Bench(
        [reply(*calls), DONE],
        tools=[asking(q, name=n) for q, n in zip((SURE, KEEP, NAME), names, strict=True)],
        config=by_model(*names, sure=BY_MODEL, keep=BY_MODEL, name=BY_MODEL),
        inquiry=mock,
    )
    await asyncio.wait_for(bench.run(), 5)
    assert mock.most_at_once == 3
    assert [(asked.tool, asked.call_id) for asked, _ in mock.asked] == [
        ("one", "c1"), ("two", "c2"), ("three", "c3"),
    ]  # fmt: skip
    assert results(bench) == [
        ('{"sure": true}', False), ('{"keep": "drop"}', False), ('{"name": "x"}', False),
    ]  # fmt: skip
    assert sorted(end.id for end in bench.of(InquiryResponse)) == [
        "c1.sure.1", "c2.keep.1", "c3.name.1",
    ]  # fmt: skip


async def test_parallel_inquiries_of_the_real_backend_each_see_their_own_call_paused() -> None:
    scripts = [
        answering(n, f"c{n}", tool=name) for n, name in ((1, "one"), (2, "two"))
    ]  # numbers are no answer to a boolean question
    backend, other = llm(*scripts)
    calls = [call("one", "c1"), call("two", "c2", index=2)]
    bench = Bench(
        [reply(*calls), DONE],
        tools=[asking(SURE, name="one"), asking(SURE, name="two")],
        config=by_model("one", "two", sure=BY_MODEL),
        inquiry=backend,
    )
    await bench.run()
    for number, (_, seen) in enumerate(other.requests, start=1):
        told = {e.id: e.content for e in seen if isinstance(e, ToolCallResponse)}
        paused = "Tool paused: Create backups?"
        expected = dict.fromkeys(("c1", "c2"), BESIDE)
        assert told == {**expected, f"c{number}": paused}
    assert all(is_error for _, is_error in results(bench))


# --- who answers -----------------------------------------------------------------------------


@pytest.mark.req("R028-28", "R083-82")
@pytest.mark.parametrize("question", [None, {"target": "user"}])
async def test_with_nobody_there_a_model_answers_what_a_person_would(
    question: Partial | None,
) -> None:
    person = FakePrompter(away=AWAY)
    mock = MockInquiryBackend({"tool_call.rename.call_1": False})
    bench = Bench(
        [reply(call("rename")), DONE],
        tools=[asking(SURE)],
        config=by_model("rename", sure=question) if question else {},
        person=person,
        inquiry=mock,
    )
    await bench.run()
    assert results(bench) == [('{"sure": false}', False)]
    assert ends(bench) == [("answered", False, None)]
    assert [asked.id for asked, _ in mock.asked] == ["call_1.sure.1"]
    assert person.asked == []


@pytest.mark.req("R028-28")
@pytest.mark.parametrize("question", [SURE.with_exclusive(), Question.secret("sure", "Password?")])
async def test_what_only_a_person_may_answer_reaches_no_model(question: Question) -> None:
    for config, away in (({}, AWAY), (by_model("rename", sure=BY_MODEL), None)):
        mock = MockInquiryBackend()
        bench = Bench(
            [reply(call("rename")), DONE],
            tools=[asking(question)],
            config=config,
            person=FakePrompter(away=away),
            inquiry=mock,
        )
        await bench.run()
        [(_, is_error)] = results(bench)
        assert is_error
        assert mock.asked == []


# --- what goes wrong -------------------------------------------------------------------------


@pytest.mark.req("R028-24")
@pytest.mark.parametrize(
    ("script", "error"),
    [
        ([ProviderError("no money", kind="quota")], "LLM provider error: no money"),
        (reply(say("Yes.")), "No structured data in the LLM response"),
        (
            answering("yes"),
            "Failed to extract answer from structured response: `answer` is not a boolean",
        ),
    ],
)
async def test_a_failure_ends_the_call_with_an_error(script: Any, error: str) -> None:
    runs: list[Any] = []
    bench = Bench(
        [reply(call("rename"), call("look", "call_2", index=2)), DONE],
        tools=[asking(SURE, runs=runs), PythonTool(lambda: "seen", name="look")],
        config=by_model("rename", sure=BY_MODEL),
        inquiry=llm(script)[0],
    )
    assert (await bench.run()).status == "completed"
    assert results(bench) == [(FAILED.format(error), True), ("seen", False)]
    assert ends(bench) == [("cancelled", None, "backend_error")]
    assert len(runs) == 1


@pytest.mark.req("R028-33")
async def test_a_question_that_failed_leaves_nothing_for_the_next_call() -> None:
    runs: list[Any] = []
    failing = InquiryError("No structured data in the LLM response")
    mock = MockInquiryBackend(
        {"c1.sure.1": True, "c1.name.1": failing, "c2.sure.1": False, "c2.name.1": "b"}
    )
    bench = Bench(
        [reply(call("rename", "c1")), reply(call("rename", "c2")), DONE],
        tools=[asking(SURE, NAME, runs=runs)],
        config=by_model("rename", sure=BY_MODEL, name=BY_MODEL),
        inquiry=mock,
    )
    await bench.run()
    assert [answers for _, answers in runs] == [
        {}, {"sure": True}, {}, {"sure": False}, {"sure": False, "name": "b"},
    ]  # fmt: skip
    assert [is_error for _, is_error in results(bench)] == [True, False]


@pytest.mark.req("R028-29")
@pytest.mark.parametrize("how", ["interrupt", "cancel"])
async def test_ending_the_phase_cancels_the_inquiries(how: str) -> None:
    closed = EventProvider([TextPart(0, "structured", "{"), forever], [forever])
    bench = Bench(
        [reply(call("one", "c1"), call("two", "c2", index=2))],
        tools=[asking(SURE, name="one"), asking(SURE, name="two")],
        person=FakePrompter(away=AWAY),
        inquiry=LlmInquiryBackend(InquiryModel(closed, "small")),
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
    assert len(bench.of(ToolCallResponse)) == 2
    assert not bench.stream.unanswered()
    assert not open_inquiries(bench.stream)


async def test_the_tokens_of_inquiries_count_for_the_turn() -> None:
    backend, _ = llm([Usage(input_tokens=5, output_tokens=2), *answering(True)])
    bench = Bench(
        [reply([Usage(input_tokens=1)], call("rename")), DONE],
        tools=[asking(SURE)],
        config=by_model("rename", sure=BY_MODEL),
        inquiry=backend,
    )
    end = await bench.run()
    assert (end.usage.input_tokens, end.usage.output_tokens) == (6, 2)


# --- with real providers ---------------------------------------------------------------------


def through(bench: Bench, provider: Provider, name: str) -> Bench:
    """`bench` with one provider for the turn and for its inquiries, as a session has it."""
    resolve = bench.loop.resolve

    async def resolved() -> Resolved:
        found = await resolve()
        backend = LlmInquiryBackend(
            InquiryModel(provider, found.model, system=found.system),
            tools=tuple(tool.definition for tool in found.tools.tools.values()),
        )
        return replace(found, provider=provider, provider_name=name, inquiry=backend)

    bench.loop.resolve = resolved
    return bench


async def test_a_script_answers_for_the_turn_and_for_its_inquiries() -> None:
    script = """
    [[replies]]
    tool_calls = [{ name = "rename", arguments = { path = "a.txt" } }]
    [[replies]]
    expect = '"sure": true'
    text = "Renamed."
    [inquiries]
    "rename.sure" = true
    """
    provider = ScriptedProvider(Script.parse(script))
    bench = Bench([], tools=[asking(SURE)], person=FakePrompter(away=AWAY))
    await through(bench, provider, "scripted").run()
    assert bench.turn.text == "Renamed."
    assert len(provider.requests) == 3


@pytest.mark.req("R028-1", "R028-5", "R028-15", "R028-17")
@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
async def test_over_http_an_inquiry_begins_like_the_turn_and_leaves_no_trace(protocol: str) -> None:
    answer = json.dumps({"inquiry_id": "tool_call.rename.c1", "answer": True})
    calling = Reply("Renaming.", tool_calls=(ToolCall("rename", {"path": "a.txt"}, id="c1"),))
    with LoopbackServer([calling, answer, "Renamed."]) as server:
        provider = create(protocol, {"base_url": server.url, "base_url_env": None})
        bench = Bench([], tools=[asking(SURE)], person=FakePrompter(away=AWAY))
        try:
            await through(bench, provider, protocol).run()
        finally:
            await provider.aclose()
    assert bench.turn.text == "Renaming.\n\nRenamed."
    first, aside, second = (request.body for request in server.requests)
    count = len(first["messages"])
    for body in (aside, second):
        assert body["messages"][:count] == first["messages"]
        assert body["tools"] == first["tools"]
        assert body.get("system") == first.get("system")
    assert aside["messages"][count] == second["messages"][count]  # the call
    assert "Tool paused: Create backups?" in json.dumps(aside["messages"])
    assert "Create backups?" not in json.dumps(second["messages"])
    for name in ("output_config", "response_format"):
        assert name not in first
        assert name not in second


@pytest.mark.req("R083-83")
@pytest.mark.parametrize("away", [None, AWAY], ids=["somebody", "nobody"])
@pytest.mark.parametrize("target", ["assistant", {"system_prompt": "Be brief."}])
async def test_a_question_for_the_assistant_reaches_it_whoever_is_there(
    target: Any, away: str | None
) -> None:
    mock = MockInquiryBackend({"tool_call.rename.call_1": True})
    bench = Bench(
        [reply(call("rename")), DONE],
        tools=[asking(SURE)],
        config=by_model("rename", sure={"target": target}),
        person=FakePrompter(away=away),
        inquiry=mock,
    )
    await bench.run()
    assert [inquiry.question.id for inquiry, _ in mock.asked] == ["sure"]
    assert bench.person.asked == []
    assert results(bench) == [('{"sure": true}', False)]
