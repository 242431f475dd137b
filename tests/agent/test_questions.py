"""Routing and recording of questions, through whole turns: real tools, real record."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from jp_nb import agent
from jp_nb.agent.display_events import QuestionEnds
from jp_nb.agent.prompts import Answered, NotAnswered, QuestionPrompt, Unavailable
from jp_nb.agent.questions import TurnState
from jp_nb.agent.routes import UseAnswer, route
from jp_nb.config.layers import Layer, fold
from jp_nb.config.partial import Partial
from jp_nb.config.validation import validate
from jp_nb.record.events import InquiryRequest, InquiryResponse, ToolCallResponse
from jp_nb.rendering.transcript import Transcript
from jp_nb.tooling.builtin import BUILTINS, MissingTool
from jp_nb.tooling.context import ToolContext
from jp_nb.tooling.outcome import MAX_QUESTIONS, NeedsInput, Outcome, Success
from jp_nb.tooling.python import PythonTool
from jp_nb.tooling.question import Question
from tests.support.fakes import (
    CANCELLED,
    Bench,
    FakePrompter,
    call,
    for_tool,
    reply,
    say,
    without_ids,
    yes,
)
from tests.support.sources import syntax

ASK = '{"question": "Ship it?", "answer_type": "boolean"}'
E_NOTTY = (
    "{} cannot run because no interactive terminal is available. Do not retry this tool call in "
    "this turn; continue without user input or explain what information is missing."
)
E_ASSISTANT = (
    "{} requires a human answer and cannot be routed to the assistant. Do not retry this tool "
    "call in this turn."
)


def ask_user_bench(
    arguments: str = ASK, *, person: FakePrompter, answer: Partial | None = None
) -> Bench:
    """A turn in which the model calls ask_user and then says that it is done."""
    config = for_tool("ask_user", questions={"answer": answer}) if answer else {}
    scripts = [reply(call("ask_user", text=arguments)), reply(say("Done."))]
    return Bench(scripts, person=person, config=config)


def asking(
    question: Question, *, name: str = "deploy", runs: list[Any] | None = None
) -> PythonTool:
    """A tool that asks `question` and returns the answer it was given."""

    def function(ctx: ToolContext) -> Outcome:
        if runs is not None:
            runs.append(dict(ctx.answers))
        if question.id not in ctx.answers:
            return NeedsInput(question)
        return Success(f"got {ctx.answers[question.id]!r}")

    return PythonTool(function, name=name)


def tool_bench(
    question: Question,
    *,
    person: FakePrompter,
    config: dict[str, JsonValue] | None = None,
    runs: list[Any] | None = None,
    cycles: int = 1,
) -> Bench:
    """A turn in which the model calls a tool that asks `question`, once in each cycle."""
    partial = for_tool("deploy", questions={question.id: config}) if config else {}
    scripts = [reply(call("deploy", f"c{n}")) for n in range(1, cycles + 1)]
    tool = asking(question, runs=runs)
    return Bench([*scripts, reply(say("Done."))], tools=[tool], person=person, config=partial)


def the_response(bench: Bench) -> ToolCallResponse:
    [response] = bench.of(ToolCallResponse)
    return response


def the_end(bench: Bench) -> tuple[str, str | None]:
    [entry] = bench.of(InquiryResponse)
    return entry.outcome, entry.reason


AWAY = "the kernel's client takes no input"


# --- ask_user in a turn ----------------------------------------------------------------------


@pytest.mark.req("R083-2", "R083-25", "R083-29", "R083-37", "R083-48", "R083-81")
async def test_the_answer_is_the_result_and_the_turn_goes_on() -> None:
    person = FakePrompter(yes(True))
    bench = ask_user_bench(person=person)
    end = await bench.run()
    assert end.status == "completed"
    assert [type(prompt) for prompt in person.asked] == [QuestionPrompt]
    response = the_response(bench)
    assert (response.content, response.is_error) == (
        '{"answer_type":"boolean","answer":true}',
        False,
    )
    assert bench.turn.text == "Done."
    assert bench.kinds().count("turn_start") == bench.kinds().count("chat_request") == 1
    assert bench.provider.requests[1][1][-1] == response


@pytest.mark.parametrize("end", [yes(True), CANCELLED])
async def test_who_answered_or_cancelled_is_told_and_recorded_and_nothing_of_it_sent(
    end: Answered | NotAnswered,
) -> None:
    benches = [ask_user_bench(person=FakePrompter(replace(end, by=by))) for by in ("Bo", None)]
    for bench in benches:
        await bench.run()
    named, unnamed = (bench.of(InquiryResponse)[0].metadata for bench in benches)
    assert named == {**unnamed, "by": "Bo"}
    assert [bench.shown_of(QuestionEnds)[0].by for bench in benches] == ["Bo", None]
    read = [the_response(bench).content for bench in benches]
    assert read[0] == read[1]


@pytest.mark.req("R083-30", "R083-63", "R083-67", "R083-71", "R083-72")
@pytest.mark.parametrize("label", ["Assistant", "Bot"])
async def test_the_round_trip_is_recorded_as_declared_whatever_the_label(label: str) -> None:
    text = '{"question": "Which?", "context": "a\\nb", "answer_type": "select", "options": ["x"]}'
    bench = ask_user_bench(text, person=FakePrompter(yes("x")), answer={"prompt_label": label})
    await bench.run()
    kinds = ["tool_call_request", "inquiry_request", "inquiry_response", "tool_call_response"]
    assert bench.kinds()[2:6] == kinds
    raw = bench.stream.raw[3]
    assert {key: raw[key] for key in ("id", "source", "question")} == {
        "id": "call_1.answer.1",
        "source": {"source": "assistant"},
        "question": {
            "text": "Which?",
            "answer_type": {"type": "select", "options": [{"value": "x"}]},
            "context": "a\nb",
            "exclusive": True,
            "persistence": "none",
        },
    }
    raw = bench.stream.raw[4]
    assert (raw["outcome"], raw["id"], raw["answer"]) == ("answered", "call_1.answer.1", "x")
    assert raw["metadata"] == {"end": "answered", "channel": "form"}


@pytest.mark.req("R083-39", "R083-50", "R083-61")
@pytest.mark.parametrize("label", [None, "Bot"])
async def test_the_coordinator_looks_the_label_up_and_the_tool_stays_unnamed(
    label: str | None,
) -> None:
    person = FakePrompter(yes(True))
    await ask_user_bench(person=person, answer={"prompt_label": label} if label else None).run()
    [prompt] = person.asked
    assert isinstance(prompt, QuestionPrompt)
    assert (prompt.label, prompt.tool, prompt.remember) == (label or "Assistant", None, False)


@pytest.mark.req("R083-38")
async def test_only_its_question_is_shown() -> None:
    bench = ask_user_bench(person=FakePrompter(yes(True)))
    await bench.run()
    transcript = Transcript()
    transcript.apply(bench.shown)
    assert transcript.plain_text() == "? Assistant: Ship it? → Yes\nDone."
    assert "ask_user" not in transcript.markdown()


@pytest.mark.req("R083-59")
def test_labels_merge_across_layers() -> None:
    def label(*partials: Partial) -> str | None:
        registered: Partial = {name: dict(tool.registration) for name, tool in BUILTINS.items()}
        layers = [Layer("builtin", {"conversation": {"tools": registered}})]
        config = validate(fold([*layers, *(Layer("", partial) for partial in partials)]))
        return config.conversation.tools["ask_user"].questions["answer"].prompt_label

    user_file = for_tool("ask_user", questions={"answer": {"prompt_label": "File"}})
    flags = for_tool("ask_user", questions={"answer": {"prompt_label": "Flag"}})
    other = for_tool("ask_user", questions={"answer": {"target": "user"}})
    assert [label(), label(user_file), label(user_file, flags), label(other)] == [
        "Assistant",
        "File",
        "Flag",
        "Assistant",
    ]


@pytest.mark.req("R083-52")
async def test_a_builtin_under_another_key_is_offered_and_not_found_when_it_runs() -> None:
    config = for_tool("mine", source="builtin.ask_user")
    bench = Bench([reply(call("mine", text=ASK)), reply(say("Oh."))], config=config)
    await bench.run()
    response = the_response(bench)
    assert (response.content, response.is_error) == ("Tool not found: mine", True)


# --- the precedence table --------------------------------------------------------------------

EXCLUSIVE = Question.boolean("sure", "Sure?").with_exclusive()
OPEN = Question.boolean("sure", "Sure?")
SECRET = Question.secret("sure", "Password?")


@pytest.mark.req("R083-47", "R083-80", "R083-91")
async def test_a_configured_answer_wins_over_everything(subtests: pytest.Subtests) -> None:
    for question in [EXCLUSIVE, OPEN]:
        for answer in [True, False]:
            for target in ["user", "assistant"]:
                for away in [None, AWAY]:
                    with subtests.test(away=away, target=target, answer=answer, question=question):
                        person = FakePrompter(away=away)
                        config: dict[str, JsonValue] = {"answer": answer, "target": target}
                        bench = tool_bench(question, person=person, config=config)
                        await bench.run()
                        assert the_response(bench).content == f"got {answer}"
                        assert person.asked == []
                        [entry] = bench.of(InquiryResponse)
                        assert (entry.outcome, entry.answer) == ("answered", answer)
                        assert entry.metadata["channel"] == "configured"


async def test_a_configured_answer_is_not_handed_over_before_the_tool_asks() -> None:
    runs: list[Any] = []
    await tool_bench(OPEN, person=FakePrompter(), config={"answer": True}, runs=runs).run()
    assert runs == [{}, {"sure": True}]


@pytest.mark.req("R083-18", "R083-74", "R083-91", "R083-92", "R083-93", "R083-94")
@pytest.mark.parametrize(
    ("question", "answer", "what"),
    [
        (EXCLUSIVE, "yes", "does not match the question's answer_type"),
        (Question.select("sure", "?", ["a"]), 1, "does not match the question's answer_type"),
        (Question.select("sure", "?", ["a"]), "b", "is not one of the question's options"),
    ],
)
async def test_a_configured_answer_that_does_not_fit_ends_the_call_and_names_its_source(
    question: Question, answer: JsonValue, what: str
) -> None:
    runs: list[Any] = []
    bench = tool_bench(question, person=FakePrompter(), config={"answer": answer}, runs=runs)
    await bench.run()
    response = the_response(bench)
    assert response.is_error
    assert response.content == (
        f"deploy: the configured conversation.tools.deploy.questions.sure.answer value {what}. "
        "Update the configuration; do not retry."
    )
    assert the_end(bench) == ("cancelled", "invalid_static_answer")
    assert runs == [{}]


@pytest.mark.req("R083-18")
async def test_the_tools_own_check_is_not_reached_by_a_bad_configured_answer() -> None:
    bench = ask_user_bench(person=FakePrompter(), answer={"answer": "yes"})
    await bench.run()
    assert "accumulated answer" not in the_response(bench).content
    assert the_end(bench) == ("cancelled", "invalid_static_answer")


@pytest.mark.req("R083-51", "R083-75", "R083-76", "R083-77")
@pytest.mark.parametrize(
    "question",
    [EXCLUSIVE, SECRET, Question.select("sure", "?", ["S"]).with_required(False).with_exclusive()],
    ids=["exclusive", "secret", "exclusive and optional"],
)
async def test_with_nobody_there_a_question_for_people_fails_at_once(question: Question) -> None:
    person, runs = FakePrompter(away=AWAY), list[Any]()
    bench = tool_bench(question, person=person, runs=runs)
    await bench.run()
    response = the_response(bench)
    assert (response.content, response.is_error) == (E_NOTTY.format("deploy"), True)
    assert the_end(bench) == ("cancelled", "no_prompt_backend")
    assert bench.of(InquiryResponse)[0].metadata == {"end": "unavailable"}
    assert (person.asked, runs) == ([], [{}])
    assert bench.turn.text == "Done."


@pytest.mark.req("R083-75", "R083-76", "R083-77")
async def test_ask_user_with_nobody_there_fails_at_once() -> None:
    bench = ask_user_bench(person=FakePrompter(away=AWAY))
    await bench.run()
    assert the_response(bench).content == E_NOTTY.format("ask_user")
    assert the_end(bench) == ("cancelled", "no_prompt_backend")


@pytest.mark.req("R083-49", "R083-51", "R083-78", "R083-79")
async def test_a_question_for_people_is_never_given_to_a_model(subtests: pytest.Subtests) -> None:
    for question in [EXCLUSIVE, SECRET]:
        for target in ["assistant", {"system_prompt": "Be brief."}]:
            for away in [None, AWAY]:
                with subtests.test(away=away, target=target, question=question):
                    person = FakePrompter(away=away)
                    bench = tool_bench(question, person=person, config={"target": target})
                    await bench.run()
                    response = the_response(bench)
                    assert (response.content, response.is_error) == (
                        E_ASSISTANT.format("deploy"),
                        True,
                    )
                    assert the_end(bench) == ("cancelled", "assistant_routing_denied")
                    assert person.asked == []


@pytest.mark.req("R083-49", "R083-78", "R083-79")
@pytest.mark.parametrize("target", ["assistant", {"system_prompt": "Be brief."}])
async def test_ask_user_cannot_be_routed_to_the_assistant(target: JsonValue) -> None:
    bench = ask_user_bench(person=FakePrompter(), answer={"target": target})
    await bench.run()
    assert the_response(bench).content == E_ASSISTANT.format("ask_user")
    assert the_end(bench) == ("cancelled", "assistant_routing_denied")


@pytest.mark.req("R083-48", "R083-81")
@pytest.mark.parametrize("question", [EXCLUSIVE, OPEN, SECRET], ids=["exclusive", "open", "secret"])
async def test_somebody_who_is_there_is_asked(question: Question) -> None:
    answer = "hunter2" if question is SECRET else True
    person = FakePrompter(yes(answer))
    bench = tool_bench(question, person=person)
    await bench.run()
    assert len(person.asked) == 1
    assert the_response(bench).content == ("got '(secret)'" if question is SECRET else "got True")


@pytest.mark.parametrize(
    ("config", "away"), [({"target": "assistant"}, None), (None, AWAY)], ids=["target", "nobody"]
)
async def test_a_question_for_a_model_ends_in_an_error_that_says_so(
    config: dict[str, JsonValue] | None, away: str | None
) -> None:
    bench = tool_bench(OPEN, person=FakePrompter(away=away), config=config)
    await bench.run()
    response = the_response(bench)
    assert response.is_error
    assert response.content == (
        "The tool 'deploy' asked a follow-up question (\"Sure?\") that was routed to a secondary "
        "assistant for resolution, but the secondary assistant failed to provide a valid answer. "
        "Error: No inquiry backend is available. You may retry the tool call or end the turn."
    )
    assert the_end(bench) == ("cancelled", "backend_error")


@pytest.mark.req("R083-99")
async def test_who_is_there_is_asked_when_the_question_is_routed() -> None:
    person = FakePrompter()

    def leave(ctx: ToolContext) -> Outcome:
        person.away = AWAY  # between the start of the turn and the question
        return NeedsInput(EXCLUSIVE)

    tool = PythonTool(leave, name="deploy")
    bench = Bench([reply(call("deploy")), reply(say("Done."))], tools=[tool], person=person)
    await bench.run()
    assert the_response(bench).content == E_NOTTY.format("deploy")
    assert person.asked == []


async def test_a_prompt_that_finds_nobody_after_all_is_routed_again() -> None:
    person = FakePrompter(Unavailable("the page went away"))
    bench = tool_bench(EXCLUSIVE, person=person)
    await bench.run()
    assert the_response(bench).content == E_NOTTY.format("deploy")
    assert the_end(bench) == ("cancelled", "no_prompt_backend")


@pytest.mark.req("R083-51")
def test_no_tool_is_known_by_name_where_calls_are_coordinated() -> None:
    modules = sorted(Path(agent.__file__ or "").parent.glob("*.py"))
    assert len(modules) > 10
    for module in modules:
        tree = syntax(module)
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        imported = [
            node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        ]
        words = [text for text in texts if isinstance(text, str)]
        for name in BUILTINS.keys() - {"ask"}:  # also a way to run tools, as in `run = "ask"`
            assert not [text for text in words if name in text]
        assert not [name for name in imported if "builtin" in name]


# --- how a prompt ends -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("declined", "Tool input declined by user."),
        ("cancelled", "Tool input cancelled by user."),
        ("timed_out", "The tool's question was not answered: nobody did so in time."),
        ("interrupted", "The tool's question was not answered: an interrupt closed it."),
    ],
)
async def test_the_model_is_told_how_a_prompt_without_an_answer_ended(end: Any, told: str) -> None:
    runs: list[Any] = []
    bench = tool_bench(EXCLUSIVE, person=FakePrompter(NotAnswered(end, "stdin")), runs=runs)
    await bench.run()
    response = the_response(bench)
    assert (response.content, response.is_error) == (told, False)
    assert the_end(bench) == ("cancelled", "user")
    assert bench.of(InquiryResponse)[0].metadata == {"end": end, "channel": "stdin"}
    assert runs == [{}]
    assert bench.turn.text == "Done."


async def test_a_prompt_that_fails_does_not_stop_the_turn() -> None:
    bench = tool_bench(EXCLUSIVE, person=FakePrompter(RuntimeError("the comm is gone")))
    end = await bench.run()
    assert end.status == "completed"
    assert the_response(bench).content == E_NOTTY.format("deploy")


async def test_a_secret_reaches_the_tool_and_nothing_else() -> None:
    runs: list[Any] = []
    person = FakePrompter(yes("hunter2", remember=True))
    question = Question.secret("pass", "Password?")

    def login(ctx: ToolContext) -> Outcome:
        runs.append(dict(ctx.answers))
        return NeedsInput(question) if not ctx.answers else Success("in")

    tool = PythonTool(login, name="login")
    bench = Bench([reply(call("login")), reply(say("Done."))], tools=[tool], person=person)
    await bench.run()
    assert runs == [{}, {"pass": "hunter2"}]
    assert the_end(bench) == ("redacted", None)
    assert "answer" not in bench.stream.raw[4]
    assert "hunter2" not in repr([bench.stream.raw, bench.shown, bench.provider.requests])


SECRET_FIELD = {"id": "pass", "text": "P?", "answer_type": {"type": "secret"}}


@pytest.mark.parametrize(
    "question",
    [
        SECRET.with_default("hunter2"),
        Question.model_validate(
            {
                "id": "login",
                "text": "Login?",
                "answer_type": {"type": "form", "fields": [{**SECRET_FIELD, "default": "hunter2"}]},
                "default": {"pass": "hunter2"},
            }
        ),
    ],
    ids=["alone", "in a form"],
)
async def test_the_default_of_a_secret_is_as_secret_as_its_answer(question: Question) -> None:
    person = FakePrompter(NotAnswered("cancelled", "form"))
    bench = tool_bench(question, person=person)
    await bench.run()
    assert [entry.question.text for entry in bench.of(InquiryRequest)] == [question.text]
    assert "hunter2" not in repr([bench.stream.raw, bench.provider.requests])


# --- remembered answers ----------------------------------------------------------------------


@pytest.mark.req("R083-97")
@pytest.mark.parametrize("answer", [True, False])
async def test_an_answer_for_this_turn_is_used_again_in_it_and_recorded(answer: bool) -> None:
    person = FakePrompter(yes(answer, remember=True))
    bench = tool_bench(OPEN, person=person, cycles=2)
    await bench.run()
    assert [r.content for r in bench.of(ToolCallResponse)] == [f"got {answer!r}"] * 2
    assert len(person.asked) == 1
    channels = [(r.answer, r.metadata["channel"]) for r in bench.of(InquiryResponse)]
    assert channels == [(answer, "form"), (answer, "remembered")]


async def test_without_for_this_turn_the_person_is_asked_again() -> None:
    person = FakePrompter(yes(True), yes(False))
    bench = tool_bench(OPEN, person=person, cycles=2)
    await bench.run()
    assert [r.content for r in bench.of(ToolCallResponse)] == ["got True", "got False"]


@pytest.mark.req("R083-95", "R083-96")
async def test_a_question_that_is_not_for_the_turn_neither_writes_nor_reads_the_memory() -> None:
    question = OPEN.with_persistence("none")
    person = FakePrompter(yes(True, remember=True), yes(False))
    bench = tool_bench(question, person=person, cycles=2)
    await bench.run()
    assert [r.content for r in bench.of(ToolCallResponse)] == ["got True", "got False"]
    assert [p.remember for p in person.asked if isinstance(p, QuestionPrompt)] == [False, False]


@pytest.mark.req("R083-95", "R083-96", "R083-97")
def test_the_memory_is_kept_by_tool_and_question_and_only_for_what_fits() -> None:
    state = TurnState()
    state.remember("deploy", OPEN, True)
    assert state.remembered("deploy", OPEN) is True
    assert state.remembered("other", OPEN) is None
    assert state.remembered("deploy", Question.boolean("else", "?")) is None
    assert state.remembered("deploy", Question.text("sure", "?")) is None
    assert state.remembered("deploy", OPEN.with_persistence("none")) is None
    state.remember("a", OPEN.with_persistence("none"), True)
    state.remember("b", SECRET, "x")
    assert set(state.answers) == {"deploy.sure"}


def test_what_was_remembered_counts_also_once_nobody_is_there_any_more() -> None:
    for nobody in (None, "it runs headless"):
        way = route("deploy", OPEN, None, remembered=True, nobody=nobody)
        assert way == UseAnswer(True, "remembered")


async def test_a_remembered_answer_ends_with_its_turn() -> None:
    person = FakePrompter(yes(True, remember=True), yes(False))
    bench = tool_bench(OPEN, person=person)
    await bench.run()
    again = tool_bench(OPEN, person=person)
    await again.run()
    assert the_response(again).content == "got False"


async def test_an_answer_of_a_kind_that_is_not_remembered_is_asked_again() -> None:
    question = Question.select("sure", "Which?", ["a", "b"])
    person = FakePrompter(yes("a", remember=True), yes("b"))
    bench = tool_bench(question, person=person, cycles=2)
    await bench.run()
    assert [r.content for r in bench.of(ToolCallResponse)] == ["got 'a'", "got 'b'"]


# --- recording -------------------------------------------------------------------------------


@pytest.mark.req("R083-30", "R083-68", "R083-72")
async def test_a_plain_question_is_recorded_without_what_has_its_default() -> None:
    bench = tool_bench(Question.text("why", "Why?"), person=FakePrompter(yes("so")))
    await bench.run()
    raw = bench.stream.raw[3]
    assert raw["source"] == {"source": "tool", "name": "deploy"}
    assert raw["question"] == {"text": "Why?", "answer_type": {"type": "text"}}


ROUTES: list[tuple[FakePrompter, dict[str, JsonValue] | None]] = [
    (FakePrompter(yes(True)), None),
    (FakePrompter(CANCELLED), None),
    (FakePrompter(away=AWAY), None),
    (FakePrompter(), {"answer": True}),
    (FakePrompter(), {"answer": "no"}),
    (FakePrompter(), {"target": "assistant"}),
]


@pytest.mark.req("R083-30")
async def test_every_route_leaves_one_request_and_one_response(subtests: pytest.Subtests) -> None:
    for number, (person, config) in enumerate(ROUTES):
        for question in [EXCLUSIVE, OPEN]:
            with subtests.test(question=question, number=number):
                fresh = FakePrompter(*person._ends, away=person.away)
                bench = tool_bench(question, person=fresh, config=config)
                await bench.run()
                assert [e.id for e in bench.of(InquiryRequest)] == ["c1.sure.1"]
                assert [e.id for e in bench.of(InquiryResponse)] == ["c1.sure.1"]


async def test_attempts_go_on_when_a_tool_asks_again_and_when_an_id_comes_again() -> None:
    def stubborn(ctx: ToolContext) -> Outcome:
        return Success("ok") if ctx.answers.get("sure") else NeedsInput(OPEN)

    tool = PythonTool(stubborn, name="deploy")
    person = FakePrompter(yes(False), yes(True), yes(True))
    scripts = [reply(call("deploy", "same")), reply(call("deploy", "same")), reply(say("Done."))]
    bench = Bench(scripts, tools=[tool], person=person)
    await bench.run()
    assert [e.id for e in bench.of(InquiryRequest)] == ["same.sure.1", "same.sure.2", "same.sure.3"]


async def test_several_questions_of_one_call_accumulate_their_answers() -> None:
    runs: list[dict[str, JsonValue]] = []

    def two(ctx: ToolContext) -> Outcome:
        runs.append(dict(ctx.answers))
        for key in ("a", "b"):
            if key not in ctx.answers:
                return NeedsInput(Question.text(key, f"{key}?"))
        return Success("ok")

    tool = PythonTool(two, name="two")
    bench = Bench(
        [reply(call("two")), reply(say("Done."))],
        tools=[tool],
        person=FakePrompter(yes("1"), yes("2")),
    )
    await bench.run()
    assert runs == [{}, {"a": "1"}, {"a": "1", "b": "2"}]


async def test_questions_asked_together_are_answered_in_order_before_the_tool_runs_again() -> None:
    runs: list[dict[str, JsonValue]] = []
    questions = Question.text("a", "a?"), Question.secret("b", "b?"), Question.text("c", "c: 1234?")

    def three(ctx: ToolContext) -> Outcome:
        runs.append(dict(ctx.answers))
        return Success("ok") if ctx.answers else NeedsInput(*questions)

    tool = PythonTool(three, name="three")
    person = FakePrompter(yes("1"), yes("1234"), yes("3"))
    bench = Bench([reply(call("three", "c1")), reply(say("Done."))], tools=[tool], person=person)
    await bench.run()
    assert runs == [{}, {"a": "1", "b": "1234", "c": "3"}]
    opened = [(e.id, e.question.text) for e in bench.of(InquiryRequest)]
    assert opened == [("c1.a.1", "a?"), ("c1.b.1", "b?"), ("c1.c.1", "c: 1234?")]
    assert [e.id for e in bench.of(InquiryResponse)] == [name for name, _ in opened]


async def test_a_question_that_is_not_answered_ends_a_call_that_asks_several() -> None:
    def two(ctx: ToolContext) -> Outcome:
        return NeedsInput(Question.text("a", "a?"), Question.text("b", "b?"))

    tool = PythonTool(two, name="two")
    person = FakePrompter(CANCELLED)
    bench = Bench([reply(call("two")), reply(say("Done."))], tools=[tool], person=person)
    await bench.run()
    assert len(person.asked) == 1
    assert the_response(bench).content == "Tool input cancelled by user."


async def test_as_many_questions_as_a_tool_may_ask_together_are_answered_in_one_go() -> None:
    questions = [Question.text(f"q{n}", "?") for n in range(MAX_QUESTIONS)]

    def many(ctx: ToolContext) -> Outcome:
        return Success(str(len(ctx.answers))) if ctx.answers else NeedsInput(*questions)

    tool = PythonTool(many, name="many")
    config = for_tool("many", questions={q.id: {"answer": "x"} for q in questions})
    bench = Bench([reply(call("many")), reply(say("Done."))], tools=[tool], config=config)
    await bench.run()
    assert the_response(bench).content == str(MAX_QUESTIONS)


async def test_the_request_is_in_the_record_before_anybody_is_asked() -> None:
    seen: list[list[str]] = []
    bench: Bench

    async def look() -> Any:
        seen.append(bench.kinds())
        return yes(True)

    bench = tool_bench(EXCLUSIVE, person=FakePrompter(look))
    await bench.run()
    assert seen[0][-2:] == ["tool_call_request", "inquiry_request"]


async def test_nothing_about_questions_is_sent_to_the_model() -> None:
    bench = ask_user_bench(person=FakePrompter(yes(True)))
    await bench.run()
    sent = [entry.type for entry in bench.provider.requests[-1][1]]
    assert sent == ["chat_request", "tool_call_request", "tool_call_response"]


@pytest.mark.req("R083-98")
async def test_whether_a_failure_is_transient_is_not_told() -> None:
    from jp_nb.tooling.outcome import Failure

    def function() -> Outcome:
        return Failure("Disk full. Try again later.", transient=True)

    tool = PythonTool(function, name="deploy")
    bench = Bench([reply(call("deploy")), reply(say("Done."))], tools=[tool])
    await bench.run()
    assert without_ids(bench.stream.raw[3]) | {"timestamp": ""} == {
        "timestamp": "",
        "type": "tool_call_response",
        "id": "call_1",
        "content": "Disk full. Try again later.",
        "is_error": True,
    }


def test_what_stands_in_for_a_missing_builtin_never_speaks_for_the_assistant() -> None:
    assert MissingTool("x").inquiry_source("x").source == "tool"


async def test_how_a_question_ended_is_shown() -> None:
    bench = tool_bench(OPEN, person=FakePrompter(yes(True)), config={"prompt_label": "Ops"})
    await bench.run()
    [shown] = bench.shown_of(QuestionEnds)
    assert (shown.call_id, shown.tool, shown.outcome, shown.answer, shown.channel, shown.label) == (
        "c1",
        "deploy",
        "answered",
        True,
        "form",
        "Ops",
    )


async def test_another_source_routes_to_that_tool() -> None:
    mine = PythonTool(lambda: "mine", name="mine")
    config = for_tool("ask_user", source="python.mine")
    bench = Bench([reply(call("ask_user")), reply(say("Done."))], tools=[mine], config=config)
    await bench.run()
    assert the_response(bench).content == "mine"
