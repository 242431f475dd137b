"""Questions of tools: answered by the user or the configuration, recorded, remembered."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import JsonValue

import jp_nb as jp
from tests.agent.turn_bench import MockInquiryBackend, call, reply, say
from tests.kit.kinds import is_kind, kind_of, make
from tests.kit.questions import not_answered
from tests.kit.settings import Settings
from tests.kit.tools import configured, new_tool
from tests.kit.turn_bench import TurnBench
from tests.support.entries import without_ids
from tests.support.fakes import CANCELLED, FakePrompter, for_tool, yes

AGENT = Path(jp.__file__).parent / "agent"

MAX_QUESTIONS = 50


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
    arguments: str = ASK, *, person: FakePrompter, answer: dict[str, Any] | None = None
) -> TurnBench:
    """A turn in which the model calls ask_user and then says that it is done."""
    config = for_tool("ask_user", questions={"answer": answer}) if answer else {}
    scripts = [reply(call("ask_user", text=arguments)), reply(say("Done."))]
    return TurnBench(scripts, person=person, config=config)


def make_asking_tool(
    question: jp.Question, *, name: str = "deploy", runs: list[Any] | None = None
) -> Any:
    """A tool that asks `question` and returns the answer it was given."""

    def function(ctx: jp.ToolContext) -> jp.Outcome:
        if runs is not None:
            runs.append(dict(ctx.answers))
        if question.id not in ctx.answers:
            return jp.NeedsInput(question)
        return jp.Success(f"got {ctx.answers[question.id]!r}")

    return new_tool(function, name=name)


def tool_bench(
    question: jp.Question,
    *,
    person: FakePrompter,
    config: dict[str, JsonValue] | None = None,
    runs: list[Any] | None = None,
    cycles: int = 1,
) -> TurnBench:
    """A turn in which the model calls a tool that asks `question`, once in each cycle."""
    partial = for_tool("deploy", questions={question.id: config}) if config else {}
    scripts = [reply(call("deploy", f"c{n}")) for n in range(1, cycles + 1)]
    tool = make_asking_tool(question, runs=runs)
    return TurnBench([*scripts, reply(say("Done."))], tools=[tool], person=person, config=partial)


def only_response(bench: TurnBench) -> Any:
    [response] = bench.of("tool_call_response")
    return response


def only_end(bench: TurnBench) -> tuple[str, str | None]:
    [entry] = bench.of("inquiry_response")
    return entry.outcome, entry.reason


AWAY = "the kernel's client takes no input"


# --- ask_user in a turn ----------------------------------------------------------------------


@pytest.mark.req("R083-2", "R083-25", "R083-29", "R083-37", "R083-48", "R083-81")
async def test_answer_is_the_result_and_the_turn_continues() -> None:
    person = FakePrompter(yes(True))
    bench = ask_user_bench(person=person)
    end = await bench.run()
    assert end.status == "completed"
    assert [kind_of(each) for each in person.asked] == ["question_prompt"]
    response = only_response(bench)
    assert (response.content, response.is_error) == (
        '{"answer_type":"boolean","answer":true}',
        False,
    )
    assert bench.turn.text == "Done."
    assert bench.kinds().count("turn_start") == bench.kinds().count("chat_request") == 1
    assert bench.provider.requests[1][1][-1] == response


@pytest.mark.parametrize("end", [yes(True), CANCELLED])
async def test_collaborator_who_answered_is_recorded_and_not_sent(
    end: Any | Any,
) -> None:
    benches = [ask_user_bench(person=FakePrompter(replace(end, by=by))) for by in ("Bo", None)]
    for bench in benches:
        await bench.run()
    named, unnamed = (bench.of("inquiry_response")[0].metadata for bench in benches)
    assert named == {**unnamed, "by": "Bo"}
    assert [bench.shown_of("question_ends")[0].outcome.by for bench in benches] == ["Bo", None]
    read = [only_response(bench).content for bench in benches]
    assert read[0] == read[1]


@pytest.mark.req("R083-30", "R083-39", "R083-50", "R083-61")
@pytest.mark.req("R083-63", "R083-67", "R083-71", "R083-72")
@pytest.mark.parametrize("label", [None, "Bot"])
async def test_question_is_recorded_as_declared_under_every_label(label: str | None) -> None:
    text = '{"question": "Which?", "context": "a\\nb", "answer_type": "select", "options": ["x"]}'
    answer: dict[str, Any] | None = {"prompt_label": label} if label else None
    bench = ask_user_bench(text, person=FakePrompter(yes("x")), answer=answer)
    await bench.run()
    [prompt] = bench.person.asked
    assert (prompt.label, prompt.tool, prompt.remember) == (label or "Assistant", None, False)
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


@pytest.mark.req("R083-38")
async def test_transcript_shows_the_question_alone() -> None:
    bench = ask_user_bench(person=FakePrompter(yes(True)))
    await bench.run()
    shown = bench.render_cell()
    assert shown["text/plain"] == "? Assistant: Ship it? → Yes\nDone."
    assert "ask_user" not in shown["text/markdown"]


@pytest.mark.req("R083-59")
def test_prompt_labels_merge_across_layers() -> None:
    def label(*partials: dict[str, Any]) -> str | None:
        tools = configured(Settings(*partials).merged(plain=False)).conversation.tools
        return tools["ask_user"].questions["answer"].prompt_label

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
async def test_builtin_under_another_name_is_not_found() -> None:
    config = for_tool("mine", source="builtin.ask_user")
    bench = TurnBench([reply(call("mine", text=ASK)), reply(say("Oh."))], config=config)
    await bench.run()
    response = only_response(bench)
    assert (response.content, response.is_error) == ("Tool not found: mine", True)


# --- precedence ----------------------------------------------------------------------------------

EXCLUSIVE = jp.Question.boolean("sure", "Sure?").with_exclusive()
OPEN = jp.Question.boolean("sure", "Sure?")
SECRET = jp.Question.secret("sure", "Password?")


@pytest.mark.req("R083-47", "R083-80", "R083-91")
async def test_configured_answer_wins_over_everything() -> None:
    rows: list[tuple[jp.Question, bool, str, str | None]] = [
        (EXCLUSIVE, True, "user", None),
        (EXCLUSIVE, False, "assistant", AWAY),
        (OPEN, False, "user", AWAY),
        (OPEN, True, "assistant", None),
    ]
    for question, answer, target, away in rows:
        person = FakePrompter(away=away)
        runs = list[Any]()
        config: dict[str, JsonValue] = {"answer": answer, "target": target}
        bench = tool_bench(question, person=person, config=config, runs=runs)
        await bench.run()
        assert only_response(bench).content == f"got {answer}"
        assert (person.asked, runs) == ([], [{}, {"sure": answer}])
        [entry] = bench.of("inquiry_response")
        assert (entry.outcome, entry.answer) == ("answered", answer)
        assert entry.metadata["channel"] == "configured"


@pytest.mark.req("R083-18", "R083-74", "R083-91", "R083-92", "R083-93", "R083-94")
async def test_invalid_configured_answer_ends_the_call_and_names_its_setting() -> None:
    rows: list[tuple[jp.Question, JsonValue, str]] = [
        (EXCLUSIVE, "yes", "does not match the question's answer_type"),
        (jp.Question.select("sure", "?", ["a"]), 1, "does not match the question's answer_type"),
        (jp.Question.select("sure", "?", ["a"]), "b", "is not one of the question's options"),
    ]
    for question, answer, what in rows:
        runs: list[Any] = []
        bench = tool_bench(question, person=FakePrompter(), config={"answer": answer}, runs=runs)
        await bench.run()
        response = only_response(bench)
        assert response.is_error
        assert response.content == (
            f"deploy: the configured conversation.tools.deploy.questions.sure.answer value {what}. "
            "Update the configuration; do not retry."
        )
        assert only_end(bench) == ("cancelled", "invalid_static_answer")
        assert runs == [{}]


@pytest.mark.req("R028-28", "R083-51", "R083-75", "R083-76", "R083-77")
async def test_human_only_question_fails_at_once_without_a_user() -> None:
    optional = jp.Question.select("sure", "?", ["S"]).with_required(False).with_exclusive()
    for question in (EXCLUSIVE, SECRET, optional):
        person = FakePrompter(away=AWAY)
        runs = list[Any]()
        bench = tool_bench(question, person=person, runs=runs)
        bench.inquiry = model = MockInquiryBackend()
        await bench.run()
        response = only_response(bench)
        assert (response.content, response.is_error) == (E_NOTTY.format("deploy"), True)
        assert only_end(bench) == ("cancelled", "no_prompt_backend")
        assert bench.of("inquiry_response")[0].metadata == {"end": "unavailable"}
        assert (person.asked, model.asked, runs) == ([], [], [{}])
        assert bench.turn.text == "Done."


@pytest.mark.req("R028-28", "R083-49", "R083-51", "R083-78", "R083-79")
async def test_human_only_question_is_never_routed_to_a_model() -> None:
    rows: list[tuple[jp.Question, JsonValue, str | None]] = [
        (EXCLUSIVE, "assistant", None),
        (SECRET, {"system_prompt": "Be brief."}, None),
        (SECRET, "assistant", AWAY),
    ]
    for question, target, away in rows:
        person = FakePrompter(away=away)
        model = MockInquiryBackend()
        bench = tool_bench(question, person=person, config={"target": target})
        bench.inquiry = model
        await bench.run()
        response = only_response(bench)
        assert (response.content, response.is_error) == (E_ASSISTANT.format("deploy"), True)
        assert only_end(bench) == ("cancelled", "assistant_routing_denied")
        assert (person.asked, model.asked) == ([], [])


@pytest.mark.parametrize(
    ("config", "away"), [({"target": "assistant"}, None), (None, AWAY)], ids=["target", "nobody"]
)
async def test_question_for_a_model_without_a_backend_is_an_error(
    config: dict[str, JsonValue] | None, away: str | None
) -> None:
    bench = tool_bench(OPEN, person=FakePrompter(away=away), config=config)
    await bench.run()
    response = only_response(bench)
    assert response.is_error
    assert response.content == (
        "The tool 'deploy' asked a follow-up question (\"Sure?\") that was routed to a secondary "
        "assistant for resolution, but the secondary assistant failed to provide a valid answer. "
        "Error: No model is available to answer the question. You may retry the tool "
        "call or end the turn."
    )
    assert only_end(bench) == ("cancelled", "backend_error")


@pytest.mark.req("R083-99")
async def test_presence_of_a_user_is_checked_for_each_question() -> None:
    person = FakePrompter()

    def leave(ctx: jp.ToolContext) -> jp.Outcome:
        person.away = AWAY  # between the start of the turn and the question
        return jp.NeedsInput(EXCLUSIVE)

    tool = new_tool(leave, name="deploy")
    bench = TurnBench([reply(call("deploy")), reply(say("Done."))], tools=[tool], person=person)
    await bench.run()
    assert only_response(bench).content == E_NOTTY.format("deploy")
    assert person.asked == []


async def test_unavailable_prompt_is_routed_again() -> None:
    person = FakePrompter(make("unavailable", "the page went away"))
    bench = tool_bench(EXCLUSIVE, person=person)
    await bench.run()
    assert only_response(bench).content == E_NOTTY.format("deploy")
    assert only_end(bench) == ("cancelled", "no_prompt_backend")


@pytest.mark.req("R083-51")
def test_agent_modules_name_no_builtin() -> None:
    modules = sorted(AGENT.glob("*.py"))
    assert len(modules) > 10
    for module in modules:
        tree = ast.parse(module.read_text(encoding="utf-8"))
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        imported = [
            node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        ]
        words = [text for text in texts if isinstance(text, str)]
        for name in set(configured({}).conversation.tools) - {
            "ask"
        }:  # also a way to run tools, as in `run = "ask"`
            assert not [text for text in words if name in text]
        assert not [name for name in imported if "builtin" in name]


# --- ends of a prompt ----------------------------------------------------------------------------


ENDS: list[tuple[Literal["declined", "cancelled", "timed_out", "interrupted"], str]] = [
    ("declined", "Tool input declined by user."),
    ("cancelled", "Tool input cancelled by user."),
    ("timed_out", "The tool's question was not answered in time."),
    ("interrupted", "The tool's question was not answered: an interrupt closed it."),
]


async def test_model_reads_why_a_question_has_no_answer() -> None:
    for end, told in ENDS:
        runs: list[Any] = []
        bench = tool_bench(EXCLUSIVE, person=FakePrompter(not_answered(end, "stdin")), runs=runs)
        await bench.run()
        response = only_response(bench)
        assert (response.content, response.is_error) == (told, False)
        assert only_end(bench) == ("cancelled", "user")
        assert bench.of("inquiry_response")[0].metadata == {"end": end, "channel": "stdin"}
        assert runs == [{}]
        assert bench.turn.text == "Done."


async def test_secret_answer_reaches_the_tool_alone() -> None:
    runs: list[Any] = []
    person = FakePrompter(yes("hunter2", remember=True))
    question = jp.Question.secret("pass", "Password?")

    def login(ctx: jp.ToolContext) -> jp.Outcome:
        runs.append(dict(ctx.answers))
        return jp.NeedsInput(question) if not ctx.answers else jp.Success("in")

    tool = new_tool(login, name="login")
    bench = TurnBench([reply(call("login")), reply(say("Done."))], tools=[tool], person=person)
    await bench.run()
    assert runs == [{}, {"pass": "hunter2"}]
    assert only_end(bench) == ("redacted", None)
    assert "answer" not in bench.stream.raw[4]
    assert "hunter2" not in repr([bench.stream.raw, bench.shown, bench.provider.requests])


SECRET_FIELD = {"id": "pass", "text": "P?", "answer_type": {"type": "secret"}}


@pytest.mark.parametrize(
    "question",
    [
        SECRET.with_default("hunter2"),
        jp.Question.model_validate(
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
async def test_default_of_a_secret_question_is_not_recorded(question: jp.Question) -> None:
    person = FakePrompter(not_answered("cancelled", "form"))
    bench = tool_bench(question, person=person)
    await bench.run()
    assert [entry.question.text for entry in bench.of("inquiry_request")] == [question.text]
    assert "hunter2" not in repr([bench.stream.raw, bench.provider.requests])


# --- remembered answers ----------------------------------------------------------------------


@pytest.mark.req("R083-97")
async def test_answer_for_the_turn_is_used_again_and_recorded() -> None:
    for answer in (True, False):
        person = FakePrompter(yes(answer, remember=True))
        bench = tool_bench(OPEN, person=person, cycles=2)
        await bench.run()
        assert [r.content for r in bench.of("tool_call_response")] == [f"got {answer!r}"] * 2
        assert len(person.asked) == 1
        channels = [(r.answer, r.metadata["channel"]) for r in bench.of("inquiry_response")]
        assert channels == [(answer, "form"), (answer, "remembered")]


async def test_answer_that_is_not_remembered_is_asked_again() -> None:
    person = FakePrompter(yes(True), yes(False))
    bench = tool_bench(OPEN, person=person, cycles=2)
    await bench.run()
    assert [r.content for r in bench.of("tool_call_response")] == ["got True", "got False"]


@pytest.mark.req("R083-95", "R083-96")
async def test_question_without_persistence_is_not_remembered() -> None:
    question = OPEN.with_persistence("none")
    person = FakePrompter(yes(True, remember=True), yes(False))
    bench = tool_bench(question, person=person, cycles=2)
    await bench.run()
    assert [r.content for r in bench.of("tool_call_response")] == ["got True", "got False"]
    assert [p.remember for p in person.asked if is_kind(p, "question_prompt")] == [False, False]


@pytest.mark.req("R083-95", "R083-96", "R083-97")
def test_remembered_answers_belong_to_tool_and_question() -> None:
    memory = tool_bench(OPEN, person=FakePrompter()).loop.turn.memory
    memory.remember_answer("deploy", OPEN, True)
    assert memory.find_answer("deploy", OPEN) is True
    assert memory.find_answer("other", OPEN) is None
    assert memory.find_answer("deploy", jp.Question.boolean("else", "?")) is None
    assert memory.find_answer("deploy", jp.Question.text("sure", "?")) is None
    assert memory.find_answer("deploy", OPEN.with_persistence("none")) is None
    memory.remember_answer("a", OPEN.with_persistence("none"), True)
    memory.remember_answer("b", SECRET, "x")
    assert set(memory.answers) == {"deploy.sure"}


async def test_remembered_answer_ends_with_its_turn() -> None:
    person = FakePrompter(yes(True, remember=True), yes(False))
    bench = tool_bench(OPEN, person=person)
    await bench.run()
    again = tool_bench(OPEN, person=person)
    await again.run()
    assert only_response(again).content == "got False"


async def test_answers_of_select_questions_are_not_remembered() -> None:
    question = jp.Question.select("sure", "Which?", ["a", "b"])
    person = FakePrompter(yes("a", remember=True), yes("b"))
    bench = tool_bench(question, person=person, cycles=2)
    await bench.run()
    assert [r.content for r in bench.of("tool_call_response")] == ["got 'a'", "got 'b'"]


# --- recording -------------------------------------------------------------------------------


@pytest.mark.req("R083-30", "R083-68", "R083-72")
async def test_plain_question_is_recorded_without_defaults() -> None:
    bench = tool_bench(jp.Question.text("why", "Why?"), person=FakePrompter(yes("so")))
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
async def test_every_route_records_one_request_and_one_response(subtests: pytest.Subtests) -> None:
    for number, (person, config) in enumerate(ROUTES):
        for question in [EXCLUSIVE, OPEN]:
            with subtests.test(question=question, number=number):
                fresh = FakePrompter(*person._ends, away=person.away)
                bench = tool_bench(question, person=fresh, config=config)
                await bench.run()
                assert [e.id for e in bench.of("inquiry_request")] == ["c1.sure.1"]
                assert [e.id for e in bench.of("inquiry_response")] == ["c1.sure.1"]


async def test_attempts_are_numbered_across_calls_with_one_id() -> None:
    def stubborn(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.Success("ok") if ctx.answers.get("sure") else jp.NeedsInput(OPEN)

    tool = new_tool(stubborn, name="deploy")
    person = FakePrompter(yes(False), yes(True), yes(True))
    scripts = [reply(call("deploy", "same")), reply(call("deploy", "same")), reply(say("Done."))]
    bench = TurnBench(scripts, tools=[tool], person=person)
    await bench.run()
    assert [e.id for e in bench.of("inquiry_request")] == [
        "same.sure.1",
        "same.sure.2",
        "same.sure.3",
    ]


async def test_questions_of_one_run_are_answered_in_order() -> None:
    runs: list[dict[str, JsonValue]] = []
    questions = (
        jp.Question.text("a", "a?"),
        jp.Question.secret("b", "b?"),
        jp.Question.text("c", "c: 1234?"),
    )

    def three(ctx: jp.ToolContext) -> jp.Outcome:
        runs.append(dict(ctx.answers))
        return jp.Success("ok") if ctx.answers else jp.NeedsInput(*questions)

    tool = new_tool(three, name="three")
    person = FakePrompter(yes("1"), yes("1234"), yes("3"))
    bench = TurnBench(
        [reply(call("three", "c1")), reply(say("Done."))], tools=[tool], person=person
    )
    await bench.run()
    assert runs == [{}, {"a": "1", "b": "1234", "c": "3"}]
    opened = [(e.id, e.question.text) for e in bench.of("inquiry_request")]
    assert opened == [("c1.a.1", "a?"), ("c1.b.1", "b?"), ("c1.c.1", "c: 1234?")]
    assert [e.id for e in bench.of("inquiry_response")] == [name for name, _ in opened]


async def test_cancelled_question_ends_a_call_with_several_questions() -> None:
    def two(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.NeedsInput(jp.Question.text("a", "a?"), jp.Question.text("b", "b?"))

    tool = new_tool(two, name="two")
    person = FakePrompter(CANCELLED)
    bench = TurnBench([reply(call("two")), reply(say("Done."))], tools=[tool], person=person)
    await bench.run()
    assert len(person.asked) == 1
    assert only_response(bench).content == "Tool input cancelled by user."


async def test_tool_may_ask_the_maximum_number_of_questions() -> None:
    questions = [jp.Question.text(f"q{n}", "?") for n in range(MAX_QUESTIONS)]

    def many(ctx: jp.ToolContext) -> jp.Outcome:
        return jp.Success(str(len(ctx.answers))) if ctx.answers else jp.NeedsInput(*questions)

    tool = new_tool(many, name="many")
    config = for_tool("many", questions={q.id: {"answer": "x"} for q in questions})
    bench = TurnBench([reply(call("many")), reply(say("Done."))], tools=[tool], config=config)
    await bench.run()
    assert only_response(bench).content == str(MAX_QUESTIONS)


@pytest.mark.req("R083-98")
async def test_transient_flag_of_a_failure_is_not_recorded() -> None:
    def function() -> Any:
        return make("failure", "Disk full. Try again later.", transient=True)

    tool = new_tool(function, name="deploy")
    bench = TurnBench([reply(call("deploy")), reply(say("Done."))], tools=[tool])
    await bench.run()
    assert without_ids(bench.stream.raw[3]) | {"timestamp": ""} == {
        "timestamp": "",
        "type": "tool_call_response",
        "id": "call_1",
        "content": "Disk full. Try again later.",
        "is_error": True,
    }


def test_missing_builtin_does_not_ask_as_the_assistant() -> None:
    assert new_tool("missing").inquiry_source("missing").source == "tool"


async def test_end_of_a_question_is_shown() -> None:
    bench = tool_bench(OPEN, person=FakePrompter(yes(True)), config={"prompt_label": "Ops"})
    await bench.run()
    [shown] = bench.shown_of("question_ends")
    assert (shown.call_id, shown.tool, shown.outcome, shown.answer, shown.label) == (
        "c1",
        "deploy",
        make("question_outcome", "answered", "form"),
        True,
        "Ops",
    )
