"""Forms in whole turns, most of them asked by the built-in tool `ask`.

Rows of the requirements that are decided differently: RPI-2 and RPI-3 (without a user `ask` is not
offered; a required question without an answer ends the call with an error, and the turn continues,
or fails with `strict`), RPI-62 (a reply sends the answers so far), RPI-67 and RPI-82 (only for
questions that may stay open).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import JsonValue

from jp_nb.agent.asking import ASKS_FOREVER, MAX_UNASKED
from jp_nb.agent.call_runner import UNAVAILABLE
from jp_nb.agent.decisions import STOPPED_FIRST, UNDELIVERED
from jp_nb.agent.display_events import InterruptHeard, PersonSays, QuestionEnds, ToolEnds
from jp_nb.agent.interrupts import LEFT, LEFT_RUNNING, LEFT_UNRUN, stopped
from jp_nb.agent.model_inquiry import InquiryError
from jp_nb.agent.prompts import Answered, FormEnd, FormPrompt, NotAnswered
from jp_nb.agent.questions import NOT_ANSWERED, STOPPED_BY_USER
from jp_nb.agent.tool_set import NEEDS_PERSON
from jp_nb.config.partial import Partial
from jp_nb.errors import PromptUnavailable
from jp_nb.record.events import InquiryRequest, InquiryResponse, ToolCallRequest, ToolCallResponse
from jp_nb.rendering.transcript import Transcript
from jp_nb.tooling.builtin.form_answers import SCHEMA_NAME
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

AWAY = "the kernel's client takes no input"
DATABASE: dict[str, Any] = {
    "id": "database",
    "question": "Which database?",
    "options": [{"label": "PostgreSQL", "value": "pg"}, {"label": "SQLite"}],
}
PARTS: dict[str, Any] = {
    "id": "parts",
    "question": "Which parts?",
    "options": [{"label": "API"}, {"label": "Page"}],
    "multi": True,
    "required": False,
}
NAME: dict[str, Any] = {"id": "name", "question": "Which name?", "mode": "freetext"}
DONE = reply(say("Done."))
LEFT_OPEN = NotAnswered("declined", "form")
LATE = NotAnswered("timed_out", "form")
OUT = NotAnswered("cancelled", "form")


def form(*questions: dict[str, Any], call_id: str = "call_1", index: int = 1) -> list[Any]:
    """A call of `ask`."""
    return call("ask", call_id, index=index, text=json.dumps({"questions": questions}))


def bench_of(
    person: FakePrompter, *calls: list[Any], config: Partial | None = None, **more: Any
) -> Bench:
    """A turn in which the model makes `calls` and then says that it is done."""
    return Bench([reply(*calls), DONE], person=person, config=config or {}, **more)


def configured(**answers: JsonValue) -> Partial:
    """A configuration with answers to questions of `ask`."""
    return for_tool("ask", questions={key: {"answer": x} for key, x in answers.items()})


def responses(bench: Bench) -> list[tuple[str, bool]]:
    return [(each.content, each.is_error) for each in bench.of(ToolCallResponse)]


def structured(bench: Bench) -> Any:
    [response] = bench.of(ToolCallResponse)
    return response.metadata["structured"]


def ends(bench: Bench) -> list[tuple[str, str, Any, Any]]:
    """Id, outcome, reason and end of each question in the record."""
    return [
        (entry.id, entry.outcome, entry.reason, entry.metadata.get("end"))
        for entry in bench.of(InquiryResponse)
    ]


# --- one call --------------------------------------------------------------------------------


@pytest.mark.req("RPI-1", "RPI-24", "RPI-28", "HB-7", "HB-16", "RCP-32", "RCP-34")
async def test_form_is_one_prompt_and_its_answers_are_the_result() -> None:
    person = FakePrompter(FormEnd((yes("pg"), yes(["Page", "API"]), yes(" Ada\n"))))
    bench = bench_of(person, form(DATABASE, PARTS, NAME))
    assert (await bench.run()).status == "completed"
    [prompt] = person.asked
    assert isinstance(prompt, FormPrompt)
    assert [page.question.id for page in prompt.pages] == ["database", "parts", "name"]
    assert {(page.label, page.tool, page.remember) for page in prompt.pages} == {
        ("Assistant", None, False)
    }
    assert (prompt.partial, prompt.menu) == (True, True)
    told = (
        "User answers:\n"
        "database: PostgreSQL (value: pg)\n"
        "parts: [Page, API]\n"
        "name: custom input:\n   Ada\n  "
    )
    assert responses(bench) == [(told, False)]
    assert bench.provider.requests[1][1][-1] == bench.of(ToolCallResponse)[0]
    assert (structured(bench)["schema"], structured(bench)["version"]) == (SCHEMA_NAME, 1)
    kinds = ["tool_call_request", *["inquiry_request"] * 3, *["inquiry_response"] * 3]
    assert bench.kinds()[2:10] == [*kinds, "tool_call_response"]
    assert ends(bench) == [
        (f"call_1.{name}.1", "answered", None, "answered") for name in ("database", "parts", "name")
    ]


@pytest.mark.req("HB-16")
async def test_questions_are_recorded_before_the_prompt_and_answers_before_the_run() -> None:
    recorded: list[tuple[int, int]] = []

    def note() -> None:
        recorded.append((len(bench.of(InquiryRequest)), len(bench.of(InquiryResponse))))

    async def answer() -> FormEnd:
        note()
        return FormEnd((yes("one"), yes("two")))

    def plan(ctx: ToolContext) -> Outcome:
        note()
        if ctx.answers:
            return Success("")
        return NeedsInput(Question.text("a", "A?"), Question.text("b", "B?"))

    bench = bench_of(FakePrompter(answer), call("plan"), tools=[PythonTool(plan)])
    await bench.run()
    assert recorded == [(0, 0), (2, 0), (2, 2)]


@pytest.mark.req("HB-19", "RPI-37")
async def test_questions_of_ask_are_recorded_as_the_assistants() -> None:
    label = " <b>$x$</b> {y} "
    question = {**DATABASE, "options": [{"label": label, "description": "d"}], "header": "Store"}
    bench = bench_of(FakePrompter(FormEnd((yes(label),))), form(question))
    await bench.run()
    raw = next(entry for entry in bench.stream.raw if entry["type"] == "inquiry_request")
    assert raw["source"] == {"source": "assistant"}
    assert raw["question"] == {
        "text": "Which database?",
        "header": "Store",
        "answer_type": {
            "type": "select",
            "options": [{"value": label, "description": "d"}],
            "other": True,
        },
        "exclusive": True,
        "persistence": "none",
    }


async def test_cell_shows_the_questions_and_not_the_call() -> None:
    bench = bench_of(FakePrompter(FormEnd((yes("pg"), LEFT_OPEN))), form(DATABASE, PARTS))
    await bench.run()
    transcript = Transcript()
    transcript.apply(bench.shown)
    shown = transcript.plain_text()
    assert "Which database?" in shown
    assert "PostgreSQL" in shown
    assert "{" not in shown
    assert [event.hidden for event in bench.shown_of(ToolEnds)] == [True]


@pytest.mark.req("RPI-6", "RPI-7", "RPI-47", "HB-13")
async def test_invalid_call_is_an_error_without_a_form() -> None:
    one_option = '{"questions": [{"id": "a", "question": "b", "options": ["c"]}]}'
    for arguments in ('{"questions": []}', "{}", one_option):
        person = FakePrompter()
        bench = bench_of(person, call("ask", text=arguments))
        assert (await bench.run()).status == "completed"
        [(text, is_error)] = responses(bench)
        assert is_error
        assert text.startswith("Nothing was shown to the user, because this call is not valid.")
        assert (person.asked, bench.of(InquiryRequest)) == ([], [])
        assert structured(bench)["outcome"] == "invalid"
        assert bench.turn.text == "Done."


async def test_long_answer_is_truncated_for_the_model_alone() -> None:
    long = "x" * 60_000
    bench = bench_of(FakePrompter(FormEnd((yes(long),))), form(NAME))
    await bench.run()
    [(text, _)] = responses(bench)
    assert len(text) < 55_000
    assert structured(bench)["customInput"] == long


async def test_edited_result_has_no_structured_data() -> None:
    person = FakePrompter(FormEnd((yes("Ada"),)), yes("edit"), yes("User said nothing."))
    bench = bench_of(person, form(NAME), config=for_tool("ask", result="ask"))
    await bench.run()
    [response] = bench.of(ToolCallResponse)
    assert response.content == "User said nothing."
    assert "structured" not in response.metadata


# --- nobody is there -------------------------------------------------------------------------


@pytest.mark.req("RPI-2", "RPI-3", "RCP-23")
async def test_ask_is_not_offered_without_a_user() -> None:
    bench = bench_of(FakePrompter(away=AWAY), form(DATABASE))
    assert bench.offer().missing["ask"] == NEEDS_PERSON
    assert (await bench.run()).status == "completed"
    names = [tool.name for tool in bench.provider.requests[0][0].tools]
    assert "ask" not in names
    assert "ask_user" in names
    assert responses(bench) == [(UNAVAILABLE.format("ask"), True)]
    assert bench.of(InquiryRequest) == []


@pytest.mark.req("RCP-30")
async def test_presence_of_a_user_is_checked_for_each_turn() -> None:
    person = FakePrompter(FormEnd((yes("pg"),)))
    bench = Bench([DONE, reply(form(DATABASE)), DONE], person=person)
    person.away = AWAY
    await bench.run()
    person.away = None
    again = Bench([reply(form(DATABASE)), DONE], person=person)
    await again.run()
    assert "ask" not in [tool.name for tool in bench.provider.requests[0][0].tools]
    assert responses(again) == [("User selected: PostgreSQL (value: pg)", False)]


CONFIGURED: list[tuple[dict[str, Any], JsonValue, str, str]] = [
    (DATABASE, "pg", "", "PostgreSQL (value: pg)"),
    (DATABASE, "PostgreSQL", "", "PostgreSQL (value: pg)"),
    (DATABASE, {"custom": "DuckDB"}, ", as custom input", "DuckDB"),
    (PARTS, ["Page", "API"], "", "[Page, API]"),
    (PARTS, "Page", "", "[Page]"),
    (PARTS, [], "", "[] (none of these)"),
    (NAME, "Ada", ", as custom input", "Ada"),
]


@pytest.mark.req("HB-10")
async def test_configured_answer_is_a_value_a_label_a_list_or_a_text() -> None:
    for number, (question, answer, how, text) in enumerate(CONFIGURED):
        config = configured(**{question["id"]: answer})
        away = AWAY if number % 2 else None
        bench = bench_of(FakePrompter(away=away), form(question), config=config)
        await bench.run()
        assert responses(bench) == [(f"Configured by the user in advance{how}: {text}", False)]
        assert structured(bench)["channel"] == "configured"


@pytest.mark.req("HB-10")
async def test_unfit_configured_answer_is_an_error_before_the_form() -> None:
    for question, answer, what in [
        (PARTS, ["API", "Docs"], "is not one of the question's options"),
        (NAME, True, "does not match the question's answer_type"),
    ]:
        person = FakePrompter()
        config = configured(**{question["id"]: answer})
        bench = bench_of(person, form({**NAME, "id": "other"}, question), config=config)
        await bench.run()
        path = f"conversation.tools.ask.questions.{question['id']}.answer"
        told = f"ask: the configured {path} value {what}. Update the configuration; do not retry."
        assert responses(bench) == [(told, True)]
        assert person.asked == []


@pytest.mark.req("RPI-3", "RPI-39", "RCP-24", "RCP-25", "HB-9")
@pytest.mark.parametrize("strict", [False, True])
async def test_required_question_without_a_user_fails_the_call(strict: bool) -> None:
    config = configured(parts=["API"])
    bench = bench_of(
        FakePrompter(away=AWAY), form(PARTS, DATABASE, NAME), config=config, strict=strict
    )
    if strict:
        with pytest.raises(PromptUnavailable, match="needs a person and nobody can be asked"):
            await bench.run()
    else:
        assert (await bench.run()).status == "completed"
    [(text, is_error)] = responses(bench)
    assert is_error
    assert text.startswith("ask cannot run because no interactive terminal is available.")
    assert ends(bench) == [
        (f"call_1.{name}.1", "cancelled", "no_prompt_backend", "unavailable")
        for name in ("parts", "database", "name")
    ], "a call that is refused takes nothing for an answer"


@pytest.mark.req("RCP-24", "RCP-29", "HB-3")
async def test_optional_questions_are_answered_automatically_or_left_open() -> None:
    best = {**PARTS, "id": "best", "recommended": 1}
    one = {**DATABASE, "id": "one", "required": False, "recommended": 7}
    free = {**NAME, "id": "free", "required": False}
    own = {**PARTS, "id": "own", "options": []}
    bench = bench_of(
        FakePrompter(away=AWAY), form(PARTS, best, one, free, own), config=configured(x="y")
    )
    await bench.run()
    auto = "(chosen automatically, because nobody was there to ask)"
    assert responses(bench) == [
        (
            "Answers:\n"
            f"parts {auto}: [API]\n"
            f"best {auto}: [Page]\n"
            f"one {auto}: PostgreSQL (value: pg)\n"
            "free: not answered (nobody was there to ask)\n"
            "own: not answered (nobody was there to ask)",
            False,
        )
    ]
    marks = [entry.metadata for entry in bench.of(InquiryResponse)]
    assert marks[0] == {"end": "answered", "auto": True}


@pytest.mark.req("RPI-81")
async def test_failed_form_is_recorded_as_unavailable() -> None:
    async def breaks() -> FormEnd:
        raise RuntimeError("the page is gone")

    bench = bench_of(FakePrompter(breaks), form(DATABASE))
    assert (await bench.run()).status == "completed"
    assert ends(bench) == [("call_1.database.1", "cancelled", "no_prompt_backend", "unavailable")]


# --- who answers what ------------------------------------------------------------------------


async def test_configured_questions_are_omitted_from_the_form() -> None:
    person = FakePrompter(FormEnd((yes("pg"), yes("Ada"))))
    bench = bench_of(person, form(DATABASE, PARTS, NAME), config=configured(parts=["Page"]))
    await bench.run()
    [prompt] = person.asked
    assert [page.question.id for page in prompt.pages] == ["database", "name"]
    assert responses(bench) == [
        (
            "User answers:\n"
            "database: PostgreSQL (value: pg)\n"
            "parts (configured by the user in advance): [Page]\n"
            "name: custom input: Ada",
            False,
        )
    ]


async def test_optional_question_may_be_answered_by_a_model() -> None:
    config = for_tool("ask", questions={"parts": {"target": "assistant"}})
    backend = MockInquiryBackend({"call_1.parts.1": ["API"]})
    person = FakePrompter(FormEnd((yes("pg"),)))
    bench = bench_of(person, form(PARTS, DATABASE), config=config, inquiry=backend)
    await bench.run()
    assert responses(bench) == [
        (
            "User answers:\n"
            "parts (answered by another model, not by the user): [API]\n"
            "database: PostgreSQL (value: pg)",
            False,
        )
    ]


class Asks:
    """A tool that asks two open questions at once and returns the answers."""

    def __init__(self, **more: Any) -> None:
        self.runs: list[dict[str, JsonValue]] = []

        def plan(ctx: ToolContext) -> Outcome:
            self.runs.append(dict(ctx.answers))
            if ctx.answers or ctx.ends:
                return Success(json.dumps(dict(ctx.answers)))
            return NeedsInput(Question.text("a", "A?"), Question.text("b", "B?"), **more)

        self.tool = PythonTool(plan)


async def test_models_answer_before_the_user_and_their_failure_ends_the_call() -> None:
    config = for_tool("plan", questions={"a": {"target": "assistant"}})
    asks, person = Asks(), FakePrompter(FormEnd((yes("two"),)))
    backend = MockInquiryBackend({"call_1.a.1": "one"})
    bench = bench_of(person, call("plan"), config=config, tools=[asks.tool], inquiry=backend)
    await bench.run()
    assert responses(bench) == [('{"a": "one", "b": "two"}', False)]

    asks, person = Asks(), FakePrompter()
    bench = bench_of(
        person, call("plan"), config=config, tools=[asks.tool], inquiry=MockInquiryBackend()
    )
    await bench.run()
    [(text, is_error)] = responses(bench)
    assert is_error
    assert "failed to provide a valid answer" in text
    assert person.asked == [], "the form of a failed call is not shown"
    assert [end for *_, end in ends(bench)] == [None, None]


@pytest.mark.parametrize("away", [None, AWAY])
async def test_tool_that_asks_forever_without_a_user_is_stopped(away: str | None) -> None:
    runs: list[int] = []

    def plan(ctx: ToolContext) -> Outcome:
        runs.append(len(runs))
        assert len(runs) < 100
        return NeedsInput(Question.text("a", "A?").with_required(False), partial=True)

    person = FakePrompter(*[LATE] * 30, away=away)
    bench = bench_of(person, call("plan"), tools=[PythonTool(plan)])
    await bench.run()
    assert responses(bench) == [(ASKS_FOREVER.format("plan", "a", MAX_UNASKED), True)]
    assert len(runs) == MAX_UNASKED


@pytest.mark.parametrize("late", ["two", InquiryError("too late")])
async def test_late_answer_of_a_model_is_ignored(late: Any) -> None:
    async def answer() -> Any:
        await until(lambda: bench.of(InquiryResponse))
        if isinstance(late, Exception):
            raise late
        return late

    async def look() -> str:
        await until(lambda: bench.of(InquiryResponse) and not backend.running)
        return "seen"

    config = for_tool("plan", questions={key: {"target": "assistant"} for key in "ab"})
    backend = MockInquiryBackend({"call_1.b.1": answer})
    bench = bench_of(
        FakePrompter(),
        call("plan"),
        call("look", "call_2", index=2),
        config=config,
        tools=[Asks().tool, PythonTool(look)],
        inquiry=backend,
    )
    await bench.run()
    assert ends(bench) == [
        (f"call_1.{name}.1", "cancelled", "backend_error", None) for name in "ab"
    ]
    assert [is_error for _, is_error in responses(bench)] == [True, False]
    assert len(bench.shown_of(ToolEnds)) == 2  # each call ends once


async def test_call_that_asks_forever_ends_once_with_all_its_questions() -> None:
    def plan(ctx: ToolContext) -> Outcome:
        return NeedsInput(Question.text("a", "A?"), Question.text("b", "B?"))

    config = for_tool("plan", questions={key: {"answer": "x"} for key in "ab"})
    bench = bench_of(FakePrompter(), call("plan"), config=config, tools=[PythonTool(plan)])
    await bench.run()
    [(text, is_error)] = responses(bench)
    assert is_error
    assert text == ASKS_FOREVER.format("plan", "a", MAX_UNASKED)
    closed = [key for key, *_ in ends(bench)]
    assert closed == [f"call_1.{name}.{n + 1}" for n in range(MAX_UNASKED) for name in "ab"]
    assert ends(bench)[-1][1:3] == ("cancelled", "backend_error")


# --- how a form ends -------------------------------------------------------------------------


@pytest.mark.req("RPI-34", "RPI-61", "HB-1", "HB-4")
async def test_question_left_open_is_declined() -> None:
    person = FakePrompter(FormEnd((LEFT_OPEN, yes([]), LEFT_OPEN)))
    bench = bench_of(person, form(DATABASE, PARTS, NAME))
    await bench.run()
    assert responses(bench) == [
        (
            "User answers:\n"
            "database: not answered (the user left it open on purpose)\n"
            "parts: [] (none of these)\n"
            "name: not answered (the user left it open on purpose)",
            False,
        )
    ]
    assert [end for *_, end in ends(bench)] == ["declined", "answered", "declined"]


@pytest.mark.req("RPI-62", "HB-12")
async def test_reply_is_sent_with_the_answers_so_far() -> None:
    person = FakePrompter(FormEnd((yes("pg"), OUT), "reply", "What is a part?"))
    bench = bench_of(person, form(DATABASE, PARTS))
    assert (await bench.run()).status == "completed"
    assert responses(bench) == [
        (
            "The user did not send the form, but replied to you: What is a part?\n"
            "User answers so far:\n"
            "database: PostgreSQL (value: pg)\n"
            "parts: cancelled (the user replied instead)",
            False,
        )
    ]
    assert ends(bench) == [
        ("call_1.database.1", "answered", None, "answered"),
        ("call_1.parts.1", "cancelled", "user", "cancelled"),
    ]
    assert structured(bench)["reply"] == "What is a part?"
    assert bench.shown_of(PersonSays) == [PersonSays("What is a part?")]
    assert bench.turn.text == "Done."


STOP = FormEnd((OUT, OUT), "stop")


@pytest.mark.req("RPI-39", "RPI-62", "RPI-76", "HB-12")
@pytest.mark.parametrize("end", [STOP, FormEnd((yes("pg"), OUT), "stop"), OUT])
async def test_stop_ends_the_turn_and_drops_unsent_answers(end: Any) -> None:
    bench = bench_of(FakePrompter(end), form(DATABASE, PARTS))
    assert (await bench.run()).status == "stopped"
    assert responses(bench) == [(STOPPED_BY_USER, True)]
    assert ends(bench) == [
        (f"call_1.{name}.1", "cancelled", "user", "cancelled") for name in ("database", "parts")
    ]
    assert [e.metadata["channel"] for e in bench.of(InquiryResponse)] == ["form", "form"]
    assert len(bench.provider.requests) == 1
    assert [event for event in bench.passing if isinstance(event, InterruptHeard)] == []


async def test_stop_keeps_answers_from_before_the_form() -> None:
    person = FakePrompter(FormEnd((OUT,), "stop"))
    bench = bench_of(person, form(PARTS, DATABASE), config=configured(parts=["Page"]))
    assert (await bench.run()).status == "stopped"
    assert ends(bench) == [
        ("call_1.parts.1", "answered", None, "answered"),
        ("call_1.database.1", "cancelled", "user", "cancelled"),
    ]


class Slow:
    """A tool that runs until it is cut."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.cut = False

        async def dig() -> str:
            self.running.set()
            try:
                await forever()
            finally:
                self.cut = True
            return ""

        self.tools = [PythonTool(dig)]


@pytest.mark.req("RPI-76", "RPI-77", "HB-11", "HB-12")
async def test_stop_closes_the_other_calls_of_the_batch() -> None:
    slow = Slow()

    async def stop() -> FormEnd:
        await slow.running.wait()
        return STOP

    person = FakePrompter(stop)
    bench = bench_of(
        person,
        form(DATABASE, PARTS, call_id="c1", index=1),
        call("dig", "c2", index=2),
        form(NAME, call_id="c3", index=3),
        tools=slow.tools,
    )
    async with asyncio.timeout(10):
        assert (await bench.run()).status == "stopped"
    assert slow.cut
    assert [(each.id, each.content) for each in bench.of(ToolCallResponse)] == [
        ("c1", STOPPED_BY_USER),
        ("c2", LEFT_RUNNING),
        ("c3", LEFT_RUNNING),
    ]
    asked = {entry.id for entry in bench.of(InquiryRequest)}
    assert [(key, end) for key, _, _, end in ends(bench)] == [
        (key, "cancelled") for key in ("c1.database.1", "c1.parts.1", "c3.name.1")
    ]
    assert asked == {key for key, *_ in ends(bench)}
    assert {x.id for x in bench.of(ToolCallRequest)} == {"c1", "c2", "c3"}
    assert "interrupt" not in "".join(each.content for each in bench.of(ToolCallResponse))
    assert len(person.asked) == 1


@pytest.mark.req("HB-12")
async def test_stop_reports_finished_calls_as_undelivered() -> None:
    async def stop() -> FormEnd:
        await until(lambda: any(text.startswith("your word on") for text in bench.waits()))
        return FormEnd((OUT,), "stop")

    bench = bench_of(
        FakePrompter(stop),
        form(DATABASE, call_id="c1"),
        call("dig", "c2", index=2),
        tools=[PythonTool(lambda: "dug", name="dig")],
        config=for_tool("dig", result="ask"),
    )
    assert (await bench.run()).status == "stopped"
    assert [text for text, _ in responses(bench)] == [
        STOPPED_BY_USER,
        UNDELIVERED.format(STOPPED_FIRST),
    ]


def test_stopped_call_is_reported_as_run_or_not_run() -> None:
    assert stopped(LEFT, ran=False) == LEFT_UNRUN
    assert stopped(LEFT, ran=True) == LEFT_RUNNING


@pytest.mark.req("HB-11")
async def test_two_forms_of_a_batch_are_shown_in_call_order() -> None:
    person = FakePrompter(FormEnd((yes("pg"),)), FormEnd((yes("Ada"), yes([]))))
    bench = bench_of(person, form(DATABASE, call_id="c1"), form(NAME, PARTS, call_id="c2", index=2))
    await bench.run()
    assert [len(prompt.pages) for prompt in person.asked] == [1, 2]
    assert [text for text in bench.waits() if text.startswith("your answer")] == [
        "your answer to a question of the assistant",
        "your answer to 2 questions of the assistant",
    ]
    assert [text for text, _ in responses(bench)] == [
        "User selected: PostgreSQL (value: pg)",
        "User answers:\nname: custom input: Ada\nparts: [] (none of these)",
    ]


# --- the time is over ------------------------------------------------------------------------


def late(value: JsonValue, *marks: Any) -> Answered:
    return Answered(value, "form", marks=frozenset({"timed_out", *marks}))


@pytest.mark.req("RPI-66", "RPI-67", "RPI-68", "RPI-69", "HB-2", "HB-3")
async def test_answers_taken_at_the_deadline_are_marked() -> None:
    person = FakePrompter(FormEnd((LATE, late(["API"], "auto"), late("a\nb"))))
    free = {**NAME, "required": False}
    bench = bench_of(person, form(DATABASE, PARTS, free))
    await bench.run()
    assert responses(bench) == [
        (
            "User answers:\n"
            "database: timed out (nobody answered in time)\n"
            "parts (chosen automatically, because nobody answered in time): [API]\n"
            "name (picked before the time to answer was over, and not sent): custom input:\n"
            "  a\n  b",
            False,
        )
    ]
    marks = [entry.metadata for entry in bench.of(InquiryResponse)]
    assert marks == [
        {"end": "timed_out", "channel": "form"},
        {"end": "answered", "channel": "form", "auto": True, "timed_out": True},
        {"end": "answered", "channel": "form", "timed_out": True},
    ]


@pytest.mark.req("RPI-66", "RPI-67", "RPI-69", "RPI-70", "RPI-82", "HB-3")
async def test_expired_form_chooses_for_optional_selections_alone() -> None:
    best = {**DATABASE, "id": "best", "required": False, "recommended": 1}
    own = {**PARTS, "id": "own", "options": []}
    bench = bench_of(FakePrompter(LATE), form(DATABASE, PARTS, best, own))
    assert (await bench.run()).status == "completed"
    auto = "(chosen automatically, because nobody answered in time)"
    assert responses(bench) == [
        (
            "Answers:\n"
            "database: timed out (nobody answered in time)\n"
            f"parts {auto}: [API]\n"
            f"best {auto}: SQLite\n"
            "own: timed out (nobody answered in time)",
            False,
        )
    ]


@pytest.mark.req("RPI-39", "RPI-70", "RPI-82", "HB-2")
async def test_expired_required_question_is_an_error() -> None:
    bench = bench_of(FakePrompter(LATE), form(DATABASE))
    assert (await bench.run()).status == "completed"
    assert responses(bench) == [("Timed out: nobody answered in time.", True)]
    assert structured(bench)["outcome"] == "timed_out"
    assert bench.turn.text == "Done."


async def test_tool_that_needs_all_answers_gets_late_choices_or_none() -> None:
    def plan(ctx: ToolContext) -> Outcome:
        if ctx.answers:
            return Success(json.dumps(dict(ctx.answers)))
        size = Question.select("size", "Size?", ["S", "M"], recommended=1)
        name = Question.text("name", "Name?")
        return NeedsInput(size.with_required(False), name.with_required(False))

    bench = bench_of(FakePrompter(LATE), call("plan"), tools=[PythonTool(plan)])
    await bench.run()
    assert responses(bench) == [('{"size": "M", "name": null}', False)]

    def must(ctx: ToolContext) -> Outcome:
        return NeedsInput(Question.select("size", "Size?", ["S", "M"]), Question.text("a", "A?"))

    bench = bench_of(FakePrompter(LATE), call("must"), tools=[PythonTool(must)])
    await bench.run()
    assert responses(bench) == [(NOT_ANSWERED["timed_out"], False)]
    assert [end for *_, end in ends(bench)] == ["timed_out", "timed_out"]


@pytest.mark.req("RPI-82", "HB-9")
async def test_nothing_is_chosen_for_an_exclusive_optional_question() -> None:
    size = Question.select("size", "Size?", ["S", "M"]).with_required(False).with_exclusive()

    def plan(ctx: ToolContext) -> Outcome:
        if ctx.ends:
            return Success(json.dumps(dict(ctx.answers)))
        return NeedsInput(size, Question.text("a", "A?"), partial=True)

    bench = bench_of(FakePrompter(LATE), call("plan"), tools=[PythonTool(plan)])
    await bench.run()
    assert responses(bench) == [("{}", False)]
    assert [end for *_, end in ends(bench)] == ["timed_out", "timed_out"]


async def test_question_is_recorded_with_default_and_required() -> None:
    asked = Question.select("size", "Size?", ["S", "M"]).with_default("M").with_required(False)

    def plan(ctx: ToolContext) -> Outcome:
        return Success() if ctx.ends else NeedsInput(asked)

    bench = bench_of(FakePrompter(yes("S")), call("plan"), tools=[PythonTool(plan)])
    await bench.run()
    raw = next(entry for entry in bench.stream.raw if entry["type"] == "inquiry_request")
    assert raw["question"] == {
        "text": "Size?",
        "answer_type": {"type": "select", "options": [{"value": "S"}, {"value": "M"}]},
        "default": "M",
        "required": False,
    }


@pytest.mark.parametrize("how", ["cancelled", "declined"])
async def test_tool_that_takes_partial_answers_reads_each_end(
    how: Any,
) -> None:
    seen: list[Any] = []

    def plan(ctx: ToolContext) -> Outcome:
        if not ctx.ends:
            return NeedsInput(Question.text("a", "A?"), Question.text("b", "B?"), partial=True)
        seen.append((dict(ctx.answers), {key: x.end for key, x in ctx.ends.items()}))
        return Success("")

    bench = bench_of(FakePrompter(NotAnswered(how, "form")), call("plan"), tools=[PythonTool(plan)])
    await bench.run()
    assert seen == [({}, {"a": how, "b": how})]


# --- interrupts ------------------------------------------------------------------------------


def user_at_menu(*choices: Any, open_form: Any = forever) -> FakePrompter:
    """Return a user who leaves a form open until the interrupt, and then chooses at the menu."""
    return FakePrompter(open_form, *choices)


async def interrupted(bench: Bench, *, forms: int = 1) -> Any:
    task = asyncio.create_task(bench.run())
    person = bench.person
    await until(lambda: len(person.asked) >= forms)
    bench.loop.interrupt()
    async with asyncio.timeout(10):
        return await task


@pytest.mark.req("RPI-77", "RPI-80")
async def test_interrupt_closes_the_form() -> None:
    bench = bench_of(user_at_menu(yes("continue")), form(DATABASE, PARTS))
    end = await interrupted(bench)
    assert end.status == "completed"
    assert responses(bench) == [(NOT_ANSWERED["interrupted"], False)]
    assert [end for *_, end in ends(bench)] == ["interrupted", "interrupted"]
    assert structured_or_none(bench) is None


def structured_or_none(bench: Bench) -> Any:
    return bench.of(ToolCallResponse)[0].metadata.get("structured")


@pytest.mark.req("RPI-77", "RPI-78")
async def test_interrupt_of_a_form_is_not_reported_as_a_stop() -> None:
    slow = Slow()
    bench = bench_of(
        user_at_menu(yes("stop")),
        form(DATABASE, call_id="c1"),
        call("dig", "c2", index=2),
        tools=slow.tools,
    )
    end = await interrupted(bench)
    assert end.status == "interrupted"
    first, second = (text for text, _ in responses(bench))
    assert first == NOT_ANSWERED["interrupted"]
    assert second == bench.offer().tools["dig"].cancellation_response
    assert [event.then for event in bench.passing if isinstance(event, InterruptHeard)] == [
        *(None, "menu", "stop")
    ]


@pytest.mark.req("RPI-79", "RCP-86")
@pytest.mark.parametrize("choice", ["stop", "continue"])
async def test_form_after_an_interrupt_waits_for_the_decision(choice: str) -> None:
    async def press() -> str:
        bench.loop.interrupt()
        await forever()
        return ""

    person = FakePrompter(yes(choice), FormEnd((yes("pg"),)))
    bench = bench_of(
        person,
        call("press", "c1"),
        form(DATABASE, call_id="c2", index=2),
        tools=[PythonTool(press)],
    )
    task = asyncio.create_task(bench.run())
    if choice == "continue":
        await until(lambda: len(person.asked) == 2)
        await until(lambda: bench.of(InquiryResponse))
        bench.loop.interrupt()
    async with asyncio.timeout(10):
        assert (await task).status == "interrupted"
    kinds = [isinstance(prompt, FormPrompt) for prompt in person.asked]
    assert kinds == ([False] if choice == "stop" else [False, True])


# --- attribution -----------------------------------------------------------------------------


@pytest.mark.req("HB-19")
async def test_configured_label_changes_the_display_alone() -> None:
    config = for_tool("ask", questions={"database": {"prompt_label": "deploy"}})
    bench = bench_of(
        FakePrompter(FormEnd((yes("pg"), yes([])))), form(DATABASE, PARTS), config=config
    )
    await bench.run()
    [prompt] = bench.person.asked
    assert [page.label for page in prompt.pages] == ["deploy", "Assistant"]
    assert {entry.source.source for entry in bench.of(InquiryRequest)} == {"assistant"}
    assert [event.label for event in bench.shown_of(QuestionEnds)] == ["deploy", "Assistant"]
